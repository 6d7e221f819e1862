//! The messages, each with its kind's number, and how they become frames.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::answer::{Answer, ContestedNews};
use super::codec::{self, CodecError};
use super::extension::Extensions;
use super::frame::{self, Frame, FrameError};
use super::listing::{List, ListReply, Watch, WatchEvent};
use crate::limits;
use crate::types::grown::grown_up_to;
use crate::types::{IntentId, Micros, RawIntent, Slot, Time};

/// The first message of a connection, on its first lane. Its shape is the same in every version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The lowest version that the sender speaks.
    pub lowest_version: u16,
    /// The highest version that the sender speaks.
    pub highest_version: u16,
    /// The name that it asks for; `None` leaves it to the coordinator (the certificate's, where that decides).
    pub name: Option<String>,
    /// Which of the name's sessions this is; 1 to [`limits::LABEL_BYTES`] bytes.
    pub label: String,
    /// Random, new for each process: the newest to come wins its name and label.
    pub incarnation: u128,
    /// What the sender is here for.
    pub role: Role,
    /// Asks to be refused, rather than to take over, where another incarnation is live.
    pub refuse_if_live: bool,
    /// The last slot whose decisions this incarnation has had, where it comes back: it is sent what
    /// was decided since.
    pub seen: Option<Slot>,
    /// Who speaks, for people (program and version); may be empty.
    pub software: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

impl Hello {
    /// Whether `label` may be a session's label: 1 to [`limits::LABEL_BYTES`] bytes without control
    /// characters.
    pub fn is_label(label: &str) -> bool {
        (1..=limits::LABEL_BYTES).contains(&label.len()) && !label.chars().any(char::is_control)
    }
}

/// What a peer is here for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It declares intents.
    Agent,
    /// It only lists and watches; its declarations are refused, and it is no session.
    Observer,
}

impl Role {
    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Role::Agent => 1,
            Role::Observer => 2,
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.number().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u8::deserialize(from)? {
            1 => Ok(Role::Agent),
            2 => Ok(Role::Observer),
            other => Err(serde::de::Error::custom(format!("unknown role {other}"))),
        }
    }
}

/// The answer to the hello. Its shape is the same in every version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that both speak from here on.
    pub version: u16,
    /// The name in force.
    pub name: String,
    /// The label in force.
    pub label: String,
    /// The session's number, the same when an incarnation comes back.
    pub session: u64,
    /// This incarnation's session was known, and it is told what it missed.
    pub resumed: bool,
    /// Random, the same for as long as the coordinator's state lasts: another one has none of the
    /// grants that this agent may remember.
    pub state: u64,
    /// The slot length.
    pub slot_length: Micros,
    /// The earliest start after a decision.
    pub min_lead: Micros,
    /// How far ahead a claim may end.
    pub horizon: Micros,
    /// The slot that is open.
    pub slot: Slot,
    /// The coordinator's time when this was written.
    pub now: Time,
    /// What the agent may ask of it.
    pub limits: WireLimits,
    /// Who speaks, for people; may be empty.
    pub software: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// What one connection may ask of the coordinator. Past these it is refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireLimits {
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Declarations in one frame.
    pub batch: u32,
    /// Lanes open at a time.
    pub lanes: u32,
    /// Declarations without a final answer, for this name.
    pub undecided: u32,
}

/// Asks for the coordinator's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPing {
    /// The sender's number for it.
    pub seq: u64,
    /// The sender's own time in µs, of any clock that runs evenly.
    pub client_us: u64,
}

/// The coordinator's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPong {
    /// The ping's number.
    pub seq: u64,
    /// The ping's time, as it was.
    pub client_us: u64,
    /// The coordinator's time between the ping's arrival and this answer.
    pub coordinator: Time,
}

/// Declares intents, each on its own. They arrive together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declare {
    /// 1 to [`limits::BATCH`].
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::BATCH }>")]
    pub batch: Vec<Declaration>,
}

/// One intent, and what stands beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// The sender's number for it, unique within the connection and above 0; its answers repeat it.
    pub request: u64,
    /// Whether it takes the place of what its id stands for.
    pub revision: bool,
    /// The intent.
    pub intent: RawIntent,
    /// For people, up to [`limits::NOTE_BYTES`] bytes: what for, who, a link. It decides nothing.
    pub note: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// Ends a grant, or withdraws what is undecided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// The sender's number for it, unique within the connection and above 0; its answer repeats it.
    pub request: u64,
    /// Which intent.
    pub id: IntentId,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// Asks for a new end of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Renew {
    /// The sender's number for it, unique within the connection and above 0; its answer repeats it.
    pub request: u64,
    /// Which intent.
    pub id: IntentId,
    /// The new end.
    pub until: Time,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// The sender leaves and its session need not be kept. What it was granted runs to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bye {
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// The coordinator takes nothing new: it shuts down at once, or drains up to a deadline, which
/// [`Draining::stands`] tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draining {
    /// Why, for people; may be empty.
    pub reason: String,
    /// When to try again, in µs from now, where that is known.
    pub retry_after_us: Option<u64>,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// A newer incarnation of this name and label has taken over; the connection is closed after this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replaced {
    /// The software of the newer one, for people; may be empty.
    pub by: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// Why a frame is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No message of this kind goes in this direction, in this version.
    UnknownKind(u16),
    /// The body is not a message of its kind.
    Malformed {
        /// The kind.
        kind: u16,
        /// What is wrong with the body.
        why: CodecError,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownKind(kind) => write!(f, "a message of unknown kind {kind:#06x}"),
            DecodeError::Malformed { kind, why } => {
                write!(f, "a malformed message of kind {kind:#06x}: {why}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<FrameError> for CodecError {
    fn from(error: FrameError) -> Self {
        CodecError::new(error.to_string())
    }
}

macro_rules! messages {
    ($(#[$doc:meta])* $direction:ident { $($(#[$item:meta])* $name:ident($body:ty) = $kind:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $direction {
            $($(#[$item])* $name($body),)*
        }

        impl $direction {
            /// Every kind that goes in this direction, by number.
            pub const KINDS: &'static [u16] = &[$($kind,)*];

            /// The number of the message's kind.
            pub const fn kind(&self) -> u16 {
                match self {
                    $($direction::$name(_) => $kind,)*
                }
            }

            /// Appends the message to `out` as one frame.
            ///
            /// # Errors
            /// Where it does not fit in a frame; `out` is then as it was.
            pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
                frame::put(self.kind(), out, |out| match self {
                    $($direction::$name(body) => codec::encode(body, out),)*
                })
            }

            /// The message in `frame`.
            ///
            /// # Errors
            /// Where the kind is unknown, or the body is not such a message, whole and alone.
            pub fn decode(frame: Frame<'_>) -> Result<Self, DecodeError> {
                let kind = frame.kind;
                match kind {
                    $($kind => codec::decode(frame.body).map($direction::$name),)*
                    unknown => return Err(DecodeError::UnknownKind(unknown)),
                }
                .map_err(|why| DecodeError::Malformed { kind, why })
            }
        }

        $(impl From<$body> for $direction {
            fn from(body: $body) -> Self {
                $direction::$name(body)
            }
        })*
    };
}

messages! {
    /// What the coordinator is sent. Kinds are never reused.
    ToCoordinator {
        /// See [`Hello`].
        Hello(Hello) = 0x0001,
        /// See [`ClockPing`].
        ClockPing(ClockPing) = 0x0002,
        /// See [`Declare`].
        Declare(Declare) = 0x0003,
        /// See [`Release`].
        Release(Release) = 0x0004,
        /// See [`Renew`].
        Renew(Renew) = 0x0005,
        /// See [`List`].
        List(List) = 0x0006,
        /// See [`Watch`].
        Watch(Watch) = 0x0007,
        /// See [`Bye`].
        Bye(Bye) = 0x0008,
    }
}

messages! {
    /// What an agent is sent. Kinds are never reused.
    ToAgent {
        /// See [`Welcome`].
        Welcome(Welcome) = 0x0101,
        /// See [`ClockPong`].
        ClockPong(ClockPong) = 0x0102,
        /// See [`Answer`].
        Answer(Answer) = 0x0103,
        /// See [`ContestedNews`].
        Contested(ContestedNews) = 0x0104,
        /// See [`ListReply`].
        ListReply(ListReply) = 0x0105,
        /// See [`WatchEvent`].
        WatchEvent(WatchEvent) = 0x0106,
        /// See [`Draining`].
        Draining(Draining) = 0x0107,
        /// See [`Replaced`].
        Replaced(Replaced) = 0x0108,
    }
}
