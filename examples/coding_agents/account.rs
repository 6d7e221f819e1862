//! What came of it, in numbers.

use std::io::{self, Write};

use super::Plan;
use super::schedule::Ideal;
use super::story::{Failure, Figures, Table};
use super::ways::{Run, Way};
use super::work::FILES;

/// The same work done in each way.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) ideal: Ideal,
    pub(crate) runs: Vec<Run>,
}

#[derive(Debug)]
pub(crate) struct Account {
    plan: Plan,
    rounds: Vec<Round>,
}

impl Round {
    /// A run's throughput in percent of the ideal.
    fn percent(&self, run: &Run) -> f64 {
        100.0 * self.ideal.makespan.as_secs_f64() / run.took.as_secs_f64()
    }
}

impl Account {
    pub(crate) fn new(plan: Plan) -> Self {
        Account { plan, rounds: Vec::new() }
    }

    pub(crate) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    pub(crate) fn introduce(&self, out: &mut impl Write) -> io::Result<()> {
        let load = self.plan.load;
        writeln!(
            out,
            "{} agents edit one repository of {FILES} files, {} jobs each.",
            load.agents, load.jobs
        )?;
        writeln!(out, "A job is {} s of thought and {} s on its files in the mean,", load.think, load.hold)?;
        writeln!(out, "run {} times as fast here; a slot of preclaim stays at 10 ms.\n", load.scale)?;
        out.flush()
    }

    pub(crate) fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        for round in &self.rounds {
            let Ideal { makespan, rule, first_come, longest_agent, busiest_file } = round.ideal;
            writeln!(
                out,
                "seed {}: the ideal is {makespan:.2?} ({rule}), first come first {first_come:.2?};",
                round.seed
            )?;
            writeln!(
                out,
                "  the longest agent alone {longest_agent:.2?}, the most used file {busiest_file:.2?}"
            )?;
        }
        writeln!(out)?;
        let mut table = Table::new(&[
            "way",
            "time",
            "jobs/s",
            "of the ideal",
            "worst seed",
            "at once",
            "edits",
            "lost",
            "readings changed",
            "redone",
        ]);
        for way in Way::ALL {
            let sum = |of: &dyn Fn(&Run) -> u64| self.runs(way).map(|(_, run)| of(run)).sum::<u64>();
            let (mut took, mut percent) = (Figures::default(), Figures::default());
            for (round, run) in self.runs(way) {
                took.add(run.took.as_secs_f64());
                percent.add(round.percent(run));
            }
            let jobs = sum(&|run| run.jobs as u64) as f64 / (took.mean() * took.count() as f64);
            table.row(&[
                &way.name(),
                &format!("{:.2} s", took.mean()),
                &format!("{jobs:.1}"),
                &format!("{:.0} %", percent.mean()),
                &format!("{:.0} %", percent.percentile(0.0)),
                &self.runs(way).map(|(_, run)| run.tally.most_editing).max().unwrap_or(0),
                &sum(&|run| run.tally.acknowledged),
                &sum(&|run| run.tally.lost),
                &sum(&|run| run.tally.changed),
                &sum(&|run| run.redone),
            ]);
        }
        table.print(out, self.plan.markdown)
    }

    fn runs(&self, way: Way) -> impl Iterator<Item = (&Round, &Run)> {
        self.rounds.iter().flat_map(move |round| {
            round.runs.iter().filter(move |run| run.way == way).map(move |run| (round, run))
        })
    }

    /// Fails unless it showed what it is there to show.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let lost = |way| self.runs(way).map(|(_, run)| run.tally.lost + run.tally.changed).sum::<u64>();
        let percent = |way| {
            let mut figures = Figures::default();
            self.runs(way).for_each(|(round, run)| figures.add(round.percent(run)));
            figures.mean()
        };
        let best = percent(Way::WhenNeeded).max(percent(Way::JustBefore)).max(percent(Way::Ahead));
        let shown = [
            (lost(Way::NoControl) > 0, "nothing was lost without control"),
            (lost(Way::WhenNeeded) + lost(Way::JustBefore) + lost(Way::Ahead) == 0, "an edit was lost"),
            (best > 2.0 * percent(Way::RepositoryLock), "one lock does it as well"),
            (best >= self.plan.goal as f64, "it is too far from the ideal"),
        ];
        match shown.into_iter().find(|(as_promised, _)| !as_promised) {
            Some((_, what)) => Err(what.into()),
            None => Ok(()),
        }
    }
}
