//! How commands that watch a coordinator ask it by HTTP: where it answers, and what it said.

mod answers;
mod http;
mod scrape;
mod spread;

use std::time::Duration;

pub(super) use self::answers::{Agent, Claims, Contended, Held, Hot, HotPath, Pair, Slot, Slots, Waiting};
use self::http::Answer;
pub(super) use self::scrape::Scrape;
pub(super) use self::spread::Spread;
use super::complaint::Complaint;
use super::output;
use super::quote::Words;
use super::signal::Stop;
use super::{ExitCode, times};
use crate::client::discovery::{self, DevFile};
use crate::limits;
use crate::telemetry::{Known, why_of};
use crate::types::{IntentKey, Micros};

/// Where the coordinator answers those who watch
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Watching {
    /// Where the coordinator answers those who watch: its `[metrics] addr` [default: that of a `preclaim
    /// dev` of yours on this machine]
    #[arg(long, value_name = "HOST:PORT", env = "PRECLAIM_WATCHING", hide_env_values = true)]
    watching: Option<String>,
}

/// Reads how often a command looks.
pub(super) fn every(text: &str) -> Result<Duration, String> {
    let every = times::span(text)?;
    let (least, most) = (limits::WATCHED_EVERY.start(), limits::WATCHED_EVERY.end());
    if limits::WATCHED_EVERY.contains(&Micros::from(every)) {
        return Ok(every);
    }
    Err(format!("it is {} to {}", times::spelled(least.to_std()), times::spelled(most.to_std())))
}

/// A coordinator that is asked.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    addr: String,
}

impl Watching {
    /// Where it is.
    ///
    /// # Errors
    /// What to say where nobody has told.
    fn place(&self) -> Result<Watched, Complaint> {
        if let Some(named) = self.watching.as_deref().filter(|named| !named.is_empty()) {
            return Ok(Watched { addr: host_and_port(named).to_owned() });
        }
        let nowhere = |why: String| {
            Complaint::new(ExitCode::Unreachable, "there is no address to ask")
                .why(why)
                .todo(
                    "--watching HOST:PORT, or PRECLAIM_WATCHING, as the coordinator has it in [metrics] addr",
                )
                .todo("preclaim dev                  in another terminal, which is found by itself")
        };
        match discovery::find() {
            Ok(DevFile { watching: Some(addr), .. }) => Ok(Watched { addr: addr.to_string() }),
            Ok(_) => {
                Err(nowhere("the `preclaim dev` on this machine has not told where it is watched".into()))
            }
            Err(why) => Err(nowhere(why.to_string())),
        }
    }

    /// Asks it, as `work` does, until that ends or the process is asked to stop, which is no failure.
    pub(super) fn run(&self, work: impl AsyncFnOnce(&Watched) -> ExitCode) -> ExitCode {
        let watched = match self.place() {
            Ok(watched) => watched,
            Err(complaint) => return complaint.say(),
        };
        let failed = |error: std::io::Error| Complaint::new(ExitCode::Failure, error.to_string()).say();
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(error),
        };
        let code = runtime.block_on(async {
            let mut stop = match Stop::listen() {
                Ok(stop) => stop,
                Err(error) => return failed(error),
            };
            tokio::select! {
                biased;
                () = stop.asked() => ExitCode::Done,
                code = work(&watched) => code,
            }
        });
        // A look-up of a host's name may still be under way.
        runtime.shutdown_background();
        code
    }
}

impl Watched {
    /// Where it is asked.
    pub(super) fn addr(&self) -> &str {
        &self.addr
    }

    /// What `/metrics` has.
    pub(super) async fn metrics(&self) -> Result<Scrape, Complaint> {
        Ok(Scrape::read(&self.get("/metrics").await?))
    }

    /// What it says of its last slots. Cancel safe, as all of these.
    pub(super) async fn slots(&self) -> Result<Slots, Complaint> {
        self.json("/slots").await
    }

    /// Who holds, waits, and is in the way: up to `top` of each.
    pub(super) async fn claims(&self, top: usize) -> Result<Claims, Complaint> {
        self.json(&format!("/claims?top={top}")).await
    }

    /// What is contended, and what is advised: up to `top` of each.
    pub(super) async fn hot(&self, top: usize) -> Result<Hot, Complaint> {
        self.json(&format!("/hot?top={top}")).await
    }

    /// What it knows of one intent.
    pub(super) async fn known(&self, key: &IntentKey) -> Result<Known, Complaint> {
        let place = why_of(key);
        match self.ask(&place).await? {
            Answer { status: 403, body } => Err(self.not_shown(key, &body)),
            answer => self.read(&place, &self.good(&place, answer)?),
        }
    }

    /// It shows nobody what was decided.
    fn not_shown(&self, key: &IntentKey, body: &str) -> Complaint {
        let why = output::harmless(body.lines().next().unwrap_or_default());
        let (name, agent) = (format!("{}/{}", key.agent.as_str(), key.id), key.agent.as_str());
        let log = Words::of(&["preclaim", "why", &name, "--config", "FILE"]);
        let now = Words::of(&["preclaim", "ls", "--agent", agent]);
        Complaint::new(ExitCode::Refused, format!("http://{} does not tell what was decided", self.addr))
            .why(why)
            .todo(format!("{log}        on its machine: its log has all of it"))
            .todo(format!("{now}        how things stand now"))
            .todo("[metrics] page = true, or --page, where it runs: who reaches that address is shown names of agents and paths")
    }

    /// Whether it is ready, in its own words.
    pub(super) async fn readiness(&self) -> Result<String, Complaint> {
        let answer = self.ask("/readyz").await?;
        Ok(output::harmless(answer.body.trim_end()))
    }

    async fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Complaint> {
        let body = self.get(path).await?;
        self.read(path, &body)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, path: &str, body: &str) -> Result<T, Complaint> {
        serde_json::from_str(body).map_err(|error| self.not_understood(path, &error.to_string()))
    }

    /// What it said at `path` is none of what is said there.
    pub(super) fn not_understood(&self, path: &str, why: &str) -> Complaint {
        Complaint::new(ExitCode::VersionMismatch, format!("http://{}{path} is not understood", self.addr))
            .why(output::harmless(why))
            .todo("use the version of preclaim that the coordinator has: /version")
    }

    async fn get(&self, path: &str) -> Result<String, Complaint> {
        let answer = self.ask(path).await?;
        self.good(path, answer)
    }

    /// What was said, where that is an answer to the question.
    fn good(&self, path: &str, answer: Answer) -> Result<String, Complaint> {
        match answer {
            Answer { status: 200, body } => Ok(body),
            Answer { status: 404, .. } => Err(Complaint::new(
                ExitCode::VersionMismatch,
                format!("http://{} does not know {path}", self.addr),
            )
            .why("it is an older coordinator, or something else")),
            Answer { status, body } => {
                let why = output::harmless(body.lines().next().unwrap_or_default());
                let what = format!("http://{}{path} answers {status}", self.addr);
                Err(Complaint::new(ExitCode::Unreachable, what).why(why))
            }
        }
    }

    async fn ask(&self, path: &str) -> Result<Answer, Complaint> {
        http::get(&self.addr, path).await.map_err(|why| {
            Complaint::new(ExitCode::Unreachable, format!("http://{}{path} cannot be read", self.addr))
                .why(why)
                .todo("is [metrics] addr set where the coordinator runs, and is it this address?")
        })
    }
}

/// People paste what the coordinator printed: `http://127.0.0.1:7412/metrics`.
fn host_and_port(named: &str) -> &str {
    let named = named.strip_prefix("http://").unwrap_or(named);
    named.split('/').next().unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_pasted_as_it_was_printed() {
        for named in ["127.0.0.1:7412", "http://127.0.0.1:7412", "http://127.0.0.1:7412/metrics"] {
            let watching = Watching { watching: Some(named.into()) };
            assert_eq!(watching.place().unwrap().addr(), "127.0.0.1:7412");
        }
    }

    #[test]
    fn how_often_it_looks_is_bounded() {
        assert_eq!(every("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(every("100ms"), Ok(Duration::from_millis(100)));
        assert!(every("99ms").is_err_and(|why| why.contains("100ms")));
        assert!(every("61m").is_err() && every("x").is_err());
    }
}
