//! What came of it, in words and tables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::agent::LEASE;
use super::crash::Crash;
use super::story::{Figures, Table};
use super::team::{Control, Score};
use super::{Failure, RATES, Scale};

/// Two speeds that differ by less are the same, as well as can be told.
const EVEN: f64 = 0.03;

/// The runs of one kind, together.
#[derive(Debug, Default)]
struct Cell {
    per_second: Figures,
    acknowledged: usize,
    lost: usize,
    misplaced: usize,
    thoughts: usize,
}

/// All runs, by what was wanted at once (in hundredths) and control.
#[derive(Debug, Default)]
pub(crate) struct Account(BTreeMap<(u64, Control), Cell>);

fn percent(rate: f64) -> u64 {
    (rate * 100.0).round() as u64
}

impl Account {
    pub(crate) fn add(&mut self, rate: f64, control: Control, score: Score) {
        let cell = self.0.entry((percent(rate), control)).or_default();
        cell.per_second.add(score.per_second);
        cell.acknowledged += score.acknowledged;
        cell.lost += score.lost;
        cell.misplaced += score.misplaced;
        cell.thoughts += score.done.thoughts;
    }

    fn speed(&self, rate: f64, control: Control) -> f64 {
        self.0.get(&(percent(rate), control)).map_or(0.0, |cell| cell.per_second.median())
    }

    /// How many times as fast `expects` is as another.
    fn ratio(&self, rate: f64, other: Control) -> f64 {
        self.speed(rate, Control::Expects) / self.speed(rate, other).max(f64::MIN_POSITIVE)
    }

    /// Thoughts for each task that was done.
    fn thoughts(&self, rate: f64, control: Control) -> f64 {
        let cell = self.0.get(&(percent(rate), control));
        cell.map_or(0.0, |cell| cell.thoughts as f64 / cell.acknowledged.max(1) as f64)
    }

    /// How many of a hundred acknowledged writes are gone.
    fn lost(&self, rate: f64, control: Control) -> f64 {
        let cell = self.0.get(&(percent(rate), control));
        cell.map_or(0.0, |cell| 100.0 * cell.lost as f64 / cell.acknowledged.max(1) as f64)
    }

    /// The table of all runs, and where the curves cross.
    pub(crate) fn tell(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&[
            "two want the same",
            "no control",
            "of these lost",
            "claim on all",
            "claim a document",
            "expects",
            "thoughts a task",
            "row version",
            "thoughts a task",
        ]);
        for rate in RATES {
            let speed = |control| format!("{:.1}/s", self.speed(rate, control));
            let thoughts = |control| format!("{:.2}", self.thoughts(rate, control));
            table.row(&[
                &format!("{} %", percent(rate)),
                &speed(Control::Nothing),
                &format!("{:.0} %", self.lost(rate, Control::Nothing)),
                &speed(Control::Memory),
                &speed(Control::Document),
                &speed(Control::Expects),
                &thoughts(Control::Expects),
                &speed(Control::Version),
                &thoughts(Control::Version),
            ]);
        }
        table.print(out, markdown)?;
        writeln!(out)?;
        let mut table = Table::new(&[
            "expects is so many times as fast as",
            "0 %",
            "5 %",
            "10 %",
            "15 %",
            "25 %",
            "50 %",
            "they cross at",
        ]);
        for (other, name) in [(Control::Memory, "a claim on all"), (Control::Document, "a claim a document")]
        {
            let ratios = RATES.map(|rate| format!("{:.2}", self.ratio(rate, other)));
            let [a, b, c, d, e, f] = &ratios;
            let crossings = self.crossings(other);
            let cross = if crossings.is_empty() { "nowhere".to_owned() } else { crossings.join(", ") };
            table.row(&[&name, a, b, c, d, e, f, &cross]);
        }
        table.print(out, markdown)?;
        writeln!(out)?;
        out.flush()
    }

    /// Where one curve passes the other, by a straight line between two rates at which they surely differ.
    fn crossings(&self, other: Control) -> Vec<String> {
        let ahead: Vec<(f64, f64)> =
            RATES.iter().map(|rate| (*rate, self.ratio(*rate, other) - 1.0)).collect();
        let sure: Vec<(f64, f64)> = ahead.into_iter().filter(|(_, ahead)| ahead.abs() > EVEN).collect();
        let crossing = |pair: &[(f64, f64)]| {
            let &[(from, before), (to, after)] = pair else { return None };
            let at = from + (to - from) * before / (before - after);
            (before * after < 0.0).then(|| format!("{} %", percent(at)))
        };
        sure.windows(2).filter_map(crossing).collect()
    }

    /// Fails where the runs do not show what they are there to show.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for ((rate, control), cell) in &self.0 {
            let (gone, some) = (cell.lost + cell.misplaced, *rate >= 25);
            match control {
                Control::Nothing if some && cell.lost == 0 => {
                    return Err("nothing was lost without control".into());
                }
                Control::Nothing => {}
                _ if gone > 0 => return Err(format!("{control:?} lost writes at {rate} %: {cell:?}").into()),
                _ => {}
            }
        }
        match RATES.iter().find(|rate| **rate <= 0.15 && self.ratio(**rate, Control::Memory) < 1.5) {
            Some(rate) => Err(format!("expects is not ahead of one claim at {} %", percent(*rate)).into()),
            None => Ok(()),
        }
    }
}

pub(crate) fn introduce(scale: &Scale, out: &mut impl Write) -> io::Result<()> {
    let Scale { agents, period, think, runs, seed } = scale;
    writeln!(
        out,
        "{agents} agents keep one memory: documents in SQLite, found by a vector of their words. Each takes a task (add, \
         update),\nreads the document, thinks, and writes it back. 1 ms stands for 100 ms of a language model: it thinks \
         {:?} to {:?}.\nA slot of 10 ms weighs as much here as a second would. Tasks a second in {period:?}, the median of \
         {runs} (seed {seed}), by how\nlikely it is that two agents want the same document:\n",
        *think / 2,
        *think * 3 / 2,
    )?;
    out.flush()
}

pub(crate) fn crashes(crashes: &[Crash], markdown: bool, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new(&[
        "killed while it thinks",
        "tasks",
        "done by it",
        "left, done by another",
        "lost",
        "longest of the others",
        "a lease ends after",
    ]);
    for crash in crashes {
        let how = match crash.control {
            Control::Document => "under its claim",
            _ => "without a claim",
        };
        let (longest, lease) = (crash.longest.as_millis(), LEASE.as_millis());
        let (longest, lease) = (format!("{longest} ms"), format!("{lease} ms"));
        table.row(&[&how, &crash.tasks, &crash.done_by_it, &crash.taken_over, &crash.lost, &longest, &lease]);
    }
    table.print(out, markdown)
}
