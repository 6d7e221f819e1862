//! Once faults have stopped, everything comes to its end: each agent is connected, each declaration has its
//! final answer, what an agent has in hand stands; and when all have left, nothing is left of them.

use std::collections::BTreeSet;

use super::{Happened, Invariant, View};

pub(super) struct AllIsSettled;

impl Invariant for AllIsSettled {
    fn name(&self) -> &'static str {
        "progress: after faults everything is settled, and nothing is left over"
    }

    fn look(&mut self, happened: &Happened<'_>, view: &View<'_>) -> Result<(), String> {
        match happened {
            Happened::Settled => settled(view),
            Happened::Over => nothing_is_left(view),
            _ => Ok(()),
        }
    }
}

fn settled(view: &View<'_>) -> Result<(), String> {
    let Some(life) = &view.server.life else { return Err("no coordinator runs".into()) };
    if life.coordinator.halt().is_some() {
        return Err("the coordinator stands still".into());
    }
    if let Some(waits) = life.coordinator.resolver().undecided().next() {
        return Err(format!("{:?} is still undecided", waits.key));
    }
    let mut names = BTreeSet::new();
    for (number, agent) in view.agents.iter().enumerate() {
        if agent.is_dead() || agent.is_replaced {
            continue;
        }
        if !names.insert(&agent.name) {
            return Err(format!("two processes are in charge of {}", agent.name));
        }
        if agent.session.welcome().is_none() {
            return Err(format!("process {number} is not connected"));
        }
        if agent.session.unanswered() > 0 {
            return Err(format!("process {number} has {} requests unanswered", agent.session.unanswered()));
        }
        if let Some((id, state)) = agent.work.unanswered().next() {
            return Err(format!("process {number} still waits for the answer to {id:?}: {state:?}"));
        }
        for (id, token) in &agent.in_hand {
            if !view.ledger.live.contains(token) {
                let record = view.ledger.grants.get(token);
                return Err(format!(
                    "process {number} has {id:?} in hand, token {token}, which ended: {record:?}"
                ));
            }
        }
    }
    Ok(())
}

fn nothing_is_left(view: &View<'_>) -> Result<(), String> {
    let Some(life) = &view.server.life else { return Err("no coordinator runs".into()) };
    let (granted, undecided) = life.coordinator.resolver().counts();
    if (granted, undecided) != (0, 0) {
        return Err(format!("{granted} grants and {undecided} undecided intents are left over"));
    }
    let left: Vec<_> =
        life.coordinator.sessions().sizes().into_iter().filter(|(_, size)| *size > 0).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("the coordinator's sessions still have {left:?}")) }
}
