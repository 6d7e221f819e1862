//! Drives the twin and the real resolver through one trace, slot by slot.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use preclaim::resolver::invariants::{Breach, InvariantCheck, tables_agree};
#[cfg(not(feature = "daemon"))]
use preclaim::resolver::state::SlotChanges;
use preclaim::resolver::{Image, Input, Resolver, Rules, SlotBatch, SlotOutcome, SystemOp};
use preclaim::types::{Decision, Slot, Time, Verdict, Window};

use super::coverage::Coverage;
use super::invariants::Before;
use super::reference::Twin;
use super::trace::Trace;

/// Slots after the last message in which waits and leases may still end.
const SLOTS_AFTER: u64 = 40;

/// All tables are compared every so many slots: to look at all of them costs as much as the twin.
const SLOTS_BETWEEN_LOOKS: u64 = 4;

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
        let note: String = self.note.chars().take(60).collect();
        format!("{} {} {note}", name(self.twin.get(at)), name(self.real.get(at)))
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

/// The first difference of the two on this trace. The invariants of both are checked on the way.
pub(crate) fn compare(trace: &Trace, coverage: &mut Coverage) -> Result<(), Difference> {
    let mut batches = trace.batches().into_iter();
    let length = trace.spec.rules.length;
    let mut twin = Twin::new(trace.spec.rules());
    let mut real = Real::new(&trace.spec.rules());
    let mut quiet_slots = 0;
    for slot in (0..).map(Slot::new) {
        let next = batches.next();
        let after = next.is_none();
        quiet_slots += u64::from(after);
        if after && (twin.is_at_rest() || quiet_slots > SLOTS_AFTER) {
            let note = tables_agree(&real.whole).err().map(|breach| format!("the resolver broke: {breach}"));
            return note
                .map_or(Ok(()), |note| Err(Difference { slot, twin: Vec::new(), real: Vec::new(), note }));
        }
        let batch = next.unwrap_or_else(|| SlotBatch::empty(slot));
        let before = Before::of(&twin);
        let d = slot.decided_at(length);
        let decided = twin.resolve(&batch).decisions;
        coverage.look(&batch, &decided, &twin, d);
        let broken = before.check(&twin, &decided, d).err();
        let (real_decided, note) = match catch_unwind(AssertUnwindSafe(|| real.decide(&batch))) {
            Ok((decided, wrong)) if wrong.is_empty() => (decided, state_note(&real.whole, &twin, d)),
            Ok(wrong) => wrong,
            Err(panic) => (Vec::new(), format!("the resolver panicked: {}", text_of(&*panic))),
        };
        let note = broken.map_or(note, |broken| format!("the twin broke an invariant: {broken}"));
        if !note.is_empty() || !same(&decided, &real_decided) {
            return Err(Difference { slot, twin: decided, real: real_decided, note });
        }
    }
    Ok(())
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// The real resolver twice: one decides every slot, the other leaves out those in which nothing is due.
struct Real {
    whole: Resolver,
    check: InvariantCheck,
    lazy: Resolver,
    image: Image,
    /// The rules of the lazy one, and what of them is still to change after its last slot.
    rules: Rules,
    pending: Vec<SystemOp>,
}

impl Real {
    fn new(rules: &Rules) -> Self {
        let (whole, lazy) = (Resolver::new(rules.clone()), Resolver::new(rules.clone()).reporting_changes());
        Real {
            whole,
            check: InvariantCheck::default(),
            lazy,
            image: Image::default(),
            rules: rules.clone(),
            pending: Vec::new(),
        }
    }

    /// The decisions, and what is wrong beside them.
    fn decide(&mut self, batch: &SlotBatch) -> (Vec<Decision>, String) {
        self.check.before_slot(&self.whole, batch);
        let outcome = self.whole.resolve(batch);
        let checked = self.check.after_slot(&self.whole, &outcome);
        let breach = checked.and_then(|()| self.tables_agree_at(batch.slot())).err();
        let mut wrong = breach.map_or(String::new(), |breach| format!("the resolver broke: {breach}"));
        let is_due = self.lazy.next_due().is_some_and(|due| due <= batch.slot());
        if is_due || !batch.inputs().is_empty() {
            let lazy = self.lazy.resolve(batch);
            if lazy.digest != outcome.digest || lazy.decisions != outcome.decisions {
                wrong.push_str("leaving out slots that were not due changed something");
            }
            self.follow(batch, &lazy, &mut wrong);
        } else if !outcome.decisions.is_empty() {
            wrong.push_str("something was decided in a slot that was not due");
        }
        (outcome.decisions, wrong)
    }
}

/// One in so many slots the lazy resolver is made anew of its image.
const SLOTS_BETWEEN_RESTARTS: u64 = 3;

impl Real {
    /// Applies to the image what a slot changed. Now and then the image is taken apart and put together,
    /// and the lazy resolver goes on from there.
    fn follow(&mut self, batch: &SlotBatch, outcome: &SlotOutcome, wrong: &mut String) {
        self.rules = changed(&self.rules, &self.pending);
        let is_rules = |op: &SystemOp| matches!(op, SystemOp::Config(_));
        let ops = batch.inputs().iter().filter_map(|input| match input {
            Input::System { op, .. } => Some(op.clone()),
            Input::Agent { .. } => None,
        });
        self.pending = ops.skip_while(|op| !is_rules(op)).collect();
        let changes = through_a_record(batch, outcome, &self.image);
        assert_eq!(outcome.ranks.len(), outcome.decisions.len());
        if self.image.apply(outcome.slot, outcome.at, changes) != outcome.digest {
            wrong.push_str("what the slot changed, applied to an image, makes another state");
        }
        if batch.slot().number().is_multiple_of(SLOTS_BETWEEN_RESTARTS) {
            let (restored, next) = (copy(&self.image), through_a_snapshot(&self.image, outcome.at));
            if restored.digest() != outcome.digest {
                wrong.push_str("an image made of its parts is another");
            }
            self.image = next;
            self.lazy = Resolver::from_image(restored, self.rules.clone(), &self.pending).reporting_changes();
        }
    }

    /// What is wrong with a table stays wrong, so that a look now and then finds it.
    fn tables_agree_at(&self, slot: Slot) -> Result<(), Breach> {
        if slot.number() % SLOTS_BETWEEN_LOOKS == 1 { tables_agree(&self.whole) } else { Ok(()) }
    }
}

fn copy(image: &Image) -> Image {
    Image::from_parts(image.head(), image.items())
}

#[cfg(feature = "daemon")]
use super::codec::{through_a_record, through_a_snapshot};

#[cfg(not(feature = "daemon"))]
fn through_a_record(_: &SlotBatch, outcome: &SlotOutcome, _: &Image) -> SlotChanges {
    outcome.changes.clone().unwrap_or_else(|| panic!("it was asked for"))
}

#[cfg(not(feature = "daemon"))]
fn through_a_snapshot(image: &Image, _: Time) -> Image {
    copy(image)
}

/// The rules after what was pending has taken effect.
fn changed(rules: &Rules, pending: &[SystemOp]) -> Rules {
    pending.iter().fold(rules.clone(), |rules, op| match op {
        SystemOp::Config(change) => {
            let resources = change.resources.clone().unwrap_or(rules.resources);
            Rules { resources, length: rules.length, ..change.rules.clone() }
        }
        _ => rules,
    })
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
