//! The daemon's own sections: listen, metrics, tls, auth, drain. `preclaim resolve` checks them and
//! leaves them alone.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::rules::duration_within;
use super::tree::{Fault, Field};
use crate::limits;
use crate::pki::NameRule;
use crate::types::Micros;

/// Where the daemon listens unless it is told otherwise: this machine alone.
pub(super) const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7411));

/// The files of the daemon's certificate, relative to the directory it is started in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// How `serve` knows who connects. Files are relative to the directory it is started in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Whoever connects is who it says it is.
    Open,
    /// Whoever has a token is that token's agent.
    Token {
        /// The file with the tokens' SHA-256 and names.
        tokens: PathBuf,
    },
    /// Whoever has a certificate is who that says it is.
    Certificate {
        /// The certificates of those who issue agents' certificates, PEM. `serve` does not start without.
        client_ca: Option<PathBuf>,
        /// The lists of those that were revoked, PEM.
        crl: Option<PathBuf>,
        /// What of a certificate is the name.
        name: NameRule,
    },
}

impl Default for Auth {
    fn default() -> Self {
        Auth::Certificate { client_ca: None, crl: None, name: NameRule::default() }
    }
}

pub(super) const LISTEN_KEYS: &[&str] = &["addr"];
pub(super) const METRICS: &[&str] = &["addr", "page"];
pub(super) const TLS: &[&str] = &["cert", "key"];

pub(super) fn listen(field: Field<'_>) -> Result<SocketAddr, Fault> {
    const RULE: &str = "an IP address and a port, such as \"127.0.0.1:7411\"";
    let addr = field
        .table(LISTEN_KEYS)?
        .optional("addr", |field| field.text(RULE)?.parse().map_err(|_| field.wrong(RULE)))?;
    Ok(addr.unwrap_or(LISTEN))
}

/// Where it is watched, and whether by the web page too.
pub(super) fn metrics(field: Field<'_>) -> Result<(Option<SocketAddr>, bool), Fault> {
    const RULE: &str = "an IP address and a port, such as \"127.0.0.1:7412\"";
    let metrics = field.table(METRICS)?;
    let addr = metrics.optional("addr", |field| field.text(RULE)?.parse().map_err(|_| field.wrong(RULE)))?;
    let page = metrics.optional("page", |field| {
        let page = field.flag()?;
        if page && addr.is_none() { Err(field.wrong("left out, or `addr` beside it")) } else { Ok(page) }
    })?;
    Ok((addr, page.unwrap_or(false)))
}

pub(super) const DRAIN: &[&str] = &["deadline"];

/// How long a drain waits for holders.
pub(super) fn drain(field: Field<'_>) -> Result<Micros, Fault> {
    let deadline = |field: Field<'_>| duration_within(field, Micros::ZERO, limits::DRAIN_MOST);
    Ok(field.table(DRAIN)?.optional("deadline", deadline)?.unwrap_or(limits::DRAIN_WITHIN))
}

pub(super) fn tls(field: Field<'_>) -> Result<TlsFiles, Fault> {
    let tls = field.table(TLS)?;
    Ok(TlsFiles { cert: tls.required("cert", FILE, file)?, key: tls.required("key", FILE, file)? })
}

pub(super) const AUTH: &[&str] = &["mode", "client_ca", "crl", "name", "tokens"];

pub(super) fn auth(field: Field<'_>) -> Result<Auth, Fault> {
    let auth = field.table(AUTH)?;
    let mode = auth.optional("mode", |field| field.word(&["certificate", "token", "open"]))?.unwrap_or(0);
    // What is of another mode is in force nowhere, and must not look as if it were.
    let none_of = |keys: &[&'static str], mode: &str| {
        let misplaced = |field: Field<'_>| Err(field.wrong(format!("left out: `mode` is not \"{mode}\"")));
        keys.iter()
            .try_for_each(|key| auth.optional(key, misplaced).map(|found: Option<()>| found.unwrap_or(())))
    };
    if mode != 0 {
        none_of(&["client_ca", "crl", "name"], "certificate")?;
    }
    if mode != 1 {
        none_of(&["tokens"], "token")?;
    }
    Ok(match mode {
        0 => Auth::Certificate {
            client_ca: auth.optional("client_ca", file)?,
            crl: auth.optional("crl", file)?,
            name: auth.optional("name", name_rule)?.unwrap_or_default(),
        },
        1 => Auth::Token { tokens: auth.required("tokens", FILE, file)? },
        _ => Auth::Open,
    })
}

fn name_rule(field: Field<'_>) -> Result<NameRule, Fault> {
    NameRule::parse(field.text(NameRule::RULE)?).ok_or_else(|| field.wrong(NameRule::RULE))
}

const FILE: &str = "the path of a file";

pub(super) fn file(field: Field<'_>) -> Result<PathBuf, Fault> {
    let text = field.text(FILE)?;
    if text.is_empty() || text.contains('\0') { Err(field.wrong(FILE)) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn count_within(field: Field<'_>, range: &RangeInclusive<usize>) -> Result<usize, Fault> {
    let rule = format!("a whole number from {} to {}", range.start(), range.end());
    let count = usize::try_from(field.count(&rule)?).ok();
    count.filter(|count| range.contains(count)).ok_or_else(|| field.wrong(rule))
}
