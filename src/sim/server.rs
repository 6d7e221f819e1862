//! The coordinator's machine: its disk, its clock, and the coordinator, while one runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::SimClock;
use super::coordinator::{Coordinator, Setup};
use super::dice::Dice;
use crate::audit::{Journal, Record};
use crate::clock::Run;
use crate::config::Config;
use crate::coordinator::{Now, RecoveryError, Restart, StartFrom, recover_with};
use crate::resolver::StateDigest;
use crate::session::coordinator::ConnectionId;
use crate::store::sim::{Break, SimDisk};
use crate::store::{Archive, Item, OpenError, Options, UpkeepBy};
use crate::types::{Decision, Micros, Slot, Time};
use crate::wire::FrameReader;

/// The true time 0 by the coordinator's wall clock: µs since the epoch.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// See the module's documentation.
pub(super) struct Server {
    pub(super) disk: SimDisk,
    config: Config,
    options: Options,
    /// The machine's wall clock, and the clock that counts since its boot.
    wall: SimClock,
    machine: SimClock,
    /// How often it was booted, and in which of these a coordinator was started last.
    boots: u64,
    started_in: u64,
    pub(super) life: Option<Life>,
    /// How many lives there have been.
    pub(super) lives: u64,
    /// The coordinator's clock: that of the last life while there is none.
    clock: SimClock,
    /// Before this true time its process is stopped.
    pub(super) stopped_until: u64,
}

/// A coordinator that runs.
pub(super) struct Life {
    pub(super) coordinator: Coordinator,
    /// What has come over each connection's lane, and which link it is.
    pub(super) peers: BTreeMap<ConnectionId, Peer>,
    pub(super) alarm: Option<u64>,
}

pub(super) struct Peer {
    pub(super) link: usize,
    pub(super) frames: FrameReader,
}

/// What a start found.
pub(super) struct Found {
    /// All records, in order.
    pub(super) records: Vec<(Slot, Vec<Decision>, StateDigest)>,
    /// The clock went on as if nothing had happened.
    pub(super) clock_goes_on: bool,
}

/// What came of a start.
pub(super) enum Start {
    Runs(Found),
    /// The disk failed, or its time has not come: it is tried again.
    PutOff(String),
}

impl Server {
    pub(super) fn new(dice: &mut Dice, slot: Micros) -> Result<Self, String> {
        let preemption =
            if dice.percent(30) { "[preemption]\nenabled = true\nfreeze = \"50ms\"\n" } else { "" };
        let text = format!("[slot]\nlength = \"{}us\"\n{}{preemption}", slot.as_us(), super::work::RULES);
        let config = Config::parse("the simulation's rules", &text).map_err(|error| error.to_string())?;
        let options = Options {
            segment_bytes: 16_384 << dice.below(3),
            compress: dice.percent(50),
            upkeep: UpkeepBy::Caller,
            ..Options::default()
        };
        let fast_ppm = i64::try_from(dice.below(199)).unwrap_or(0) - 99;
        let wall = SimClock::new(0, EPOCH_US, fast_ppm);
        let disk = SimDisk::new(dice.draw());
        let (clock, machine) = (wall.clone(), SimClock::new(0, 5_000_000, fast_ppm));
        let (boots, lives, stopped_until) = (1, 0, 0);
        Ok(Server {
            disk,
            config,
            options,
            wall,
            machine,
            boots,
            started_in: 0,
            life: None,
            lives,
            clock,
            stopped_until,
        })
    }

    /// The coordinator's time.
    pub(super) fn time(&self, at: u64) -> Time {
        Time::from_us(self.clock.read(at))
    }

    /// When the coordinator's clock shows `time`.
    pub(super) fn when(&self, time: Time) -> u64 {
        self.clock.when(time.as_us())
    }

    /// The wall clock is set: a coordinator that runs does not look at it.
    pub(super) fn set_wall(&mut self, at: u64, ahead: i64) {
        self.wall.jump(at, ahead);
    }

    /// Starts a coordinator on what is on the disk.
    ///
    /// # Errors
    /// Where what is found cannot be gone on from.
    pub(super) fn start(&mut self, at: u64) -> Result<Start, String> {
        let expected = self.time(at);
        let wall = Time::from_us(self.wall.read(at));
        let run = Run { id: self.boots, since: Micros::from_us(self.machine.read(at)) };
        let now = Now { wall, run: Some(run) };
        let disk = || Arc::new(self.disk.clone());
        let open = |from| recover_with(disk(), &self.config, self.options, from, now, 7);
        let restart = match open(StartFrom::State) {
            Err(RecoveryError::Open(OpenError::Empty { .. })) if self.lives == 0 => {
                open(StartFrom::Nothing { token_floor: 1 })
            }
            restart => restart,
        };
        let Restart { recovered, journal, time: now, starts_at, .. } = match restart {
            Ok(restart) => restart,
            Err(RecoveryError::Open(OpenError::Disk(fault))) => return Ok(Start::PutOff(fault.to_string())),
            Err(error) => return Err(error.to_string()),
        };
        if starts_at > now {
            return Ok(Start::PutOff(format!("at {now:?} it waits for {starts_at:?}")));
        }
        let mut found = Found { records: Vec::new(), clock_goes_on: true };
        let archive = Archive::open(disk()).map_err(|error| error.to_string())?;
        let read = archive.read_all(&mut |item| {
            if let Item::Record(_, entry) = item {
                let (record, _) = Record::decode(entry.body)?;
                found.records.push((record.slot, record.decisions, record.digest));
            }
            Ok(())
        });
        read.map_err(|error| error.to_string())?;
        // The monotonic clock runs as the wall clock does; only where it starts may differ.
        self.clock = self.wall.clone();
        self.clock.jump(at, now.as_us().wrapping_sub(wall.as_us()).cast_signed());
        found.clock_goes_on =
            self.lives == 0 || now.since(expected).as_us() + expected.since(now).as_us() <= 1;
        if !found.clock_goes_on && self.boots == self.started_in {
            return Err(format!("its machine ran on, and its time went from {expected:?} to {now:?}"));
        }
        self.started_in = self.boots;
        let setup = Setup { check_invariants: true, ..Setup::new(self.config.rules.clone()) };
        let keep: Box<dyn Journal> = Box::new(journal);
        let coordinator = Coordinator::recovered(setup, recovered, Box::new(keep), now);
        self.life = Some(Life { coordinator, peers: BTreeMap::new(), alarm: None });
        self.lives += 1;
        Ok(Start::Runs(found))
    }

    /// The coordinator is no more. Where its machine loses power, so is what was not on disk.
    pub(super) fn stop(&mut self, loses_power: bool) {
        self.life = None;
        if loses_power {
            self.disk.restart();
            self.boots += 1;
        }
        // No accident is left for the next start.
        self.disk.break_at(u64::MAX / 2, Break::Fail);
    }
}
