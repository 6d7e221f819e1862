//! Names and numbers of agents, intents, tasks, classes and tokens.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits;

/// The name of an agent. 1 to [`limits::AGENT_BYTES`] bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Agent(Arc<str>);

impl Agent {
    /// The agent of that name, or `None` where it is empty, too long or has a control character.
    pub fn new(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= limits::AGENT_BYTES;
        (fits && !name.chars().any(char::is_control)).then(|| Agent(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Wraps the number.
            pub const fn new(number: u64) -> Self {
                $name(number)
            }

            /// The number.
            pub const fn number(self) -> u64 {
                self.0
            }
        }

        impl From<u64> for $name {
            fn from(number: u64) -> Self {
                $name(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// The id of an intent, unique within its agent.
    IntentId
}
number! {
    /// What an agent is doing; leases and waits of one task never deadlock with each other.
    TaskId
}
number! {
    /// The token of a grant: one greater for every grant, never repeated.
    Token
}

impl Token {
    /// The token of the grant after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Token(self.0.saturating_add(1))
    }
}

/// The class of an intent, 0 to 7; the highest goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Class(u8);

impl Class {
    /// Class `number`, or `None` above [`limits::CLASS_MAX`].
    pub fn new(number: u64) -> Option<Self> {
        u8::try_from(number).ok().filter(|class| *class <= limits::CLASS_MAX).map(Class)
    }

    /// The class as a number, 0 to 7.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl From<Class> for u8 {
    fn from(class: Class) -> u8 {
        class.0
    }
}

impl TryFrom<u8> for Class {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Class::new(number.into()).ok_or("a class is 0 to 7")
    }
}

/// An intent's full name: its agent and its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentKey {
    /// Whose intent it is.
    pub agent: Agent,
    /// Its id, unique within the agent.
    pub id: IntentId,
}
