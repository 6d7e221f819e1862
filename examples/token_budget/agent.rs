//! What to copy: an agent that spends from a budget, keeps within a provider's rate limit, and shares a cap.
//!
//! A budget is a capacity, and what is spent is a claim on units of it to the end of the budget's period. A rate
//! limit is a capacity too, and each call a claim that lasts a minute.

use std::time::{Duration, Instant};

use preclaim::client::{Filter, Revision};
use preclaim::config::Config;
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::types::{RawMode, Time};
use preclaim::{Client, Grant, Intent, Outcome, millis, path, secs};
use tokio::time::sleep;

use super::Failure;
use super::world::{Limits, MINUTE};

/// When a reservation of an agent that has died before its call ends. A living one renews it.
const LEASE: Duration = millis(500);
/// How long it waits for what others may give back.
const WAIT: Duration = millis(400);
/// How late a call may be after its start. Its claim lasts a minute and this, so that all that the provider sees within
/// a minute is claimed at one instant.
const LATE: Duration = millis(40);
/// How far ahead of now a call may be put: longer than any queue.
const AHEAD: Duration = secs(60);

/// An agent, and when the period of its budgets ends.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) period_end: Time,
}

/// A coordinator in this process. The same lines stand in the configuration of one that runs alone.
pub(crate) fn coordinator(limits: &Limits) -> Result<Running, Failure> {
    let Limits { budget, cap_cents, calls, tokens } = limits;
    let text = format!(
        r#"
        [[resource]]
        path = "budget/team"       # tokens in a period
        capacity = {budget}
        [[resource]]
        path = "budget/cap"        # cents in a period
        capacity = {cap_cents}
        [[resource]]
        path = "provider/calls"    # calls in any minute
        capacity = {calls}
        [[resource]]
        path = "provider/tokens"   # tokens in any minute
        capacity = {tokens}
        "#
    );
    let rules = Config::parse("these lines", &text)?.rules;
    Ok(Coordinator::bind(CoordinatorConfig::in_memory(rules)?)?.spawn())
}

impl Agent {
    /// Thinks, then makes a call that costs `most` at most and says what it did cost. `None` where the budget has
    /// not that much left; then nothing was called.
    pub(crate) async fn spend(
        &self,
        most: u64,
        think: Duration,
        call: impl AsyncFnOnce() -> u64,
    ) -> Result<Option<u64>, Failure> {
        let budget = path("budget/team")?;
        let grant = loop {
            // 1 Reserve, for as long as this agent lives: should it die while it thinks, it is all given back.
            let lease = Intent::asap().claim(budget.clone().units(most), LEASE).lease().wait(WAIT);
            let Some(grant) = granted(self.client.declare(lease).await?)? else { return Ok(None) };
            if grant.guarded(sleep(think)).await.is_ok() {
                break grant;
            } // else the lease was lost: this machine stalled
        };
        // 2 From here on it may be spent: to the end of the period, whatever becomes of this agent or of this call.
        let rest = self.period_end.since(self.client.coordinator_time().0).to_std();
        revised(grant.revise(Intent::asap().claim(budget.clone().units(most), rest)).await?)?;
        let start = grant.start();
        let id = grant.detach(); // dropped, it would be released
        let actual = call().await;

        // 3 Commit the actual: the same claim with fewer units. What was not needed is free in the next slot.
        let rest = self.period_end.since(start).to_std();
        let spent = Intent::at(start).claim(budget.units(actual), rest).revises(id);
        granted(self.client.declare(spent).await?)?.ok_or("refused what it has")?.detach();
        Ok(Some(actual))
    }

    /// What is claimed from the budget, reserved and spent, of all agents: the coordinator keeps the book.
    pub(crate) async fn claimed(&self) -> Result<u64, Failure> {
        let listing = self.client.list(Filter::all().under(path("budget/team")?).granted()).await?;
        let units = |mode| if let RawMode::Units(units) = mode { units } else { 0 };
        Ok(listing.entries.into_iter().flat_map(|entry| entry.claims).map(|claim| units(claim.mode)).sum())
    }

    /// Whether all of the next period's budget can be had: nothing of this period's lasts into it.
    pub(crate) async fn next_period_is_whole(&self, budget: u64) -> Result<bool, Failure> {
        let next = Intent::at(self.period_end).claim(path("budget/team")?.units(budget), secs(1));
        Ok(granted(self.client.declare(next).await?)?.is_some())
    }

    /// Spends `cents` of the cap, or is told that they are not there.
    pub(crate) async fn pay(&self, cents: u64) -> Result<bool, Failure> {
        let rest = self.period_end.since(self.client.coordinator_time().0).to_std();
        let paid = granted(
            self.client.declare(Intent::asap().claim(path("budget/cap")?.units(cents), rest)).await?,
        )?;
        Ok(paid.map(Grant::detach).is_some())
    }

    /// Makes a call to the provider when its turn has come.
    pub(crate) async fn call<T>(&self, tokens: u64, call: impl AsyncFnOnce() -> T) -> Result<T, Failure> {
        let (calls, all_tokens) = (path("provider/calls")?.units(1), path("provider/tokens")?.units(tokens));
        let minute = MINUTE + LATE;
        let turn = Intent::asap().slack(AHEAD).claim(calls, minute).claim(all_tokens, minute);
        loop {
            // All that ask at once are granted at once, each with a start of its own.
            let grant =
                granted(self.client.declare(turn.clone()).await?)?.ok_or("no turn within the slack")?;
            grant.begun().await;
            if Instant::now() < grant.begins() + LATE {
                let answer = call().await;
                grant.detach(); // it counts until its minute is over
                return Ok(answer);
            } // else this machine stalled: the turn is given back, and another one asked for
        }
    }
}

/// A grant, or `None` where somebody else has what was asked for.
fn granted(outcome: Outcome) -> Result<Option<Grant>, Failure> {
    match outcome {
        Outcome::Granted(grant) => Ok(Some(grant)),
        Outcome::Conflict(_) => Ok(None),
        other => Err(format!("{other:?}").into()),
    }
}

/// A revision to no more units than are held, and no others come in between.
fn revised(revision: Revision) -> Result<(), Failure> {
    match revision {
        Revision::Granted => Ok(()),
        other => Err(format!("refused what it has: {other:?}").into()),
    }
}
