//! Why no connection could be had: each cause apart, with what to do about it.

use std::net::SocketAddr;
use std::time::Duration;

use super::connector::{BROKE, Closed};
use crate::wire::CloseCode;

/// Why no connection could be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No address was given and none was found.
    #[error("no coordinator to connect to: no address given, PRECLAIM_ADDR not set, and {looked}")]
    NoAddress {
        /// Where it was looked for, and what was found.
        looked: String,
    },
    /// The address is none, or its host has no address.
    #[error("{addr:?} is no address: {why}")]
    BadAddress {
        /// What was given.
        addr: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificates to trust could not be read, or there are none.
    #[error("no certificate to trust: {why}")]
    BadCa {
        /// What is wrong.
        why: String,
    },
    /// The host says that nobody listens at this port.
    #[error("nobody listens at {addr}")]
    NobodyListens {
        /// The address.
        addr: SocketAddr,
    },
    /// Nothing came back at all.
    #[error("no answer from {addr} within {after:?}")]
    TimedOut {
        /// The address.
        addr: SocketAddr,
        /// How long it was waited.
        after: Duration,
    },
    /// The certificate is not trusted.
    #[error("the certificate of {addr} is not trusted for {expected}: {why}")]
    NotTrusted {
        /// The address.
        addr: SocketAddr,
        /// The name that was expected.
        expected: String,
        /// The names that it is good for.
        valid_for: Vec<String>,
        /// What is wrong.
        why: String,
    },
    /// The coordinator refuses the name that was asked for.
    #[error("the coordinator refuses the name: {why}")]
    NameRefused {
        /// In its words.
        why: String,
    },
    /// A session of this name and label is live, and the hello asked not to take over.
    #[error("a session of this name and label is live")]
    SessionLive,
    /// The two have no version in common.
    #[error("the coordinator speaks another version of the protocol: {why}")]
    VersionMismatch {
        /// In more words.
        why: String,
    },
    /// The coordinator has no room now, or shuts down.
    #[error("the coordinator takes no connections now: {why}")]
    Busy {
        /// In its words.
        why: String,
    },
    /// A newer process has taken over this name and label, or had before this one came back.
    #[error("a newer process has taken over this name and label: {why}")]
    Replaced {
        /// In the coordinator's words.
        why: String,
    },
    /// The connection stood, and was lost.
    #[error("the connection was lost: {why}")]
    Lost {
        /// In words.
        why: String,
    },
    /// The coordinator ended the connection before it welcomed the agent.
    #[error("the connection was ended before the welcome: {why}")]
    Refused {
        /// In its words.
        why: String,
    },
    /// The connection stood, and then no welcome came over it.
    #[error("no welcome within {after:?}: what listens there takes connections and says nothing")]
    NoWelcome {
        /// How long it took, the connection and all.
        after: Duration,
    },
    /// What came instead of a welcome is no message of this protocol, or one out of turn.
    #[error("what listens there does not answer as a coordinator does: {why}")]
    Nonsense {
        /// What was wrong with it.
        why: String,
    },
    /// The machine refuses what is needed to connect.
    #[error("cannot connect: {why}")]
    Local {
        /// In its words.
        why: String,
    },
}

impl ConnectError {
    /// Whether trying again later may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            ConnectError::NobodyListens { .. }
            | ConnectError::TimedOut { .. }
            | ConnectError::Busy { .. }
            | ConnectError::SessionLive
            | ConnectError::Refused { .. }
            | ConnectError::NoWelcome { .. }
            | ConnectError::Lost { .. }
            | ConnectError::Local { .. } => true,
            ConnectError::NoAddress { .. }
            | ConnectError::BadAddress { .. }
            | ConnectError::BadCa { .. }
            | ConnectError::NotTrusted { .. }
            | ConnectError::NameRefused { .. }
            | ConnectError::Nonsense { .. }
            | ConnectError::Replaced { .. }
            | ConnectError::VersionMismatch { .. } => false,
        }
    }

    /// What to do about it, for people.
    pub fn hint(&self) -> String {
        match self {
            ConnectError::NoAddress { .. } => {
                "start one with `preclaim dev`, or name one with --addr or PRECLAIM_ADDR".into()
            }
            ConnectError::BadAddress { .. } => "write HOST:PORT, such as 127.0.0.1:7411".into(),
            ConnectError::BadCa { .. } => {
                "give the coordinator's CA certificate (PEM) with --ca or PRECLAIM_CA".into()
            }
            ConnectError::NobodyListens { addr } => {
                format!(
                    "check the port, and start the coordinator there: nothing has UDP port {} open",
                    addr.port()
                )
            }
            ConnectError::TimedOut { .. } => {
                "check the host, and whether a firewall on the way drops UDP; QUIC needs it".into()
            }
            ConnectError::NotTrusted { valid_for, .. } if !valid_for.is_empty() => {
                format!(
                    "connect by one of the names that it is good for ({}), and trust its issuer with --ca",
                    valid_for.join(", ")
                )
            }
            ConnectError::NotTrusted { .. } => "trust its issuer with --ca or PRECLAIM_CA".into(),
            ConnectError::NameRefused { .. } => {
                "ask for another name, or connect with its certificate".into()
            }
            ConnectError::SessionLive => "end the other one, use another label, or take over".into(),
            ConnectError::Replaced { .. } => "end one of the two, or give each a label of its own".into(),
            ConnectError::VersionMismatch { .. } => "use the same release on both sides".into(),
            ConnectError::Busy { .. } | ConnectError::Refused { .. } | ConnectError::Lost { .. } => {
                "try again in a while".into()
            }
            ConnectError::NoWelcome { .. } => {
                "check whether a coordinator listens there and is not stopped, or give it more time".into()
            }
            ConnectError::Nonsense { .. } => {
                "check that a coordinator listens there, of the same release".into()
            }
            ConnectError::Local { .. } => "check the limits and the network of this machine".into(),
        }
    }

    /// What the end of a connection before its welcome means.
    pub(super) fn before_welcome(closed: Closed) -> Self {
        let why = closed.why.strip_prefix(BROKE).unwrap_or(&closed.why).to_owned();
        match closed.breach {
            Some(CloseCode::UnsupportedVersion) => return ConnectError::VersionMismatch { why },
            Some(_) => return ConnectError::Nonsense { why },
            None => {}
        }
        match closed.code {
            Some(CloseCode::NameRefused) => ConnectError::NameRefused { why },
            Some(CloseCode::SessionLive) => ConnectError::SessionLive,
            Some(CloseCode::Replaced) => ConnectError::Replaced { why },
            Some(CloseCode::UnsupportedVersion) => ConnectError::VersionMismatch { why },
            Some(CloseCode::TooManyConnections | CloseCode::ShuttingDown) => ConnectError::Busy { why },
            _ => ConnectError::Refused { why },
        }
    }

    /// What the end of a connection after its welcome means.
    pub(super) fn after_welcome(closed: Closed) -> Self {
        match closed.code {
            Some(CloseCode::Replaced) => ConnectError::Replaced { why: closed.why },
            _ => ConnectError::Lost { why: closed.why },
        }
    }
}
