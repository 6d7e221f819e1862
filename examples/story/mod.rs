//! What the measured stories share: chance from a seed, and figures of what was measured. Nothing of
//! preclaim is in here.
#![allow(dead_code, reason = "each story uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

/// Why a story could not be told.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Numbers that look drawn by chance and are the same for one seed (splitmix64, by Sebastiano Vigna).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0x5851_f42d_4c95_7f2d);
        dice.draw(); // neighbouring seeds begin far apart
        dice
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// A number from 0 to 1, without the 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time up to `most`.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.unit())
    }

    /// A time from an exponential distribution of this mean: what is between two independent events.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.unit()).ln())
    }
}

/// Measurements of one kind, for their percentiles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn add(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub(crate) fn add_ms(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    pub(crate) fn extend(&mut self, others: &Figures) {
        self.0.extend_from_slice(&others.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The least figure that so many of a hundred do not pass (nearest rank); 0 where there is none.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    pub(crate) fn worst(&self) -> f64 {
        self.percentile(100.0)
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.iter().sum::<f64>() / self.0.len() as f64 }
    }
}

/// Jain's index of fairness: 1 where all have the same, 1/n where one has everything.
/// (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, 1984.)
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// What the command line says: `--flag`, and `--key number`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    flags: BTreeSet<String>,
    numbers: BTreeMap<String, u64>,
}

impl Options {
    /// Reads the program's own arguments; what is neither of `flags` nor of `keys` is an error.
    pub(crate) fn from_args(flags: &[&str], keys: &[&str]) -> Result<Self, Failure> {
        Options::read(std::env::args().skip(1), flags, keys)
    }

    pub(crate) fn read(
        mut words: impl Iterator<Item = String>,
        flags: &[&str],
        keys: &[&str],
    ) -> Result<Self, Failure> {
        let mut options = Options::default();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").unwrap_or_default();
            if flags.contains(&name) {
                options.flags.insert(name.to_owned());
            } else if keys.contains(&name) {
                let number = words.next().and_then(|number| number.parse().ok());
                let number = number.ok_or_else(|| format!("{word} takes a whole number"))?;
                options.numbers.insert(name.to_owned(), number);
            } else {
                let all = [flags, keys].concat();
                return Err(format!("{word}: no such option; there are --{}", all.join(", --")).into());
            }
        }
        Ok(options)
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    pub(crate) fn number(&self, key: &str, otherwise: u64) -> u64 {
        self.numbers.get(key).copied().unwrap_or(otherwise)
    }
}

/// Figures in rows and columns, as text or as a table of Markdown. The first column is of words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Table(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    pub(crate) fn row(&mut self, cells: &[&dyn Display]) {
        self.0.push(cells.iter().map(|cell| cell.to_string()).collect());
    }

    pub(crate) fn print(&self, out: &mut impl Write, markdown: bool) -> io::Result<()> {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |at: usize| self.0.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        for (line, row) in self.0.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let cells: Vec<String> = cells.collect();
            if markdown {
                writeln!(out, "| {} |", cells.join(" | "))?;
                if line == 0 {
                    writeln!(out, "|---|{}", "---:|".repeat(columns - 1))?;
                }
            } else {
                writeln!(out, "  {}", cells.join("  "))?;
            }
        }
        Ok(())
    }
}
