//! What is wrong with a configuration, for the person who wrote it.

use std::fmt;

use super::tree::Fault;

/// A configuration that cannot be used: its message names the file, the line, the key, the value
/// that was found, what it may be, and the nearest known key for an unknown one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// The file could not be read.
    pub(super) fn unreadable(name: &str, why: impl fmt::Display) -> Self {
        ConfigError { message: format!("{name}: {why}\n  do      preclaim config init prints a whole one") }
    }

    /// The text is no TOML.
    pub(super) fn syntax(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
        let found = super::tree::printable(shown);
        ConfigError { message: format!("{name}, line {line}: {}\n  found   {found}", error.message()) }
    }

    /// A field is wrong.
    pub(super) fn fault(name: &str, text: &str, fault: &Fault) -> Self {
        let line = line_of(text, fault.span.start);
        let found = text.get(fault.span.clone()).unwrap_or_default();
        ConfigError { message: format!("{name}, line {line}: {}", fault.explain(found)) }
    }
}

/// The number of the line, from 1, on which the byte at `offset` stands.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}
