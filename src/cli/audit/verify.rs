//! `preclaim audit verify`: whether all that was written is still there, and fits together.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::super::output::{self, Format, Output};
use super::problem::Damaged;
use super::{ExitCode, Place, Problem, Progress, note};
use crate::audit::Link;
use crate::replay::{Base, Checker, Totals, Unfit};
use crate::store::{Archive, Disk, OpenError, RealDisk, TornTail, repair_tail};

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit verify /var/lib/preclaim
  $ preclaim audit verify --repair-tail /var/lib/preclaim

Reads every segment and snapshot: the chain of hashes from record to record and segment to segment,
and whether each record makes the state whose digest it holds. Code 40 where something is damaged.
What a write left at the end that was not finished is no damage: the next start cuts it off.";

/// Check that the log is whole, record by record, and fits its snapshots
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Cut off what a write left at the end of the log that was not finished, and nothing else; refused
    /// while a coordinator has the directory
    #[arg(long)]
    repair_tail: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    let dir = args.place.dir()?;
    let archive = super::open(dir.clone())?;
    let mut report = Report::default();
    let verified = verify(&archive, &mut report);
    if let Err(problem) = &verified {
        report.damaged = problem.damaged();
        if report.damaged.is_none() {
            return verified.map(|()| ExitCode::Done);
        }
    }
    if args.repair_tail && verified.is_ok() {
        report.repaired = repair(dir)?.map(Torn::from);
    }
    let printed = print(&report, args.output.format());
    if printed != ExitCode::Done {
        return Ok(printed);
    }
    verified?;
    if let (Some(torn), None) = (&report.torn, &report.repaired) {
        note(format_args!(
            "{}, offset {}: {} bytes of a write that was not finished; nothing of it was ever sent\n  \
             do      nothing: the next start cuts it off, and `verify --repair-tail` does so now",
            torn.file, torn.offset, torn.bytes
        ));
    }
    Ok(ExitCode::Done)
}

fn repair(dir: PathBuf) -> Result<Option<TornTail>, Problem> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir));
    Ok(repair_tail(&disk)?)
}

/// How often a reader begins anew where the coordinator removed what was to be read next.
pub(super) const ATTEMPTS: u32 = 3;

fn verify(archive: &Archive, report: &mut Report) -> Result<(), Problem> {
    let mut attempt = 1;
    loop {
        let before = archive.contents()?.segments.first().copied();
        *report = Report::default();
        match verify_once(archive, report) {
            Err(problem) if problem.is_removed() && attempt < ATTEMPTS => {
                if before == archive.contents()?.segments.first().copied() {
                    return Err(problem);
                }
                attempt += 1;
            }
            verified => return verified,
        }
    }
}

fn verify_once(archive: &Archive, report: &mut Report) -> Result<(), Problem> {
    let contents = archive.contents()?;
    let mut snapshots = Snapshots { archive, left: contents.snapshots, read: 0 };
    let (base, no_base) = match Base::oldest(archive) {
        Ok(base) => (Some(base), None),
        Err(error @ (OpenError::Missing { .. } | OpenError::Unreadable { .. })) => (None, Some(error)),
        Err(error) => return Err(error.into()),
    };
    let after = |link: &Base| link.last;
    let first = contents.segments.first().copied().unwrap_or(1);
    let known = base.as_ref().filter(|base| base.segment + 1 == first).map(after);
    let mut checker = Checker::new(base);
    let mut progress = Progress::start();
    let mut walk = archive.walk(first, known);
    let (mut segment, mut last) = (first, known);
    let read = walk.read_on(&mut |found| {
        snapshots.compare_up_to(found.segment, segment, &checker, last)?;
        segment = found.segment;
        progress.tick();
        checker.take(&found)?;
        last = Some(Link { chain: found.entry.chain, seq: found.entry.stamp.seq });
        Ok(())
    });
    report.totals(checker.totals());
    report.digest = checker.digest().map(|digest| digest.to_string());
    report.records_per_second = progress.rate();
    report.torn = read?.map(Torn::from);
    // What has been made meanwhile is of records that were not read.
    snapshots.compare_up_to(u64::MAX, segment, &checker, last).map_err(OpenError::Rejected)?;
    report.snapshots = snapshots.read;
    match no_base {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Those that were there at the beginning and are not compared yet.
struct Snapshots<'a> {
    archive: &'a Archive,
    left: Vec<u64>,
    read: u64,
}

impl Snapshots<'_> {
    /// Reads those before segment `until`, and compares the one after segment `at`, whose last record
    /// is `last`, with what the records make.
    fn compare_up_to(
        &mut self,
        until: u64,
        at: u64,
        checker: &Checker,
        last: Option<Link>,
    ) -> Result<(), crate::store::Rejection> {
        while let Some(segment) = self.left.first().copied().filter(|segment| *segment < until) {
            self.left.remove(0);
            let file = Archive::snapshot_file(segment);
            let snapshot = match Base::of_snapshot(self.archive, segment) {
                Ok(Ok(snapshot)) => snapshot,
                Ok(Err(why)) => return Err(Unfit { file, offset: 0, why }.into()),
                // The coordinator has made a later one, and removed it.
                Err(OpenError::Disk(fault)) if fault.error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            self.read += 1;
            if segment >= at {
                checker.compare(&snapshot, file, last)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    records: u64,
    first_slot: Option<u64>,
    last_slot: Option<u64>,
    bytes: u64,
    declarations: u64,
    bytes_per_declaration: Option<u64>,
    records_per_second: u64,
    /// Records before the oldest state that is known: their chain was checked, and no digest.
    without_state: u64,
    snapshots: u64,
    digest: Option<String>,
    torn: Option<Torn>,
    repaired: Option<Torn>,
    damaged: Option<Damaged>,
}

#[derive(Debug, Serialize)]
struct Torn {
    file: String,
    offset: u64,
    bytes: u64,
}

impl From<TornTail> for Torn {
    fn from(TornTail { file, offset, bytes }: TornTail) -> Self {
        Torn { file, offset, bytes }
    }
}

impl Report {
    fn totals(&mut self, totals: &Totals) {
        let Totals { records, slots, bytes, declarations, unchecked } = *totals;
        self.records = records;
        self.first_slot = slots.map(|(first, _)| first.number());
        self.last_slot = slots.map(|(_, last)| last.number());
        (self.bytes, self.declarations, self.without_state) = (bytes, declarations, unchecked);
        self.bytes_per_declaration = bytes.checked_div(declarations);
    }

    fn for_people(&self) -> String {
        let mut text = String::new();
        let mut line = |text_of: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{text_of}");
        };
        match (self.first_slot, self.last_slot) {
            (Some(first), Some(last)) => {
                line(format_args!("records     {}, slots {first} to {last}", self.records))
            }
            _ => line(format_args!("records     none")),
        }
        let declarations = match self.bytes_per_declaration {
            Some(each) => format!(", {} declarations, {each} bytes each", self.declarations),
            None => String::new(),
        };
        line(format_args!("bytes       {}{declarations}", self.bytes));
        line(format_args!("snapshots   {}", self.snapshots));
        line(format_args!("speed       {} records a second", self.records_per_second));
        if self.without_state > 0 {
            line(format_args!(
                "unchecked   the digests of {} records, older than the oldest snapshot: only their chain",
                self.without_state
            ));
        }
        if let Some(digest) = &self.digest {
            line(format_args!("digest      {digest}"));
        }
        if let Some(repaired) = &self.repaired {
            line(format_args!(
                "cut off     {}, offset {}: {} bytes",
                repaired.file, repaired.offset, repaired.bytes
            ));
        }
        line(format_args!("{}", if self.damaged.is_some() { "damaged" } else { "whole" }));
        text
    }
}

fn print(report: &Report, format: Format) -> ExitCode {
    match format {
        Format::Json => output::print(format_args!("{}\n", output::json(report))),
        Format::Table => output::print(format_args!("{}", report.for_people())),
    }
}
