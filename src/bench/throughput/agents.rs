//! The public client as the one who asks: what an agent's own half costs beside the coordinator.
//!
//! A grant that is dropped is released, so that each declaration is followed by a release, and by its answer.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::asks::PATHS;
use super::server::Serving;
use super::{Asked, BenchError, Flow, Tally};
use crate::client::{Client, DeclareError, Intent, Outcome, millis, path};

/// The agents, at work until they are dropped.
pub(super) async fn flow(
    serving: &Serving,
    asked: Asked,
    flow: &Flow,
    tally: &Arc<Tally>,
) -> Result<JoinSet<()>, BenchError> {
    let mut asking = JoinSet::new();
    for number in 0..flow.connections {
        let client = serving.client().name(format!("agent-{number:04}")).connect().await?;
        let (tasks, batch) = match asked {
            Asked::ClientAtOnce => (flow.messages, flow.batch),
            Asked::Client | Asked::Bytes => (flow.messages * flow.batch, 1),
        };
        for task in 0..tasks {
            let places = Places { agent: number, next: (PATHS as usize / tasks.max(1)) * task };
            asking.spawn(declare_on(client.clone(), places, batch, Arc::clone(tally)));
        }
    }
    Ok(asking)
}

/// Paths that one task goes round: each far from those of the agent's other tasks.
struct Places {
    agent: usize,
    next: usize,
}

impl Places {
    fn intent(&mut self) -> Intent {
        self.next += 1;
        let text = format!("bench/agent-{:04}/cell-{:04}", self.agent, self.next % PATHS as usize);
        let place = path(&text).unwrap_or_else(|_| unreachable!("words and numbers are a path"));
        Intent::asap().claim(place.exclusive(), millis(2))
    }
}

/// Declares so many at a time, again and again, until the client is closed.
async fn declare_on(client: Client, mut places: Places, batch: usize, tally: Arc<Tally>) {
    loop {
        let outcomes = match batch {
            1 => vec![client.declare(places.intent()).await],
            _ => client.declare_all((0..batch).map(|_| places.intent()).collect()).await,
        };
        for outcome in outcomes {
            match outcome {
                Ok(Outcome::Granted(_)) => tally.add(1, 0),
                Err(DeclareError::Disconnected | DeclareError::Unknown { .. }) => return,
                _ => tally.add(0, 1),
            }
        }
    }
}
