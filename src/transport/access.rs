//! Who is let in, and under which name.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};

use super::IdentityError;
use crate::pki::{Certificate, NameRule, TokenDigest, Tokens};
use crate::session::coordinator::HelloRefusal;
use crate::types::Agent;
use crate::wire::{CloseCode, Hello};

/// Who is let in.
#[derive(Clone, Debug, Default)]
pub enum Access {
    /// Whoever reaches the coordinator; it is who it says it is.
    #[default]
    Open,
    /// Whoever has a certificate; it is who that says it is.
    Certificates(Certificates),
    /// Whoever has a token; it is the token's agent.
    Tokens(Tokens),
}

/// Whose certificates are taken, and what is read from them.
#[derive(Clone)]
pub struct Certificates {
    verifier: Arc<dyn ClientCertVerifier>,
    rule: NameRule,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Those that an authority in the PEM text `authorities` has issued, except what the lists in `revoked` name. A
    /// list must be there for every authority whose certificates are to be taken, once there is one; its own date of
    /// expiry does not count.
    ///
    /// # Errors
    /// Where there is no certificate, or something in either text cannot be read.
    pub fn new(authorities: &str, revoked: Option<&str>, rule: NameRule) -> Result<Self, IdentityError> {
        let unusable = |why: String| IdentityError::Clients(why);
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            let root = root.map_err(|error| unusable(format!("no certificate authority: {error}")))?;
            roots.add(root).map_err(|error| unusable(format!("no certificate authority: {error}")))?;
        }
        if roots.is_empty() {
            return Err(unusable("no certificate authority: there is no certificate in PEM form".into()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if let Some(revoked) = revoked {
            let lists: Result<Vec<_>, _> =
                CertificateRevocationListDer::pem_slice_iter(revoked.as_bytes()).collect();
            let lists = lists.map_err(|error| unusable(format!("no revocation list: {error}")))?;
            if lists.is_empty() {
                return Err(unusable("no revocation list: there is none in PEM form".into()));
            }
            verifier = verifier.with_crls(lists);
        }
        let verifier = verifier.build().map_err(|error| unusable(format!("no revocation list: {error}")))?;
        Ok(Certificates { verifier, rule })
    }

    /// The agent that `chain` says it is at `now`.
    fn agent(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<Agent, String> {
        let (own, issuers) = chain.split_first().ok_or("none was shown")?;
        self.verifier.verify_client_cert(own, issuers, now).map_err(|error| why(&error))?;
        self.rule.name_in(&Certificate::read(own)?)
    }
}

fn why(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(error) = error else { return error.to_string() };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not good yet",
        CertificateError::Revoked => "it was revoked",
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its issuer is not in the coordinator's client_ca"
        }
        CertificateError::UnknownRevocationStatus => "no list in the coordinator's crl is its issuer's",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for clients"
        }
        other => return other.to_string(),
    }
    .to_owned()
}

/// What a peer showed of who it is: of a token, only its digest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) token: Option<TokenDigest>,
}

impl Shown {
    /// What came with the handshake of `connection` and with `hello`.
    pub(crate) fn by(connection: &quinn::Connection, hello: &Hello) -> Self {
        let chain = connection.peer_identity().and_then(|shown| shown.downcast().ok());
        let chain = chain.map(|chain: Box<Vec<CertificateDer<'static>>>| *chain).unwrap_or_default();
        Shown { chain, token: hello.bearer().map(|token| TokenDigest::of(&token)) }
    }
}

impl Access {
    /// Who `shown` proves it is at `now`; `None` where that is not asked.
    pub(crate) fn certify(&self, shown: &Shown, now: UnixTime) -> Result<Option<Agent>, HelloRefusal> {
        match self {
            Access::Open => Ok(None),
            Access::Certificates(certificates) => {
                let refused = |reason| HelloRefusal { code: CloseCode::CertificateRefused, reason };
                certificates.agent(&shown.chain, now).map(Some).map_err(refused)
            }
            Access::Tokens(tokens) => {
                let refused =
                    |reason: &str| HelloRefusal { code: CloseCode::TokenRefused, reason: reason.into() };
                let token = shown.token.ok_or_else(|| refused("it asks for a token, and none came"))?;
                let agent = tokens.agent(token).ok_or_else(|| refused("the token is nobody's"))?;
                Ok(Some(agent.clone()))
            }
        }
    }

    /// What the handshake asks of a client.
    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        match self {
            Access::Certificates(certificates) => Arc::clone(&certificates.verifier),
            Access::Open | Access::Tokens(_) => WebPkiClientVerifier::no_client_auth(),
        }
    }
}
