//! The vehicles as agents: all of this story that uses preclaim. To copy: [`Agent::drive`].
//!
//! In each slot of 10 ms a vehicle declares its motion until it stands, as moving regions. These cover both what it
//! does anyway and what it would rather do, which are the same for the next ticks. So whatever the answer is, and
//! however late it comes, what the vehicle does next is within what it holds.

use std::sync::Arc;
use std::time::Instant;

use preclaim::client::{Conflict, Place, Revision};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Feasibility, MotionLimits, Running};
use preclaim::resolver::Rules;
use preclaim::types::{Micros, RawTarget, Time};
use preclaim::wire::Refusal::TooLate;
use preclaim::{Client, Grant, Intent, Outcome, path};
use tokio::time::sleep_until;

use super::measure::Tally;
use super::plan::{AHEAD, Motion, STANDS, Stretch, Wish};
use super::road::{LANES, TICK_MS, Track, span};
use super::story::Failure;
use super::traffic::Arrival;

/// What can be driven at all: what needs more is refused before anybody looks for conflicts. A region is up to 4 m
/// longer than its vehicle, so its middle is up to 2 m from where the vehicle is.
const LIMITS: MotionLimits = MotionLimits {
    max_speed_um_s: Some(20_000_000),
    max_acceleration_um_s2: Some(8_000_000),
    tolerance_um: Some(2_000_000),
};

/// A coordinator in this process, on a free port. The limits hold for `junction` and all frames below it.
pub(crate) fn coordinator() -> Result<Running, Failure> {
    let mut config = CoordinatorConfig::in_memory(Rules::default())?;
    config.admission = Arc::new(Feasibility::new([(path("junction")?.path().clone(), LIMITS)]));
    Ok(Coordinator::bind(config)?.spawn())
}

pub(crate) struct Agent {
    pub(crate) client: Client,
    /// The junction's coordinates.
    frame: Place,
    arrival: Arrival,
    wish: Wish,
    tally: Tally,
    /// When the first tick begins, by the coordinator's clock; ticks begin and end with its slots.
    pub(crate) begin: Time,
}

impl Agent {
    /// Each vehicle has a connection of its own, each junction a frame of its own.
    pub(crate) async fn connect(to: &Running, junction: usize, arrival: Arrival) -> Result<Self, Failure> {
        let name = format!("{}-{junction}-{}", LANES[arrival.lane].name, arrival.due);
        let (client, frame) = (to.client(name).connect().await?, path(&format!("junction/{junction}"))?);
        let (wish, tally, begin) = (Wish::FREE, Tally::default(), Time::ZERO);
        Ok(Agent { client, frame, arrival, wish, tally, begin })
    }

    /// Drives from where the vehicle comes in sight to where it leaves.
    pub(crate) async fn drive(mut self) -> Result<(Track, Tally), Failure> {
        let (grant, mut motion) = self.enter().await?;
        let mut refused = false;
        while !motion.has_left(self.now()) {
            // Slots are ticks. What slot k grants frees the old windows for others in slot k + 1, who can start at
            // the end of that: so there, two ticks from the beginning of k, the new ones start, without a gap.
            let start = self.now() + 2;
            self.wish.forgets(start);
            let (wished, stretches) = motion.declares(start, &self.wish);
            let asked = Instant::now();
            let revision = grant.revise(self.intent(&stretches, start)).await?;
            self.tally.answers_ms.add_ms(asked.elapsed());
            match (revision, wished) {
                // So far both motions are one: it can still go over to the new one.
                (Revision::Granted, Some(wished)) if self.now() < start + AHEAD => {
                    motion = wished;
                    self.tally.revised += usize::from(std::mem::take(&mut refused));
                }
                (Revision::Granted, None) => {}
                (Revision::Granted, Some(_)) => self.tally.late += 1,
                // Refused, and what it had before stands (`kept`).
                (Revision::Conflict(conflict), wished) if conflict.kept() => {
                    refused = true;
                    self.learn(&conflict, &stretches, wished.as_ref().unwrap_or(&motion));
                }
                // This machine was slow: the slot was over before the declaration arrived.
                (Revision::Rejected(why), _) if why.reason() == TooLate && why.kept() => {
                    self.tally.late += 1;
                }
                (other, _) => return Err(format!("it lost its way: {other:?}").into()),
            }
        }
        grant.release().await?;
        Ok((motion.into_track(), self.tally))
    }

    /// Asks for the way to its line, from when it is due or as soon after that as there is room.
    async fn enter(&mut self) -> Result<(Grant, Motion), Failure> {
        sleep_until(self.client.instant(self.begin + span(self.arrival.due.saturating_sub(3))).into()).await;
        let mut tick = self.arrival.due;
        loop {
            tick = tick.max(self.now() + 2);
            let motion = Motion::enters(&self.arrival, tick, &self.wish);
            let stretches = motion.covers(&motion, tick);
            match self.client.declare(self.intent(&stretches, tick)).await? {
                Outcome::Granted(grant) => return Ok((grant, motion)),
                Outcome::Conflict(conflict) => self.learn(&conflict, &stretches, &motion),
                Outcome::Rejected(why) if why.reason() == TooLate => self.tally.late += 1,
                other => return Err(format!("it cannot enter: {other:?}").into()),
            }
        }
    }

    /// Moving regions, one window after the other; the last is where it stands, held as a lease.
    fn intent(&self, stretches: &[Stretch], start: usize) -> Intent {
        let intent = Intent::at(self.begin + span(start)).lease();
        stretches.iter().fold(intent, |intent, Stretch { from, until, rear, front }| {
            let [min, max] = LANES[self.arrival.lane].area(*rear, *front, 0.1);
            let what = self.frame.clone().area(min, max).exclusive();
            intent.claim_after(span(from - start), what, span(until - from))
        })
    }

    /// Who is in the way, where, and until when: the next try makes something of it.
    fn learn(&mut self, conflict: &Conflict, mine: &[Stretch], tried: &Motion) {
        self.tally.conflicts += 1;
        self.wish.learnt = self.now();
        for blocker in conflict.blockers() {
            let Some(theirs) = &blocker.holding else { continue };
            let RawTarget::Box { min, max, .. } = &theirs.target else { continue };
            let lane = &LANES[self.arrival.lane];
            let stands = theirs.window.duration() >= Micros::from(span(STANDS));
            if stands && blocker.agent.starts_with(lane.name) {
                self.wish.stops_behind(lane.along([[min[0], min[1]], [max[0], max[1]]]).0);
            } else if let Some(mine) = mine.get(usize::from(blocker.claim)) {
                self.wish.comes_later(tried, self.tick(theirs.window.end()).saturating_sub(mine.from));
            }
        }
    }

    fn now(&self) -> usize {
        self.tick(self.client.coordinator_time().0)
    }

    fn tick(&self, at: Time) -> usize {
        (at.since(self.begin).as_us() / (TICK_MS * 1_000)) as usize
    }
}
