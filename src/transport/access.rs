//! Who is let in, and under which name.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};

use super::IdentityError;
use super::tls::pem_fault;
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
            let root =
                root.map_err(|error| unusable(format!("no certificate authority: {}", pem_fault(&error))))?;
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
            let lists =
                lists.map_err(|error| unusable(format!("no revocation list: {}", pem_fault(&error))))?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pki::{Folder, now};
    use crate::wire::Bearer;

    struct Scratch(Folder);

    impl Scratch {
        fn fresh(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("preclaim-access-{}-{name}", std::process::id()));
            let folder = Folder::at(dir);
            folder.init(30, true).unwrap();
            Scratch(folder)
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.0.file(name)).unwrap()
        }

        /// A certificate for `name`, good for `days`, as it is shown.
        fn shown(&self, name: &str, days: u32) -> Shown {
            let agent = Agent::new(name).unwrap();
            self.0.agent(&agent, days, true).unwrap();
            let own = CertificateDer::from_pem_file(self.0.agent_file(&agent)).unwrap();
            Shown { chain: vec![own], token: None }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.file(""));
        }
    }

    fn access(authorities: &str, revoked: Option<&str>) -> Access {
        Access::Certificates(Certificates::new(authorities, revoked, NameRule::default()).unwrap())
    }

    fn after(days: u64) -> UnixTime {
        let now = Duration::from_secs(u64::try_from(now()).unwrap());
        UnixTime::since_unix_epoch(now + Duration::from_secs(days * 86_400))
    }

    fn name(access: &Access, shown: &Shown, days: u64) -> Result<String, String> {
        let certified = access.certify(shown, after(days));
        certified.map(|agent| agent.unwrap().to_string()).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_certificate_counts_until_its_end_and_until_it_is_revoked() {
        let home = Scratch::fresh("life");
        let shown = home.shown("a", 9);
        let before = access(&home.text("ca.crt"), Some(&home.text("ca.crl")));
        assert_eq!(name(&before, &shown, 0), Ok("a".into()));
        assert_eq!(name(&before, &shown, 8), Ok("a".into()));
        assert_eq!(name(&before, &shown, 10), Err("it has expired".into()));
        home.0.revoke_agent(&Agent::new("a").unwrap()).unwrap();
        let revoked = access(&home.text("ca.crt"), Some(&home.text("ca.crl")));
        assert_eq!(name(&revoked, &shown, 0), Err("it was revoked".into()));
        assert_eq!(name(&revoked, &home.shown("a", 9), 0), Ok("a".into()), "a new one lets it in");
        assert_eq!(name(&before, &Shown::default(), 0), Err("none was shown".into()));
        assert_eq!(Access::Open.certify(&shown, after(0)), Ok(None));
    }

    #[test]
    fn two_authorities_stand_side_by_side_each_with_its_list() {
        let (old, new, other) = (Scratch::fresh("old"), Scratch::fresh("new"), Scratch::fresh("other"));
        let (of_old, of_new, of_other) = (old.shown("a", 9), new.shown("a", 9), other.shown("a", 9));
        let both = old.text("ca.crt") + &new.text("ca.crt");
        let lists = old.text("ca.crl") + &new.text("ca.crl");
        let access_both = access(&both, Some(&lists));
        assert_eq!(name(&access_both, &of_old, 0), Ok("a".into()));
        assert_eq!(name(&access_both, &of_new, 0), Ok("a".into()));
        assert!(name(&access_both, &of_other, 0).unwrap_err().contains("client_ca"));
        // Without its list nobody knows whether it was revoked.
        let half = access(&both, Some(&old.text("ca.crl")));
        assert!(name(&half, &of_new, 0).unwrap_err().contains("crl"));
        assert_eq!(
            name(&access(&both, None), &of_new, 0),
            Ok("a".into()),
            "where there are no lists, none is asked"
        );
        let gone = access(&new.text("ca.crt"), Some(&new.text("ca.crl")));
        assert!(name(&gone, &of_old, 0).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_told_and_lets_nobody_in() {
        let home = Scratch::fresh("bad");
        let made = |ca: &str, crl: Option<&str>| Certificates::new(ca, crl, NameRule::default());
        let (ca, broken) = (home.text("ca.crt"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
        for (ca, crl) in [("", None), ("junk", None), (ca.as_str(), Some("")), (ca.as_str(), Some(broken))] {
            assert!(matches!(made(ca, crl), Err(IdentityError::Clients(_))), "{crl:?}");
        }
        let access = access(&ca, None);
        for junk in [vec![], vec![0; 10], vec![0x30; 60_000]] {
            let shown = Shown { chain: vec![CertificateDer::from(junk)], token: None };
            assert!(name(&access, &shown, 0).is_err());
        }
        let key = Shown { chain: vec![], token: Some(TokenDigest::of(&Bearer::new([1; 32]))) };
        assert!(name(&access, &key, 0).is_err(), "a token is no certificate");
    }
}
