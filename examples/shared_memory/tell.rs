//! What came of it, in words and tables.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::agent::LEASE;
use super::crash::Crash;
use super::story::Figures;
use super::team::{Control, Score};
use super::{Failure, Options, RATES};

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
pub(crate) struct Table(BTreeMap<(u64, Control), Cell>);

fn percent(rate: f64) -> u64 {
    (rate * 100.0).round() as u64
}

impl Table {
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

    fn row(&self, rate: f64) -> [String; 9] {
        let speed = |control| format!("{:.1}", self.speed(rate, control));
        [
            format!("{} %", percent(rate)),
            speed(Control::Nothing),
            format!("{:.0} %", self.lost(rate, Control::Nothing)),
            speed(Control::Memory),
            speed(Control::Document),
            speed(Control::Expects),
            format!("{:.2}", self.thoughts(rate, Control::Expects)),
            speed(Control::Version),
            format!("{:.2}", self.thoughts(rate, Control::Version)),
        ]
    }

    pub(crate) fn tell_rate(&self, rate: f64, out: &mut impl Write) -> io::Result<()> {
        let [rate, nothing, lost, memory, document, expects, thoughts, version, thinks] = self.row(rate);
        writeln!(
            out,
            "{rate:>6}  {nothing:>9} {lost:>6}  {memory:>9}  {document:>9}  {expects:>9} {thoughts:>9}  \
             {version:>9} {thinks:>9}"
        )?;
        out.flush()
    }

    /// The table of docs/STORIES.md.
    pub(crate) fn markdown(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "| two want the same | no control, tasks/s | of these lost | one claim on the memory, tasks/s | \
             a claim a document, tasks/s | `expects`, tasks/s | thoughts a task | row version, tasks/s | \
             thoughts a task |"
        )?;
        writeln!(out, "|{}", "---|".repeat(9))?;
        for rate in RATES {
            writeln!(out, "| {} |", self.row(rate).join(" | "))?;
        }
        writeln!(out)?;
        self.conclude(out)
    }

    pub(crate) fn conclude(&self, out: &mut impl Write) -> io::Result<()> {
        for (other, name) in
            [(Control::Memory, "one claim on the memory"), (Control::Document, "a claim a document")]
        {
            let ratios: Vec<String> = RATES
                .iter()
                .map(|rate| format!("{:.2} at {} %", self.ratio(*rate, other), percent(*rate)))
                .collect();
            writeln!(out, "expects is as fast as {name}, times: {}", ratios.join(", "))?;
            let crossings = self.crossings(other);
            match crossings.is_empty() {
                true => writeln!(out, "  the curves do not cross from 0 to 50 %")?,
                false => writeln!(out, "  the curves cross at {}", crossings.join(" and "))?,
            }
        }
        Ok(())
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

pub(crate) fn introduce(options: Options, out: &mut impl Write) -> io::Result<()> {
    let (least, most) = (options.think / 2, options.think * 3 / 2);
    writeln!(
        out,
        "{} agents keep one memory: documents in SQLite, found by a vector of their words. Each takes a task (add, \
         update),\nreads the document, thinks, and writes it back. 1 ms stands for 100 ms of a language model: it \
         thinks {least:?} to {most:?}.\nA slot of 10 ms weighs as much as a second would, so all figures with preclaim are \
         on the careful side.\n",
        options.agents
    )?;
    writeln!(
        out,
        "{:>6}  {:^16}  {:^9}  {:^9}  {:^19}  {:^19}",
        "two", "no control", "one claim", "a claim a", "expects", "row version alone"
    )?;
    writeln!(
        out,
        "{:>6}  {:>9} {:>6}  {:>9}  {:>9}  {:>9} {:>9}  {:>9} {:>9}",
        "want", "tasks/s", "lost", "on all", "document", "tasks/s", "thoughts", "tasks/s", "thoughts"
    )?;
    out.flush()
}

pub(crate) fn crash(crash: &Crash, out: &mut impl Write) -> io::Result<()> {
    let how = match crash.control {
        Control::Document => "under its claim",
        _ => "without a claim",
    };
    writeln!(
        out,
        "killed while it thinks {how}: of {} tasks it had done {}, another did the {} that it left, {} are lost; no \
         task of the others took more than {} ms (a lease runs out in {} ms)",
        crash.tasks,
        crash.done_by_it,
        crash.taken_over,
        crash.lost,
        crash.longest.as_millis(),
        LEASE.as_millis(),
    )
}
