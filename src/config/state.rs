//! The section `state`: where the daemon keeps its audit log, how durable, and for how long.

use std::path::PathBuf;

use super::daemon::file;
use super::rules::duration_within;
use super::size::{SIZE_RULE, parse_size, show_size};
use super::tree::{Fault, Field, Fields};
use crate::limits;
use crate::store::Durability;
use crate::types::Micros;

pub(super) const STATE: &[&str] = &[
    "dir",
    "durability",
    "interval",
    "segment_size",
    "keep_for",
    "keep_size",
    "compress",
    "text",
    "text_key",
];

/// Where and how the daemon keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateConfig {
    /// The state directory.
    pub dir: PathBuf,
    /// When a slot's record is on disk.
    pub durability: Durability,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
    /// How long closed segments are kept; `None` keeps them for ever.
    pub keep_for: Option<Micros>,
    /// Bytes of closed segments that are kept; `None` keeps them all.
    pub keep_bytes: Option<u64>,
    /// Whether closed segments are compressed.
    pub compress: bool,
    /// What is kept of agents' free text.
    pub text: TextConfig,
}

/// What the log keeps of agents' free text; see [`TextKept`](crate::audit::TextKept).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TextConfig {
    /// All of it.
    #[default]
    Keep,
    /// Hashes, by the secret in this file.
    Hash {
        /// The file, which nobody but its owner may read.
        key: PathBuf,
    },
    /// Nothing.
    Omit,
}

pub(super) fn state(field: Field<'_>) -> Result<StateConfig, Fault> {
    let state = field.table(STATE)?;
    let interval = state.optional("interval", |field| {
        let (least, most) = limits::SYNC_INTERVAL_RANGE.into_inner();
        duration_within(field, least, most)
    })?;
    let word = state.optional("durability", |field| field.word(&["slot", "interval", "none"]))?;
    let durability = match word.unwrap_or(0) {
        0 => Durability::Slot,
        1 => Durability::Interval(interval.unwrap_or(limits::SYNC_INTERVAL)),
        _ => Durability::None,
    };
    let segment = |field: Field<'_>| size_from(field, *limits::AUDIT_SEGMENT_RANGE.start());
    let keep = |field: Field<'_>| size_from(field, 0);
    Ok(StateConfig {
        dir: state.required("dir", "the path of a directory", file)?,
        durability,
        segment_bytes: state.optional("segment_size", segment)?.unwrap_or(limits::AUDIT_SEGMENT_BYTES),
        keep_for: state.optional("keep_for", super::rules::duration)?,
        keep_bytes: state.optional("keep_size", keep)?,
        compress: state.optional("compress", |field| field.flag())?.unwrap_or(true),
        text: text(&state)?,
    })
}

fn text(state: &Fields<'_>) -> Result<TextConfig, Fault> {
    let word = state.optional("text", |field| field.word(&["keep", "hash", "omit"]))?.unwrap_or(0);
    if word == 1 {
        const KEY: &str = "the path of a file with a secret, since `text` is \"hash\"";
        return Ok(TextConfig::Hash { key: state.required("text_key", KEY, file)? });
    }
    // What is in force nowhere must not look as if it were.
    let misplaced = |field: Field<'_>| Err(field.wrong("left out: `text` is not \"hash\""));
    state.optional("text_key", misplaced)?.unwrap_or(());
    Ok(if word == 0 { TextConfig::Keep } else { TextConfig::Omit })
}

/// A size from `least` to the largest segment, or to any where `least` is 0.
fn size_from(field: Field<'_>, least: u64) -> Result<u64, Fault> {
    let most = if least == 0 { u64::MAX } else { *limits::AUDIT_SEGMENT_RANGE.end() };
    let rule = match least {
        0 => SIZE_RULE.to_owned(),
        _ => format!("{} to {}", show_size(least), show_size(most)),
    };
    let size = parse_size(field.text(&rule)?).filter(|size| (least..=most).contains(size));
    size.ok_or_else(|| field.wrong(rule))
}
