//! The same without preclaim: read the number, be paid, write the number; under a lock that expires; and with nothing
//! but the store's own decrement at the end.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::Failure;
use super::account::Answer;
use super::redis::Redis;
use super::store::Counter;
use super::world::{Link, Paid, Scale, Shopper};

/// How stock is kept from being sold twice.
pub(crate) enum Guard {
    /// Not at all: read, then write.
    Nothing,
    /// By a lock on the pool that expires.
    Lock(Lock),
    /// By the store, which takes one off where there is one.
    Decrement,
}

pub(crate) struct Plain {
    pub(crate) counter: Counter,
    pub(crate) link: Link,
    pub(crate) guard: Guard,
    pub(crate) scale: Scale,
}

impl Plain {
    pub(crate) async fn buy(&self, agent: &str, shopper: &Shopper) -> Result<Answer, Failure> {
        for pool in [shopper.region, 1 - shopper.region] {
            if let Guard::Lock(lock) = &self.guard {
                while !lock.takes(pool, agent, self.scale.lock_expires)? {
                    sleep(Duration::from_millis(2)).await;
                }
            }
            let answer = self.buy_from(pool, shopper).await?;
            if let Guard::Lock(lock) = &self.guard
                && answer != Answer::Died
            {
                lock.gives_back(pool, agent)?;
            }
            if answer != Answer::SoldOut {
                return Ok(answer);
            }
        }
        Ok(Answer::SoldOut)
    }

    async fn buy_from(&self, pool: usize, shopper: &Shopper) -> Result<Answer, Failure> {
        let stock = self.counter.read(pool)?;
        if stock <= 0 {
            return Ok(Answer::SoldOut);
        }
        let is_transfer = pool != shopper.region;
        if is_transfer && timeout(self.scale.confirm_within, self.link.confirm()).await.is_err() {
            return Ok(Answer::TransferFailed);
        }
        match shopper.pays().await {
            Paid::Yes => shopper.stalls().await,
            Paid::ChangedMind => return Ok(Answer::ChangedMind),
            Paid::Died => return Ok(Answer::Died),
        }
        if let Guard::Decrement = self.guard {
            return Ok(if self.counter.decrement(pool)? { Answer::Sold { pool } } else { Answer::Refunded });
        }
        self.counter.write(pool, stock - 1)?;
        Ok(Answer::Sold { pool })
    }
}

/// A lock for each pool that is given back by its holder or expires.
pub(crate) enum Lock {
    Redis(Redis),
    /// The same rule in this process, where the machine has no Redis.
    StandIn(Mutex<[Option<(String, Instant)>; 2]>),
}

impl Lock {
    /// A Redis of its own where there is one.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(match Redis::start()? {
            Some(redis) => Lock::Redis(redis),
            None => Lock::stand_in(),
        })
    }

    pub(crate) fn stand_in() -> Self {
        Lock::StandIn(Mutex::default())
    }

    pub(crate) fn what(&self) -> &'static str {
        match self {
            Lock::Redis(_) => "a Redis (SET NX PX, and given back by its holder alone)",
            Lock::StandIn(_) => {
                "a stand-in with the rule of Redis's SET NX PX: there is no redis-server on the PATH"
            }
        }
    }

    fn takes(&self, pool: usize, agent: &str, expires: Duration) -> Result<bool, Failure> {
        match self {
            Lock::Redis(redis) => redis.set_nx_px(&format!("pool-{pool}"), agent, expires),
            Lock::StandIn(holders) => {
                let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
                let is_free = holders[pool].as_ref().is_none_or(|(_, until)| *until <= Instant::now());
                if is_free {
                    holders[pool] = Some((agent.to_owned(), Instant::now() + expires));
                }
                Ok(is_free)
            }
        }
    }

    fn gives_back(&self, pool: usize, agent: &str) -> Result<(), Failure> {
        match self {
            Lock::Redis(redis) => redis.delete_if(&format!("pool-{pool}"), agent),
            Lock::StandIn(holders) => {
                let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
                holders[pool].take_if(|(holder, _)| holder == agent);
                Ok(())
            }
        }
    }
}
