//! How often each limit was reached: one counter a limit, of a closed list, so that what is counted is
//! bounded whatever agents do.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A limit that somebody may reach. Where it can be configured, its word is the key in `[limits]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limit { $($(#[$doc])* $name,)* }

        impl Limit {
            /// Every limit, in the order of docs/LIMITS.md.
            pub const ALL: &'static [Limit] = &[$(Limit::$name,)*];

            /// Its word in the metric `preclaim_limits_reached_total`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Limit::$name => $text,)* }
            }
        }
    };
}

limits! {
    /// Connections at a time.
    Connections = "connections",
    /// Connections at a time of one address.
    ConnectionsPerAddress = "connections_per_address",
    /// Handshakes a second.
    Handshakes = "handshakes_per_second",
    /// Handshakes a second of one address.
    HandshakesPerAddress = "handshakes_per_second_per_address",
    /// Handshakes past which an address has to be proved first.
    HandshakesUnproven = "handshakes_unproven",
    /// From a connection's beginning to its hello.
    HelloTimeout = "hello_timeout",
    /// Silence of a connection.
    IdleTimeout = "idle_timeout",
    /// Lanes of a connection.
    Lanes = "lanes",
    /// Messages a second of a connection.
    Messages = "messages_per_second",
    /// Bytes a second of a connection.
    Bytes = "bytes_per_second",
    /// Bytes that wait to be read by one connection.
    UnreadBytes = "unread_bytes",
    /// How long a connection may read nothing of what waits for it.
    UnreadTimeout = "unread_timeout",
    /// Names that have a session.
    Names = "names",
    /// Sessions of one name.
    SessionsPerAgent = "sessions_per_agent",
    /// Sessions without a connection that are kept.
    SessionsKept = "sessions_kept",
    /// How long they are.
    SessionKeptFor = "session_kept_for",
    /// Inputs of one slot.
    SlotInputs = "slot_inputs",
    /// Inputs of one name in one slot.
    SlotInputsPerAgent = "slot_inputs_per_agent",
    /// Undecided intents.
    Undecided = "undecided",
    /// Undecided intents of one name.
    UndecidedPerAgent = "undecided_per_agent",
    /// Intents in force or undecided.
    Live = "live",
    /// Intents of one name in force or undecided.
    LivePerAgent = "live_per_agent",
    /// Claims of one name's live intents.
    WindowsPerAgent = "windows_per_agent",
    /// Of these, those on one path or below it.
    WindowsPerAgentAndPath = "windows_per_agent_and_path",
    /// Windows in the way of a claim of an intent of several claims.
    WindowsPerPath = "windows_per_path",
    /// Regions of one frame.
    RegionsPerFrame = "regions_per_frame",
    /// Windows among which one name's intents of several claims are looked for a place.
    SearchPerAgent = "search_per_agent",
    /// The same over all names.
    Search = "search",
    /// Bytes of one frame on the wire.
    FrameBytes = "frame_bytes",
    /// Addresses that are counted apart.
    Addresses = "addresses",
    /// Watches, of one connection or over all.
    Watches = "watches",
    /// News that is kept for who is not there, of one name or over all.
    NewsKept = "news_kept",
    /// Lines in the log about peers.
    PeerLines = "peer_lines",
    /// Capacities that are set at run time.
    CapacitiesSet = "capacities_set",
    /// Intents that are followed for traces.
    Traces = "traces",
}

impl Limit {
    /// Whether it is one agent that reaches it, by what it does alone.
    pub const fn is_of_one_agent(self) -> bool {
        matches!(
            self,
            Limit::SlotInputsPerAgent
                | Limit::UndecidedPerAgent
                | Limit::LivePerAgent
                | Limit::WindowsPerAgent
                | Limit::WindowsPerAgentAndPath
                | Limit::SearchPerAgent
        )
    }
}

/// How often each limit was reached since the start. Counting takes no lock.
#[derive(Debug)]
pub struct Reached([AtomicU64; Limit::ALL.len()]);

impl Default for Reached {
    fn default() -> Self {
        Reached([const { AtomicU64::new(0) }; Limit::ALL.len()])
    }
}

impl Reached {
    /// `limit` was reached once more.
    pub fn note(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often `limit` was reached.
    pub fn count(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    /// Each limit, with how often it was reached.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        Limit::ALL.iter().map(|limit| (*limit, self.count(*limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_counts_for_itself() {
        let reached = Reached::default();
        for (times, limit) in Limit::ALL.iter().enumerate() {
            (0..times).for_each(|_| reached.note(*limit));
        }
        let counts: Vec<u64> = reached.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, (0..Limit::ALL.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn no_two_limits_have_one_word() {
        let mut words: Vec<&str> = Limit::ALL.iter().map(|limit| limit.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Limit::ALL.len());
    }
}
