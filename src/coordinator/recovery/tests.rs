//! A busy coordinator on a disk that fails at each of its calls in turn, or loses power there: what was
//! sent is there after the restart.

use std::collections::BTreeSet;

use super::*;
use crate::audit::{Appended, Journal, Record, SlotEntry};
use crate::resolver::invariants::{InvariantCheck, tables_agree};
use crate::resolver::{AgentOp, Input, SlotBatch};
use crate::session::coordinator::SessionNotes;
use crate::store::Archive;
use crate::store::sim::{Break, SimDisk};
use crate::types::{Agent, Decision, IntentId, Micros, RawClaim, RawIntent, RawMode, RawTarget, Verdict};

const LENGTH: Micros = Micros::from_ms(10);
/// Slots of one life.
const SLOTS: u64 = 30;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What agents were told, over all lives.
#[derive(Default)]
struct Sent {
    slots: Vec<(Slot, Vec<Decision>)>,
    tokens: BTreeSet<u64>,
    /// Slots whose records nobody heard of, and that are there all the same.
    unheard: usize,
}

impl Sent {
    fn take(&mut self, slot: Slot, decisions: Vec<Decision>) {
        for token in tokens(&decisions) {
            let is_next = self.tokens.last().is_none_or(|last| *last < token);
            assert!(is_next && self.tokens.insert(token), "token {token} was given before");
        }
        self.slots.push((slot, decisions));
    }

    /// Each slot of which anything was sent has its record, and that says what was sent.
    fn is_in(&mut self, disk: &SimDisk) -> Result<(), OpenError> {
        let archive = Archive::open(Arc::new(disk.clone()))?;
        let mut found = Vec::new();
        let read = archive.read_all(&mut |item| {
            if let store::Item::Record(_, entry) = item {
                let (record, _) = Record::decode(entry.body)?;
                found.push((record.slot, record.decisions));
            }
            Ok(())
        });
        read?; // the disk may fail in this look, too
        for (slot, decisions) in &self.slots {
            let kept = found.iter().find(|(other, _)| other == slot);
            assert_eq!(kept.map(|(_, decisions)| decisions), Some(decisions), "slot {}", slot.number());
        }
        // What nobody heard of has been decided all the same.
        found.retain(|(slot, _)| !self.slots.iter().any(|(sent, _)| sent == slot));
        self.unheard += found.len();
        self.tokens.extend(found.iter().flat_map(|(_, decisions)| tokens(decisions)));
        self.slots.extend(found);
        Ok(())
    }
}

/// The tokens of new grants.
fn tokens(decisions: &[Decision]) -> Vec<u64> {
    let new = decisions.iter().filter(|decision| decision.answers.is_none());
    let token = |decision: &Decision| match decision.verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } => Some(token.number()),
        _ => None,
    };
    new.filter_map(token).collect()
}

/// Everything at once: leases, waits, revisions, units, preemption.
fn config() -> Config {
    let text =
        "[preemption]\nenabled = true\nfreeze = \"20ms\"\n[[resource]]\npath = \"pool\"\ncapacity = 3\n";
    Config::parse("test", text).unwrap()
}

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        compress: true,
        keep_bytes: None,
        upkeep: UpkeepBy::Caller,
        ..Options::default()
    }
}

/// What arrives in a slot.
fn inputs(slot: Slot, dice: &mut Dice) -> Vec<Input> {
    let at = slot.opens(LENGTH);
    let count = dice.below(4);
    let mut inputs: Vec<Input> = Vec::new();
    for _ in 0..count {
        let agent = Agent::new(["a", "b", "c"][dice.below(3) as usize]).unwrap();
        let id = IntentId::new(dice.below(6));
        let op = match dice.below(6) {
            0 => AgentOp::Release { id },
            1 => AgentOp::Renew { id, until: at.after(Micros::from_ms(200)) },
            2 => AgentOp::Revise(intent(id, dice).parse().unwrap()),
            _ => AgentOp::Declare(intent(id, dice).parse().unwrap()),
        };
        inputs.push(Input::Agent { at, agent, op });
    }
    inputs
}

fn intent(id: IntentId, dice: &mut Dice) -> RawIntent {
    let (path, mode) = match dice.below(3) {
        0 => ("pool/x", RawMode::Units(1 + dice.below(2))),
        _ => (["dock/1", "dock/2", "dock"][dice.below(3) as usize], RawMode::Exclusive),
    };
    let duration = 20_000 + 40_000 * dice.below(3);
    let claim = RawClaim { target: RawTarget::Path(path.into()), mode, offset: 0, duration };
    RawIntent {
        id: id.number(),
        slack: 10_000 * dice.below(4),
        wait: 20_000 * dice.below(4),
        hold: dice.below(2) == 0,
        class: dice.below(3),
        claims: vec![claim],
        ..RawIntent::default()
    }
}

/// A life of a coordinator: until its slots are over, or its journal no longer answers committed.
fn live(disk: &SimDisk, sent: &mut Sent, dice: &mut Dice, wall: &mut Time) -> Result<(), RecoveryError> {
    let config = config();
    let start = |from| recover_with(Arc::new(disk.clone()), &config, options(), from, (*wall).into(), 1);
    let restart = match start(StartFrom::State) {
        Err(RecoveryError::Open(OpenError::Empty { .. })) if sent.slots.is_empty() => {
            start(StartFrom::Nothing { token_floor: 1 })?
        }
        restart => restart?,
    };
    sent.is_in(disk)?;
    let Restart { recovered, mut journal, starts_at, .. } = restart;
    assert!(sent.slots.iter().all(|(slot, _)| slot.decided_at(LENGTH) < starts_at), "a slot twice");
    let Recovered { mut resolver, boot_slot, boot_ops, .. } = recovered;
    tables_agree(&resolver).unwrap();
    let mut check = InvariantCheck::default();
    let mut decide = |resolver: &mut Resolver, batch: SlotBatch| {
        check.before_slot(resolver, &batch);
        let outcome = resolver.resolve(&batch);
        check.after_slot(resolver, &outcome).unwrap();
        let notes = SessionNotes::default();
        let entry = SlotEntry { batch: &batch, outcome: &outcome, notes: &notes };
        let is_idle = entry.is_idle();
        match journal.append(entry) {
            Appended::Committed if is_idle => true,
            Appended::Committed => {
                sent.take(outcome.slot, outcome.decisions);
                true
            }
            Appended::Refused(_) | Appended::Unknown(_) => false,
        }
    };
    while let Some(due) = resolver.next_due().filter(|due| *due < boot_slot) {
        if !decide(&mut resolver, SlotBatch::empty(due)) {
            return Ok(());
        }
    }
    let at = boot_slot.opens(LENGTH);
    let boot = boot_ops.into_iter().map(|op| Input::System { at, op }).collect();
    let mut alive = decide(&mut resolver, SlotBatch::new(boot_slot, LENGTH, boot).unwrap());
    let mut slot = boot_slot.next();
    while alive && slot.number() < boot_slot.number() + SLOTS {
        let batch = SlotBatch::new(slot, LENGTH, inputs(slot, dice)).unwrap();
        alive = decide(&mut resolver, batch);
        slot = slot.next();
    }
    // An outage, or a wall clock that was set back.
    let now = slot.opens(LENGTH);
    *wall = if dice.below(3) == 0 {
        now.before(Micros::from_secs(1))
    } else {
        now.after(Micros::from_ms(dice.below(100)))
    };
    Ok(())
}

fn all_is_well_after(how: Break, seed: u64) {
    let mut unheard = 0;
    for call in 0..100_000 {
        let disk = SimDisk::new(seed ^ (call << 8));
        let (mut sent, mut dice, mut wall) = (Sent::default(), Dice(seed ^ call), Time::from_us(5_000_000));
        let mut has_broken = false;
        disk.break_at(call, how);
        for life in 0..3 {
            match live(&disk, &mut sent, &mut dice, &mut wall) {
                Ok(()) | Err(RecoveryError::Open(OpenError::Disk(_))) => {}
                Err(error) => panic!("call {call}, life {life}: {error}"),
            }
            // A machine that kept its power goes on with what it had in memory.
            if how == Break::PowerLoss && !disk.is_waiting_to_break() {
                disk.restart();
                has_broken = true;
            }
        }
        let is_over = !has_broken && disk.is_waiting_to_break();
        disk.break_at(u64::MAX / 2, Break::Fail);
        live(&disk, &mut sent, &mut dice, &mut wall).unwrap();
        unheard += sent.unheard;
        if is_over {
            assert!(call > 100, "{call} calls are no busy disk");
            assert!(sent.tokens.len() > 20 && unheard > 0, "hardly anything happened");
            return;
        }
    }
    panic!("there is no end of calls");
}

#[test]
fn whichever_call_of_the_disk_fails_what_was_sent_is_there_and_no_token_repeats() {
    all_is_well_after(Break::Fail, 1);
}

#[test]
fn in_whichever_call_the_power_is_lost_what_was_sent_is_there_and_no_token_repeats() {
    all_is_well_after(Break::PowerLoss, 2);
}

#[test]
fn while_the_machine_runs_on_time_goes_on_whatever_the_wall_clock_shows() {
    const HOUR: Micros = Micros::from_secs(3600);
    let disk = SimDisk::new(3);
    let start = |from, wall, run| {
        let restart = recover_with(Arc::new(disk.clone()), &config(), options(), from, Now { wall, run }, 1);
        let Restart { time, starts_at, report, .. } = restart.unwrap();
        assert!(time <= starts_at && starts_at.since(time) <= LENGTH.plus(LENGTH));
        (time, report.wall_ahead_us)
    };
    let nine = Time::from_us(9_000_000_000);
    let run = |id, since| Some(Run { id, since: Micros::from_secs(since) });
    let new = StartFrom::Nothing { token_floor: 1 };
    assert_eq!(start(new, nine, run(7, 100)), (nine, None));
    let later = nine.after(Micros::from_secs(60));
    for (wall, ahead_us) in [(later.after(HOUR), 3_600_000_000), (later.before(HOUR), -3_600_000_000)] {
        assert_eq!(start(StartFrom::State, wall, run(7, 160)), (later, Some(ahead_us)));
    }
    // After another boot it is as late as the wall clock says, and goes on from there.
    let next_day = nine.after(Micros::from_secs(86_400));
    assert_eq!(start(StartFrom::State, next_day, run(8, 5)), (next_day, None));
    assert_eq!(start(StartFrom::State, nine, run(8, 6)).0, next_day.after(Micros::from_secs(1)));
    // So it is where nothing is known of the machine.
    assert_eq!(start(StartFrom::State, nine, None), (nine, None));
    // A machine that has run for longer than its wall clock has counted.
    assert_eq!(start(StartFrom::State, Time::from_us(20_005), run(9, 100)), (Time::from_us(20_005), None));
    assert_eq!(start(StartFrom::State, nine, run(9, 101)).0, Time::from_us(1_020_005));
}
