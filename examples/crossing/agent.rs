//! The vehicles as agents: all of this story that uses preclaim. To copy: [`Agent::drive`].
//!
//! In each slot of 10 ms a vehicle declares its motion until it stands, as moving regions. These cover what it does
//! anyway and what it would rather do, from the next tick but one on; until then both are the same. So whatever
//! the answer is, and however late it comes, what the vehicle does next is within what it holds.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use preclaim::client::{Conflict, Place, Revision};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Feasibility, MotionLimits};
use preclaim::resolver::Rules;
use preclaim::types::{Micros, RawTarget, Slot, Time};
use preclaim::wire::Refusal;
use preclaim::{Client, Grant, Intent, Outcome, millis, path};
use tokio::{sync::Mutex, task::JoinSet, time::sleep_until};

use super::Case;
use super::measure::Tally;
use super::plan::{Motion, STANDS, Stretch, Wish};
use super::road::{LANES, TICK_MS, Track};
use super::story::Failure;
use super::traffic::Arrival;

/// How long it minds what a conflict has taught it, in ticks.
const MINDS: usize = 15;

struct Agent {
    client: Client,
    /// The junction's frame of coordinates.
    frame: Place,
    /// When the first tick begins, by the coordinator's clock; ticks begin and end with its slots.
    begin: Time,
    arrival: Arrival,
    /// Whose turn it is to enter the lane.
    turn: Arc<Mutex<()>>,
    wish: Wish,
    learnt: usize,
    tally: Tally,
}

impl Agent {
    /// Drives from where the vehicle comes in sight to where it leaves.
    async fn drive(mut self, case: usize) -> Result<(usize, Track, Tally), Failure> {
        let (grant, mut motion) = self.enter().await?;
        let mut refused = false;
        while !motion.has_left(self.now()) {
            // What the open slot grants takes the place of the old grant at its end, a tick from now. What that
            // leaves free nobody else can have for another slot: from there on the new one has to cover it.
            let start = self.now() + 2;
            if self.now() >= self.learnt + MINDS {
                self.wish = Wish::FREE;
            }
            let wished = motion.revised(start, &self.wish);
            let stretches = motion.covers(wished.as_ref().unwrap_or(&motion), start);
            let asked = Instant::now();
            let revision = grant.revise(self.intent(&stretches, start)).await?;
            self.tally.answers_ms.add_ms(asked.elapsed());
            match (revision, wished) {
                // Up to `start` both motions are one, so it can still go over to the new one.
                (Revision::Granted, Some(wished)) if self.now() < start => {
                    motion = wished;
                    self.tally.granted += 1;
                    self.tally.revised += usize::from(mem::take(&mut refused));
                }
                (Revision::Granted, None) => self.tally.granted += 1,
                (Revision::Granted, Some(_)) => self.tally.late += 1,
                (Revision::Conflict(conflict), wished) if conflict.kept() => {
                    refused = true;
                    self.learn(&conflict, &stretches, wished.as_ref().unwrap_or(&motion));
                }
                // This machine was slow: the slot was over before the declaration arrived.
                (Revision::Rejected(why), _) if why.reason() == Refusal::TooLate && why.kept() => {
                    self.tally.late += 1;
                }
                (other, _) => return Err(format!("it lost its way: {other:?} {stretches:#?}").into()),
            }
        }
        grant.release().await?;
        Ok((case, motion.into_track(), self.tally))
    }

    /// Asks for the way to its line, from when it is due or as soon after that as there is room.
    async fn enter(&mut self) -> Result<(Grant, Motion), Failure> {
        sleep_until(self.client.instant(self.begin + ms(self.arrival.due)).into()).await;
        let turn = Arc::clone(&self.turn);
        let _mine = turn.lock().await;
        let mut tick = self.arrival.due;
        loop {
            tick = tick.max(self.now() + 2);
            let motion = Motion::enters(&self.arrival, tick, &self.wish);
            let stretches = motion.covers(&motion, tick);
            match self.client.declare(self.intent(&stretches, tick)).await? {
                Outcome::Granted(grant) => return Ok((grant, motion)),
                Outcome::Conflict(conflict) => self.learn(&conflict, &stretches, &motion),
                Outcome::Rejected(why) if why.reason() == Refusal::TooLate => self.tally.late += 1,
                other => return Err(format!("it cannot enter: {other:?}").into()),
            }
        }
    }

    /// Moving regions, one window after the other; the last is where it stands, held as a lease.
    fn intent(&self, stretches: &[Stretch], start: usize) -> Intent {
        let intent = Intent::at(self.begin + ms(start)).lease();
        stretches.iter().fold(intent, |intent, Stretch { from, until, rear, front }| {
            let [min, max] = LANES[self.arrival.lane].area(*rear, *front, 0.1);
            let what = self.frame.clone().area(min, max).exclusive();
            intent.claim_after(ms(from - start), what, ms(until - from))
        })
    }

    /// Who is in the way, where, and until when: the next try makes something of it.
    fn learn(&mut self, conflict: &Conflict, mine: &[Stretch], tried: &Motion) {
        self.tally.conflicts += 1;
        self.learnt = self.now();
        for blocker in conflict.blockers() {
            let Some(theirs) = &blocker.holding else { continue };
            let RawTarget::Box { min, max, .. } = &theirs.target else { continue };
            let lane = &LANES[self.arrival.lane];
            let stands = theirs.window.duration() >= Micros::from(ms(STANDS));
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

fn ms(ticks: usize) -> std::time::Duration {
    millis(ticks as u64 * TICK_MS)
}

/// Several junctions at one coordinator, each with a frame of its own and agents that each have a connection.
pub(crate) async fn junctions(cases: &[Case]) -> Result<Vec<(Vec<Track>, Tally)>, Failure> {
    let mut config = CoordinatorConfig::in_memory(Rules::default())?;
    config.admission = Arc::new(Feasibility::new([(path("junction")?.path().clone(), LIMITS)]));
    let coordinator = Coordinator::bind(config)?.spawn();
    let mut agents = Vec::new();
    for (case, Case { arrivals, .. }) in cases.iter().enumerate() {
        let turns: [Arc<Mutex<()>>; LANES.len()] = Default::default();
        for (number, arrival) in arrivals.iter().enumerate() {
            let name = format!("{}-{case}-{number}", LANES[arrival.lane].name);
            let client = coordinator.client(name).connect().await?;
            let (frame, turn) = (path(&format!("junction/{case}"))?, Arc::clone(&turns[arrival.lane]));
            let (arrival, tally, begin) = (arrival.clone(), Tally::default(), Time::ZERO);
            agents.push((
                case,
                Agent { client, frame, begin, arrival, turn, wish: Wish::FREE, learnt: 0, tally },
            ));
        }
    }
    let Some((_, first)) = agents.first() else { return Ok(Vec::new()) };
    let slot = Micros::from_ms(TICK_MS);
    let begin = Slot::of(first.client.coordinator_time().0 + millis(300), slot).opens(slot);
    let mut driving = JoinSet::new();
    for (case, agent) in agents {
        driving.spawn(Agent { begin, ..agent }.drive(case));
    }
    let mut driven = vec![(Vec::new(), Tally::default()); cases.len()];
    while let Some(ended) = driving.join_next().await {
        let (case, track, tally) = ended??;
        driven[case].0.push(track);
        driven[case].1.add(&tally);
    }
    coordinator.stop().await?;
    Ok(driven)
}

/// A region is up to 4 m longer than its vehicle, so that its middle is up to 2 m from where the vehicle is.
const LIMITS: MotionLimits = MotionLimits {
    max_speed_um_s: Some(20_000_000),
    max_acceleration_um_s2: Some(8_000_000),
    tolerance_um: Some(2_000_000),
};
