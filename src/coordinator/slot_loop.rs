//! The slot loop: close, resolve, persist, publish. It runs on a thread of its own and alone owns
//! the [`Resolver`], so there is no lock around that.
//!
//! It must never send anything of a slot before the slot's record is durable, and never leave the
//! coordinator running without it: how it ended is told to whoever started it.

use std::sync::Arc;
use std::{fmt, io, thread};

use tokio::sync::oneshot;

use super::decision_log;
use super::health::{Health, Reporter};
use super::intake::{Intake, Step};
use super::observer::{Decided, Observer, Punctuality, SlotReport};
use crate::audit::{Appended, Journal, SlotEntry};
use crate::clock::Clock;
use crate::host::{HostConfig, Role};
use crate::resolver::invariants::{Breach, InvariantCheck};
use crate::resolver::{Resolver, SlotOutcome, SystemOp};
use crate::session::coordinator::{SessionNotes, TracedDecision};
use crate::slot::Closed;
use crate::types::{Slot, Time};

/// Hands a slot's decisions to those who are to know them.
pub(crate) trait Publish<O>: Send {
    /// What the slot's record says of those who asked.
    fn notes(&mut self, closed: &Closed<O>, outcome: &SlotOutcome) -> SessionNotes;

    /// Publishes what was decided in the slot `closed`; `resolver` is how things stand after it. Returns what of it is
    /// about intents in traces.
    fn publish(
        &mut self,
        closed: &Closed<O>,
        outcome: &SlotOutcome,
        resolver: &Resolver,
    ) -> Vec<TracedDecision>;
}

/// Why the slot loop ended before it was told to.
#[derive(Debug)]
pub(crate) enum LoopDeath {
    /// A slot's record is not in the log, or may not be.
    Journal(String),
    /// A slot broke a rule that must always hold; nothing of it was sent.
    Invariant(Breach),
    /// It panicked; the panic's message is on standard error.
    Panic,
}

/// What a coordinator that keeps records decides before it takes anything in.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The slot in which it starts. Those of the outage, before it, are decided first.
    pub(crate) slot: Slot,
    /// What its start changes: inputs of that slot.
    pub(crate) ops: Vec<SystemOp>,
}

/// See the module's documentation.
pub(crate) struct SlotLoop<O, P> {
    pub(crate) intake: Arc<Intake<O>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) resolver: Resolver,
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) publisher: P,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Looks at each slot before anything of it is kept or sent.
    pub(crate) check: Option<InvariantCheck>,
    pub(crate) boot: Option<Boot>,
    /// What its thread asks of the machine.
    pub(crate) host: HostConfig,
    /// The origin of inputs that are the coordinator's own.
    pub(crate) own: O,
}

impl<O, P> fmt::Debug for SlotLoop<O, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotLoop").finish_non_exhaustive()
    }
}

/// How the loop ends: resolves once it has.
#[derive(Debug)]
pub(crate) struct LoopEnd(oneshot::Receiver<Result<(), LoopDeath>>);

impl LoopEnd {
    /// Waits for the loop's end. Cancel safe.
    pub(crate) async fn wait(&mut self) -> Result<(), LoopDeath> {
        // The sender drops without a word only where the thread unwinds.
        (&mut self.0).await.unwrap_or(Err(LoopDeath::Panic))
    }
}

impl<O: Clone + Send + 'static, P: Publish<O> + 'static> SlotLoop<O, P> {
    /// Starts the loop on its own thread.
    pub(crate) fn spawn(self, health: Reporter) -> io::Result<LoopEnd> {
        let (tell, end) = oneshot::channel();
        thread::Builder::new().name("preclaim-slots".into()).spawn(move || {
            self.host.settle(Role::SlotLoop);
            let ended = self.run(&health);
            let _ = tell.send(ended);
        })?;
        Ok(LoopEnd(end))
    }
}

impl<O: Clone, P: Publish<O>> SlotLoop<O, P> {
    fn run(mut self, health: &Reporter) -> Result<(), LoopDeath> {
        if let Some(boot) = self.boot.take() {
            self.start(boot)?;
        }
        health.report(Health::Ready);
        self.decide_until_stopped()?;
        committed(self.journal.close())
    }

    /// Decides the slots of the outage, empty and in order, and then the one that starts.
    fn start(&mut self, Boot { slot, ops }: Boot) -> Result<(), LoopDeath> {
        while let Some(due) = self.resolver.next_due().filter(|due| *due < slot) {
            self.decide(&Closed::empty(due), self.clock.now())?;
        }
        let length = self.resolver.rules().length;
        self.decide(&Closed::boot(slot, length, ops, self.own.clone()), self.clock.now())
    }

    fn decide_until_stopped(&mut self) -> Result<(), LoopDeath> {
        loop {
            match self.intake.next_step(self.resolver.next_due()) {
                Step::Decide(closed, None, woken) => self.decide(&closed, woken)?,
                Step::Decide(closed, Some(clearing), woken) => {
                    let undecided = self.resolver.undecided().map(|it| it.key.clone());
                    let length = self.resolver.rules().length;
                    let cleared = closed.clear(length, &clearing, undecided, &self.own);
                    self.decide(&cleared, woken)?;
                }
                Step::Show(look) => look(&self.resolver),
                Step::Stop => return Ok(()),
            }
        }
    }

    fn decide(&mut self, slot: &Closed<O>, woken: Time) -> Result<(), LoopDeath> {
        let (closed, batch) = (self.clock.now(), &slot.batch);
        self.check.iter_mut().for_each(|check| check.before_slot(&self.resolver, batch));
        let outcome = self.resolver.resolve(batch);
        if let Some(check) = &mut self.check {
            check.after_slot(&self.resolver, &outcome).map_err(LoopDeath::Invariant)?;
        }
        let resolved = self.clock.now();
        let notes = self.publisher.notes(slot, &outcome);
        committed(self.journal.append(SlotEntry { batch, outcome: &outcome, notes: &notes }))?;
        let persisted = self.clock.now();
        let traced = self.publisher.publish(slot, &outcome, &self.resolver);
        let published = self.clock.now();
        let punctuality = Punctuality::of(outcome.at, self.resolver.rules().length, woken, published);
        let report = SlotReport {
            slot: outcome.slot,
            at: outcome.at,
            woken,
            closed,
            resolved,
            persisted,
            published,
            inputs: batch.inputs().len(),
            decisions: outcome.decisions.len(),
            punctuality,
        };
        if let Some(observer) = &self.observer {
            observer.slot_done(&report);
            let resolver = &self.resolver;
            let decided = Decided { batch, outcome: &outcome, resolver, traced: &traced };
            observer.slot_decided(&report, &decided);
        }
        decision_log::tell(&outcome);
        Ok(())
    }
}

/// # Errors
/// Where what was decided must not be told.
fn committed(appended: Appended) -> Result<(), LoopDeath> {
    match appended {
        Appended::Committed => Ok(()),
        Appended::Refused(why) | Appended::Unknown(why) => Err(LoopDeath::Journal(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::audit::NoJournal;
    use crate::audit::sim::{SimJournal, Trouble};
    use crate::clock::ManualClock;
    use crate::resolver::{AgentOp, Rules};
    use crate::slot::{Asked, Rank, Refused, Room};
    use crate::types::{Agent, IntentId, Micros};

    const LENGTH: Micros = Micros::from_us(100);

    type Published = (u64, Vec<u64>);

    struct Tell(mpsc::Sender<Published>);

    impl Publish<u64> for Tell {
        fn notes(&mut self, _: &Closed<u64>, _: &SlotOutcome) -> SessionNotes {
            SessionNotes::default()
        }

        fn publish(
            &mut self,
            Closed { origins, .. }: &Closed<u64>,
            outcome: &SlotOutcome,
            _: &Resolver,
        ) -> Vec<TracedDecision> {
            assert!(!origins.contains(&666), "a planted fault: the panic message above is expected");
            self.0.send((outcome.slot.number(), origins.clone())).unwrap();
            Vec::new()
        }
    }

    #[derive(Debug)]
    struct BrokenJournal(Appended);

    impl Journal for BrokenJournal {
        fn append(&mut self, _: SlotEntry<'_>) -> Appended {
            self.0.clone()
        }
    }

    struct Rig {
        clock: Arc<ManualClock>,
        intake: Arc<Intake<u64>>,
        published: mpsc::Receiver<Published>,
        end: LoopEnd,
    }

    impl Rig {
        fn new(journal: Box<dyn Journal>) -> Self {
            let rules = Rules { length: LENGTH, ..Rules::default() };
            Rig::over(journal, Resolver::new(rules), Time::ZERO)
        }

        fn over(journal: Box<dyn Journal>, resolver: Resolver, from: Time) -> Self {
            let clock = Arc::new(ManualClock::new(from));
            let intake = Arc::new(Intake::new(clock.clone(), LENGTH, Room::default(), None));
            let (tell, published) = mpsc::channel();
            let end = SlotLoop {
                intake: Arc::clone(&intake),
                clock: clock.clone(),
                resolver,
                journal,
                publisher: Tell(tell),
                observer: None,
                check: Some(InvariantCheck::default()),
                boot: None,
                host: HostConfig::default(),
                own: 0,
            }
            .spawn(Reporter::default())
            .unwrap();
            Rig { clock, intake, published, end }
        }

        fn push(&self, origin: u64) -> Result<(), Refused> {
            let op = AgentOp::Release { id: IntentId::new(origin) };
            let asked = Asked { rank: Rank::Upkeep, op, origin };
            let turned = self.intake.agent_inputs(&Agent::new("a").unwrap(), vec![asked]);
            turned.map(|turned| assert!(turned.is_empty())).map_err(|_| Refused::Draining)
        }

        fn end(self) -> Result<(), LoopDeath> {
            self.end.0.blocking_recv().unwrap_or(Err(LoopDeath::Panic))
        }
    }

    #[test]
    fn an_arrival_wakes_a_sleeping_loop_which_decides_it_at_its_boundary() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.clock.set(Time::from_us(1_234));
        rig.push(7).unwrap();
        rig.clock.set(Time::from_us(1_299));
        assert!(rig.published.try_recv().is_err());
        rig.clock.set(Time::from_us(1_300));
        assert_eq!(rig.published.recv().unwrap(), (12, vec![7]));
    }

    #[test]
    fn slots_that_were_slept_through_are_decided_in_order_by_themselves() {
        let rig = Rig::new(Box::new(NoJournal));
        for origin in 1..=3 {
            rig.push(origin).unwrap();
            rig.clock.advance(Micros::from_us(50));
        }
        rig.clock.advance(Micros::from_secs(1));
        assert_eq!(rig.published.recv().unwrap(), (0, vec![1, 2]));
        assert_eq!(rig.published.recv().unwrap(), (1, vec![3]));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_slot_and_repeats_none() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.clock.set(Time::from_us(550));
        rig.push(1).unwrap();
        rig.clock.set(Time::from_us(20));
        rig.push(2).unwrap();
        rig.clock.set(Time::from_us(600));
        assert_eq!(rig.published.recv().unwrap(), (5, vec![1, 2]));
    }

    #[test]
    fn draining_decides_the_open_slot_and_takes_in_nothing_more() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.push(1).unwrap();
        rig.intake.drain();
        assert_eq!(rig.push(2), Err(Refused::Draining));
        rig.clock.advance(LENGTH);
        assert_eq!(rig.published.recv().unwrap(), (0, vec![1]));
        assert!(rig.end().is_ok());
    }

    #[test]
    fn draining_with_nothing_to_decide_ends_at_once() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.intake.drain();
        assert!(rig.end().is_ok());
    }

    #[test]
    fn nothing_is_published_where_the_record_is_refused_or_may_not_be_in_the_log() {
        for answer in [Appended::Refused("planted".into()), Appended::Unknown("planted".into())] {
            let rig = Rig::new(Box::new(BrokenJournal(answer)));
            rig.push(1).unwrap();
            rig.clock.advance(LENGTH);
            assert!(rig.published.recv().is_err(), "the loop went away without publishing");
            assert!(matches!(rig.end(), Err(LoopDeath::Journal(why)) if why == "planted"));
        }
    }

    /// The slots that a loop published which decides one release a slot until its journal has enough.
    fn published_by(journal: &SimJournal, from: Time) -> (Vec<u64>, Result<(), LoopDeath>) {
        let state = journal.state();
        let rules = Rules { length: LENGTH, ..Rules::default() };
        let resolver = Resolver::from_image(state.into_parts().0, rules, &[]).reporting_changes();
        let rig = Rig::over(Box::new(journal.clone()), resolver, from);
        for slot in 0..4 {
            let _ = rig.push(slot); // refused once the loop has gone
            rig.clock.advance(LENGTH);
        }
        rig.intake.drain();
        rig.clock.advance(LENGTH);
        let published = rig.published.iter().map(|(slot, _)| slot).collect();
        (published, rig.end())
    }

    #[test]
    fn whatever_a_journal_answers_at_whichever_slot_what_was_published_is_in_it() {
        for trouble in [Trouble::Refused, Trouble::UnknownKept, Trouble::UnknownLost] {
            for good in 0..4 {
                let journal = SimJournal::default();
                journal.plan(good, trouble);
                let (published, end) = published_by(&journal, Time::ZERO);
                let all = [0, 1, 2, 3];
                assert_eq!(
                    published,
                    all[..good],
                    "{trouble:?} at {good}: not the slot of the trouble, nor later"
                );
                assert!(matches!(end, Err(LoopDeath::Journal(_))));
                let kept = good + usize::from(trouble == Trouble::UnknownKept);
                assert_eq!(journal.records(), kept, "{trouble:?} at {good}");

                journal.restart();
                let (published, end) = published_by(&journal, Time::from_us(1_000));
                assert_eq!(published, [10, 11, 12, 13]);
                assert!(end.is_ok());
                assert_eq!(journal.records(), kept + 4);
            }
        }
    }

    #[test]
    fn a_panic_in_the_loop_is_told() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.push(666).unwrap();
        rig.clock.advance(LENGTH);
        assert!(matches!(rig.end(), Err(LoopDeath::Panic)));
    }

    #[test]
    fn a_loop_that_is_long_at_one_thing_stands_still_and_one_that_sleeps_does_not() {
        let rig = Rig::new(Box::new(NoJournal));
        let nine = Micros::from_secs(9);
        rig.clock.advance(nine);
        assert_eq!(rig.intake.standstill(), Micros::ZERO);
        let ((tell, told), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let long = move |_: &Resolver| {
            tell.send(()).unwrap();
            gone.recv().unwrap();
        };
        rig.intake.look(Box::new(long)).unwrap();
        told.recv().unwrap();
        rig.clock.advance(nine);
        assert_eq!(rig.intake.standstill(), nine);
        go.send(()).unwrap();
        let (tell, told) = mpsc::channel();
        rig.intake.look(Box::new(move |_| tell.send(()).unwrap())).unwrap();
        told.recv().unwrap();
        assert_eq!(rig.intake.standstill(), Micros::ZERO);
    }

    #[test]
    fn a_look_is_served_between_slots_without_waiting_for_one() {
        let rig = Rig::new(Box::new(NoJournal));
        let (tell, told) = mpsc::channel();
        rig.intake.look(Box::new(move |resolver| tell.send(resolver.rules().length).unwrap())).unwrap();
        assert_eq!(told.recv().unwrap(), LENGTH);
    }
}
