//! Redis as its users lock with it: `SET key value NX PX`, a pause and another try where it is taken, and a
//! script that deletes the key only where the value is one's own. And Redlock, the same at five servers of
//! which three must agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script, cmd};

use crate::Failure;
use crate::dice::Dice;
use crate::drive::Agent;
use crate::timer::sleep;
use crate::work::{Wanted, covering};

/// How long a key lives should its holder vanish.
const LIVES_MS: u64 = 30_000;
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const DELETE_OWN: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// An agent with a connection to each of one or five servers.
#[derive(Clone)]
pub(crate) struct RedisAgent {
    servers: Vec<MultiplexedConnection>,
    prefix: Arc<str>,
    value: String,
    delete_own: Script,
    dice: Dice,
    requests: Arc<AtomicU64>,
}

impl RedisAgent {
    pub(crate) async fn connect(
        ports: &[u16],
        prefix: Arc<str>,
        index: usize,
        requests: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let mut servers = Vec::new();
        for port in ports {
            let client = Client::open(format!("redis://127.0.0.1:{port}/"))?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(ANSWERS_WITHIN))
                .set_response_timeout(Some(ANSWERS_WITHIN));
            servers.push(client.get_multiplexed_async_connection_with_config(&config).await?);
        }
        let (delete_own, dice) = (Script::new(DELETE_OWN), Dice::new(index as u64 + 1000));
        Ok(RedisAgent { servers, prefix, value: format!("agent-{index}"), delete_own, dice, requests })
    }

    /// Until most servers have given the key.
    async fn lock(&mut self, key: &str) -> Result<(), Failure> {
        loop {
            if self.try_lock(key).await? {
                return Ok(());
            }
            sleep(self.dice.pause()).await;
        }
    }

    async fn try_lock(&mut self, key: &str) -> Result<bool, Failure> {
        self.requests.fetch_add(self.servers.len() as u64, Ordering::Relaxed);
        let value = &self.value;
        let given = join_all(self.servers.iter_mut().map(async |server| {
            let mut set = cmd("SET");
            set.arg(key).arg(value).arg("NX").arg("PX").arg(LIVES_MS);
            let given: Option<String> = set.query_async(server).await?;
            Ok::<bool, redis::RedisError>(given.is_some())
        }));
        let given = given.await.into_iter().collect::<Result<Vec<bool>, _>>()?;
        let count = given.iter().filter(|given| **given).count();
        let has_most = count > self.servers.len() / 2;
        if !has_most && count > 0 {
            self.unlock(key).await?;
        }
        Ok(has_most)
    }

    async fn unlock(&mut self, key: &str) -> Result<(), Failure> {
        self.requests.fetch_add(self.servers.len() as u64, Ordering::Relaxed);
        let (script, value) = (&self.delete_own, &self.value);
        let deleted = join_all(
            self.servers
                .iter_mut()
                .map(async |server| script.key(key).arg(value).invoke_async::<i64>(server).await),
        );
        deleted.await.into_iter().collect::<Result<Vec<i64>, _>>()?;
        Ok(())
    }
}

impl Agent for RedisAgent {
    type Held = Vec<String>;

    fn twin(&self, index: usize) -> Self {
        RedisAgent { value: format!("agent-{index}"), dice: Dice::new(index as u64 + 1000), ..self.clone() }
    }

    /// One key after the other, in their order, so that no two wait for each other.
    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let key = |path: &String| format!("{}/{}", self.prefix, covering(path));
        let keys: Vec<String> = wanted.paths.iter().map(key).collect();
        for key in &keys {
            self.lock(key).await?;
        }
        Ok(keys)
    }

    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        for key in &held {
            self.unlock(key).await?;
        }
        Ok(())
    }
}
