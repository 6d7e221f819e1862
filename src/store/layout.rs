//! The names of the files in a state directory, and the two small ones among them.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::{Access, Disk, DiskFile};
use super::error::{Fault, OpenError, fault};
use crate::audit::FORMAT_VERSION;
use crate::types::Time;

/// Who has it locked has the directory.
pub(super) const LOCK: &str = "lock";
/// Whose directory it is.
pub(super) const STATE: &str = "state";
/// Up to which number tokens may have been given.
pub(super) const RESERVE: &str = "reserve";
/// What the coordinator's time was when its machine was booted.
pub(super) const CLOCK: &str = "clock";
/// What is being written and does not count yet.
const UNFINISHED: &str = ".tmp";
const PLAIN: &str = ".log";
const PACKED: &str = ".log.lz4";
const SNAPSHOT: &str = "snapshot-";
/// Digits of a number in a name, at least.
const DIGITS: usize = 10;

const STATE_MAGIC: &[u8; 8] = b"PRECLSTA";
const RESERVE_MAGIC: &[u8; 8] = b"PRECLRES";
const CLOCK_MAGIC: &[u8; 8] = b"PRECLCLK";
/// Bytes of a small file before its numbers: magic, version, zeros, checksum.
const SMALL_HEAD_BYTES: usize = 16;

pub(super) fn plain_name(segment: u64) -> String {
    format!("{segment:0DIGITS$}{PLAIN}")
}

pub(super) fn packed_name(segment: u64) -> String {
    format!("{segment:0DIGITS$}{PACKED}")
}

pub(super) fn snapshot_name(segment: u64) -> String {
    format!("{SNAPSHOT}{segment:0DIGITS$}")
}

pub(super) fn unfinished_name(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

/// What the coordinator's time was when its machine was booted: from there both go on alike, over every
/// restart of the coordinator until the machine's next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Which run of the machine: another number after each boot.
    pub run: u64,
    /// µs since the Unix epoch; below 0, for a machine that has run for longer than its clock shows, it
    /// has gone round.
    pub booted_us: u64,
}

fn number(digits: &str) -> Option<u64> {
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    (format!("{number:0DIGITS$}") == digits).then_some(number)
}

/// A segment's files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Files {
    pub(super) is_plain: bool,
    pub(super) is_packed: bool,
    /// Of both together.
    pub(super) bytes: u64,
    pub(super) modified: Time,
}

/// What is in a state directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) segments: BTreeMap<u64, Files>,
    pub(super) snapshots: BTreeSet<u64>,
    pub(super) unfinished: Vec<String>,
    pub(super) has_state: bool,
    pub(super) has_reserve: bool,
    pub(super) has_clock: bool,
    /// The first file that is none of a state directory's.
    pub(super) foreign: Option<String>,
}

impl Listing {
    pub(super) fn read(disk: &dyn Disk) -> Result<Listing, Fault> {
        let mut listing = Listing::default();
        for listed in disk.list().map_err(fault("list", disk.place()))? {
            let name = listed.name.as_str();
            let segment = |ending| name.strip_suffix(ending).and_then(number);
            if let Some(number) = segment(PLAIN).or_else(|| segment(PACKED)) {
                let files = listing.segments.entry(number).or_default();
                files.is_plain |= name.ends_with(PLAIN);
                files.is_packed |= name.ends_with(PACKED);
                files.bytes = files.bytes.saturating_add(listed.bytes);
                files.modified = files.modified.max(listed.modified);
            } else if let Some(number) = name.strip_prefix(SNAPSHOT).and_then(number) {
                listing.snapshots.insert(number);
            } else if name.ends_with(UNFINISHED) {
                listing.unfinished.push(listed.name);
            } else if name == STATE {
                listing.has_state = true;
            } else if name == RESERVE {
                listing.has_reserve = true;
            } else if name == CLOCK {
                listing.has_clock = true;
            } else if name != LOCK && name != "lost+found" {
                listing.foreign.get_or_insert(listed.name);
            }
        }
        Ok(listing)
    }
}

/// The id of the state directory.
pub(super) fn read_state(disk: &dyn Disk) -> Result<u64, OpenError> {
    read_small(disk, STATE, STATE_MAGIC).map(|[id]| id)
}

pub(super) fn write_state(disk: &dyn Disk, id: u64) -> Result<(), Fault> {
    write_small(disk, STATE, STATE_MAGIC, &[id])
}

pub(super) fn read_reserve(disk: &dyn Disk) -> Result<u64, OpenError> {
    read_small(disk, RESERVE, RESERVE_MAGIC).map(|[token]| token)
}

pub(super) fn write_reserve(disk: &dyn Disk, token: u64) -> Result<(), Fault> {
    write_small(disk, RESERVE, RESERVE_MAGIC, &[token])
}

pub(super) fn read_clock(disk: &dyn Disk) -> Result<Anchor, OpenError> {
    read_small(disk, CLOCK, CLOCK_MAGIC).map(|[run, booted_us]| Anchor { run, booted_us })
}

pub(super) fn write_clock(disk: &dyn Disk, Anchor { run, booted_us }: Anchor) -> Result<(), Fault> {
    write_small(disk, CLOCK, CLOCK_MAGIC, &[run, booted_us])
}

fn read_small<const N: usize>(disk: &dyn Disk, name: &str, magic: &[u8; 8]) -> Result<[u64; N], OpenError> {
    let file = disk.open(name, Access::Read).map_err(fault("open", name))?;
    let mut bytes = vec![0; SMALL_HEAD_BYTES + 8 * N + 1];
    let count = read_fully(&*file, 0, &mut bytes).map_err(fault("read", name))?;
    let unreadable = |why: &str| OpenError::Unreadable { file: name.to_owned(), why: why.to_owned() };
    bytes.pop();
    if count != bytes.len() {
        return Err(unreadable("it is not as long as it has to be"));
    }
    if &bytes[..8] != magic {
        return Err(unreadable("it does not start as such a file does"));
    }
    let head = u64_at(&bytes, 8);
    if (head >> 32) as u32 != small_crc(&bytes) {
        return Err(unreadable("its checksum does not fit it"));
    }
    let version = head as u16;
    if version > FORMAT_VERSION {
        return Err(OpenError::Newer { file: name.to_owned(), version });
    }
    Ok(std::array::from_fn(|number| u64_at(&bytes, SMALL_HEAD_BYTES + 8 * number)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn small_crc(bytes: &[u8]) -> u32 {
    let mut blank = bytes.to_vec();
    blank[12..SMALL_HEAD_BYTES].fill(0);
    crc32fast::hash(&blank)
}

fn write_small(disk: &dyn Disk, name: &str, magic: &[u8; 8], numbers: &[u64]) -> Result<(), Fault> {
    let mut bytes = magic.to_vec();
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    bytes.resize(SMALL_HEAD_BYTES, 0);
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    let crc = small_crc(&bytes);
    bytes[12..SMALL_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    write_aside(disk, name, |file| file.write_at(0, &bytes))
}

/// Puts a file in the place of `name` that is there whole or not at all: written aside, synced,
/// renamed, the directory synced.
pub(super) fn write_aside(
    disk: &dyn Disk,
    name: &str,
    fill: impl FnOnce(&dyn DiskFile) -> std::io::Result<()>,
) -> Result<(), Fault> {
    let aside = unfinished_name(name);
    let file = disk.create(&aside).map_err(fault("create", &aside))?;
    fill(&*file).map_err(fault("write", &aside))?;
    file.sync().map_err(fault("sync", &aside))?;
    disk.rename(&aside, name).map_err(fault("rename", &aside))?;
    disk.sync_directory().map_err(fault("sync", disk.place()))
}

/// Reads until `into` is full or the file ends; how much it is.
pub(super) fn read_fully(file: &dyn DiskFile, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(offset + done as u64, &mut into[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
