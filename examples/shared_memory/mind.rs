//! What stands for a language model: it takes its time, and adds what it was told to the document.

use std::future;
use std::time::Duration;

use tokio::time::sleep;

use super::memory::{Doc, Task};
use super::story::Dice;

/// What one task took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// How often it thought: once, if all went well.
    pub(crate) thoughts: usize,
    /// How often what it had read was out of date when it wanted to write.
    pub(crate) stale: usize,
    /// How often it came too late, its grant being lost.
    pub(crate) lost: usize,
}

/// Thinks for a while.
#[derive(Clone, Debug)]
pub(crate) struct Mind {
    dice: Dice,
    least: Duration,
    most: Duration,
    /// Says aloud what it is at, and never ends its thought about this task.
    stuck_at: Option<String>,
}

impl Mind {
    /// It thinks for `mean`, give or take a half.
    pub(crate) fn new(seed: u64, mean: Duration) -> Self {
        Mind { dice: Dice::new(seed), least: mean / 2, most: mean * 3 / 2, stuck_at: None }
    }

    /// This one says aloud what it is at, and is still thinking about task `id` when it is killed.
    pub(crate) fn stuck_at(self, id: String) -> Self {
        Mind { stuck_at: Some(id), ..self }
    }

    /// The document as it is to be: what was read, and what the task adds, unless that is there.
    pub(crate) async fn think(&mut self, doc: &Doc, task: &Task) -> String {
        if let Some(stuck_at) = &self.stuck_at {
            println!("thinks {}", task.id);
            if *stuck_at == task.id {
                future::pending::<()>().await;
            }
        }
        sleep(self.least + self.dice.up_to(self.most - self.least)).await;
        if doc.has(&task.id) { doc.body.clone() } else { format!("{}{}\n", doc.body, task.fact()) }
    }
}
