//! A whole trace on virtual time: lines in, decisions out, slot by slot as the lines come.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use super::error::TraceError;
use super::line::TraceReader;
use super::output::write_decision;
use crate::config::Config;
use crate::limits;
use crate::resolver::{Input, Resolver, SlotBatch};
use crate::types::{Micros, Slot, Time};

/// Why a trace was not resolved to its end.
#[derive(Debug)]
pub enum ResolveError {
    /// A line is wrong. What was decided before it has been written.
    Line(TraceError),
    /// The trace could not be read.
    Read(io::Error),
    /// The decisions could not be written.
    Write(io::Error),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::Line(error) => error.fmt(f),
            ResolveError::Read(error) => write!(f, "the trace cannot be read: {error}"),
            ResolveError::Write(error) => write!(f, "the decisions cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Resolves the trace that `input` holds and writes each decision to `out` as one line.
///
/// After the last line, slots go on until no intent is undecided, and at least as long as their
/// decision time is `until` or before. Memory holds one slot's lines, and the core's state. What has
/// been decided is flushed before each read that may have to wait.
///
/// # Errors
/// The first line that is wrong, after the decisions of all slots that end at or before the time of
/// the last good line; or what kept the trace from being read or the decisions from being written.
pub fn resolve(
    config: Config,
    until: Option<Time>,
    input: impl Read,
    out: impl Write,
) -> Result<(), ResolveError> {
    let mut run = Run::new(Resolver::new(config.rules.clone()), out);
    let read = read_all(TraceReader::new(config), BufReader::new(input), &mut run);
    let finished = match read {
        Ok(()) => run.finish(until).map_err(ResolveError::Write),
        Err(error) => Err(error),
    };
    run.out.flush().map_err(ResolveError::Write)?;
    finished
}

fn read_all<R: Read, W: Write>(
    mut reader: TraceReader,
    mut lines: BufReader<R>,
    run: &mut Run<W>,
) -> Result<(), ResolveError> {
    let mut line = Vec::new();
    loop {
        if lines.buffer().is_empty() {
            run.out.flush().map_err(ResolveError::Write)?;
        }
        line.clear();
        // One more byte than a line may have, beside its end, tells that it has too many.
        let mut bounded = lines.by_ref().take(limits::TRACE_LINE_BYTES as u64 + 2);
        if bounded.read_until(b'\n', &mut line).map_err(ResolveError::Read)? == 0 {
            return Ok(());
        }
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        let Some(input) = reader.read(content).map_err(ResolveError::Line)? else { continue };
        run.arrive(input).map_err(ResolveError::Write)?;
        run.open_bytes += line.len();
        if run.open_bytes > limits::TRACE_SLOT_BYTES {
            return Err(ResolveError::Line(reader.slot_overflows()));
        }
    }
}

/// A resolver on virtual time: inputs arrive, and each slot is decided when it is known to be over.
struct Run<W> {
    resolver: Resolver,
    length: Micros,
    out: W,
    /// The slot that is being collected, and what arrived in it.
    open: Option<(Slot, Vec<Input>)>,
    /// The bytes of the lines of the open slot.
    open_bytes: usize,
    /// The slot that was decided last.
    last: Option<Slot>,
}

impl<W: Write> Run<W> {
    fn new(resolver: Resolver, out: W) -> Self {
        let length = resolver.rules().length;
        Run { resolver, length, out, open: None, open_bytes: 0, last: None }
    }

    /// Takes in `input`, after all slots that end at or before its arrival have been decided.
    fn arrive(&mut self, input: Input) -> io::Result<()> {
        let slot = Slot::of(input.at(), self.length);
        match &mut self.open {
            Some((open, inputs)) if *open == slot => inputs.push(input),
            _ => {
                self.close()?;
                self.decide_due(|_, due| due < slot)?;
                self.open = Some((slot, vec![input]));
            }
        }
        Ok(())
    }

    /// Decides the open slot.
    fn close(&mut self) -> io::Result<()> {
        self.open_bytes = 0;
        let Some((slot, inputs)) = self.open.take() else { return Ok(()) };
        let batch = SlotBatch::new(slot, self.length, inputs).unwrap_or_else(|_| {
            unreachable!("the reader refuses a time that goes back, and the slot is its own")
        });
        self.decide(&batch)
    }

    /// Decides everything there is, and goes on with empty slots until `until` and until no intent
    /// is undecided.
    fn finish(&mut self, until: Option<Time>) -> io::Result<()> {
        self.close()?;
        let length = self.length;
        self.decide_due(|resolver, due| {
            resolver.has_undecided() || until.is_some_and(|until| due.decided_at(length) <= until)
        })
    }

    /// Decides, in order, the slots in which something may happen by itself, while `more` says so.
    fn decide_due(&mut self, more: impl Fn(&Resolver, Slot) -> bool) -> io::Result<()> {
        while let Some(due) = self.resolver.next_due() {
            // Virtual time must rise, and ends with the last slot whose end can be written.
            let rises =
                self.last.is_none_or(|last| due > last) && super::line::end_of(due, self.length).is_some();
            if !rises || !more(&self.resolver, due) {
                break;
            }
            self.decide(&SlotBatch::empty(due))?;
        }
        Ok(())
    }

    fn decide(&mut self, batch: &SlotBatch) -> io::Result<()> {
        self.last = Some(batch.slot());
        let outcome = self.resolver.resolve(batch);
        for decision in &outcome.decisions {
            write_decision(&mut self.out, outcome.slot, outcome.at, decision)?;
        }
        Ok(())
    }
}
