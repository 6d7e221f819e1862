//! Who the coordinator is: its certificate and key, and the TLS that follows from them.

use std::fmt;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use ring::hmac;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::Access;
use crate::wire::ALPN;

/// A certificate chain and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    /// Leaves the key out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The certificate file has none in it, or is no PEM.
    #[error("no certificate in PEM form: {0}")]
    Certificate(String),
    /// The key file has none in it, or is no PEM.
    #[error("no private key in PEM form: {0}")]
    Key(String),
    /// What says whose certificates are taken cannot be used.
    #[error("{0}")]
    Clients(String),
    /// The two do not fit together, or are of a kind that is not taken.
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(String),
}

/// What is wrong with a PEM text, for people: the library's own words show bytes by their numbers.
pub(super) fn pem_fault(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section in it has no END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => {
            "a section in it has no BEGIN line that is right".to_owned()
        }
        pem::Error::Base64Decode(_) => "what stands in a section is no base64".to_owned(),
        other => other.to_string(),
    }
}

impl Identity {
    /// A new certificate of its own making, good for `names` (host names and IP addresses). Clients
    /// trust it only where they are given it.
    ///
    /// # Errors
    /// Where a name is neither.
    pub fn self_made(names: impl IntoIterator<Item = String>) -> Result<Self, IdentityError> {
        let made = rcgen::generate_simple_self_signed(names.into_iter().collect::<Vec<_>>())
            .map_err(|error| IdentityError::Tls(error.to_string()))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        Ok(Identity { chain: vec![made.cert.der().clone()], key })
    }

    /// The certificate chain (its own certificate first) and the key in these PEM texts.
    ///
    /// # Errors
    /// Where either is missing or malformed. Whether they fit together shows when they are used.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| IdentityError::Certificate(pem_fault(&error)))?;
        if chain.is_empty() {
            return Err(IdentityError::Certificate("the file has none".into()));
        }
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| IdentityError::Key(pem_fault(&error)))?;
        Ok(Identity { chain, key })
    }

    /// The coordinator's own certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.chain.first().cloned().unwrap_or_else(|| unreachable!("a chain has its own certificate first"))
    }

    /// The key of the words by which a coordinator that was started again ends the connections of the one
    /// before it (RFC 9000, section 10.3): the same after each start with this identity, and a secret.
    pub(super) fn reset_key(&self) -> hmac::Key {
        let own = hmac::Key::new(hmac::HMAC_SHA256, self.key.secret_der());
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&own, b"preclaim stateless reset").as_ref())
    }

    /// TLS 1.3 alone, with this identity and the protocol's name, for those whom `access` lets in.
    pub(crate) fn into_crypto(self, access: &Access) -> Result<Arc<QuicServerConfig>, IdentityError> {
        let tls = |error: rustls::Error| IdentityError::Tls(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls)?
            .with_client_cert_verifier(access.verifier())
            .with_single_cert(self.chain, self.key)
            .map_err(tls)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // No 0-RTT: what is sent in it could be replayed by somebody else.
        config.max_early_data_size = 0;
        // Nothing is resumed: a certificate that was revoked, or has expired, comes in by no ticket.
        config.send_tls13_tickets = 0;
        let quic =
            QuicServerConfig::try_from(config).map_err(|error| IdentityError::Tls(error.to_string()))?;
        Ok(Arc::new(quic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_certificate_or_key_say_so() {
        assert!(matches!(Identity::from_pem(b"", b""), Err(IdentityError::Certificate(_))));
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        assert!(matches!(Identity::from_pem(chain.as_bytes(), b"x"), Err(IdentityError::Key(_))));
        assert!(Identity::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (chain, key) = (made().cert.pem(), made().signing_key.serialize_pem());
        let mixed = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert!(matches!(mixed.into_crypto(&Access::Open), Err(IdentityError::Tls(_))));
    }
}
