//! Traces: what arrived, one JSON object a line, and what was decided about it, likewise.
//!
//! [`TraceReader`] makes inputs of the decision core from lines and says, for a line that is none,
//! which field is wrong; [`write_input`] spells an input again, [`write_decision`] a decision;
//! [`resolve`] reads and decides a whole trace, on virtual time. Both are exact: no number is rounded,
//! no field is guessed, none is passed over. [`raw_record`] has a slot's inputs and decisions in one
//! object, which [`read_record`] reads back. This room decides nothing and knows no clock.

mod error;
mod input;
mod intent;
mod json;
mod line;
mod output;
mod record;
mod run;

pub use error::TraceError;
pub use input::write_input;
pub use line::TraceReader;
pub use output::write_decision;
pub use record::{RankBody, raw_decision, raw_input, raw_record, read_record};
pub use run::{ResolveError, resolve};

#[cfg(test)]
mod tests;
