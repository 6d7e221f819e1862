//! Test an agent with all that can happen to it, in virtual time: waits, lost leases, broken
//! connections, an operator who takes its grant away.
//!
//! A [`World`] is a coordinator in the test's own process, and the network around it. Agents reach it by the same
//! [`Client`] as a real one, down to the protocol's frames, and the decision core is the real one; only
//! sockets and time are not. Time is tokio's own, paused: whenever all tasks wait for something, it jumps to
//! the next timer. So an hour passes in a fraction of a second, a wait of minutes in microseconds, `tokio::time::sleep` in the agent's own code
//! is part of it, and nothing depends on how fast or busy the machine is.
//!
//! ```toml
//! [dev-dependencies]
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! ```
//! use preclaim::client::Lost;
//! use preclaim::testing::World;
//! use preclaim::{Client, Intent, Outcome, path, secs};
//!
//! /// The agent: charges for an hour where it may.
//! async fn charge(client: &Client) -> Result<&'static str, Box<dyn std::error::Error>> {
//!     let charger = Intent::asap().claim(path("charger/1")?.exclusive(), secs(10)).lease().wait(secs(600));
//!     let Outcome::Granted(grant) = client.declare(charger).await? else { return Ok("went on") };
//!     match grant.guarded(tokio::time::sleep(secs(3600))).await {
//!         Ok(()) => Ok("charged"),
//!         Err(Lost::Unreachable) => Ok("unplugged: nobody to ask"),
//!         Err(_) => Ok("unplugged"),
//!     }
//! }
//!
//! #[tokio::test(start_paused = true)]
//! # async fn in_a_doc_test_it_is_called_below() {}
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn it_unplugs_before_its_lease_ends_where_it_cannot_reach_the_coordinator() {
//!     let world = World::new();
//!     let client = world.client("car-7").await;
//!     let charging = tokio::spawn(async move { charge(&client).await.unwrap() });
//!     world.advance(secs(60)).await;
//!     assert_eq!(world.grants().len(), 1);
//!     world.unreachable("car-7", true);
//!     assert_eq!(charging.await.unwrap(), "unplugged: nobody to ask");
//! }
//! # fn main() { it_unplugs_before_its_lease_ends_where_it_cannot_reach_the_coordinator() }
//! ```
//!
//! Whose agents are not in Rust, or who wants real sockets in the way, takes [`crate::coordinator`] (feature
//! `daemon`) instead, as examples/embedded.rs does.
//!
//! The same test does the same each time: what clients draw by chance (ids, incarnations, how long they wait before they
//! connect again) comes from the world's seed. Time has a grain of one millisecond, which is tokio's.

mod line;
mod link;
mod net;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{Client, ClientBuilder, Closed, ConnectError};
use crate::limits;
use crate::resolver::{Resource, Rules, StateDigest, SystemOp};
use crate::session::coordinator::{Drains, Rights};
use crate::sim::coordinator::Setup;
use crate::types::{Agent, IntentId, Path, Slot, Time};
use crate::wire::{DrainOrder, ListEntry};
use link::Wire;
use net::Net;

/// The coordinator's time at which a world begins: any that is no agent's.
const EPOCH: Time = Time::from_us(1_000_000_000_000_000);
/// Turns of the scheduler without anything coming through, after which nothing more is going on: an
/// agent's own tasks may hand a thing on so often before they answer.
const QUIET_TURNS: u32 = 32;

/// A coordinator and a network, on virtual time. Cheap to clone; connections end with the last clone.
/// See the [module's documentation](self).
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    net: Arc<Net>,
    rules: Rules,
    engine: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.abort();
        self.net.end();
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// Settings of a [`World`].
#[derive(Clone, Debug, Default)]
#[must_use = "a world begins with `build`"]
pub struct WorldBuilder {
    rules: Rules,
    seed: u64,
    latency: Duration,
}

impl WorldBuilder {
    /// What the coordinator decides by.
    pub fn rules(self, rules: Rules) -> Self {
        WorldBuilder { rules, ..self }
    }

    /// So many units may be out at `path` and below it at a time.
    ///
    /// # Panics
    /// Where `path` is none.
    pub fn capacity(mut self, path: &str, units: u64) -> Self {
        self.resource(path).capacity = Some(units);
        self
    }

    /// The longest that a claim at `path` or below it may last, renewals included.
    ///
    /// # Panics
    /// Where `path` is none.
    pub fn max_hold(mut self, path: &str, longest: Duration) -> Self {
        self.resource(path).max_hold = Some(longest.into());
        self
    }

    /// What is drawn by chance follows from this, 0 otherwise.
    pub fn seed(self, seed: u64) -> Self {
        WorldBuilder { seed, ..self }
    }

    /// How long each message takes, either way; no time otherwise. [`World::latency`] sets it for one agent. Where agents
    /// declare what they `expect`, let it take some: who releases at the very instant at which its window begins never
    /// had it, so that nobody's reading is stale for its sake.
    pub fn latency(self, latency: Duration) -> Self {
        WorldBuilder { latency, ..self }
    }

    /// The world begins. Must be called in a tokio runtime of one thread whose time is paused.
    ///
    /// # Panics
    /// Where it is not such a runtime, since time would be real there, or where the rules' slot is
    /// shorter or longer than a slot may be.
    pub fn build(self) -> World {
        assert_virtual_time();
        let slots = limits::SLOT_MIN..=limits::SLOT_MAX;
        assert!(slots.contains(&self.rules.length), "a slot lasts from 100 µs to 1 s");
        let setup = set_up(self.rules.clone());
        let net = Arc::new(Net::new(setup, EPOCH, self.seed, self.latency));
        let engine = tokio::spawn(Arc::clone(&net).run());
        World { inner: Arc::new(Inner { net, rules: self.rules, engine }) }
    }

    fn resource(&mut self, at: &str) -> &mut Resource {
        let path = path(at);
        let resources = &mut self.rules.resources;
        let known = resources.iter().position(|resource| resource.path == path);
        let at = known.unwrap_or_else(|| {
            resources.push(Resource::new(path));
            resources.len() - 1
        });
        &mut resources[at]
    }
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

impl World {
    /// A world with the rules of a coordinator that is not configured: slots of 10 ms, no capacities.
    ///
    /// # Panics
    /// As [`WorldBuilder::build`].
    pub fn new() -> Self {
        World::builder().build()
    }

    /// A world with these rules.
    ///
    /// # Panics
    /// As [`WorldBuilder::build`].
    pub fn with_rules(rules: Rules) -> Self {
        World::builder().rules(rules).build()
    }

    /// Settings for a world.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }

    /// A client of that name. One that is connected already under it is taken over from, as by a newer
    /// process.
    ///
    /// # Panics
    /// Where it cannot connect; [`World::connect`] says why.
    pub async fn client(&self, name: &str) -> Client {
        let client = self.connect(Client::builder().name(name)).await;
        client.unwrap_or_else(|why| panic!("{name} cannot connect: {why}"))
    }

    /// A client with these settings; addresses and certificates do not matter here. Cancel safe.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self, settings: ClientBuilder) -> Result<Client, ConnectError> {
        let line = self.inner.net.line(settings.name_asked_for().unwrap_or_default());
        let wire = Wire::new(Arc::clone(&self.inner.net), line, settings.longest_connect());
        settings.connect_by(Arc::new(wire)).await
    }

    /// The coordinator's time.
    pub fn now(&self) -> Time {
        self.inner.net.now()
    }

    /// When, by tokio's clock, the coordinator's time is `at`; what lies before the world counts as its
    /// beginning.
    pub fn instant(&self, at: Time) -> Instant {
        self.inner.net.instant(at)
    }

    /// Lets `slots` slots be decided: time passes to the end of the last of them, and all tasks have run that
    /// have something to do then. With 0, only these run. Cancel safe.
    pub async fn advance_slots(&self, slots: u64) {
        let length = self.inner.rules.length;
        let end = Slot::new(Slot::of(self.now(), length).number().saturating_add(slots)).opens(length);
        if slots > 0 {
            sleep_until(self.instant(end)).await;
        }
        self.settle().await;
    }

    /// Lets time pass, and all tasks run that have something to do up to then, the last instant included.
    /// Cancel safe.
    pub async fn advance(&self, span: Duration) {
        sleep(span).await;
        self.settle().await;
    }

    async fn settle(&self) {
        let (mut seen, mut quiet) = (self.inner.net.moves(), 0);
        while quiet < QUIET_TURNS {
            tokio::task::yield_now().await;
            let moves = self.inner.net.moves();
            quiet = if moves == seen { quiet + 1 } else { 0 };
            seen = moves;
        }
    }

    /// The connections of the agent `name` break: what is on its way is lost, and its clients find out at
    /// once. They connect again by themselves.
    pub fn disconnect(&self, name: &str) {
        self.inner.net.cut_all(Some(name), &Closed::because("the connection broke"));
    }

    /// From here on nothing gets through to the agent `name` or from it, or does again. What is on its
    /// way waits; after 5 s of that a connection is lost, as a real one is.
    pub fn unreachable(&self, name: &str, unreachable: bool) {
        self.inner.net.line(name).set_reachable(!unreachable);
    }

    /// From here on each message to the agent `name` and from it takes so long.
    pub fn latency(&self, name: &str, latency: Duration) {
        self.inner.net.line(name).set_latency(latency);
    }

    /// For `span` nothing of the clients of the agent `name` runs, while its clock goes on: as if its process were
    /// stopped for so long. Await it in the agent's own code, which then stands still as well. Dropped, it
    /// does not end the stall.
    pub async fn stall(&self, name: &str, span: Duration) {
        let until = Instant::now() + span;
        self.inner.net.line(name).stall_until(until);
        sleep_until(until).await;
    }

    /// The clock of the agent `name` jumps by `ahead_us`, and from here on runs `drift_ppm` millionths faster than the
    /// coordinator's. Clients hold up to 200 either way; beyond that they may hold what has ended.
    /// Instants that its clients name are by that clock and not by tokio's.
    ///
    /// # Panics
    /// Where the drift is a tenth (100 000) or more.
    pub fn set_clock(&self, name: &str, ahead_us: i64, drift_ppm: i32) {
        assert!(drift_ppm.unsigned_abs() < 100_000, "a clock that drifts by {drift_ppm} millionths is none");
        self.inner.net.line(name).set_clock(ahead_us, drift_ppm);
    }

    /// The coordinator is gone for `outage`, and comes back with all that it had; what has ended
    /// meanwhile is decided then. Unlike after a real restart, news for an agent that was away when it went is kept.
    /// Dropped, it stays away.
    pub async fn restart(&self, outage: Duration) {
        self.inner.net.set_down(true);
        sleep(outage).await;
        self.inner.net.set_down(false);
    }

    /// Another coordinator takes the place of this one, with none of its state: no grant, no waiting
    /// intent, no token and no capacity set since is known any more.
    pub fn lose_state(&self) {
        let rules = self.inner.rules.clone();
        self.inner.net.replace(|state| Setup { state, ..set_up(rules) });
    }

    /// The operator releases the intent `id` of `agent`, in this slot.
    ///
    /// # Panics
    /// Where that is no agent's name, or where the operator has done too much in this slot.
    pub fn release(&self, agent: &str, id: IntentId, reason: &str) {
        let agent = Agent::new(agent).unwrap_or_else(|| panic!("{agent:?} is no agent's name"));
        self.inner.net.operate(SystemOp::Release { agent, id, reason: reason.to_owned() });
    }

    /// The operator has the coordinator drain, within so long from now, or to another deadline where it drains already: nothing
    /// new is granted, what waits ends, holders may go on. Then, or as soon as no grant is in force, it is gone, and
    /// nobody listens until [`World::restart`].
    pub fn drain(&self, within: Duration, reason: &str) {
        let order = DrainOrder { within: Some(within.into()), reason: reason.to_owned() };
        self.inner.net.drain(&order);
    }

    /// How the drain stands, where there was one since the coordinator was started last.
    pub fn drains(&self) -> Option<Drains> {
        self.inner.net.drains()
    }

    /// The operator sets a capacity, in this slot. An agent may do so too, by [`Client::set_capacity`], and end others'
    /// intents: every agent of a world may do what an operator may.
    ///
    /// # Panics
    /// Where `at` is no path, or where the operator has done too much in this slot.
    pub fn set_capacity(&self, at: &str, capacity: u64) {
        self.inner.net.operate(SystemOp::Capacity { path: path(at), capacity });
    }

    /// Every grant in force as of the last slot that was decided, by token.
    pub fn grants(&self) -> Vec<ListEntry> {
        self.inner.net.list(true)
    }

    /// Every intent that is undecided, by agent and id.
    pub fn waiting(&self) -> Vec<ListEntry> {
        self.inner.net.list(false)
    }

    /// The sum of the coordinator's state after the last slot: two runs that came to the same have the same.
    pub fn digest(&self) -> StateDigest {
        self.inner.net.digest()
    }
}

/// Every agent may do what an operator may, as with `preclaim dev`.
fn set_up(rules: Rules) -> Setup {
    Setup { rights: Arc::new(Rights::default().everybody_administers()), ..Setup::new(rules) }
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap_or_else(|| panic!("{text:?} is no path"))
}

/// # Panics
/// Where time is real.
fn assert_virtual_time() {
    const DO: &str = "write #[tokio::test(start_paused = true)], with tokio's feature `test-util`";
    let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match runtime {
        Ok(RuntimeFlavor::CurrentThread) => {}
        Ok(_) => panic!("a World needs a runtime of one thread, where time can be paused: {DO}"),
        Err(_) => panic!("a World needs a tokio runtime around it: {DO}"),
    }
    let (real, tokios) = (std::time::Instant::now(), Instant::now());
    while real.elapsed() < Duration::from_micros(2) {}
    assert!(Instant::now() == tokios, "a World needs virtual time, and time is real here: {DO}");
}

#[cfg(test)]
mod tests;
