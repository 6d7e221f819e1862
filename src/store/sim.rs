//! A disk in memory that fails and loses power as disks do, from a seed.
//!
//! What is written is seen at once and kept once synced. When the power is lost, each sector of 512
//! bytes that was written since is kept or lost by chance, and of what was created, renamed and removed
//! since the directory was synced only a beginning is kept. A sync that fails keeps what chance has it
//! keep and gives up the rest, which goes on being seen: syncing again does not bring it back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Access, Disk, DiskFile, Listed};
use crate::types::{Micros, Time};

const SECTOR: usize = 512;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// One call fails, done in part, in whole or not at all.
    Fail,
    /// The power is lost in the middle of a call; all later ones fail until [`SimDisk::restart`].
    PowerLoss,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    files: Vec<Inode>,
    /// Names as they are seen, and as they are kept.
    names: BTreeMap<String, usize>,
    kept: BTreeMap<String, usize>,
    /// What was done to the directory since it was synced.
    changes: Vec<Change>,
    locks: BTreeSet<String>,
    /// How often the power has come back: what was opened before is of no use.
    boots: u64,
    calls: u64,
    plan: Option<(u64, Break)>,
    has_power: bool,
    now: Time,
}

#[derive(Debug, Default)]
struct Inode {
    seen: Vec<u8>,
    kept: Vec<u8>,
    /// Sectors as they were after each write that was not synced, in order.
    waiting: Vec<(usize, Vec<u8>)>,
    modified: Time,
}

#[derive(Clone, Debug)]
enum Change {
    Put(String, usize),
    Rename(String, String),
    Remove(String),
}

/// How a call goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    /// It fails; chance says how much of it is done.
    Badly,
}

/// Numbers that look drawn by chance and are the same for one seed (splitmix64).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

impl SimDisk {
    /// An empty directory whose accidents follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            dice: Dice(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            kept: BTreeMap::new(),
            changes: Vec::new(),
            locks: BTreeSet::new(),
            boots: 0,
            calls: 0,
            plan: None,
            has_power: true,
            now: Time::from_us(0),
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of the disk and its files so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The call that is number `call` from now, 0 for the next, goes wrong.
    pub fn break_at(&self, call: u64, how: Break) {
        let mut state = self.state();
        state.plan = Some((state.calls + call, how));
    }

    /// Whether the planned accident is still to come.
    pub fn is_waiting_to_break(&self) -> bool {
        self.state().plan.is_some()
    }

    /// Loses power, where it was not lost already, and comes back with what was kept.
    pub fn restart(&self) {
        self.state().restart();
    }

    /// Whether its machine has power.
    pub fn has_power(&self) -> bool {
        self.state().has_power
    }

    /// Lets the wall clock go on, by which files are dated.
    pub fn pass(&self, span: Micros) {
        let mut state = self.state();
        state.now = state.now.after(span);
    }

    /// The wall clock.
    pub fn now(&self) -> Time {
        self.state().now
    }

    /// What a file holds, without a call; `None` where there is none.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|file| state.files[*file].seen.clone())
    }

    /// Puts a file there that holds this, durably and without a call: damage, or a file from elsewhere.
    pub fn plant(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let (file, modified) = (state.files.len(), state.now);
        let (seen, kept) = (bytes.to_vec(), bytes.to_vec());
        state.files.push(Inode { seen, kept, waiting: Vec::new(), modified });
        state.names.insert(name.to_owned(), file);
        state.kept.insert(name.to_owned(), file);
    }
}

impl State {
    /// Begins a call; `Err` where there is no power to even begin it.
    fn call(&mut self) -> io::Result<Fate> {
        if !self.has_power {
            return Err(no_power());
        }
        let call = self.calls;
        self.calls += 1;
        match self.plan {
            Some((at, how)) if at == call => {
                self.plan = None;
                self.has_power = how == Break::Fail;
                Ok(Fate::Badly)
            }
            _ => Ok(Fate::Well),
        }
    }

    fn error(&self) -> io::Error {
        if self.has_power { io::Error::other("the disk failed") } else { no_power() }
    }

    /// Changes the directory, as far as the call goes.
    fn change(&mut self, change: Change) -> io::Result<()> {
        let fate = self.call()?;
        if fate == Fate::Well || self.dice.below(2) == 0 {
            apply(&mut self.names, &change);
            self.changes.push(change);
        }
        if fate == Fate::Well { Ok(()) } else { Err(self.error()) }
    }

    /// How much of a write is done that fails: up to the end of some sector, or all.
    fn some_of(&mut self, offset: usize, bytes: usize) -> usize {
        let end = (offset + self.dice.below(bytes + SECTOR)) / SECTOR * SECTOR;
        end.saturating_sub(offset).min(bytes)
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The file of a handle, if it was opened since the power came back.
    fn file(&mut self, file: usize, boot: u64) -> io::Result<&mut Inode> {
        if boot != self.boots {
            return Err(no_power());
        }
        self.files.get_mut(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn restart(&mut self) {
        for inode in &mut self.files {
            inode.keep_some(&mut self.dice);
            inode.seen = inode.kept.clone();
        }
        let count = self.dice.below(self.changes.len() + 1);
        let changes = std::mem::take(&mut self.changes);
        changes.iter().take(count).for_each(|change| apply(&mut self.kept, change));
        self.names = self.kept.clone();
        self.locks.clear();
        self.boots += 1;
        self.plan = None;
        self.has_power = true;
    }
}

fn no_power() -> io::Error {
    io::Error::other("the power is off")
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    match change {
        Change::Put(name, file) => drop(names.insert(name.clone(), *file)),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Change::Remove(name) => drop(names.remove(name)),
    }
}

impl Inode {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let before = self.seen.len();
        self.seen.resize(before.max(end), 0);
        self.seen[offset..end].copy_from_slice(bytes);
        for sector in offset.min(before) / SECTOR..end.div_ceil(SECTOR) {
            let start = sector * SECTOR;
            let content = self.seen[start..(start + SECTOR).min(self.seen.len())].to_vec();
            self.waiting.push((sector, content));
        }
    }

    fn keep(&mut self, sector: usize, content: &[u8]) {
        let (start, end) = (sector * SECTOR, sector * SECTOR + content.len());
        self.kept.resize(self.kept.len().max(end), 0);
        self.kept[start..end].copy_from_slice(content);
    }

    fn keep_all(&mut self) {
        for (sector, content) in std::mem::take(&mut self.waiting) {
            self.keep(sector, &content);
        }
    }

    /// Keeps nothing, all, a beginning, or of each sector any of what it was: as chance has it.
    fn keep_some(&mut self, dice: &mut Dice) {
        let kind = dice.below(4);
        let mut waiting = std::mem::take(&mut self.waiting);
        match kind {
            0 => return,
            1 => {}
            2 => waiting.truncate(dice.below(waiting.len() + 1)),
            _ => {
                let sectors: BTreeSet<usize> = waiting.iter().map(|(sector, _)| *sector).collect();
                let mut left: BTreeMap<usize, usize> = BTreeMap::new();
                for sector in sectors {
                    let versions = waiting.iter().filter(|(at, _)| *at == sector).count();
                    left.insert(sector, dice.below(versions + 1));
                }
                waiting.retain(|(sector, _)| {
                    let left = left.entry(*sector).or_default();
                    let is_kept = *left > 0;
                    *left = left.saturating_sub(1);
                    is_kept
                });
            }
        }
        for (sector, content) in waiting {
            self.keep(sector, &content);
        }
    }
}

impl Disk for SimDisk {
    fn place(&self) -> String {
        "(memory)".to_owned()
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        let mut state = self.state();
        if state.call()? == Fate::Badly {
            return Err(state.error());
        }
        let listed = |(name, file): (&String, &usize)| {
            let inode = &state.files[*file];
            Listed { name: name.clone(), bytes: inode.seen.len() as u64, modified: inode.modified }
        };
        Ok(state.names.iter().map(listed).collect())
    }

    fn open(&self, name: &str, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        if state.call()? == Fate::Badly {
            return Err(state.error());
        }
        let file = state.find(name)?;
        Ok(Arc::new(SimFile { disk: self.clone(), file, boot: state.boots }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let (file, modified) = (state.files.len(), state.now);
        state.files.push(Inode { modified, ..Inode::default() });
        state.change(Change::Put(name.to_owned(), file))?;
        Ok(Arc::new(SimFile { disk: self.clone(), file, boot: state.boots }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(from)?;
        state.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(name)?;
        state.change(Change::Remove(name.to_owned()))
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.call()? == Fate::Badly {
            return Err(state.error());
        }
        state.changes.clear();
        state.kept = state.names.clone();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        if self.state().find(name).is_err() {
            self.create(name)?;
        }
        let mut state = self.state();
        if state.call()? == Fate::Badly {
            return Err(state.error());
        }
        if !state.locks.insert(name.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), name: name.to_owned(), boot: state.boots }))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: String,
    boot: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.boots == self.boot {
            state.locks.remove(&self.name);
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: usize,
    boot: u64,
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().file(self.file, self.boot)?.seen.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        if state.call()? == Fate::Badly {
            return Err(state.error());
        }
        let seen = &state.file(self.file, self.boot)?.seen;
        let rest = seen.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let fate = state.call()?;
        let count =
            if fate == Fate::Well { bytes.len() } else { state.some_of(offset as usize, bytes.len()) };
        let now = state.now;
        let inode = state.file(self.file, self.boot)?;
        inode.modified = now;
        if count > 0 {
            inode.write(offset as usize, &bytes[..count]);
        }
        if fate == Fate::Well { Ok(()) } else { Err(state.error()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let (fate, boot) = (state.call()?, state.boots);
        if fate == Fate::Well {
            state.file(self.file, self.boot)?.keep_all();
            return Ok(());
        }
        if self.boot == boot && state.has_power {
            let State { dice, files, .. } = &mut *state;
            files.get_mut(self.file).into_iter().for_each(|inode| inode.keep_some(dice));
        }
        Err(state.error())
    }
}
