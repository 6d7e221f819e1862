//! The certificate that this agent shows, and what a coordinator says that does not take it.

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder};

use super::super::ConnectError;
use super::super::credentials::Credentials;

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The certificate, those that lead from it to its issuer, and its key.
pub(super) fn load(credentials: &Credentials) -> Result<Own, ConnectError> {
    let bad = |what: &str, why: String| ConnectError::BadIdentity { why: format!("{what}: {why}") };
    let (cert, key) = credentials.texts()?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert.as_bytes()).collect();
    let chain = chain.map_err(|error| bad("no certificate in PEM form", error.to_string()))?;
    if chain.is_empty() {
        return Err(bad("no certificate in PEM form", "there is none in it".into()));
    }
    // What is wrong with a key is told without a word of it.
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| bad("no private key in PEM form", "it cannot be read as one".into()))?;
    Ok((chain, key))
}

/// The settings of a handshake that shows `credentials`, or nothing.
pub(super) fn show(
    tls: ConfigBuilder<ClientConfig, WantsClientCert>,
    credentials: Option<&Credentials>,
) -> Result<ClientConfig, ConnectError> {
    let Some(credentials) = credentials else { return Ok(tls.with_no_client_auth()) };
    let (chain, key) = load(credentials)?;
    tls.with_client_auth_cert(chain, key).map_err(|error| ConnectError::BadIdentity {
        why: format!("the certificate and its key cannot be used: {error}"),
    })
}

/// Why a coordinator ended the handshake because of the certificate, by the TLS alert that QUIC carries as its
/// code; `None` for any other code. A client learns of it after its own half of the handshake has succeeded.
pub(super) fn refused(code: u64) -> Option<&'static str> {
    Some(match code.checked_sub(0x100)? {
        116 => "it asks for a certificate, and none was shown",
        44 => "the certificate was revoked",
        45 => "the certificate has expired, or is not good yet, by the coordinator's clock",
        48 => "the certificate's issuer is none that it trusts",
        42 | 43 | 46 | 51 => "the certificate is none that it takes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_about_the_certificate_are_told_apart_from_others() {
        assert!(refused(0x100 + 116).is_some_and(|why| why.contains("none was shown")));
        assert!(refused(0x100 + 45).is_some_and(|why| why.contains("expired")));
        for other in [0, 45, 116, 0x100 + 120, 0x100 + 40, u64::MAX] {
            assert_eq!(refused(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_certificate_or_no_key_is_told_without_the_key() {
        let load = |cert: &str, key: &str| load(&Credentials::Pem { cert: cert.into(), key: key.into() });
        assert!(matches!(load("", "k"), Err(ConnectError::BadIdentity { .. })));
        let cert = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let why = load(cert, "hidden").unwrap_err().to_string();
        assert!(why.contains("private key") && !why.contains("hidden"), "{why}");
    }
}
