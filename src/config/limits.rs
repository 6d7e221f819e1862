//! The section `limits`: how much any client, and all of them together, may ask the daemon to hold or do. One
//! list says of each limit its key, type, default and range; what is read, shown and documented is made of it.

use std::ops::RangeInclusive;

use super::daemon::count_within;
use super::rules::duration_within;
use super::show_duration;
use super::size::{parse_size, show_size};
use super::tree::{Fault, Field};
use crate::limits;
use crate::types::Micros;

/// What a limit is a number of.
trait Quantity: Copy {
    fn read(field: Field<'_>, range: &RangeInclusive<Self>) -> Result<Self, Fault>;

    /// As it is written in a configuration, but for quotes.
    fn show(self) -> String;
}

/// A count.
impl Quantity for usize {
    fn read(field: Field<'_>, range: &RangeInclusive<Self>) -> Result<Self, Fault> {
        count_within(field, range)
    }

    fn show(self) -> String {
        self.to_string()
    }
}

/// Bytes.
impl Quantity for u64 {
    fn read(field: Field<'_>, range: &RangeInclusive<Self>) -> Result<Self, Fault> {
        let rule = format!("{} to {}", show_size(*range.start()), show_size(*range.end()));
        let size = parse_size(field.text(&rule)?).filter(|size| range.contains(size));
        size.ok_or_else(|| field.wrong(rule))
    }

    fn show(self) -> String {
        show_size(self)
    }
}

/// A span of time.
impl Quantity for Micros {
    fn read(field: Field<'_>, range: &RangeInclusive<Self>) -> Result<Self, Fault> {
        duration_within(field, *range.start(), *range.end())
    }

    fn show(self) -> String {
        show_duration(self)
    }
}

/// A limit that can be configured, as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// Its key in `[limits]`.
    pub key: &'static str,
    /// What it is unless configured otherwise.
    pub default: String,
    /// The least that may be configured.
    pub least: String,
    /// The most.
    pub most: String,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr, $range:expr;)*) => {
        /// The daemon's bounds. Each has its reason in [`crate::limits`], and is told in docs/LIMITS.md.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits { $($(#[$doc])* pub $name: $kind,)* }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($name: $default,)* }
            }
        }

        impl Limits {
            /// Every limit that can be configured.
            pub fn table() -> Vec<LimitRow> {
                vec![$(row::<$kind>(stringify!($name), $default, $range),)*]
            }
        }

        pub(super) const KEYS: &[&str] = &[$(stringify!($name),)*];

        pub(super) fn limits(field: Field<'_>) -> Result<Limits, Fault> {
            let fields = field.table(KEYS)?;
            Ok(Limits {
                $($name: fields
                    .optional(stringify!($name), |field| <$kind>::read(field, &$range))?
                    .unwrap_or($default),)*
            })
        }
    };
}

fn row<Q: Quantity>(key: &'static str, default: Q, range: RangeInclusive<Q>) -> LimitRow {
    LimitRow { key, default: default.show(), least: range.start().show(), most: range.end().show() }
}

limits! {
    /// Connections at a time.
    connections: usize = limits::CONNECTIONS, limits::CONNECTIONS_RANGE;
    /// Of them, those of one address.
    connections_per_address: usize = limits::CONNECTIONS_PER_ADDRESS, limits::CONNECTIONS_RANGE;
    /// Handshakes a second, over all addresses.
    handshakes_per_second: usize = limits::HANDSHAKES_PER_SECOND, limits::HANDSHAKES_PER_SECOND_RANGE;
    /// Of them, those of one address.
    handshakes_per_second_per_address: usize =
        limits::HANDSHAKES_PER_SECOND_PER_ADDRESS, limits::HANDSHAKES_PER_SECOND_RANGE;
    /// Handshakes at a time past which a peer must first prove that its address is its own.
    handshakes_unproven: usize = limits::HANDSHAKES_UNPROVEN, limits::HANDSHAKES_UNPROVEN_RANGE;
    /// From a connection's first byte to its hello.
    hello_timeout: Micros = limits::HELLO_TIMEOUT, limits::HELLO_TIMEOUT_RANGE;
    /// Silence after which a connection is let go.
    idle_timeout: Micros = limits::IDLE_TIMEOUT, limits::IDLE_TIMEOUT_RANGE;
    /// Lanes open at a time on one connection.
    lanes: usize = limits::LANES, limits::LANES_RANGE;
    /// Messages a second of one connection, a batch being as many as it has declarations; more is read later.
    messages_per_second: usize = limits::MESSAGES_PER_SECOND, limits::MESSAGES_PER_SECOND_RANGE;
    /// Bytes a second of one connection, of frames; more is read later.
    bytes_per_second: u64 = limits::BYTES_PER_SECOND, limits::BYTES_PER_SECOND_RANGE;
    /// Bytes that may wait to be read by one connection, beside the news of one slot.
    unread_bytes: u64 = limits::OUTBOX_BYTES as u64, limits::OUTBOX_BYTES_RANGE;
    /// How long a connection may read nothing of what waits for it.
    unread_timeout: Micros = limits::SLOW_READER, limits::SLOW_READER_RANGE;
    /// Names that have a session, connected or kept.
    names: usize = limits::NAMES, limits::NAMES_RANGE;
    /// Sessions of one agent at a time, connected or kept.
    sessions_per_agent: usize = limits::SESSIONS_OF_A_NAME, limits::SESSIONS_OF_A_NAME_RANGE;
    /// Sessions without a connection that are kept, over all agents.
    sessions_kept: usize = limits::SESSIONS_LEFT, limits::SESSIONS_LEFT_RANGE;
    /// How long a session is kept without a connection.
    session_kept_for: Micros = limits::SESSION_KEPT, limits::SESSION_KEPT_RANGE;
    /// Inputs that one slot takes in; what has no room among them is refused, the lowest class first.
    slot_inputs: usize = limits::SLOT_INPUTS, limits::SLOT_INPUTS_RANGE;
    /// Of them, inputs of one agent that ask for something; and as many again that keep up or give back what it
    /// has.
    slot_inputs_per_agent: usize = limits::SLOT_INPUTS_OF_A_NAME, limits::SLOT_INPUTS_RANGE;
    /// Undecided intents in all.
    undecided: usize = limits::UNDECIDED, limits::UNDECIDED_RANGE;
    /// Undecided intents of one agent.
    undecided_per_agent: usize = limits::UNDECIDED_PER_AGENT, limits::UNDECIDED_RANGE;
    /// Intents in force or undecided, in all.
    live: usize = limits::LIVE, limits::LIVE_RANGE;
    /// Intents of one agent in force or undecided.
    live_per_agent: usize = limits::LIVE_OF_A_NAME, limits::LIVE_RANGE;
    /// Claims of one agent's intents in force or undecided: each is a window.
    windows_per_agent: usize = limits::WINDOWS_OF_A_NAME, limits::WINDOWS_RANGE;
    /// Of these, those on one path or below it.
    windows_per_agent_and_path: usize = limits::WINDOWS_OF_A_NAME_ON_A_PATH, limits::WINDOWS_RANGE;
    /// Windows, whosever, that may be in the way of a claim by its path, where its intent has several claims.
    windows_per_path: usize = limits::WINDOWS_ON_A_PATH, limits::WINDOWS_RANGE;
    /// Regions of one frame, whosever.
    regions_per_frame: usize = limits::REGIONS_OF_A_FRAME, limits::WINDOWS_RANGE;
    /// Windows among which a slot looks for places for one agent's intents, those that wait too.
    search_per_agent: usize = limits::SEARCH_OF_A_NAME, limits::SEARCH_RANGE;
    /// The same over all agents.
    search: usize = limits::SEARCH, limits::SEARCH_RANGE;
}

impl Limits {
    /// For agents that all are on one machine, and come at once: one address has as much as all together.
    #[must_use]
    pub fn on_one_machine(self) -> Self {
        let handshakes = self.handshakes_per_second.max(self.connections);
        Limits {
            connections_per_address: self.connections,
            handshakes_per_second: handshakes,
            handshakes_per_second_per_address: handshakes,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::limits::Limit;

    fn set(key: &str, value: &str) -> Result<Config, String> {
        // A count stands without quotes, everything else with them.
        let value = match value.parse::<u64>() {
            Ok(count) => count.to_string(),
            Err(_) => format!("\"{value}\""),
        };
        Config::parse("c.toml", &format!("[limits]\n{key} = {value}\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn each_limit_takes_what_is_within_its_range_and_nothing_past_it() {
        for LimitRow { key, default, least, most } in Limits::table() {
            for within in [&default, &least, &most] {
                let shown = set(key, within).unwrap().to_toml();
                assert!(shown.contains(&format!("{key} = ")), "{shown}");
            }
            for past in ["0us", "99999h", "18446744073709551615", "16777215TiB", "much"] {
                let error = set(key, past).unwrap_err();
                assert!(error.contains("c.toml, line 2") && error.contains(key), "{error}");
            }
        }
    }

    #[test]
    fn each_limit_that_can_be_configured_is_counted_under_its_key() {
        for row in Limits::table() {
            assert!(Limit::ALL.iter().any(|limit| limit.as_str() == row.key), "{}", row.key);
        }
    }
}
