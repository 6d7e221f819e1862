//! Settings of a client, and how it gets its first connection.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::connector::Connector;
#[cfg(feature = "daemon")]
use super::connector::{Lane, Link};
use super::credentials::{Credentials, Text, Token};
use super::degrade::{Degrade, Policies};
use super::discovery::{self, DevFile};
use super::lanes::LANES;
use super::quic::QuicConnector;
use super::shared::{Phase, Shared};
use super::tuning::Tuning;
use super::{Client, ConnectError, Place, YEAR, driver, private_file};
use crate::session::agent::{AgentSession, Identity};
use crate::types;
use crate::wire::Role;

/// How long a connection may take, unless the agent says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries of [`ClientBuilder::connect_within`], at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Above this the coordinator's time counts as uncertain, unless the agent says otherwise.
const CLOCK_BOUND: Duration = Duration::from_millis(250);
/// How long an answer may take beside what it is waited for, unless the agent says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// The label of a client that names none.
const LABEL: &str = "main";

/// Settings of a client.
///
/// The address is what [`ClientBuilder::addr`] says, else `PRECLAIM_ADDR`, else that of a `preclaim dev`
/// of the same user on this machine. The certificate to trust is what [`ClientBuilder::ca`] or
/// [`ClientBuilder::ca_pem`] says, else the file that `PRECLAIM_CA` names, else that of the same
/// `preclaim dev`. The name is what [`ClientBuilder::name`] says, else `PRECLAIM_NAME`, else up to
/// the coordinator. It shows who it is by what [`ClientBuilder::identity`] or [`ClientBuilder::identity_files`] says,
/// else by the files that `PRECLAIM_CERT` and `PRECLAIM_KEY` name; where it has no certificate, by what
/// [`ClientBuilder::token`] or [`ClientBuilder::token_file`] says, else by the file that `PRECLAIM_TOKEN_FILE` names.
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    addrs: Vec<String>,
    ca: Option<Ca>,
    server_name: Option<String>,
    credentials: Option<Credentials>,
    token: Option<Token>,
    name: Option<String>,
    label: Option<String>,
    refuse_if_live: bool,
    observer: bool,
    timeout: Option<Duration>,
    patience: Option<Duration>,
    clock_bound: Option<Duration>,
    software: Option<String>,
    degrade: BTreeMap<types::Path, Degrade>,
    degrade_otherwise: Degrade,
    lanes: Option<usize>,
    tuning: Option<Tuning>,
}

#[derive(Clone, Debug)]
enum Ca {
    File(PathBuf),
    Pem(String),
}

impl ClientBuilder {
    /// Where the coordinator listens, as `HOST:PORT`. Given several times, the first that answers is
    /// taken.
    #[must_use]
    pub fn addr(mut self, addr: impl ToString) -> Self {
        self.addrs.push(addr.to_string());
        self
    }

    /// A file with the certificates to trust (PEM): the coordinator's own, or its issuer's.
    #[must_use]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(Ca::File(file.into()));
        self
    }

    /// The certificates to trust (PEM).
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca = Some(Ca::Pem(pem.into()));
        self
    }

    /// The certificate to trust (DER), such as that of a coordinator in the same process.
    #[must_use]
    pub fn ca_der(self, der: &[u8]) -> Self {
        self.ca_pem(discovery::pem(der))
    }

    /// The name that the coordinator's certificate must be good for; the address's host otherwise.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The certificate that it shows, with those between it and the coordinator's `client_ca` after it, and its
    /// key; both PEM. The name is what the certificate says: one that is asked for beside it must be the same.
    #[must_use]
    pub fn identity(mut self, cert_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::Pem { cert: cert_pem.into(), key: key_pem.into() });
        self
    }

    /// The same from files, which are read anew for each connection: a renewed certificate is taken without a
    /// restart. A key that others may read is refused.
    #[must_use]
    pub fn identity_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.credentials = Some(Credentials::Files { cert: cert.into(), key: key.into() });
        self
    }

    /// The token by which it says who it is, as `preclaim certs token` printed it, for a coordinator that takes
    /// tokens. The name is the token's.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::Text(Text(token.into())));
        self
    }

    /// A file with that token in it. One that others may read is refused.
    #[must_use]
    pub fn token_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.token = Some(Token::File(file.into()));
        self
    }

    /// The agent's name: 1 to 128 bytes without control characters. Leave it out where a certificate or a token
    /// says it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Which of the name's sessions this is, `main` otherwise: within a name and label the newest
    /// process wins. 1 to 64 bytes without control characters.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Asks to be refused, rather than to take over, where a session of this name and label is live.
    #[must_use]
    pub fn refuse_if_live(mut self) -> Self {
        self.refuse_if_live = true;
        self
    }

    /// Only lists and watches: what is declared is refused, and no session is taken over.
    #[must_use]
    pub fn observer(mut self) -> Self {
        self.observer = true;
        self
    }

    /// How long it may take until the coordinator has welcomed this agent, 5 s otherwise: all addresses
    /// together, with looking their names up. Each later try for a connection has as long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long each answer may take beside the [`super::Intent::wait`] of what was asked, 10 s otherwise,
    /// lost connections and new ones included. Past it the call ends as *unknown*, or as *disconnected*
    /// where the request cannot have been heard.
    #[must_use]
    pub fn answer_within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Above this uncertainty of the coordinator's time, 250 ms otherwise, [`super::Event::ClockUncertain`] says
    /// so, and no time of the agent's own clock is taken.
    #[must_use]
    pub fn clock_bound(mut self, bound: Duration) -> Self {
        self.clock_bound = Some(bound);
        self
    }

    /// Program and version, for people who look at the coordinator's sessions.
    #[must_use]
    pub fn software(mut self, software: impl Into<String>) -> Self {
        self.software = Some(software.into());
        self
    }

    /// What to do where [`Client::pursue`] gets no grant for `place` or something below it. Of several places the
    /// longest that covers a claim decides; of several claims, the one with the most careful policy: stop before
    /// keep the last plan before fall back. Given again for the same place, it replaces the policy.
    #[must_use]
    pub fn degrade(mut self, place: impl Into<Place>, policy: Degrade) -> Self {
        self.degrade.insert(place.into().path().clone(), policy);
        self
    }

    /// The same for all that [`ClientBuilder::degrade`] says nothing of: [`Degrade::stop`] otherwise.
    #[must_use]
    pub fn degrade_otherwise(mut self, policy: Degrade) -> Self {
        self.degrade_otherwise = policy;
        self
    }

    /// Over how many lanes its intents are spread, by their ids; 1 otherwise, and never more than half of what
    /// the coordinator allows. A lost packet holds up what comes after it on its lane, so more lanes help who has
    /// many intents under way at a time that have nothing to do with each other: docs/BENCHMARKS.md, "Under loss",
    /// has figures. What is said on different lanes may arrive in another order: a release and the next declaration
    /// of the same place, made before the release was answered, may meet the other way round, and that is then a
    /// conflict with oneself. On one lane they never do.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Something else done about loss: for benches that compare.
    #[doc(hidden)]
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Some(tuning);
        self
    }

    /// Connects, and waits until the coordinator has welcomed this agent and its clock is known. It
    /// must be called within a tokio runtime. Cancel safe: a connection half made is given up.
    ///
    /// # Errors
    /// Why there is no connection; see [`ConnectError::hint`] for what to do.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let connector = self.connector()?;
        self.connect_by(Arc::new(connector)).await
    }

    fn connector(&self) -> Result<QuicConnector, ConnectError> {
        let (addrs, ca) = self.found()?;
        let credentials = match &self.credentials {
            Some(given) => Some(given.clone()),
            None => Credentials::from_env()?,
        };
        QuicConnector::new(addrs, self.server_name.clone(), &ca, credentials, self.within(), self.tuned())
    }

    /// As [`ClientBuilder::connect`], and where that fails for a reason that may pass
    /// ([`ConnectError::is_retryable`]) it is tried again, for up to `span`: for agents that may start before their
    /// coordinator does. Once there has been a connection, a client makes losses good by itself, for as long as it
    /// lives. Cancel safe.
    ///
    /// # Errors
    /// Why the last try failed.
    pub async fn connect_within(self, span: Duration) -> Result<Client, ConnectError> {
        let ends = tokio::time::Instant::now() + span.min(YEAR);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.clone().connect().await {
                Err(why) if why.is_retryable() && tokio::time::Instant::now() + pause < ends => {
                    tracing::info!("no coordinator yet: {why}");
                }
                connected => return connected,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects and opens the first lane, and says nothing on it: for who speaks the wire itself.
    #[cfg(feature = "daemon")]
    pub(crate) async fn open_lane(&self) -> Result<(Arc<dyn Link>, Lane), ConnectError> {
        let link = self.connector()?.connect().await?;
        let lane = link.open_lane().await.map_err(ConnectError::before_welcome)?;
        Ok((link, lane))
    }

    /// The name that it will ask for.
    #[cfg(feature = "testing")]
    pub(crate) fn name_asked_for(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn tuned(&self) -> Tuning {
        self.tuning.unwrap_or(Tuning::CHOSEN)
    }

    /// How long a connection may take; what a clock cannot add up is cut.
    fn within(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT).min(YEAR)
    }

    /// How long a connection may take.
    #[cfg(feature = "testing")]
    pub(crate) fn longest_connect(&self) -> Duration {
        self.within()
    }

    /// Connects by any connector.
    pub(crate) async fn connect_by(self, connector: Arc<dyn Connector>) -> Result<Client, ConnectError> {
        let timeout = self.within();
        let bounds = (self.patience.unwrap_or(PATIENCE), self.clock_bound.unwrap_or(CLOCK_BOUND));
        let lanes = self.lanes.unwrap_or(LANES);
        let session = AgentSession::new(self.own_words(connector.draw())?);
        let first_id = connector.draw() as u64;
        let shared = Arc::new(Shared::new(session, connector.clock(), first_id, bounds, lanes));
        let mut phase = shared.phase.subscribe();
        let connecting = driver::keep_connected(Arc::clone(&shared), connector, timeout);
        let mut connecting = AbortOnDrop(Some(tokio::spawn(connecting)));
        let first = phase.wait_for(|phase| *phase != Phase::Connecting).await.map(|phase| phase.clone());
        let welcome = shared.look(|state, _| state.session.welcome().cloned());
        match (first, welcome) {
            (Ok(Phase::Over(why) | Phase::Away(why)), _) => Err(why),
            (Ok(Phase::Up), Some(welcome)) => {
                connecting.0 = None;
                tokio::spawn(driver::keep_time(Arc::clone(&shared)));
                let policies = Policies::new(self.degrade_otherwise, self.degrade);
                Ok(Client::new(shared, welcome, policies))
            }
            _ => Err(ConnectError::Lost { why: "right after the welcome".into() }),
        }
    }

    /// What the hello says.
    fn own_words(&self, incarnation: u128) -> Result<Identity, ConnectError> {
        let bound = self.clock_bound.unwrap_or(CLOCK_BOUND);
        let own = concat!("preclaim-client ", env!("CARGO_PKG_VERSION"));
        let token = self.token.clone().or_else(Token::from_env);
        Ok(Identity {
            name: self.name.clone().or_else(|| std::env::var("PRECLAIM_NAME").ok()),
            label: self.label.clone().unwrap_or_else(|| LABEL.into()),
            incarnation,
            role: if self.observer { Role::Observer } else { Role::Agent },
            refuse_if_live: self.refuse_if_live,
            software: self.software.clone().unwrap_or_else(|| own.into()),
            clock_bound: bound.into(),
            bearer: token.map(|token| token.read()).transpose()?,
        })
    }

    /// The addresses, and the certificates to trust.
    fn found(&self) -> Result<(Vec<String>, String), ConnectError> {
        let mut addrs = self.addrs.clone();
        addrs.extend(std::env::var("PRECLAIM_ADDR").ok().filter(|addr| addrs.is_empty() && !addr.is_empty()));
        let ca = match &self.ca {
            Some(Ca::Pem(pem)) => Some(pem.clone()),
            Some(Ca::File(file)) => Some(read_ca(file)?),
            None => match std::env::var_os("PRECLAIM_CA").filter(|file| !file.is_empty()) {
                Some(file) => Some(read_ca(Path::new(&file))?),
                None => None,
            },
        };
        if let (false, Some(ca)) = (addrs.is_empty(), &ca) {
            return Ok((addrs, ca.clone()));
        }
        let dev = discovery::find();
        match (addrs.is_empty(), dev) {
            (true, Ok(DevFile { addr, certificate, .. })) => {
                Ok((vec![addr.to_string()], ca.unwrap_or(certificate)))
            }
            (true, Err(why)) => Err(ConnectError::NoAddress { looked: why.to_string() }),
            // An address alone may still be that of the `preclaim dev` on this machine.
            (false, Ok(dev)) if addrs == [dev.addr.to_string()] => Ok((addrs, dev.certificate)),
            (false, _) => {
                Err(ConnectError::BadCa { why: "none was given, and PRECLAIM_CA is not set".into() })
            }
        }
    }
}

/// Gives a connection up whose welcome nobody waits for any more.
struct AbortOnDrop(Option<tokio::task::JoinHandle<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

fn read_ca(file: &Path) -> Result<String, ConnectError> {
    private_file::read_public(file).map_err(|why| ConnectError::BadCa { why })
}

/// 128 bits that no other process draws. The standard library seeds its hashers from the system's
/// randomness; ids need to be distinct, not secret.
pub(crate) fn random() -> u128 {
    let draw = || u128::from(RandomState::new().build_hasher().finish());
    draw() << 64 | draw()
}
