//! What is measured, and the tables of it.

use std::io::{self, Write};

use super::Failure;
use super::story::{Figures, Table};
use super::world::{Ring, Turns};

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) ring_size: usize,
    pub(crate) rounds: u64,
    pub(crate) mutexes: Ring,
    pub(crate) leases: Ring,
    pub(crate) intents: Ring,
    pub(crate) resources: u64,
    /// By the way in which the turns were taken.
    pub(crate) turns: Vec<(&'static str, Turns)>,
    pub(crate) sums: Vec<Sum>,
}

/// The name of preclaim's row among the turns and the sums.
pub(crate) const PRECLAIM: &str = "preclaim";

/// What two actions at one moment came to, over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) way: &'static str,
    /// In how many rounds both were in effect at once.
    pub(crate) both_at_once: u64,
    /// In how many somebody was told of the other.
    pub(crate) told: u64,
    /// In how many of these the offer was the very end of the other's action.
    pub(crate) offered_the_end: u64,
    /// Where the valve stood after each round.
    pub(crate) stood: Figures,
}

impl Account {
    pub(crate) fn print(&self, out: &mut impl Write, markdown: bool) -> io::Result<()> {
        let (size, rounds) = (self.ring_size, self.rounds);
        writeln!(
            out,
            "A ring: {size} agents, each holds one thing and wants the next one's, {rounds} times.\n"
        )?;
        self.rings().print(out, markdown)?;
        let agents = self.resources + 2;
        writeln!(out, "\nTurns: {agents} agents for {} resources.\n", self.resources)?;
        self.fairness().print(out, markdown)?;
        writeln!(out, "\nThe sum of two actions: +20 % and -30 % on one valve (at 100 %) at one moment.\n")?;
        self.valve().print(out, markdown)?;
        writeln!(out)
    }

    fn rings(&self) -> Table {
        let mut table = Table::new(&[
            "",
            "gave up on a time-out",
            "told of the ring",
            "told after (median, worst)",
            "a round (median, worst)",
        ]);
        let ways = [
            ("mutexes with a time-out", &self.mutexes),
            ("preclaim, two leases", &self.leases),
            ("preclaim, one intent", &self.intents),
        ];
        for (way, ring) in ways {
            let (told, rounds) = ring.figures();
            let after = if told.count() > 0 { in_ms(&told) } else { "-".to_owned() };
            table.row(&[&way, &ring.time_outs(), &ring.times_told(), &after, &in_ms(&rounds)]);
        }
        table
    }

    fn fairness(&self) -> Table {
        let mut table =
            Table::new(&["", "turns of each agent", "Jain's index", "wait, median", "99 %", "longest"]);
        for (way, turns) in &self.turns {
            let mut shares = turns.shares();
            shares.sort_unstable();
            let shares = shares.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
            let (waits, jain) = (turns.waits(), format!("{:.3}", turns.fairness()));
            let ms = [50.0, 99.0, 100.0].map(|percent| format!("{:.0} ms", waits.percentile(percent)));
            table.row(&[way, &shares, &jain, &ms[0], &ms[1], &ms[2]]);
        }
        table
    }

    fn valve(&self) -> Table {
        let mut table =
            Table::new(&["", "both in effect at once", "one told of the other", "the valve afterwards"]);
        for sum in &self.sums {
            let [least, most] = [0.0, 100.0].map(|percent| sum.stood.percentile(percent));
            let stood =
                if least == most { format!("{least:.0} %") } else { format!("{least:.0} or {most:.0} %") };
            let of = |count| format!("{count} of {}", sum.stood.count());
            table.row(&[&sum.way, &of(sum.both_at_once), &of(sum.told), &stood]);
        }
        table
    }

    /// Whether the effect is there.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(Failure::from(what)) };
        let rounds = self.rounds as usize;
        expect(self.leases.times_told() == rounds, "of each ring one was to be told, and one alone")?;
        expect(self.intents.times_told() == 0, "atomic intents made a ring")?;
        expect(self.mutexes.time_outs() >= self.rounds, "each ring of mutexes was to run into a time-out")?;
        for (way, turns) in &self.turns {
            let starves = turns.shares().contains(&0);
            expect(*way != PRECLAIM || !starves, "an agent starved")?;
            expect(*way != PRECLAIM || turns.fairness() > 0.9, "the turns were shared out unfairly")?;
        }
        for sum in &self.sums {
            let with = sum.way == PRECLAIM;
            let rounds = sum.stood.count() as u64;
            let (at_once, told) = if with { (0, rounds) } else { (rounds, 0) };
            expect(
                sum.both_at_once == at_once,
                "how many actions were in effect at once is not as expected",
            )?;
            expect(sum.told == told, "somebody was told, or not told, against expectation")?;
            expect(sum.offered_the_end == told, "the offer was not the end of the other's action")?;
        }
        Ok(())
    }
}

fn in_ms(figures: &Figures) -> String {
    format!("{:.0}, {:.0} ms", figures.median(), figures.worst())
}
