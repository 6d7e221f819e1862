//! An agent: declares, works under its leases, and says all that it sees to the ledger. It uses the
//! public client alone, and may be killed or stopped at any instant.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use preclaim::client::{DeclareError, Event as Told, Grant, Released};
use preclaim::{Client, Outcome};

use super::Dice;
use super::plan::Leases;
use super::words::{Ask, Event, Orders, Refused, Reply, Said, order};

/// What an agent's process is started with.
pub(crate) const ENTRY: &str = "PRECLAIM_FAULTS_AGENT";

/// In a program of tests, the one that is an agent where it is started as one.
pub(crate) const TEST: &str = "an_agent_of_the_rig";

/// A step that nobody can interrupt: the grant may end during it, so the write after it may be late.
const BLIND: Duration = Duration::from_millis(10);
/// Before it asks again what could not be sent.
const AGAIN: Duration = Duration::from_millis(100);
/// So often in a row nothing could be sent: its client does not come back.
const UNSENT: u32 = 600;

/// Where this process was started as an agent, is one, and does not return.
pub(crate) fn entry() {
    let Ok(orders) = std::env::var(ENTRY) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // On a worker, as agents' tasks are.
        tokio::spawn(live(orders)).await.unwrap();
    });
    std::process::exit(0);
}

/// The line to the ledger.
#[derive(Clone)]
struct Line(Arc<Mutex<(BufReader<UnixStream>, UnixStream)>>);

impl Line {
    fn open(orders: &Orders) -> Self {
        let stream = UnixStream::connect(&orders.ledger).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Line(Arc::new(Mutex::new((reader, stream))))
    }

    /// Says it, and waits for the answer: what a killed process has said is known, and in its order.
    fn say(&self, said: Said) -> Reply {
        let mut line = serde_json::to_string(&said).unwrap();
        line.push('\n');
        let mut both = self.0.lock().unwrap();
        let mut answer = String::new();
        let answered = both.1.write_all(line.as_bytes()).and_then(|()| both.0.read_line(&mut answer));
        if !answered.is_ok_and(|read| read > 0) {
            // Who judges is gone, and nobody is left to work for.
            std::process::exit(1);
        }
        serde_json::from_str(&answer).unwrap()
    }
}

async fn live(orders: Orders) {
    let line = Line::open(&orders);
    let hello = line.say(Said::Hello { name: orders.name.clone(), life: orders.life });
    let Some(client) = connected(&orders, &line).await else { return };
    let mut events = client.events();
    tokio::spawn({
        let line = line.clone();
        async move {
            while let Some(event) = events.next().await {
                line.say(Said::Event { what: kind_of(&event) });
            }
        }
    });
    let agent = Agent { client, line };
    for ask in hello.open {
        agent.go(ask, false).await;
    }
    let mut dice = Dice(orders.seed ^ (orders.life << 32));
    let mut count = 0;
    while !agent.line.say(Said::Next).stop {
        count += 1;
        let ask = some_ask(orders.life << 24 | count, &orders, &mut dice);
        agent.go(ask, true).await;
    }
    agent.client.close().await;
    agent.line.say(Said::Bye);
}

/// A client, as soon as one can be had; none where none is needed any more.
async fn connected(orders: &Orders, line: &Line) -> Option<Client> {
    loop {
        let builder = Client::builder().addr(&orders.addr).ca(&orders.ca).name(&orders.name);
        match builder.connect().await {
            Ok(client) => return Some(client),
            Err(error) => {
                line.say(Said::ConnectFailed { why: error.to_string() });
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

fn some_ask(id: u64, orders: &Orders, dice: &mut Dice) -> Ask {
    let Leases { short_ms, long_ms } = orders.leases;
    let is_short = dice.below(3) > 0;
    Ask {
        id,
        resource: dice.below(orders.resources),
        lease_ms: if is_short { short_ms } else { long_ms },
        wait_ms: [0, 0, 200, 2000][dice.below(4) as usize],
        // Now and then for long: a short lease for longer than it lasts, so that renewals matter.
        work_ms: match dice.below(12) {
            0 if is_short => short_ms + dice.below(2000),
            0 => dice.below(long_ms / 2),
            _ => 5 + dice.below(250),
        },
    }
}

struct Agent {
    client: Client,
    line: Line,
}

impl Agent {
    /// Declares until there is an outcome, and works where it is a grant.
    async fn go(&self, ask: Ask, is_new: bool) {
        if is_new {
            self.line.say(Said::Declared(ask));
        }
        let (began, mut unsent) = (Instant::now(), 0);
        let took = || is_new.then(|| u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        loop {
            let refused = match self.client.declare(ask.intent()).await {
                Ok(Outcome::Granted(grant)) => {
                    let token = grant.token().number();
                    self.line.say(Said::Granted { id: ask.id, token, took_us: took() });
                    return self.have(grant, ask).await;
                }
                Ok(Outcome::Conflict(_)) => Refused::Conflict,
                Ok(Outcome::Rejected(why)) if why.retry_after().is_some() => {
                    self.again(&ask, &mut unsent, why.to_string()).await;
                    continue;
                }
                Ok(Outcome::Rejected(_)) => Refused::Rejected,
                Ok(Outcome::Stale(_)) => Refused::Other,
                Err(DeclareError::Ended { .. }) => Refused::Ended,
                Err(DeclareError::Withdrawn { .. }) => Refused::Withdrawn,
                Err(error @ DeclareError::Unknown { .. }) => {
                    self.line.say(Said::Unknown { id: ask.id, why: error.to_string() });
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(error) if error.is_retryable() => {
                    self.again(&ask, &mut unsent, error.to_string()).await;
                    continue;
                }
                Err(error) => return self.give_up(error.to_string()),
            };
            self.line.say(Said::Refused { id: ask.id, what: refused, took_us: took() });
            return;
        }
    }

    async fn again(&self, ask: &Ask, unsent: &mut u32, why: String) {
        *unsent += 1;
        if *unsent > UNSENT {
            self.give_up(why);
        } else {
            self.line.say(Said::Unsent { id: ask.id, why });
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn give_up(&self, why: String) {
        self.line.say(Said::Gone { why });
        std::process::exit(3);
    }

    /// Works under the grant, and lets go of it.
    async fn have(&self, grant: Grant, ask: Ask) {
        if let Err(lost) = grant.guarded(self.work(&grant, &ask)).await {
            self.line.say(Said::Lost { id: ask.id, why: format!("{lost:?}") });
        }
        let id = grant.id();
        let mut released = grant.release().await;
        for _ in 0..100 {
            match released {
                Ok(released) => {
                    let existed = released == Released::Released;
                    self.line.say(Said::Released { id: ask.id, existed });
                    return;
                }
                Err(_) => {
                    self.line.say(Said::ReleaseUnknown { id: ask.id });
                    tokio::time::sleep(AGAIN).await;
                    released = self.client.release(id).await;
                }
            }
        }
    }

    /// Writes to what it was granted, again and again. It may be dropped at any await; what lies between
    /// two of them it does blindly.
    async fn work(&self, grant: &Grant, ask: &Ask) {
        let (id, fence) = (ask.id, order(grant.fence(0)));
        let mut done = !self.line.say(Said::Enter { id, fence }).accepted;
        let until = Instant::now() + Duration::from_millis(ask.work_ms);
        while !done {
            if grant.check().is_ok() {
                self.line.say(Said::Held { id });
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::thread::sleep(BLIND);
            done = !self.line.say(Said::Write { id, fence }).accepted || Instant::now() >= until;
        }
        if grant.check().is_ok() {
            self.line.say(Said::Held { id });
        }
    }
}

fn kind_of(event: &Told) -> Event {
    match event {
        Told::Disconnected { .. } => Event::Disconnected,
        Told::Resumed { .. } => Event::Resumed,
        Told::RenewalDenied { .. } => Event::RenewalDenied,
        Told::Renewed { .. } => Event::Renewed,
        Told::Lost { .. } | Told::Expired { .. } => Event::Lost,
        Told::ClockUncertain { .. } => Event::ClockUncertain,
        Told::Replaced => Event::Replaced,
        _ => Event::Other,
    }
}
