//! Which certificates are trusted, and what is said about one that is not.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::super::ConnectError;

/// The certificates in this PEM text.
pub(super) fn roots(pem: &str) -> Result<RootCertStore, ConnectError> {
    let bad = |why: String| ConnectError::BadCa { why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() { Err(bad("there is no certificate in it".into())) } else { Ok(roots) }
}

/// What the verifier did not like.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) why: String,
    pub(super) valid_for: Vec<String>,
}

/// Verifies as rustls does, and remembers what was wrong: of the handshake's own error only an alert
/// is left.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) inner: Arc<WebPkiServerVerifier>,
    pub(super) complaint: Arc<Mutex<Option<Complaint>>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if let Err(error) = &verified {
            let why = match error {
                // A bad signature: signed by another issuer of the same name.
                rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                ) => "its issuer is not among the certificates to trust".to_owned(),
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => "it is for other names".to_owned(),
                other => other.to_string(),
            };
            let complaint = Complaint { why, valid_for: names_in(end_entity) };
            *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(complaint);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The names that a certificate is good for: what rustls lists when asked for one that nobody has.
fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let nobody = ServerName::try_from("nobody.invalid");
    let (Ok(parsed), Ok(nobody)) = (ParsedCertificate::try_from(certificate), nobody) else {
        return Vec::new();
    };
    match verify_server_name(&parsed, &nobody) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) => presented.iter().map(|name| plain(name)).collect(),
        _ => Vec::new(),
    }
}

/// rustls writes names as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_file_without_certificates_is_told() {
        assert!(matches!(roots(""), Err(ConnectError::BadCa { .. })));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
        assert!(matches!(roots(broken), Err(ConnectError::BadCa { .. })));
    }

    #[test]
    fn names_are_written_plainly() {
        assert_eq!(plain("DnsName(\"localhost\")"), "localhost");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("localhost"), "localhost");
    }
}
