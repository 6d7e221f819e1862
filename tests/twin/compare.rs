//! Drives the twin and the real resolver through one trace, slot by slot.

use std::panic::{AssertUnwindSafe, catch_unwind};

use preclaim::resolver::{Resolver, SlotBatch};
use preclaim::types::{Decision, Slot, Time, Verdict, Window};

use super::coverage::Coverage;
use super::invariants::Before;
use super::reference::Twin;
use super::trace::Trace;

/// Slots after the last message in which waits and leases may still end.
const SLOTS_AFTER: u64 = 40;

/// Where the two part.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) slot: Slot,
    pub(crate) twin: Vec<Decision>,
    pub(crate) real: Vec<Decision>,
    /// What beside the decisions differs.
    pub(crate) note: String,
}

impl Difference {
    /// What it is like, in a few words: the first two verdicts that differ.
    pub(crate) fn kind(&self) -> String {
        let name = |decision: Option<&Decision>| {
            let text = decision.map_or(String::new(), |decision| format!("{:?}", decision.verdict));
            text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
        };
        let at = (0..self.twin.len().max(self.real.len())).find(|at| {
            !same(
                &self.twin[*at..(*at + 1).min(self.twin.len())],
                &self.real[*at..(*at + 1).min(self.real.len())],
            )
        });
        let at = at.unwrap_or(usize::MAX);
        format!("{} {} {}", name(self.twin.get(at)), name(self.real.get(at)), self.note)
    }

    pub(crate) fn print(&self, d: Time) -> String {
        let mut out = format!("-- slot {} (d = {})", self.slot.number(), d.as_us());
        if !self.note.is_empty() {
            out.push_str(&format!(", {}", self.note));
        }
        out.push_str("\n-- twin\n");
        out.extend(self.twin.iter().map(|decision| show(self.slot, d, decision)));
        out.push_str("-- resolver\n");
        out.extend(self.real.iter().map(|decision| show(self.slot, d, decision)));
        out
    }
}

#[cfg(feature = "daemon")]
fn show(slot: Slot, d: Time, decision: &Decision) -> String {
    let mut out = Vec::new();
    match preclaim::trace::write_decision(&mut out, slot, d, decision) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => format!("{error}: {decision:?}\n"),
    }
}

#[cfg(not(feature = "daemon"))]
fn show(_: Slot, _: Time, decision: &Decision) -> String {
    format!("{decision:?}\n")
}

/// The first difference of the two on this trace. The twin's invariants are checked on the way.
pub(crate) fn compare(trace: &Trace, coverage: &mut Coverage) -> Result<(), Difference> {
    let mut batches = trace.batches().into_iter();
    let length = trace.spec.rules.length;
    let mut twin = Twin::new(trace.spec.rules());
    let mut real = Resolver::new(trace.spec.rules());
    let mut quiet_slots = 0;
    for slot in (0..).map(Slot::new) {
        let next = batches.next();
        let after = next.is_none();
        quiet_slots += u64::from(after);
        if after && (twin.is_at_rest() || quiet_slots > SLOTS_AFTER) {
            return Ok(());
        }
        let batch = next.unwrap_or_else(|| SlotBatch::empty(slot));
        let before = Before::of(&twin);
        let decided = twin.resolve(&batch).decisions;
        coverage.look(&batch, &decided, &twin, slot.decided_at(length));
        let broken = before.check(&twin, &decided, slot.decided_at(length)).err();
        let (real_decided, note) = drive(&mut real, &batch, &twin, length);
        let note = broken.map_or(note, |broken| format!("invariant broken: {broken}"));
        if !note.is_empty() || !same(&decided, &real_decided) {
            return Err(Difference { slot, twin: decided, real: real_decided, note });
        }
    }
    Ok(())
}

/// The real resolver's decisions, and what is wrong beside them.
fn drive(
    real: &mut Resolver,
    batch: &SlotBatch,
    twin: &Twin,
    length: preclaim::types::Micros,
) -> (Vec<Decision>, String) {
    let slot = batch.slot();
    let is_due = real.next_due().is_some_and(|due| due <= slot);
    if batch.inputs().is_empty() && !is_due {
        // A slot that is not due may be left out; every other one is, so that both ways are tried.
        if slot.number() % 2 == 1 {
            return (Vec::new(), state_note(real, twin, slot.decided_at(length)));
        }
    }
    let resolved = catch_unwind(AssertUnwindSafe(|| real.resolve(batch)));
    match resolved {
        Ok(outcome) => (outcome.decisions, state_note(real, twin, slot.decided_at(length))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Vec::new(), format!("the resolver panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// What differs between the two states that can be looked at.
fn state_note(real: &Resolver, twin: &Twin, d: Time) -> String {
    if real.has_undecided() != twin.has_undecided() {
        return format!("has_undecided: twin {}, resolver {}", twin.has_undecided(), real.has_undecided());
    }
    let mut mine: Vec<_> = twin.grants.iter().filter(|grant| grant.end() > d).collect();
    mine.sort_by_key(|grant| grant.token);
    let theirs: Vec<_> = real.grants().filter(|grant| grant.end > d).collect();
    let same = mine.len() == theirs.len()
        && mine.iter().zip(&theirs).all(|(a, b)| {
            let windows: Vec<Window> = a.standing.windows.iter().copied().flatten().collect();
            (a.key(), a.token, a.start, a.end()) == (b.key, b.token, b.start, b.end) && windows == b.windows
        });
    if same { String::new() } else { "grants in force differ".to_owned() }
}

/// The field of a rejection is free in its spelling.
fn same(twin: &[Decision], real: &[Decision]) -> bool {
    let plain = |decision: &Decision| {
        let mut plain = decision.clone();
        if let Verdict::Rejected { field, .. } = &mut plain.verdict {
            field.clear();
        }
        plain
    };
    twin.len() == real.len() && twin.iter().zip(real).all(|(a, b)| plain(a) == plain(b))
}
