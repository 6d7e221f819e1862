//! `preclaim audit export`: what arrived, or what was decided, as `preclaim resolve` reads and prints
//! it.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::problem::decoded;
use super::{ExitCode, Problem, Progress, note};
use crate::audit::Record;
use crate::config::show_duration;
use crate::replay::{Unfit, slot_length};
use crate::resolver::Rules;
use crate::store::{Found, OpenError, Rejection};
use crate::trace::{write_decision, write_input};
use crate::types::{Micros, Slot, Time};

const EXAMPLE: &str = r#"Example:
  $ preclaim audit export --inputs /var/lib/preclaim > inputs.jsonl
  $ preclaim audit export --decisions /var/lib/preclaim > decisions.jsonl
  $ preclaim resolve inputs.jsonl | head -n "$(wc -l < decisions.jsonl)" | cmp - decisions.jsonl

`resolve` makes the same decisions of the inputs, and goes on after the last of them until nothing is
undecided: where the log ends before that, its decisions are the first of those. Where decisions
follow that nothing waits for, as the end of a lease, the export says up to when to go on: `resolve
--until`. With slots of another length than 10 ms, give `export --config` to `resolve --config`."#;

/// Print what arrived, or what was decided, as JSON lines that `resolve` reads or prints
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    what: What,
    /// From this slot on
    #[arg(long, value_name = "SLOT")]
    from: Option<u64>,
    /// Up to this slot, itself included
    #[arg(long, value_name = "SLOT")]
    to: Option<u64>,
    /// The state directory, or a copy of one
    dir: PathBuf,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// What arrived: agents' messages, the operator's, changes of the rules, restarts
    #[arg(long)]
    inputs: bool,
    /// What was decided
    #[arg(long)]
    decisions: bool,
    /// The rules at the beginning of the log, for `resolve --config`
    #[arg(long)]
    config: bool,
}

/// All that was asked for has been read.
#[derive(Debug)]
struct Enough;

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enough was read")
    }
}

impl std::error::Error for Enough {}

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    let archive = super::open(args.dir.clone())?;
    let first = archive.contents()?.segments.first().copied().unwrap_or(1);
    let mut export = Export {
        args,
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        is_beginning: first == 1,
        length: None,
        last_input: None,
        last_decision: None,
        progress: Progress::start(),
    };
    let read = archive.walk(first, None).read_on(&mut |found| export.take(&found));
    let read = match read {
        Err(OpenError::Rejected(why)) if why.is::<Enough>() => Ok(()),
        read => read.map(drop),
    };
    // What stands before damage is told in any case.
    export.out.flush().map_err(Problem::Output)?;
    if export.length.is_none() && args.what.config {
        return Err(Problem::Usage("the log has no record yet, and so no rules".to_owned()));
    }
    read?;
    export.end();
    Ok(ExitCode::Done)
}

struct Export<'a> {
    args: &'a Args,
    out: BufWriter<io::StdoutLock<'static>>,
    is_beginning: bool,
    /// The slots' length, once a record was read.
    length: Option<Micros>,
    /// The slot of the last input.
    last_input: Option<Slot>,
    /// The slot of the last decision, and its time.
    last_decision: Option<(Slot, Time)>,
    progress: Progress,
}

impl Export<'_> {
    fn take(&mut self, found: &Found<'_>) -> Result<(), Rejection> {
        self.progress.tick();
        let unfit = |why: String| Unfit { file: found.file.to_owned(), offset: found.entry.offset, why };
        let record = decoded(found)?;
        if self.length.is_none() {
            let length = slot_length(record.slot, record.at);
            let length = length.ok_or_else(|| unfit("its time is not the end of its slot".to_owned()))?;
            self.length = Some(length);
            self.begin(length)?;
        }
        if self.args.to.is_some_and(|to| record.slot > Slot::new(to)) || self.args.what.config {
            return Err(Enough.into());
        }
        if self.args.from.is_none_or(|from| record.slot >= Slot::new(from)) {
            self.write(&record)?;
        }
        Ok(())
    }

    /// Says what is needed beside the inputs, or prints it.
    fn begin(&mut self, length: Micros) -> io::Result<()> {
        if self.args.what.config {
            return writeln!(self.out, "[slot]\nlength = \"{}\"", show_duration(length));
        }
        if !self.args.what.inputs {
            return Ok(());
        }
        if !self.is_beginning || self.args.from.is_some() {
            note(
                "the beginning of the log is not among these inputs: `resolve` cannot decide them alone as they were decided",
            );
        }
        if length != Rules::default().length {
            note(format_args!(
                "slots are of {}: preclaim audit export --config DIR > rules.toml, then preclaim resolve --config rules.toml",
                show_duration(length)
            ));
        }
        Ok(())
    }

    /// Says how `resolve` comes to the decisions after the last input, which it may not wait for.
    fn end(&self) {
        match self.last_decision {
            Some((slot, at)) if self.args.what.inputs && self.last_input.is_none_or(|last| last < slot) => {
                note(format_args!(
                    "decisions follow the last input: `resolve --until {}` makes them too",
                    at.as_us()
                ));
            }
            _ => {}
        }
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        if !record.inputs.is_empty() {
            self.last_input = Some(record.slot);
        }
        if !record.decisions.is_empty() {
            self.last_decision = Some((record.slot, record.at));
        }
        if self.args.what.inputs {
            return record.inputs.iter().try_for_each(|input| write_input(&mut self.out, input));
        }
        let (slot, at) = (record.slot, record.at);
        record.decisions.iter().try_for_each(|decision| write_decision(&mut self.out, slot, at, decision))
    }
}
