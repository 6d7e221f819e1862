//! `preclaim doctor`: whether this host keeps the beat.

use std::io;
use std::path::PathBuf;

use super::output::{self, Colour, Format, Output, Progress};
use super::quote::Words;
use super::table::Table;
use super::{ExitCode, complaint::Complaint};
use crate::config::{DURATION_RULE, parse_duration, show_duration};
use crate::doctor::{Finding, Grade, Plan, Report, Verdict, examine};
use crate::limits;
use crate::types::Micros;

const EXAMPLE: &str = "\
Example:
  $ preclaim doctor                                 # is this host fit for slots of 10 ms?
  $ preclaim doctor --slot 1ms --state /var/lib/preclaim
  $ preclaim doctor --for 30s --output json
  $ sudo chrt --reset-on-fork --fifo 10 preclaim doctor   # what real-time priority would give

It measures how late a thread wakes that sleeps to the ends of slots, first on the host as
it is and then with a thread of its own on each core, and reads what else matters. For what
is not well it says why that matters and what to change. It ends with 99 where the host is not
fit, and with 0 where it is: with warnings too, and with what the system does not tell.
docs/COMMAND_LINE.md has the thresholds.";

/// The shortest measurement: some slots of the usual length.
const SPAN_MIN: Micros = Micros::from_ms(50);
/// The longest: whoever wants to see more has something that watches for days.
const SPAN_MAX: Micros = Micros::from_secs(3_600);

/// See whether this host is fit for the beat: timers, sockets, clocks, disk
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The slot length that is wanted
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = slot)]
    slot: Micros,
    /// How long each measurement takes: as it is, under load, and the disk
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = span)]
    span: Micros,
    /// The state directory, to measure its disk; a file of 16 MiB is written there and removed again
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

fn slot(text: &str) -> Result<Micros, String> {
    within(text, limits::SLOT_MIN, limits::SLOT_MAX)
}

fn span(text: &str) -> Result<Micros, String> {
    within(text, SPAN_MIN, SPAN_MAX)
}

fn within(text: &str, least: Micros, most: Micros) -> Result<Micros, String> {
    let span = parse_duration(text).ok_or_else(|| format!("it must be {DURATION_RULE}"))?;
    let (from, to) = (show_duration(least), show_duration(most));
    if (least..=most).contains(&span) { Ok(span) } else { Err(format!("it must be {from} to {to}")) }
}

pub(super) fn run(args: &Args) -> ExitCode {
    let Args { slot, span, state, output } = args;
    if let Some(directory) = state.as_ref().filter(|directory| !directory.is_dir()) {
        let what = format!("--state {} is no directory", directory.display());
        let todo = Words::of(&["mkdir", "-p", &directory.display().to_string()]);
        return Complaint::new(ExitCode::Usage, what).todo(todo.to_string()).say();
    }
    let progress = Progress::start();
    let plan = Plan { slot: *slot, span: *span, state: state.clone() };
    let report = examine(&plan, &|what| progress.tell(what));
    progress.done();
    let shown = match output.format() {
        Format::Json => output::print(format_args!("{}\n", output::json(&report))),
        Format::Table => output::print(format_args!("{}", text(&report))),
    };
    match report.verdict {
        Verdict::Unfit if shown == ExitCode::Done => ExitCode::ThresholdFailed,
        _ => shown,
    }
}

/// For people: a row each, then what is not well at length, then the verdict.
fn text(report: &Report) -> String {
    let mut table = Table::headed(&["", "WHAT", "MEASURED", "NEEDED"]);
    for Finding { what, grade, measured, needed, .. } in &report.findings {
        table.row([grade.word().into(), what.title().into(), measured.clone(), needed.clone()]);
    }
    let long: String = report.findings.iter().filter_map(at_length).collect();
    format!("{}\n{table}\n{long}{}\n", host(report), verdict(report))
}

fn host(report: &Report) -> String {
    let machine = &report.machine;
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    let kernel = machine.kernel.as_deref().unwrap_or("");
    format!("{cpu}, {} {kernel}", machine.os).trim_end().to_owned()
}

fn at_length(finding: &Finding) -> Option<String> {
    let Finding { what, grade, measured, needed, why, change } = finding;
    let colour = match grade {
        Grade::Ok | Grade::Unknown => return None,
        Grade::Warning => Colour::Yellow,
        Grade::Unfit => Colour::Red,
    };
    let word = output::painted(grade.word(), colour, &io::stdout());
    let mut text = format!("{word}: {}: {measured}; needed: {needed}\n  why  {why}\n", what.title());
    for (at, change) in change.iter().enumerate() {
        text += &format!("  {}   {change}\n", if at == 0 { "do" } else { "or" });
    }
    text.push('\n');
    Some(text)
}

fn verdict(report: &Report) -> String {
    let (word, colour) = match report.verdict {
        Verdict::Fit => ("fit", Colour::Green),
        Verdict::Unfit => ("not fit", Colour::Red),
    };
    let count = |grade| report.findings.iter().filter(|finding| finding.grade == grade).count();
    let told = [(Grade::Unfit, "unfit"), (Grade::Warning, "warned of"), (Grade::Unknown, "unknown")];
    let counted: String = told
        .into_iter()
        .map(|(grade, word)| (count(grade), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!(", {count} {word}"))
        .collect();
    let word = output::painted(word, colour, &io::stdout());
    format!("{word} for slots of {}{counted}", show_duration(report.slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_spans_are_within_their_bounds() {
        assert_eq!(slot("100us"), Ok(limits::SLOT_MIN));
        assert_eq!(slot("1s"), Ok(limits::SLOT_MAX));
        assert_eq!(slot("99us"), Err("it must be 100us to 1s".to_owned()));
        assert!(slot("1001ms").is_err() && slot("ten").is_err());
        assert_eq!(span("50ms"), Ok(SPAN_MIN));
        assert!(span("49ms").is_err() && span("3601s").is_err());
    }
}
