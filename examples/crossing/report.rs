//! What happened at the junction, in numbers.

use std::io::{self, Write};

use super::measure::{Measured, Tally, total};
use super::story::Failure;
use super::traffic::Density;

/// Fewer emergency brakings than without, at least.
const FEWER: f64 = 0.89;
/// Half of all decisions take no longer, ms.
const DECIDED_MS: f64 = 15.0;

/// One density: brakes on sight, one lock, preclaim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) sight: Measured,
    pub(crate) lock: Measured,
    pub(crate) preclaim: Measured,
    pub(crate) tally: Tally,
}

/// What was measured, by density.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<(Density, Row)>,
}

impl Report {
    pub(crate) fn new(densities: &[Density]) -> Self {
        Report { rows: densities.iter().map(|density| (*density, Row::default())).collect() }
    }

    pub(crate) fn row(&mut self, density: Density) -> Option<&mut Row> {
        self.rows.iter_mut().find(|(it, _)| *it == density).map(|(_, row)| row)
    }

    /// Prints it for people.
    pub(crate) fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "                       emergency brakings   collisions   mean delay, s   vehicles")?;
        writeln!(out, "traffic  how           median      worst    median worst  median worst")?;
        for (density, row) in &self.rows {
            for (how, it) in [("on sight", &row.sight), ("one lock", &row.lock), ("preclaim", &row.preclaim)]
            {
                writeln!(
                    out,
                    "{:<7}  {how:<8}      {:>6.0}      {:>5.0}    {:>6.0} {:>5.0}  {:>6.2} {:>5.2}   {:>8}",
                    density.name,
                    it.emergencies.median(),
                    it.emergencies.worst(),
                    it.collisions.median(),
                    it.collisions.worst(),
                    it.delay_s.median(),
                    it.delay_s.worst(),
                    it.vehicles
                )?;
            }
        }
        let tally = self.tally();
        let answers = &tally.answers_ms;
        writeln!(out)?;
        writeln!(out, "declared             {}", answers.count())?;
        writeln!(out, "conflicts            {}, revised and granted {}", tally.conflicts, tally.revised)?;
        writeln!(out, "answered too late    {} (the vehicle went on as it had been granted)", tally.late)?;
        writeln!(
            out,
            "declared to decided  p50 {:.1} ms, p99 {:.1} ms, worst {:.1} ms, the wait for the slot's end included",
            answers.median(),
            answers.percentile(99.0),
            answers.worst()
        )?;
        let (without, with) = self.emergencies();
        writeln!(
            out,
            "emergency brakings   {without} without, {with} with preclaim: {}",
            fewer(without, with)
        )
    }

    /// Prints the table of docs/STORIES.md.
    pub(crate) fn markdown(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "| traffic | how | emergency brakings: median, worst | collisions: median, worst | mean delay, s: median, worst | decided, ms: p50, p99 |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for (density, row) in &self.rows {
            let answers = &row.tally.answers_ms;
            let decided = format!("{:.1}, {:.1}", answers.median(), answers.percentile(99.0));
            for (how, it, decided) in [
                ("on sight", &row.sight, "–"),
                ("one lock", &row.lock, "–"),
                ("preclaim", &row.preclaim, &*decided),
            ] {
                writeln!(
                    out,
                    "| {}, {}/h | {how} | {:.0}, {:.0} | {:.0}, {:.0} | {:.2}, {:.2} | {decided} |",
                    density.name,
                    density.per_hour,
                    it.emergencies.median(),
                    it.emergencies.worst(),
                    it.collisions.median(),
                    it.collisions.worst(),
                    it.delay_s.median(),
                    it.delay_s.worst(),
                )?;
            }
        }
        let (without, with) = self.emergencies();
        writeln!(
            out,
            "\nEmergency brakings in all: {without} without, {with} with preclaim, {}.",
            fewer(without, with)
        )
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.rows.iter().for_each(|(_, row)| tally.add(&row.tally));
        tally
    }

    /// Emergency brakings in all, without and with preclaim.
    pub(crate) fn emergencies(&self) -> (f64, f64) {
        let sum =
            |of: fn(&Row) -> &Measured| self.rows.iter().map(|(_, row)| total(&of(row).emergencies)).sum();
        (sum(|row| &row.sight), sum(|row| &row.preclaim))
    }

    /// Collisions with preclaim.
    pub(crate) fn collisions(&self) -> f64 {
        self.rows.iter().map(|(_, row)| total(&row.preclaim.collisions)).sum()
    }

    /// Fails unless the effect is there. How fast decisions are is a matter of how busy the machine is: that is
    /// looked at where `measured` says that it is quiet.
    pub(crate) fn check(&self, measured: bool) -> Result<(), Failure> {
        let (without, with) = self.emergencies();
        let slower = |(_, row): &(Density, Row)| row.preclaim.delay_s.mean() > row.lock.delay_s.mean();
        let tally = self.tally();
        let shown = [
            (self.collisions() == 0.0, "two vehicles were in one place at one time"),
            (without > 0.0, "there was nothing to coordinate"),
            (with <= without * (1.0 - FEWER), "not so many fewer emergency brakings"),
            (!self.rows.iter().any(slower), "more delay than with one lock"),
            (tally.revised > 0, "no conflict was followed by a revised motion that was granted"),
            (!measured || tally.answers_ms.median() <= DECIDED_MS, "decisions take longer than they may"),
        ];
        match shown.into_iter().find(|(as_promised, _)| !as_promised) {
            None => Ok(()),
            Some((_, but)) => Err(but.into()),
        }
    }
}

fn fewer(without: f64, with: f64) -> String {
    if without > 0.0 {
        format!("{:.0} % fewer", (1.0 - with / without) * 100.0)
    } else {
        "none to avoid".into()
    }
}
