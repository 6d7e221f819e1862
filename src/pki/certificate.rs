//! What stands in a certificate, and in a list of revoked ones.

use std::net::IpAddr;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::limits;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It issues others.
    Authority,
    /// It says who a coordinator is.
    Server,
    /// It says who an agent is.
    Agent,
}

/// What stands in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its number, which its issuer gives once: hexadecimal digits.
    pub serial: String,
    /// What it is for.
    pub kind: Kind,
    /// The DNS names that it is good for.
    pub dns: Vec<String>,
    /// The URIs.
    pub uris: Vec<String>,
    /// The IP addresses.
    pub ips: Vec<IpAddr>,
    /// From when on it is good, in seconds since 1970.
    pub from: i64,
    /// Until when it is good, in seconds since 1970.
    pub until: i64,
}

impl Certificate {
    /// Reads one certificate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let bad = |error: &dyn std::fmt::Display| format!("no X.509 certificate: {error}");
        let (_, parsed) = X509Certificate::from_der(der).map_err(|error| bad(&error))?;
        let names = parsed.subject_alternative_name().map_err(|error| bad(&error))?;
        let usage = parsed.extended_key_usage().map_err(|error| bad(&error))?;
        let is_server = usage.is_some_and(|usage| usage.value.server_auth);
        let kind = match (parsed.is_ca(), is_server) {
            (true, _) => Kind::Authority,
            (false, true) => Kind::Server,
            (false, false) => Kind::Agent,
        };
        let mut certificate = Certificate {
            serial: hex(parsed.raw_serial()),
            kind,
            dns: Vec::new(),
            uris: Vec::new(),
            ips: Vec::new(),
            from: parsed.validity().not_before.timestamp(),
            until: parsed.validity().not_after.timestamp(),
        };
        for name in names.iter().flat_map(|names| &names.value.general_names).take(limits::CERTIFICATE_NAMES)
        {
            match name {
                GeneralName::DNSName(name) => certificate.dns.push((*name).to_owned()),
                GeneralName::URI(uri) => certificate.uris.push((*uri).to_owned()),
                GeneralName::IPAddress(bytes) => certificate.ips.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(certificate)
    }

    /// The first certificate in a PEM text.
    ///
    /// # Errors
    /// Where there is none, or what is wrong with it.
    pub fn read_pem(pem: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("no certificate in PEM form: {error}"))?;
        Certificate::read(&der)
    }

    /// Whole days from `now` until it ends; below zero once it has.
    pub fn days_left(&self, now: i64) -> i64 {
        self.until.saturating_sub(now).div_euclid(86_400)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A certificate that is good no more, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The number: hexadecimal digits.
    pub serial: String,
    /// Since when, in seconds since 1970.
    pub since: i64,
    pub(super) number: Vec<u8>,
}

/// The certificates that the lists in a PEM text revoke.
///
/// # Errors
/// Where one of them cannot be read.
pub fn revoked_in(pem: &str) -> Result<Vec<Revoked>, String> {
    let mut revoked = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()) {
        let list = list.map_err(|error| format!("no revocation list in PEM form: {error}"))?;
        let (_, list) = CertificateRevocationList::from_der(&list)
            .map_err(|error| format!("no revocation list: {error}"))?;
        revoked.extend(list.iter_revoked_certificates().map(|entry| Revoked {
            serial: hex(entry.raw_serial()),
            since: entry.revocation_date.timestamp(),
            number: entry.raw_serial().to_vec(),
        }));
    }
    Ok(revoked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Vec<u8> {
        let mut params =
            rcgen::CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.subject_alt_names.push(rcgen::SanType::URI("x:y".try_into().unwrap()));
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 11);
        params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0x0a, 0xff]));
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn what_stands_in_a_certificate_is_read() {
        let read = Certificate::read(&made()).unwrap();
        assert_eq!((read.serial.as_str(), read.kind), ("0aff", Kind::Agent));
        assert_eq!((read.dns, read.uris), (vec!["a.example".to_owned()], vec!["x:y".to_owned()]));
        assert_eq!(read.ips, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let read = Certificate::read(&made()).unwrap();
        assert_eq!(read.until - read.from, 10 * 86_400);
        assert_eq!(
            (read.days_left(read.from), read.days_left(read.until), read.days_left(read.until + 1)),
            (10, 0, -1)
        );
    }

    #[test]
    fn whatever_is_read_there_is_an_answer() {
        let whole = made();
        for cut in 0..whole.len() {
            assert!(Certificate::read(&whole[..cut]).is_err());
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut other = whole.clone();
                other[at] ^= 1 << bit;
                let _ = Certificate::read(&other);
            }
        }
        assert!(Certificate::read_pem("").is_err());
        assert_eq!(revoked_in("").unwrap(), []);
        assert!(revoked_in("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").is_err());
    }
}
