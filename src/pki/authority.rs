//! A small certificate authority: one key, which signs certificates of coordinators and agents, and the list of
//! those that are good no more.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::DnsName;

use super::certificate::{Certificate, Revoked, hex};
use super::name_rule::NameRule;
use crate::types::Agent;

/// How long before it is made a certificate counts as good: by so much the clocks of those who look at it may be
/// behind.
const EARLIER: i64 = 3_600;
const DAY: i64 = 86_400;

/// What a revocation list says of its own end, in days. Nobody here goes by it: a list stays good until there is
/// another one.
const LIST_DAYS: i64 = 3_650;

/// A certificate and its key, both PEM.
pub(super) struct Made {
    pub(super) cert: String,
    pub(super) key: String,
}

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A coordinator that is reached by these names.
    Server(Vec<Host>),
    /// The agent of this name.
    Agent(Agent),
}

/// By what a coordinator is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    Dns(String),
}

impl Host {
    /// An address, or the name of a host.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let ip = text.parse().ok().map(Host::Ip);
        ip.or_else(|| DnsName::try_from(text).is_ok().then(|| Host::Dns(text.to_owned())))
    }
}

impl Subject {
    fn names(&self) -> Result<Vec<SanType>, String> {
        let ascii = |text: String| text.try_into().map_err(|error: rcgen::Error| error.to_string());
        match self {
            Subject::Agent(agent) => Ok(vec![SanType::URI(ascii(NameRule::own_uri(agent))?)]),
            Subject::Server(hosts) => {
                let name = |host: &Host| match host {
                    Host::Ip(ip) => Ok(SanType::IpAddress(*ip)),
                    Host::Dns(name) => ascii(name.clone()).map(SanType::DnsName),
                };
                hosts.iter().map(name).collect()
            }
        }
    }

    /// What it may be used for, so that no agent can pass for a coordinator, nor the other way round.
    fn usage(&self) -> ExtendedKeyUsagePurpose {
        match self {
            Subject::Agent(_) => ExtendedKeyUsagePurpose::ClientAuth,
            Subject::Server(_) => ExtendedKeyUsagePurpose::ServerAuth,
        }
    }
}

/// An authority that signs.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Nothing that it signs outlasts it.
    until: i64,
}

impl Authority {
    /// A new one, good for `days` from `now` on.
    pub(super) fn make(days: u32, now: i64) -> Result<Made, String> {
        let mut mark = [0; 4];
        SystemRandom::new().fill(&mut mark).map_err(|_| "the system has no randomness".to_owned())?;
        // Each has a name of its own: by that a list is matched with the certificates that it is about.
        let mut params = params(&format!("preclaim CA {}", hex(&mark)), now, until(days, now));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(words)?;
        let cert = params.self_signed(&key).map_err(words)?;
        Ok(Made { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// The one of these PEM texts.
    pub(super) fn load(cert: &str, key: &str) -> Result<Self, String> {
        let until = Certificate::read_pem(cert)?.until;
        let key = KeyPair::from_pem(key).map_err(|_| "its key cannot be read".to_owned())?;
        let issuer = Issuer::from_ca_cert_pem(cert, key).map_err(words)?;
        Ok(Authority { issuer, until })
    }

    /// A new key and a certificate for it, good for `days` from `now` on, or to the authority's own end.
    pub(super) fn issue(&self, subject: &Subject, days: u32, now: i64) -> Result<Made, String> {
        let common = match subject {
            Subject::Server(_) => "preclaim coordinator",
            Subject::Agent(_) => "preclaim agent",
        };
        let mut params = params(common, now, until(days, now).min(self.until));
        params.subject_alt_names = subject.names()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![subject.usage()];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(words)?;
        let cert = params.signed_by(&key, &self.issuer).map_err(words)?;
        Ok(Made { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// The list of those that are good no more, PEM.
    pub(super) fn list(&self, revoked: &[Revoked], now: i64) -> Result<String, String> {
        let entry = |revoked: &Revoked| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&revoked.number),
            revocation_time: date_time_ymd(1970, 1, 1) + after(revoked.since),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1) + after(now),
            next_update: date_time_ymd(1970, 1, 1) + after(now.saturating_add(LIST_DAYS * DAY)),
            crl_number: SerialNumber::from(u64::try_from(now).unwrap_or(0)),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(words)
    }
}

fn words(error: rcgen::Error) -> String {
    error.to_string()
}

fn until(days: u32, now: i64) -> i64 {
    now.saturating_add(i64::from(days) * DAY)
}

fn params(common: &str, now: i64, until: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    params.not_before = date_time_ymd(1970, 1, 1) + after(now.saturating_sub(EARLIER));
    params.not_after = date_time_ymd(1970, 1, 1) + after(until);
    params
}

/// Times are counted from 1970 on: the type that they have in rcgen is of a crate that is not named here.
fn after(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
