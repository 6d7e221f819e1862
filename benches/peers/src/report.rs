//! What was measured, as tables of Markdown.

use std::fmt::Write;
use std::time::Duration;

use crate::claims::Manner;
use crate::drive::Tally;
use crate::ideal;
use crate::measure::{jain, quantile};
use crate::options::Options;
use crate::roster::System;
use crate::work::{self, Workload};

/// One system at one workload.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) system: System,
    pub(crate) workload: Workload,
    manner: Option<Manner>,
    tally: Tally,
    /// The share of the best list schedule's rounds that was done; of (d) and (e) alone.
    of_ideal: Option<f64>,
}

impl Row {
    pub(crate) fn new(system: System, workload: Workload, manner: Option<Manner>, tally: Tally) -> Self {
        let of_ideal = has_ideal(workload).then(|| {
            let ideal = ideal::rounds_a_second(workload);
            tally.waits.len() as f64 / tally.measured.as_secs_f64() / ideal.max(f64::MIN_POSITIVE)
        });
        Row { system, workload, manner, tally, of_ideal }
    }

    pub(crate) fn title(&self) -> String {
        let how = match (self.workload, self.manner) {
            (_, None | Some(Manner::AtOnce)) => return self.system.title(),
            (_, Some(Manner::InLine)) => "in line",
            (_, Some(Manner::NextWindow(_))) => "next window",
            (_, Some(Manner::Ahead(_))) => "declared ahead",
        };
        format!("{}, {how}", self.system.title())
    }

    pub(crate) fn quantile_ms(&self, of: f64) -> f64 {
        millis(quantile(&self.tally.waits, of))
    }

    pub(crate) fn jain(&self) -> f64 {
        jain(&self.tally.shares)
    }

    /// How many cores others kept busy meanwhile, kernel threads included.
    fn others(&self) -> f64 {
        let [servers, own, all] = self.tally.cpu;
        ((all - servers - own) / self.tally.measured.as_secs_f64()).max(0.0)
    }

    fn rate(&self) -> f64 {
        self.tally.waits.len() as f64 / self.tally.measured.as_secs_f64()
    }

    /// In one line, while it goes on.
    pub(crate) fn line(&self) -> String {
        let ideal = self.of_ideal.map(|share| format!(", {:.1} % of ideal", share * 100.0));
        format!(
            "{} | {}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, Jain {:.3}, {:.2} requests, {} cut, others {:.2}{}{}",
            self.workload.name(),
            self.title(),
            self.rate(),
            self.quantile_ms(0.5),
            self.quantile_ms(0.99),
            self.jain(),
            self.tally.requests_per_grant,
            self.tally.cut,
            self.others(),
            ideal.unwrap_or_default(),
            if self.tally.violations > 0 {
                format!(", {} VIOLATIONS", self.tally.violations)
            } else {
                String::new()
            },
        )
    }

    /// What may never be.
    pub(crate) fn complaint(&self) -> Option<String> {
        let what = match (self.tally.violations, self.tally.waits.len()) {
            (0, 0) => "no grant".to_owned(),
            (0, _) => return None,
            (violations, _) => format!("{violations} times somebody held what another held"),
        };
        Some(format!("{}, {}: {what}", self.workload.title(), self.title()))
    }

    fn cells(&self, ratio: Option<f64>) -> Vec<String> {
        let tally = &self.tally;
        let each = |seconds: f64| format!("{:.0}", seconds * 1e6 / tally.waits.len().max(1) as f64);
        let mut cells = vec![self.title(), format!("{:.0}", self.rate())];
        cells.extend([0.5, 0.99, 0.999, 1.0].map(|of| shown(self.quantile_ms(of))));
        cells.push(shown(millis(tally.longest)));
        cells.push(format!("{:.3}", self.jain()));
        cells.push(format!("{:.2}", tally.requests_per_grant));
        cells.push(each(tally.cpu[0]));
        cells.push(each(tally.cpu[1]));
        cells.push(tally.cut.to_string());
        cells.push(tally.violations.to_string());
        if beside(self.workload).is_some() {
            cells.push(ratio.map_or("".into(), |ratio| format!("{ratio:.2}")));
        }
        if let Some(share) = self.of_ideal {
            cells.push(format!("{:.1} %", share * 100.0));
        }
        cells
    }
}

/// What the p99 of each line is compared with, as the table's head says it.
fn beside(workload: Workload) -> Option<&'static str> {
    match workload {
        Workload::Contended => Some("p99 over the ideal's"),
        Workload::Released => Some("p99 of Redis, as durable, over it"),
        Workload::Windows => Some("p99 of PostgreSQL over it"),
        _ => None,
    }
}

fn ratio(row: &Row, rows: &[&Row]) -> Option<f64> {
    let synced = row.system.syncs();
    let (other, is_over) = match row.workload {
        Workload::Contended => (System::Ideal, true),
        Workload::Released => (System::Redis { synced }, false),
        Workload::Windows => (System::Exclusion, false),
        _ => return None,
    };
    let (own, other) =
        (row.quantile_ms(0.99), rows.iter().find(|row| row.system == other)?.quantile_ms(0.99));
    Some(if is_over { own / other } else { other / own })
}

/// Whether its throughput is compared with the best list schedule.
fn has_ideal(workload: Workload) -> bool {
    matches!(workload, Workload::Atomic | Workload::Tree)
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Three digits, of milliseconds.
fn shown(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}

const HEAD: [&str; 13] = [
    "",
    "decisions a second",
    "p50 ms",
    "p99",
    "p99.9",
    "max",
    "longest wait",
    "Jain",
    "requests a grant",
    "CPU µs a grant: server",
    "clients",
    "cut off",
    "violations",
];

/// All tables, one for each workload, and what the goals speak of.
pub(crate) fn markdown(rows: &[Row], options: &Options) -> String {
    let mut out = String::new();
    for workload in work::ALL {
        let of: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if of.is_empty() {
            continue;
        }
        let mut head: Vec<&str> = HEAD.to_vec();
        head.extend(beside(workload));
        head.extend(has_ideal(workload).then_some("of ideal throughput"));
        let _ = writeln!(out, "### {}\n\n| {} |", workload.title(), head.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(head.len() - 1));
        for row in &of {
            let _ = writeln!(out, "| {} |", row.cells(ratio(row, &of)).join(" | "));
        }
        out.push('\n');
    }
    let seconds = options.spans.measured.as_secs_f64();
    let _ =
        writeln!(out, "{seconds} s measured for each line, after {:?} of warming up.", options.spans.warmup);
    out
}
