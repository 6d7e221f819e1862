//! What uses preclaim: a unit is reserved before it is paid for, at home first and then, in two phases, in the
//! other region; a sale lowers the pool's capacity and gives the reservation back, as a rule in one slot.

use std::time::Instant;

use preclaim::client::Filter;
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::{Resource, Rules, SystemOp};
use preclaim::slot::Refused;
use preclaim::types::{Agent, Slot, Time};
use preclaim::{Client, Grant, Intent, Outcome, millis, path};
use tokio::time::{sleep_until, timeout};

use super::account::Answer;
use super::world::{Paid, REGIONS, Scale, Shopper};
use super::{Failure, Shop, window};

pub(crate) fn pool(region: usize) -> String {
    format!("stock/sku-1/{}", REGIONS[region])
}

/// For the other region. It lies below the pool, so that a unit taken here is one less of the pool, too.
fn away(region: usize) -> String {
    pool(region) + "/away"
}

/// Where a transfer comes into a region.
fn dock(region: usize) -> String {
    format!("dock/{}", REGIONS[region])
}

/// A coordinator on a free port of this machine. How much there is of each pool is its capacity.
pub(crate) fn coordinator(scale: &Scale) -> Result<Running, Failure> {
    let mut resources = Vec::new();
    for (region, units) in scale.pools.into_iter().enumerate() {
        // A few transfers at a time come into a region.
        for (of, capacity) in [(pool(region), units), (away(region), units), (dock(region), 3)] {
            resources.push(Resource { capacity: Some(capacity), ..Resource::new(path(&of)?.path().clone()) });
        }
    }
    let rules = Rules { resources, ..Rules::default() };
    Ok(Coordinator::bind(CoordinatorConfig::in_memory(rules)?)?.spawn())
}

impl Shop {
    /// Sells the shopper a unit, or says why not: at home where there is one, else from the other region.
    pub(crate) async fn buy(&self, client: &Client, shopper: &Shopper) -> Result<Answer, Failure> {
        let (home, other, long) = (shopper.region, 1 - shopper.region, self.scale.reservation);
        let at_home = Intent::asap().claim(path(&pool(home))?.units(1), long).wait(millis(30));
        if let Outcome::Granted(grant) = client.declare(at_home).await? {
            return self.pay(client, grant, home, shopper).await;
        }
        if !self.breakers[home].lets_through(Instant::now()) {
            return Ok(Answer::NotTried);
        }
        // Phase one: a unit there and a place on the dock here, both or neither.
        let transfer = Intent::asap()
            .claim(path(&away(other))?.units(1), long)
            .claim(path(&dock(home))?.units(1), long)
            .wait(millis(60));
        let Outcome::Granted(grant) = client.declare(transfer).await? else {
            self.breakers[home].came_to_nothing();
            return Ok(Answer::SoldOut);
        };
        // Phase two: the other region confirms. Where it does not in time, both are given back at once.
        if timeout(self.scale.confirm_within, self.link.confirm()).await.is_err() {
            grant.release().await?;
            self.breakers[home].timed_out(Instant::now());
            return Ok(Answer::TransferFailed);
        }
        self.breakers[home].succeeded();
        self.pay(client, grant, other, shopper).await
    }

    /// The reservation is bound to a unit on the shelf, the shopper pays, and the unit is sold.
    async fn pay(
        &self,
        client: &Client,
        grant: Grant,
        region: usize,
        shopper: &Shopper,
    ) -> Result<Answer, Failure> {
        let fence = grant.fence(0);
        if !self.units.pick(region, fence, grant.end())? {
            return Ok(Answer::PromiseBroken);
        }
        match grant.guarded(shopper.pays()).await {
            Ok(Paid::Yes) => {}
            // As a killed process leaves it: it runs to its end, and is free again then.
            Ok(Paid::Died) => {
                grant.detach();
                return Ok(Answer::Died);
            }
            Ok(Paid::ChangedMind) | Err(_) => {
                self.units.put_back(fence)?;
                grant.release().await?;
                return Ok(Answer::ChangedMind);
            }
        }
        shopper.stalls().await;
        self.sell(client, &grant, region).await
    }

    /// The store takes one off, under the fence. Then the shop, which runs the coordinator and so is its operator,
    /// lowers the capacity and gives the reservation back, in this order: a capacity below what is reserved takes nothing
    /// away, so that between the two there is never room for one too many.
    async fn sell(&self, client: &Client, grant: &Grant, region: usize) -> Result<Answer, Failure> {
        let _one_at_a_time = self.settling.lock().await;
        let (now, uncertainty) = self.client.coordinator_time();
        if !self.units.sell(grant.fence(0), now + uncertainty)? {
            return Ok(if grant.check().is_ok() { Answer::PromiseBroken } else { Answer::Refunded });
        }
        let capacity = self.units.left(region)?;
        let lowered = SystemOp::Capacity { path: path(&pool(region))?.path().clone(), capacity };
        let agent = Agent::new(client.name()).ok_or("an agent without a name")?;
        let released = SystemOp::Release { agent, id: grant.id(), reason: "sold".into() };
        let (lowered, released) = (self.tell(lowered).await?, self.tell(released).await?);
        self.account.settled([lowered, released].map(|at| Slot::of(at, self.client.slot_length().into())));
        Ok(Answer::Sold { pool: region })
    }

    /// What the operator sets or releases, as a `SystemOp`; where a slot has no room for more, in the next.
    async fn tell(&self, op: SystemOp) -> Result<Time, Failure> {
        loop {
            match self.operator.submit(op.clone()) {
                Ok(at) => return Ok(at),
                Err(Refused::Full(full)) => sleep_until(self.client.instant(full.until).into()).await,
                Err(Refused::Draining) => return Err("the coordinator stops".into()),
            }
        }
    }

    /// Each pool keeps for its own region what that region's share of the recent sales is, and the shop window
    /// shows how likely it is that a shopper gets one. Goes on until it is dropped.
    pub(crate) async fn follow_sales(&self) -> Result<(), Failure> {
        loop {
            tokio::time::sleep(window::LOOKS_EVERY).await;
            for region in 0..REGIONS.len() {
                let left = self.units.left(region)?;
                let path = path(&away(region))?.path().clone();
                let capacity = left - window::kept(region, left, &self.account);
                self.tell(SystemOp::Capacity { path, capacity }).await?;
            }
            let listing = self.client.list(Filter::all().under(path("stock/sku-1")?).granted()).await?;
            let left = [self.units.left(0)?, self.units.left(1)?];
            self.window.show(left, &listing, &self.account);
        }
    }
}
