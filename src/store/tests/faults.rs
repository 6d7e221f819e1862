//! Every call of the disk fails, and the power is lost in every one: what was answered is there.

use super::super::sim::{Break, SimDisk};
use super::*;

/// What a log was given, and what it said.
#[derive(Default)]
struct Told {
    attempts: Vec<Vec<u8>>,
    /// How many there ever were, so that what is tried in the place of what was lost is another.
    tries: usize,
    /// How many of them have to be there whatever happens to the power.
    durable: usize,
}

impl Told {
    /// What is there: all that has to be, nothing that was not given, nothing after a gap.
    fn check(&mut self, found: &Bodies) {
        let count = found.0.len();
        assert!(count >= self.durable, "{count} records are left of {}", self.durable);
        assert_eq!(found.0, self.attempts[..count], "another record is there");
        self.attempts.truncate(count);
        self.durable = count;
    }

    /// Opens the directory and appends; stops where the disk no longer does its part. Whether it did.
    fn work(&mut self, disk: &SimDisk, options: Options, count: usize) -> bool {
        let opened = match open(disk, options, Begin::GoOn) {
            Err(OpenError::Empty { .. }) if self.durable == 0 => open(disk, options, Begin::New(ID)),
            opened => opened,
        };
        let (mut log, bodies) = match opened {
            Ok((log, _, bodies)) => (log, bodies),
            Err(OpenError::Disk(_)) => return false,
            Err(error) => panic!("{error}"),
        };
        self.check(&bodies);
        (0..count).all(|step| self.append(&mut log, step))
    }

    fn append(&mut self, log: &mut Log, step: usize) -> bool {
        self.tries += 1;
        let body = body(self.tries);
        self.attempts.push(body.clone());
        let appended = log.append(&body);
        match &appended {
            Appended::Committed => assert_eq!(log.last().seq, self.attempts.len() as u64),
            Appended::Refused(_) => drop(self.attempts.pop()),
            Appended::Unknown(_) => {}
        }
        if step % 4 == 3 && log.sync().is_err() {
            assert!(matches!(log.append(&body), Appended::Refused(_)));
            return false;
        }
        if step % 5 == 4 {
            let _ = make_snapshot(&log.archive(), log.closed());
            log.tidy();
        }
        self.durable = log.synced() as usize;
        match appended {
            Appended::Committed => {
                assert!(log.options.durability != Durability::Slot || log.synced() == log.last().seq);
                true
            }
            // Whatever the disk would do now, the log does not believe it.
            _ => {
                assert!(log.poison().is_some() && log.sync().is_err());
                assert!(matches!(log.append(&body), Appended::Refused(_)));
                false
            }
        }
    }
}

/// A busy log: two lives of it.
fn live(told: &mut Told, disk: &SimDisk, options: Options) {
    let _ = told.work(disk, options, 14) && told.work(disk, options, 12);
}

fn all_is_well_after(how: Break, options: Options, seed: u64) {
    let mut call = 0;
    loop {
        let disk = SimDisk::new(seed ^ (call << 8));
        let mut told = Told::default();
        disk.break_at(call, how);
        live(&mut told, &disk, options);
        let is_over = disk.is_waiting_to_break();
        if how == Break::PowerLoss {
            disk.restart();
        }
        // Once more, while it is being mended.
        let again = if call % 2 == 0 { Break::Fail } else { Break::PowerLoss };
        disk.break_at(call * 31 % 67, again);
        told.work(&disk, options, 2);
        if again == Break::PowerLoss {
            disk.restart();
        }
        disk.break_at(u64::MAX / 2, Break::Fail);
        assert!(told.work(&disk, options, 6), "call {call}: the disk is well");
        disk.restart();
        assert!(told.work(&disk, options, 1), "call {call}: the disk is well");
        if is_over {
            assert!(call > 100, "{call} calls are no busy log");
            return;
        }
        call += 1;
    }
}

fn busy() -> Options {
    Options { compress: true, keep_bytes: Some(9000), ..options() }
}

#[test]
fn whichever_call_fails_all_that_was_answered_is_there() {
    for seed in 0..3 {
        all_is_well_after(Break::Fail, busy(), seed);
    }
}

#[test]
fn wherever_the_power_is_lost_all_that_was_answered_is_there() {
    for seed in 0..3 {
        all_is_well_after(Break::PowerLoss, busy(), seed);
    }
}

#[test]
fn with_syncs_at_intervals_all_that_was_synced_is_there() {
    for durability in [Durability::Interval(crate::types::Micros::from_ms(5)), Durability::None] {
        for how in [Break::Fail, Break::PowerLoss] {
            all_is_well_after(how, Options { durability, ..busy() }, 9);
        }
    }
}

#[test]
fn a_failed_sync_is_not_taken_as_repaired_by_the_next_life() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let mut told = Told::default();
        assert!(told.work(&disk, options(), 3));
        let (mut log, _, bodies) = open(&disk, options(), Begin::GoOn).unwrap();
        told.check(&bodies);
        disk.break_at(1, Break::Fail);
        told.attempts.push(body(4));
        assert!(matches!(log.append(&body(4)), Appended::Unknown(_)));
        drop(log);
        // The record is seen, and not on disk: the next one must not be the only one that is.
        assert!(told.work(&disk, options(), 1));
        assert_eq!(told.attempts.len(), 5);
        disk.restart();
        assert!(told.work(&disk, options(), 0));
        assert_eq!(told.attempts.len(), 5);
    }
}
