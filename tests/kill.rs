//! The daemon killed with SIGKILL under the load of real clients, at random instants, and started again:
//! what its clients saw still holds.
//!
//! `PRECLAIM_KILLS=N` kills it N times, `PRECLAIM_KILLS_SEED=S` at other instants.
#![allow(clippy::unwrap_used)] // what helpers of tests unwrap fails the test
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a test reads its environment

mod private;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use preclaim::audit::Follower;
use preclaim::client::{DeclareError, Event, Filter, Released};
use preclaim::store::{Archive, Item, RealDisk};
use preclaim::types::{IntentId, Time};
use preclaim::wire::EntryState;
use preclaim::{Client, Intent, Outcome, millis, path, secs};
use tokio::sync::watch;

const KILLS: u64 = 20;
const AGENTS: u64 = 6;
/// Fewer than the agents want: they meet.
const PATHS: u64 = 24;
/// No grant of a run ends by itself.
const LEASE: Duration = secs(3600);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Numbers that look random and are the same in every run.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A directory that is gone with the test, and a certificate and a configuration in it.
struct Home {
    dir: PathBuf,
    certificate: Vec<u8>,
}

impl Home {
    fn fresh(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("preclaim-kill-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let (cert, key, state) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("state"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        private::write(&key, &made.signing_key.serialize_pem());
        // Short segments: some kills come while one is closed, compressed, or stood for by a snapshot.
        let text = format!(
            "[listen]\naddr = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = {key:?}\n\
             [auth]\nmode = \"open\"\n[state]\ndir = {state:?}\nsegment_size = \"16KiB\"\n"
        );
        std::fs::write(dir.join("preclaim.toml"), text).unwrap();
        Home { dir, certificate: made.cert.der().to_vec() }
    }

    /// From here on it is started where it listened.
    fn keeps_its_address(&self, addr: &str) {
        let file = self.dir.join("preclaim.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("127.0.0.1:0", addr)).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.dir.join("state")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A running `preclaim serve`, killed with the test.
struct Daemon {
    child: Child,
    addr: String,
}

impl Daemon {
    fn start(home: &Home, new: bool) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_preclaim"))
            .args(["serve", "--config"])
            .arg(home.dir.join("preclaim.toml"))
            .args(new.then_some("--new"))
            .env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let (mut all, mut addr) = (String::new(), None);
        while addr.is_none() {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {all}");
            addr = line.strip_prefix("listening on ").map(|rest| rest.split(' ').next().unwrap().to_owned());
            all.push_str(&line);
        }
        // What it says later is passed on, so that its pipe never fills up.
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = said.read_to_string(&mut rest);
            eprint!("{rest}");
        });
        Daemon { child, addr: addr.unwrap() }
    }

    fn kill(mut self) {
        self.child.kill().unwrap(); // SIGKILL
        self.child.wait().unwrap();
    }

    async fn client(&self, home: &Home, name: &str) -> Client {
        let settings = Client::builder().addr(&self.addr).ca_der(&home.certificate).name(name);
        settings.timeout(secs(20)).connect().await.unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A grant as its agent saw it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    agent: String,
    id: IntentId,
    path: String,
    start: Time,
    end: Time,
    /// Its release was asked for, and not answered yet.
    is_leaving: bool,
}

/// What all agents together were told.
#[derive(Default)]
struct Ledger {
    /// Grants in force by all that was told, by token.
    held: BTreeMap<u64, Seen>,
    /// Tokens whose release was confirmed.
    released: BTreeSet<u64>,
    highest: u64,
}

impl Ledger {
    fn granted(&mut self, token: u64, seen: Seen) {
        let other = self.held.values().find(|other| other.path == seen.path && !other.is_leaving);
        assert_eq!(other, None, "granted twice: {seen:?}");
        assert!(!self.held.contains_key(&token) && !self.released.contains(&token), "token {token} again");
        self.highest = self.highest.max(token);
        self.held.insert(token, seen);
    }

    /// Some grant of the agent's.
    fn one_of(&mut self, agent: &str, dice: &mut Dice) -> Option<(u64, IntentId)> {
        let own: Vec<u64> = self
            .held
            .iter()
            .filter(|(_, seen)| seen.agent == agent && !seen.is_leaving)
            .map(|(token, _)| *token)
            .collect();
        if own.is_empty() {
            return None;
        }
        let token = own[dice.below(own.len() as u64) as usize];
        let seen = self.held.get_mut(&token).unwrap();
        seen.is_leaving = true;
        Some((token, seen.id))
    }

    fn was_released(&mut self, token: u64) {
        self.held.remove(&token);
        self.released.insert(token);
    }

    /// Compares with what a coordinator that was started again says: all grants in force.
    fn agrees(&mut self, listed: BTreeMap<u64, Seen>) {
        for (token, seen) in &self.held {
            match listed.get(token) {
                Some(found) => {
                    assert_eq!(*found, Seen { is_leaving: false, ..seen.clone() }, "token {token}")
                }
                None => assert!(seen.is_leaving, "token {token} is forgotten: {seen:?}"),
            }
        }
        let mut paths = BTreeSet::new();
        for (token, found) in &listed {
            assert!(!self.released.contains(token), "token {token} was released, and is there: {found:?}");
            assert!(paths.insert(&found.path), "two grants on one path: {found:?}");
        }
        // What was granted and not heard of is held from here on, too; what was leaving has left or not.
        self.highest = self.highest.max(listed.keys().last().copied().unwrap_or(0));
        self.held = listed;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_saw_survives_a_coordinator_that_is_killed_at_any_instant() {
    let home = Arc::new(Home::fresh("load"));
    let mut dice = Dice(setting("PRECLAIM_KILLS_SEED", 1));
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let kills = setting("PRECLAIM_KILLS", KILLS);
    for life in 0..=kills {
        let daemon = Daemon::start(&home, life == 0);
        let looker = daemon.client(&home, "looker").await;
        let before = {
            let listed = listed(&looker).await;
            let mut ledger = ledger.lock().unwrap();
            ledger.agrees(listed);
            ledger.highest
        };
        if life == kills {
            break;
        }
        let (count, mut counted) = watch::channel(0_u64);
        let agents: Vec<_> = (0..AGENTS)
            .map(|number| {
                let agent = Agent {
                    name: format!("agent-{number}"),
                    ledger: Arc::clone(&ledger),
                    dice: Dice(dice.below(u64::MAX)),
                    count: count.clone(),
                    before,
                };
                (agent, Arc::clone(&home))
            })
            .collect();
        let mut tasks = Vec::new();
        for (agent, home) in agents {
            let client = daemon.client(&home, &agent.name).await;
            tasks.push(tokio::spawn(agent.work(client)));
        }
        let enough = 1 + dice.below(60);
        counted.wait_for(|count| *count >= enough).await.unwrap();
        daemon.kill();
        for task in tasks {
            // What it was not told by now it is never told. A task that failed is not cancelled.
            task.abort();
            if let Err(error) = task.await {
                assert!(error.is_cancelled(), "{error}");
            }
        }
    }
    assert!(ledger.lock().unwrap().highest > kills, "hardly anything was granted");
    the_log_is_whole(&home.state());
}

struct Agent {
    name: String,
    ledger: Arc<Mutex<Ledger>>,
    dice: Dice,
    /// Answers that agents had, all together.
    count: watch::Sender<u64>,
    /// The highest token of all lives before.
    before: u64,
}

impl Agent {
    /// Declares and releases until the coordinator is gone.
    async fn work(mut self, client: Client) {
        while self.step(&client).await {
            self.count.send_modify(|count| *count += 1);
        }
        // Whoever waits for more answers must not wait for ever.
        self.count.send_modify(|count| *count += 1_000_000);
    }

    /// Whether there was an answer.
    async fn step(&mut self, client: &Client) -> bool {
        if self.dice.below(3) == 0
            && let Some((token, id)) = {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.one_of(&self.name, &mut self.dice)
            }
        {
            return match client.release(id).await {
                Ok(Released::Released) => {
                    self.ledger.lock().unwrap().was_released(token);
                    true
                }
                Ok(other) => panic!("token {token} was held: {other:?}"),
                Err(_) => false,
            };
        }
        let place = format!("dock/{}", self.dice.below(PATHS));
        let claim = path(&place).unwrap().exclusive();
        let intent = Intent::asap().claim(claim, LEASE).lease().wait(millis(15));
        match client.declare(intent).await {
            Ok(Outcome::Granted(grant)) => {
                let token = grant.token().number();
                let (start, end) = (grant.start(), grant.end());
                assert!(token > self.before, "token {token} is not above {}", self.before);
                let seen = Seen {
                    agent: self.name.clone(),
                    id: grant.id(),
                    path: place,
                    start,
                    end,
                    is_leaving: false,
                };
                self.ledger.lock().unwrap().granted(token, seen);
                grant.detach();
                true
            }
            Ok(Outcome::Conflict(_)) => true,
            Ok(other) => panic!("{other:?}"),
            Err(DeclareError::Unknown { .. } | DeclareError::Disconnected) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// All grants in force, by token.
async fn listed(looker: &Client) -> BTreeMap<u64, Seen> {
    let listing = looker.list(Filter::all().granted()).await.unwrap();
    assert!(!listing.is_cut);
    let entries = listing.entries.into_iter().map(|entry| {
        let EntryState::Granted { start, end, token } = entry.state else { panic!("{entry:?}") };
        let preclaim::types::RawTarget::Path(path) = &entry.claims[0].target else { panic!("{entry:?}") };
        let path = path.clone();
        let (agent, id) = (entry.agent, entry.id);
        (token.number(), Seen { agent, id, path, start, end, is_leaving: false })
    });
    entries.collect()
}

/// Every record is there, each in the chain, and each makes the state that its digest says.
fn the_log_is_whole(state: &Path) {
    let archive = Archive::open(Arc::new(RealDisk::new(state))).unwrap();
    let mut follower = Follower::default();
    let mut records = 0;
    archive
        .read_all(&mut |item| {
            if let Item::Record(_, entry) = item {
                follower.record(entry.body)?;
                records += 1;
            }
            Ok(())
        })
        .unwrap();
    assert!(records > 0);
}

#[tokio::test]
async fn agents_of_a_coordinator_that_was_killed_are_told_by_the_next_and_go_on() {
    let home = Home::fresh("reset");
    let daemon = Daemon::start(&home, true);
    home.keeps_its_address(&daemon.addr);
    let client = daemon.client(&home, "car-7").await;
    let lease = Intent::asap().claim(path("dock").unwrap().exclusive(), LEASE).lease();
    let Ok(Outcome::Granted(grant)) = client.declare(lease).await else { panic!("granted") };
    let mut news = client.events();
    daemon.kill();
    let _daemon = Daemon::start(&home, false);
    let why = loop {
        let told = tokio::time::timeout(secs(60), news.next()).await.unwrap();
        if let Some(Event::Disconnected { why }) = told {
            break why;
        }
    };
    // Not "timed out": nobody waited for so long.
    assert!(why.contains("reset"), "{why}");
    while !matches!(tokio::time::timeout(secs(60), news.next()).await.unwrap(), Some(Event::Resumed { .. })) {
    }
    assert_eq!(grant.check(), Ok(()));
    assert_eq!(grant.release().await, Ok(Released::Released));
}
