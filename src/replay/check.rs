//! Whether records follow each other and make the states that they say.

use std::fmt;

use super::Base;
use crate::audit::{Link, Record, State, StoredInput};
use crate::resolver::{AgentOp, StateDigest};
use crate::store::Found;
use crate::types::Slot;

/// A record or a snapshot that does not fit what comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong, for people.
    pub why: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, offset {}: {}", self.file, self.offset, self.why)
    }
}

impl std::error::Error for Unfit {}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// The slots of the first and the last.
    pub slots: Option<(Slot, Slot)>,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Declarations and revisions in them.
    pub declarations: u64,
    /// Records whose state was not checked, since the one before them is not known.
    pub unchecked: u64,
}

impl Totals {
    fn count(&mut self, record: &Record, bytes: u64) {
        let is_declaration = |input: &&StoredInput| match input {
            StoredInput::Agent { op, .. } => {
                matches!(op, AgentOp::Declare(_) | AgentOp::Revise(_) | AgentOp::Invalid { .. })
            }
            StoredInput::System { .. } => false,
        };
        let first = self.slots.map_or(record.slot, |(first, _)| first);
        self.slots = Some((first, record.slot));
        self.records += 1;
        self.bytes += bytes;
        self.declarations += record.inputs.iter().filter(is_declaration).count() as u64;
    }
}

/// Takes all records of a log, one after the other.
#[derive(Debug)]
pub struct Checker {
    /// After its segment all records are applied to its state; `None` where no state is known.
    base: Option<Base>,
    totals: Totals,
}

impl Checker {
    /// A checker that knows the state `base`.
    pub fn new(base: Option<Base>) -> Self {
        Checker { base, totals: Totals::default() }
    }

    /// What was read so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The digest of the state after the last record, where that is known.
    pub fn digest(&self) -> Option<StateDigest> {
        self.base.as_ref().filter(|_| self.totals.slots.is_some()).map(|base| base.state.image().digest())
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// Where it does not make the state that it says.
    pub fn take(&mut self, found: &Found<'_>) -> Result<(), Unfit> {
        let unfit = |why: String| Unfit { file: found.file.to_owned(), offset: found.entry.offset, why };
        let base = self.base.as_mut().filter(|base| found.segment > base.segment);
        let record = match base {
            Some(base) => base.state.apply(found.entry.body).map_err(|error| unfit(error.to_string()))?,
            None => {
                self.totals.unchecked += 1;
                Record::decode(found.entry.body).map_err(|error| unfit(error.to_string()))?.0
            }
        };
        self.totals.count(&record, found.entry.frame_bytes());
        Ok(())
    }

    /// Holds a snapshot against what was read: `last` is the last record of its segment.
    ///
    /// # Errors
    /// Where it is of another state.
    pub fn compare(&self, snapshot: &Base, file: String, last: Option<Link>) -> Result<(), Unfit> {
        let unfit = |why: String| Err(Unfit { file, offset: 0, why });
        if last.is_some_and(|last| last != snapshot.last) {
            return unfit("it is not of the state after the last record of its segment".to_owned());
        }
        let known = self.base.as_ref().filter(|base| base.segment <= snapshot.segment);
        let (Some(known), digest) = (known, snapshot.state.image().digest()) else { return Ok(()) };
        let reached = known.state.image().digest();
        if reached == digest && is_same_beside(&known.state, &snapshot.state) {
            return Ok(());
        }
        unfit(format!("its state has digest {digest}, and the state that the records make has {reached}"))
    }
}

/// Whether what no digest covers is alike.
fn is_same_beside(one: &State, other: &State) -> bool {
    one.next_document() == other.next_document()
        && one.pending() == other.pending()
        && one.routes() == other.routes()
        && one.sessions().eq(other.sessions())
}
