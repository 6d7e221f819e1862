//! The section `log`: what the daemon says of its work on standard error, and how.

use super::tree::{Fault, Field};
use crate::limits;

/// What a level may look like, for error messages.
pub const LEVEL_RULE: &str = "error, warn, info, debug, trace or off, for all or as TARGET=LEVEL, several with commas, such as \
     \"warn,preclaim=debug\"";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How much the log says, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A level for all, or for targets: see [`LEVEL_RULE`].
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How the log's lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people where standard error is a terminal, else for programs.
    #[default]
    Auto,
    /// For people.
    Pretty,
    /// For programs: an object of JSON a line.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { level: "warn".into(), format: LogFormat::Auto }
    }
}

pub(super) const LOG: &[&str] = &["level", "format"];

pub(super) fn log(field: Field<'_>) -> Result<LogConfig, Fault> {
    let log = field.table(LOG)?;
    let default = LogConfig::default();
    let level = log.optional("level", |field| {
        let text = field.text(LEVEL_RULE)?;
        if is_level(text) { Ok(text.to_owned()) } else { Err(field.wrong(LEVEL_RULE)) }
    })?;
    let format = log.optional("format", |field| field.word(&["auto", "pretty", "json"]))?;
    let format = match format.unwrap_or(0) {
        0 => LogFormat::Auto,
        1 => LogFormat::Pretty,
        _ => LogFormat::Json,
    };
    Ok(LogConfig { level: level.unwrap_or(default.level), format })
}

/// Whether `text` is as [`LEVEL_RULE`] has it, for [`limits::LOG_TARGETS`] targets at most.
pub fn is_level(text: &str) -> bool {
    let is_target = |target: &str| {
        let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        !target.is_empty() && target.len() <= 64 && target.bytes().all(is_of_it)
    };
    let is_right = |part: &str| match part.split_once('=') {
        Some((target, level)) => is_target(target) && LEVELS.contains(&level),
        None => LEVELS.contains(&part),
    };
    text.split(',').count() <= limits::LOG_TARGETS && text.split(',').all(|part| is_right(part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_for_all_or_for_targets() {
        for right in ["warn", "off", "warn,preclaim=debug", "info, quinn_proto::connection=trace"] {
            assert!(is_level(right), "{right}");
        }
        let many = vec!["a=warn"; limits::LOG_TARGETS + 1].join(",");
        for wrong in ["", "wran", "WARN", "warn,", "preclaim", "a=b", "=warn", "a[x]=warn", "a/b=warn", &many]
        {
            assert!(!is_level(wrong), "{wrong}");
        }
    }
}
