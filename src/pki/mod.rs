//! Who somebody is, by a certificate or a token: what a certificate says, the rule that makes a name of it, the
//! table of tokens, and a small authority that makes them all.
//!
//! Nothing here opens a socket. Certificates that are read here have been verified already where they came from
//! a peer, and are a user's own files otherwise; in either case none can do more than be refused.

mod authority;
mod certificate;
mod folder;
mod name_rule;
mod tokens;

pub use certificate::{Certificate, Kind, Revoked, revoked_in};
pub use folder::{Folder, FolderError, Issued, Standing, Withdrawn};
pub use name_rule::NameRule;
pub use tokens::{TokenDigest, Tokens};

/// Seconds since 1970 by this machine's clock: certificates go by it, and nothing that is decided does.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
