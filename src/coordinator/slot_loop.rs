//! The slot loop: close, resolve, persist, publish. It runs on a thread of its own and alone owns
//! the [`Resolver`], so there is no lock around that.
//!
//! It must never send anything of a slot before the slot's record is durable, and never leave the
//! coordinator running without it: how it ended is told to whoever started it.

use std::sync::Arc;
use std::{fmt, io, thread};

use tokio::sync::oneshot;

use super::intake::{Intake, Step};
use super::journal::Journal;
use super::observer::{Observer, Punctuality, SlotReport};
use crate::clock::Clock;
use crate::resolver::invariants::{Breach, InvariantCheck};
use crate::resolver::{Resolver, SlotOutcome};
use crate::slot::Closed;

/// Hands a slot's decisions to those who are to know them.
pub(crate) trait Publish<O>: Send {
    /// Publishes what was decided in the slot `closed`; `resolver` is how things stand after it.
    fn publish(&mut self, closed: &Closed<O>, outcome: &SlotOutcome, resolver: &Resolver);
}

/// Why the slot loop ended before it was told to.
#[derive(Debug)]
pub(crate) enum LoopDeath {
    /// A slot's record could not be made durable.
    Journal(io::Error),
    /// A slot broke a rule that must always hold; nothing of it was sent.
    Invariant(Breach),
    /// It panicked; the panic's message is on standard error.
    Panic,
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

impl<O: Send + 'static, P: Publish<O> + 'static> SlotLoop<O, P> {
    /// Starts the loop on its own thread.
    pub(crate) fn spawn(self) -> io::Result<LoopEnd> {
        let (tell, end) = oneshot::channel();
        thread::Builder::new().name("preclaim-slots".into()).spawn(move || {
            let ended = self.run();
            let _ = tell.send(ended);
        })?;
        Ok(LoopEnd(end))
    }
}

impl<O, P: Publish<O>> SlotLoop<O, P> {
    fn run(mut self) -> Result<(), LoopDeath> {
        loop {
            match self.intake.next_step(self.resolver.next_due()) {
                Step::Decide(closed) => self.decide(&closed)?,
                Step::Show(look) => look(&self.resolver),
                Step::Stop => return Ok(()),
            }
        }
    }

    fn decide(&mut self, slot: &Closed<O>) -> Result<(), LoopDeath> {
        let (closed, batch) = (self.clock.now(), &slot.batch);
        self.check.iter_mut().for_each(|check| check.before_slot(&self.resolver, batch));
        let outcome = self.resolver.resolve(batch);
        if let Some(check) = &mut self.check {
            check.after_slot(&self.resolver, &outcome).map_err(LoopDeath::Invariant)?;
        }
        let resolved = self.clock.now();
        self.journal.append(batch, &outcome).map_err(LoopDeath::Journal)?;
        let persisted = self.clock.now();
        self.publisher.publish(slot, &outcome, &self.resolver);
        let published = self.clock.now();
        let punctuality = Punctuality::of(outcome.at, self.resolver.rules().length, closed, published);
        self.report(&SlotReport {
            slot: outcome.slot,
            at: outcome.at,
            closed,
            resolved,
            persisted,
            published,
            inputs: batch.inputs().len(),
            decisions: outcome.decisions.len(),
            punctuality,
        });
        Ok(())
    }

    fn report(&self, report: &SlotReport) {
        if let Some(observer) = &self.observer {
            observer.slot_done(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::coordinator::NoJournal;
    use crate::resolver::{AgentOp, Rules, SlotBatch};
    use crate::slot::{Refused, Room};
    use crate::types::{Agent, IntentId, Micros, Time};

    const LENGTH: Micros = Micros::from_us(100);

    type Published = (u64, Vec<u64>);

    struct Tell(mpsc::Sender<Published>);

    impl Publish<u64> for Tell {
        fn publish(&mut self, Closed { origins, .. }: &Closed<u64>, outcome: &SlotOutcome, _: &Resolver) {
            assert!(!origins.contains(&666), "a planted fault: the panic message above is expected");
            self.0.send((outcome.slot.number(), origins.clone())).unwrap();
        }
    }

    #[derive(Debug)]
    struct BrokenJournal;

    impl Journal for BrokenJournal {
        fn append(&mut self, _: &SlotBatch, _: &SlotOutcome) -> io::Result<()> {
            Err(io::Error::other("a planted fault"))
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
            let clock = Arc::new(ManualClock::new(Time::ZERO));
            let intake = Arc::new(Intake::new(clock.clone(), LENGTH, Room::default()));
            let (tell, published) = mpsc::channel();
            let rules = Rules { length: LENGTH, ..Rules::default() };
            let end = SlotLoop {
                intake: Arc::clone(&intake),
                clock: clock.clone(),
                resolver: Resolver::new(rules),
                journal,
                publisher: Tell(tell),
                observer: None,
                check: Some(InvariantCheck::default()),
            }
            .spawn()
            .unwrap();
            Rig { clock, intake, published, end }
        }

        fn push(&self, origin: u64) -> Result<(), Refused> {
            let op = AgentOp::Release { id: IntentId::new(origin) };
            let agent = Agent::new("a").unwrap();
            self.intake.agent_inputs(&agent, vec![(op, origin)]).map_err(|(_, why)| why)
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
    fn nothing_is_published_where_the_record_is_not_durable() {
        let rig = Rig::new(Box::new(BrokenJournal));
        rig.push(1).unwrap();
        rig.clock.advance(LENGTH);
        assert!(rig.published.recv().is_err(), "the loop went away without publishing");
        assert!(matches!(rig.end(), Err(LoopDeath::Journal(_))));
    }

    #[test]
    fn a_panic_in_the_loop_is_told() {
        let rig = Rig::new(Box::new(NoJournal));
        rig.push(666).unwrap();
        rig.clock.advance(LENGTH);
        assert!(matches!(rig.end(), Err(LoopDeath::Panic)));
    }

    #[test]
    fn a_look_is_served_between_slots_without_waiting_for_one() {
        let rig = Rig::new(Box::new(NoJournal));
        let (tell, told) = mpsc::channel();
        rig.intake.look(Box::new(move |resolver| tell.send(resolver.rules().length).unwrap())).unwrap();
        assert_eq!(told.recv().unwrap(), LENGTH);
    }
}
