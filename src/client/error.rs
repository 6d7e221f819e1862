//! Why no connection could be had: each cause apart, with what to do about it.

use std::net::SocketAddr;
use std::time::Duration;

use super::connector::{BROKE, Closed};
use crate::limits;
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
    /// More addresses were given than are tried: [`limits::ADDRESSES`].
    #[error("{given} addresses are given, and {} at most are tried", limits::ADDRESSES)]
    TooManyAddresses {
        /// How many.
        given: usize,
    },
    /// What was given is no address.
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
    /// The certificate that it was to show, its key or its token cannot be used.
    #[error("it cannot show who it is: {why}")]
    BadIdentity {
        /// What is wrong.
        why: String,
    },
    /// The host says that nobody listens at this port.
    #[error("nobody listens at {addr}")]
    NobodyListens {
        /// The address.
        addr: SocketAddr,
    },
    /// The host's name has no address, or nobody says which in time.
    #[error("the name {host:?} cannot be resolved: {why}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver says.
        why: String,
    },
    /// There is no way from this machine to the address, as the system or a router says.
    #[error("no way to {addr}: {why}")]
    NoRoute {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        why: String,
    },
    /// A TCP server listens at the address, and nobody answers QUIC there.
    #[error("{addr} takes TCP connections and does not answer QUIC, which is what preclaim speaks, over UDP")]
    SpeaksTcp {
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
    /// The name that was asked for is another's: the certificate or the token says another one.
    #[error("the coordinator refuses the name: {why}")]
    AnothersName {
        /// In its words: both names.
        why: String,
    },
    /// The coordinator lets nobody in with this certificate, or without one.
    #[error("the coordinator does not let this agent in: {why}")]
    CertificateRefused {
        /// Why, as far as it says.
        why: String,
    },
    /// The coordinator lets nobody in with this token, or without one.
    #[error("the coordinator does not let this agent in: {why}")]
    TokenRefused {
        /// Why, as far as it says.
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
    /// None of several addresses could be connected to.
    #[error("{}", named(errors))]
    NoneOf {
        /// Why not, for each address that was tried and each name that has none; the most telling first.
        errors: Vec<ConnectError>,
    },
}

fn named(errors: &[ConnectError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl ConnectError {
    /// What came of several addresses: the one error, or all of them, the most telling first.
    pub(super) fn all(mut errors: Vec<ConnectError>) -> Self {
        errors.sort_by_key(ConnectError::rank);
        match errors.len() {
            0 => ConnectError::NoAddress { looked: "none was given".into() },
            1 => errors.remove(0),
            _ => ConnectError::NoneOf { errors },
        }
    }

    /// The one cause that says most about what to do: of [`ConnectError::NoneOf`] the first, otherwise
    /// the error itself. Whoever answered tells more than one who refused, and that more than silence.
    pub fn cause(&self) -> &ConnectError {
        match self {
            ConnectError::NoneOf { errors } => errors.first().map_or(self, ConnectError::cause),
            _ => self,
        }
    }

    /// The lower, the more telling.
    fn rank(&self) -> u8 {
        match self {
            ConnectError::NoneOf { errors } => errors.first().map_or(u8::MAX, ConnectError::rank),
            ConnectError::NotTrusted { .. }
            | ConnectError::CertificateRefused { .. }
            | ConnectError::TokenRefused { .. } => 0,
            ConnectError::VersionMismatch { .. } => 1,
            ConnectError::NameRefused { .. }
            | ConnectError::AnothersName { .. }
            | ConnectError::SessionLive
            | ConnectError::Replaced { .. } => 2,
            ConnectError::Nonsense { .. } => 3,
            ConnectError::Busy { .. } => 4,
            ConnectError::Refused { .. } | ConnectError::NoWelcome { .. } | ConnectError::Lost { .. } => 5,
            ConnectError::SpeaksTcp { .. } => 6,
            ConnectError::NobodyListens { .. } => 7,
            ConnectError::TimedOut { .. } => 8,
            ConnectError::NoRoute { .. } => 9,
            ConnectError::Unresolved { .. } => 10,
            ConnectError::Local { .. } => 11,
            ConnectError::NoAddress { .. }
            | ConnectError::TooManyAddresses { .. }
            | ConnectError::BadAddress { .. }
            | ConnectError::BadCa { .. }
            | ConnectError::BadIdentity { .. } => 12,
        }
    }

    /// Whether trying again later may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            ConnectError::NoneOf { errors } => errors.iter().any(ConnectError::is_retryable),
            ConnectError::NobodyListens { .. }
            | ConnectError::Unresolved { .. }
            | ConnectError::NoRoute { .. }
            | ConnectError::SpeaksTcp { .. }
            | ConnectError::TimedOut { .. }
            | ConnectError::Busy { .. }
            | ConnectError::SessionLive
            | ConnectError::Refused { .. }
            | ConnectError::NoWelcome { .. }
            | ConnectError::Lost { .. }
            | ConnectError::Local { .. } => true,
            ConnectError::NoAddress { .. }
            | ConnectError::TooManyAddresses { .. }
            | ConnectError::BadAddress { .. }
            | ConnectError::BadCa { .. }
            | ConnectError::BadIdentity { .. }
            | ConnectError::NotTrusted { .. }
            | ConnectError::NameRefused { .. }
            | ConnectError::AnothersName { .. }
            | ConnectError::CertificateRefused { .. }
            | ConnectError::TokenRefused { .. }
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
            ConnectError::NoneOf { errors } => errors.first().map_or_else(String::new, ConnectError::hint),
            ConnectError::TooManyAddresses { .. } => "give fewer; a name may stand for several".into(),
            ConnectError::Unresolved { .. } => {
                "check the name, and the name server; an address in numbers needs neither".into()
            }
            ConnectError::NoRoute { .. } => "check the network of this machine".into(),
            ConnectError::SpeaksTcp { addr } => format!(
                "check the port; if a coordinator listens on UDP port {} there, a firewall on the way drops UDP",
                addr.port()
            ),
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
                "ask for another name".into()
            }
            ConnectError::BadIdentity { .. } => {
                "give a certificate and its key (--cert and --key, PRECLAIM_CERT and PRECLAIM_KEY), or a token \
                 (--token-file, PRECLAIM_TOKEN_FILE)"
                    .into()
            }
            ConnectError::AnothersName { .. } => "leave the name out (--name, PRECLAIM_NAME), or show the \
                 certificate or the token of the name that is asked for"
                .into(),
            ConnectError::CertificateRefused { .. } => "show a certificate that the coordinator's `client_ca` has \
                 issued, with --cert and --key (PRECLAIM_CERT, PRECLAIM_KEY): `preclaim certs agent NAME` makes one"
                .into(),
            ConnectError::TokenRefused { .. } => "give the agent's token with --token-file (PRECLAIM_TOKEN_FILE): \
                 `preclaim certs token NAME` makes one"
                .into(),
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
            Some(CloseCode::AnothersName) => ConnectError::AnothersName { why },
            Some(CloseCode::CertificateRefused) => ConnectError::CertificateRefused { why },
            Some(CloseCode::TokenRefused) => ConnectError::TokenRefused { why },
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
