//! What happened at the junction, in words, as a picture, and in numbers.

use std::io::{self, Write};
use std::time::Duration;

use preclaim::client::Conflict;
use preclaim::types::{IntentId, Time};
use preclaim::{Event, Grant};

use super::Failure;
use super::vehicle::{Action, Presence, STEP, Vehicle, collisions, presences};

const INTRODUCTION: &str = "\
A junction, four vehicles, one coordinator. Each vehicle is an agent with a QUIC connection of its own.
Every 100 ms it declares where it will be next, as moving regions, and drives only where it was granted.

            |  truck  :       |
            |    v    :       |
  ----------+                 +----------
                                 < van
  - - - - -                     - - - - -
   bus >
  ----------+                 +----------
            |         :   ^   |
            |         :  car  |

The bus and the car come to the line together, the truck just before the van. Who asks in an earlier slot
of 10 ms goes first; within a slot it is who is more urgent: bus and van 0.9, car and truck 0.2.
";

/// Prints what is to be seen.
pub(crate) fn introduce(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{INTRODUCTION}")?;
    out.flush()
}

/// What one vehicle lived through.
#[derive(Debug)]
pub(crate) struct Journey {
    who: &'static str,
    begin: Time,
    lines: Vec<Line>,
    /// Where it would have been, had it asked nobody.
    wished: Vec<Presence>,
    /// Where it was.
    granted: Vec<Presence>,
    answers: Vec<Duration>,
    grants: usize,
    /// Intents that were refused at first.
    refused: Vec<IntentId>,
    /// How many of these were granted after a revision.
    revised: usize,
}

/// Something that happened: when it was decided, to whom, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    at: Time,
    /// Within a slot: grants, alerts, conflicts.
    order: u8,
    who: &'static str,
    what: String,
}

impl Journey {
    pub(crate) fn new(vehicle: &Vehicle, begin: Time) -> Self {
        let mut start = begin + vehicle.enters;
        let mut wished = Vec::new();
        for action in vehicle.route() {
            wished.extend(presences(&action, start));
            start = wished.last().map_or(start, |last| last.end);
        }
        Journey {
            who: vehicle.name,
            begin,
            lines: Vec::new(),
            wished,
            granted: Vec::new(),
            answers: Vec::new(),
            grants: 0,
            refused: Vec::new(),
            revised: 0,
        }
    }

    pub(crate) fn answered(&mut self, after: Duration) {
        self.answers.push(after);
    }

    pub(crate) fn granted(&mut self, action: &Action, grant: &Grant) {
        self.grants += 1;
        self.granted.extend(presences(action, grant.start()));
        if self.refused.contains(&grant.id()) {
            self.revised += 1;
        }
        if action.crosses {
            let revised = if action.waits.is_zero() { "" } else { "revised to the offer, " };
            let from = self.clock(grant.start() + action.waits);
            let what = format!("granted    {revised}crosses from {from} to {}", self.clock(grant.end()));
            self.line(grant.decided_at(), 0, what);
        }
    }

    pub(crate) fn refused(&mut self, action: &Action, conflict: &Conflict, offer: Time) {
        self.refused.push(conflict.id());
        let Some(first) = conflict.blockers().first() else { return };
        let meetings = || conflict.blockers().iter().filter(|blocker| blocker.agent == first.agent);
        let from = self.clock(meetings().map(|blocker| blocker.start).min().unwrap_or(first.start));
        let until = self.clock(meetings().map(|blocker| blocker.end).max().unwrap_or(first.end));
        let ratio = first.ratio.map_or(String::new(), |ratio| format!(" (overlap {ratio:.2})"));
        let (who, offer) = (&first.agent, self.clock(offer + action.waits));
        let what = format!("conflict   {who} is in the way from {from} to {until}{ratio}, offered: {offer}");
        self.line(conflict.decided_at(), 2, what);
    }

    fn contested(&mut self, alert: &Event) {
        if let Event::Contested { at, by, wanted, .. } = alert {
            let what = format!("contested  {by} wants the same place at {}", self.clock(wanted.start()));
            self.line(*at, 1, what);
        }
    }

    fn line(&mut self, at: Time, order: u8, what: String) {
        self.lines.push(Line { at, order, who: self.who, what });
    }

    /// Seconds since the beginning.
    fn clock(&self, at: Time) -> String {
        clock(self.begin, at)
    }
}

fn clock(begin: Time, at: Time) -> String {
    let us = at.since(begin).as_us();
    format!("{}.{:02} s", us / 1_000_000, us % 1_000_000 / 10_000)
}

/// What all of them lived through together.
#[derive(Debug)]
pub(crate) struct Story {
    begin: Time,
    journeys: Vec<Journey>,
    alerts: usize,
}

impl Story {
    pub(crate) fn new(begin: Time) -> Self {
        Story { begin, journeys: Vec::new(), alerts: 0 }
    }

    pub(crate) fn add(&mut self, mut journey: Journey, alerts: Vec<Event>) {
        self.alerts += alerts.len();
        alerts.iter().for_each(|alert| journey.contested(alert));
        self.journeys.push(journey);
        self.journeys.sort_by_key(|journey| journey.who);
    }

    /// Prints it.
    pub(crate) fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        self.tell_events(out)?;
        self.draw(out)?;
        self.sum_up(out)
    }

    fn tell_events(&self, out: &mut impl Write) -> io::Result<()> {
        let mut lines: Vec<&Line> = self.journeys.iter().flat_map(|journey| &journey.lines).collect();
        lines.sort();
        writeln!(
            out,
            "decided  vehicle  what (steps on a lane of its own are granted too, and left out here)"
        )?;
        for Line { at, who, what, .. } in lines {
            writeln!(out, "{:>8}  {who:<7}  {what}", clock(self.begin, *at))?;
        }
        writeln!(out)
    }

    /// One row a vehicle, one column a step.
    fn draw(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "-  on its lane   .  waits at the line   #  crosses        ({STEP:?} a column)")?;
        for journey in &self.journeys {
            let end = journey.granted.iter().map(|presence| presence.end).max().unwrap_or(self.begin);
            let columns = end.since(self.begin).as_us() / STEP.as_micros() as u64;
            let row: String = (0..columns).map(|column| self.mark(journey, column)).collect();
            writeln!(out, "{:<7}  {}", journey.who, row)?;
        }
        writeln!(out)
    }

    fn mark(&self, journey: &Journey, column: u64) -> char {
        let middle = self.begin + STEP * column as u32 + STEP / 2;
        let here = |presence: &&Presence| presence.start <= middle && middle < presence.end;
        journey.granted.iter().find(here).map_or(' ', |presence| presence.mark)
    }

    fn sum_up(&self, out: &mut impl Write) -> io::Result<()> {
        let mut answers: Vec<Duration> =
            self.journeys.iter().flat_map(|journey| &journey.answers).copied().collect();
        answers.sort();
        let percentile = |percent: usize| {
            let rank = (answers.len() * percent).div_ceil(100).max(1);
            answers.get(rank - 1).map_or(0.0, |after| after.as_secs_f64() * 1e3)
        };
        let (p50, p99) = (percentile(50), percentile(99));
        writeln!(out, "declared             {}", answers.len())?;
        writeln!(out, "granted              {}", self.total(|journey| journey.grants))?;
        writeln!(out, "conflicts            {}", self.total(|journey| journey.refused.len()))?;
        writeln!(out, "revised and granted  {}", self.total(|journey| journey.revised))?;
        writeln!(out, "holders alerted      {}", self.alerts)?;
        writeln!(
            out,
            "declared to decided  p50 {p50:.1} ms, p99 {p99:.1} ms, the wait for the slot's end included"
        )?;
        let (wished, granted) = (self.collisions(|j| &j.wished), self.collisions(|j| &j.granted));
        writeln!(out, "collisions           {granted} (had nobody asked: {wished})")
    }

    /// Fails unless the junction showed what it is there to show.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let shown = [
            (self.total(|journey| journey.revised) > 0, "no refused intent was granted after a revision"),
            (self.alerts > 0, "no holder was told that it is in the way"),
            (self.collisions(|journey| &journey.wished) > 0, "there was nothing to coordinate"),
            (self.collisions(|journey| &journey.granted) == 0, "two vehicles were in one place at one time"),
        ];
        match shown.into_iter().find(|(as_promised, _)| !as_promised) {
            Some((_, what)) => Err(what.into()),
            None => Ok(()),
        }
    }

    fn total(&self, count: impl Fn(&Journey) -> usize) -> usize {
        self.journeys.iter().map(count).sum()
    }

    /// How many pairs of vehicles were in one place at one time.
    fn collisions(&self, of: impl Fn(&Journey) -> &[Presence]) -> usize {
        collisions(&self.journeys.iter().flat_map(|journey| of(journey).to_vec()).collect::<Vec<_>>()).len()
    }
}
