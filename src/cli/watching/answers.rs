//! What `/slots`, `/claims` and `/hot` say, as far as commands show it. Times are coordinator time, in µs.

use serde::{Deserialize, Serialize};

use crate::types::{Micros, Time};

/// `/slots`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Slots {
    pub(crate) length_us: Micros,
    /// The latest first.
    pub(crate) slots: Vec<Slot>,
}

/// One slot that was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Slot {
    pub(crate) slot: u64,
    pub(crate) lag_us: Micros,
    pub(crate) collect_us: Micros,
    pub(crate) resolve_us: Micros,
    pub(crate) persist_us: Micros,
    pub(crate) publish_us: Micros,
    /// From its decision time to its end.
    pub(crate) done_us: Micros,
}

/// `/claims`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Claims {
    pub(crate) slot: u64,
    pub(crate) now: Time,
    pub(crate) grants: u64,
    pub(crate) undecided: u64,
    #[serde(rename = "complete")]
    pub(crate) is_complete: bool,
    pub(crate) contended: Vec<Contended>,
    pub(crate) longest_waiting: Vec<Waiting>,
    pub(crate) overdue: Vec<Held>,
    pub(crate) agents: Vec<Agent>,
}

/// A path on which intents find no place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Contended {
    pub(crate) path: String,
    pub(crate) conflicts: u64,
    pub(crate) last_conflict: Time,
    pub(crate) waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<Held>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Held {
    pub(crate) agent: String,
    pub(crate) id: u64,
    pub(crate) token: u64,
    pub(crate) path: String,
    pub(crate) claims: u64,
    pub(crate) hold: bool,
    pub(crate) since: Time,
    pub(crate) until: Time,
    pub(crate) stated_us: Micros,
}

/// An intent that waits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Waiting {
    pub(crate) agent: String,
    pub(crate) id: u64,
    pub(crate) path: String,
    pub(crate) claims: u64,
    pub(crate) class: u8,
    pub(crate) since: Time,
    pub(crate) until: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offer: Option<Time>,
}

/// How much is of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Agent {
    pub(crate) agent: String,
    pub(crate) grants: u64,
    pub(crate) waiting: u64,
}

/// `/hot`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Hot {
    pub(crate) now: Time,
    pub(crate) paths: Vec<HotPath>,
    pub(crate) pairs: Vec<Pair>,
}

/// A contended path, and what is advised.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct HotPath {
    #[serde(flatten)]
    pub(crate) contended: Contended,
    pub(crate) exclusive: u64,
    pub(crate) below: u64,
    pub(crate) above: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<Holds>,
    pub(crate) advice: Vec<Advice>,
}

/// For how long it was held.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Holds {
    pub(crate) seen: u64,
    pub(crate) typical_us: Micros,
    pub(crate) stated_us: Micros,
}

/// What to do, in one word and in words.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Advice {
    #[serde(rename = "do")]
    pub(crate) what: String,
    pub(crate) text: String,
}

/// One who found no place, and one who was in the way.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Pair {
    pub(crate) asker: String,
    pub(crate) holder: String,
    pub(crate) conflicts: u64,
    pub(crate) last_conflict: Time,
    pub(crate) path: String,
}
