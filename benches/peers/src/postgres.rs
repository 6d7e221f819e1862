//! PostgreSQL as its users do it: advisory locks of a session, which have a queue; and reservations that an
//! exclusion constraint keeps from overlapping, where the loser looks for the next free window and tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_postgres::{Client, NoTls, Statement};

use crate::Failure;
use crate::drive::{Agent, Booker};
use crate::timer::{sleep, sleep_until};
use crate::work::{Wanted, ancestors};

const SCHEMA: &str = "
    CREATE EXTENSION IF NOT EXISTS btree_gist;
    DROP TABLE IF EXISTS reservation;
    CREATE TABLE reservation (
        resource bigint NOT NULL,
        during tstzrange NOT NULL,
        EXCLUDE USING gist (resource WITH =, during WITH &&)
    )";

/// The window as two numbers of microseconds since 1970.
const RESERVE: &str = "
    INSERT INTO reservation VALUES ($1, tstzrange(
        timestamptz 'epoch' + $2::bigint * interval '1 microsecond',
        timestamptz 'epoch' + $3::bigint * interval '1 microsecond'))
    ON CONFLICT DO NOTHING";

/// The first end of a reservation after which as much is free as is wanted, of those within sixty times as much.
const NEXT_FREE: &str = "
    WITH taken AS (
        SELECT upper(during) AS ends, lead(lower(during)) OVER (ORDER BY lower(during)) AS next
        FROM reservation
        WHERE resource = $1 AND during && tstzrange(
            timestamptz 'epoch' + $2::bigint * interval '1 microsecond',
            timestamptz 'epoch' + ($2::bigint + 60 * $3::bigint) * interval '1 microsecond'))
    SELECT (extract(epoch FROM min(ends)) * 1000000)::bigint FROM taken
    WHERE next IS NULL OR next - ends >= $3::bigint * interval '1 microsecond'";

/// One connection.
#[derive(Clone)]
struct Connection {
    client: Arc<Client>,
    requests: Arc<AtomicU64>,
}

impl Connection {
    async fn open(port: u16, requests: Arc<AtomicU64>) -> Result<Self, Failure> {
        let config = format!("host=127.0.0.1 port={port} user=bench dbname=postgres");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection); // ends with its client
        Ok(Connection { client: Arc::new(client), requests })
    }

    fn asked(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the table anew.
pub(crate) async fn prepare(port: u16) -> Result<(), Failure> {
    let connection = Connection::open(port, Arc::default()).await?;
    Ok(connection.client.batch_execute(SCHEMA).await?)
}

/// Whether it takes connections.
pub(crate) async fn answers(port: u16) -> bool {
    Connection::open(port, Arc::default()).await.is_ok()
}

/// Locks of a session: shared ones on what is above a path, an exclusive one on the path itself.
#[derive(Clone)]
pub(crate) struct Advisory {
    connection: Connection,
    lock: Statement,
    unlock: Statement,
}

impl Advisory {
    pub(crate) async fn connect(port: u16, requests: Arc<AtomicU64>) -> Result<Self, Failure> {
        let connection = Connection::open(port, requests).await?;
        // An array is unnested in its order, and locked in it.
        let of = |what: &str| {
            format!(
                "SELECT pg_advisory_{what}_shared(above) FROM unnest($1::bigint[]) above \
                 UNION ALL SELECT pg_advisory_{what}(own) FROM unnest($2::bigint[]) own"
            )
        };
        let lock = connection.client.prepare(&of("lock")).await?;
        let unlock = connection.client.prepare(&of("unlock")).await?;
        Ok(Advisory { connection, lock, unlock })
    }
}

/// The numbers of what is locked shared, and of what is locked alone.
type Keys = (Vec<i64>, Vec<i64>);

/// FNV-1a: advisory locks are numbers.
fn number(path: &str) -> i64 {
    path.bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        as i64
}

fn keys(wanted: &Wanted) -> Keys {
    let is_tree = wanted.paths.iter().any(|path| path.starts_with("src/"));
    let above = wanted.paths.iter().flat_map(|path| ancestors(path)).filter(|_| is_tree);
    (above.map(number).collect(), wanted.paths.iter().map(|path| number(path)).collect())
}

impl Agent for Advisory {
    type Held = Keys;

    fn twin(&self, _index: usize) -> Self {
        self.clone()
    }

    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let keys = keys(wanted);
        self.connection.asked();
        self.connection.client.query(&self.lock, &[&keys.0, &keys.1]).await?;
        Ok(keys)
    }

    async fn give(&mut self, held: Self::Held) -> Result<(), Failure> {
        self.connection.asked();
        self.connection.client.query(&self.unlock, &[&held.0, &held.1]).await?;
        Ok(())
    }
}

/// Reservations of windows of time.
#[derive(Clone)]
pub(crate) struct Exclusion {
    connection: Connection,
    reserve: Statement,
    next_free: Statement,
    /// What is reserved beside the time that the work takes, since timers ring late.
    margin: Duration,
}

impl Exclusion {
    pub(crate) async fn connect(
        port: u16,
        margin: Duration,
        requests: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let connection = Connection::open(port, requests).await?;
        let reserve = connection.client.prepare(RESERVE).await?;
        let next_free = connection.client.prepare(NEXT_FREE).await?;
        Ok(Exclusion { connection, reserve, next_free, margin })
    }

    async fn reserve(&self, resource: u64, from_us: u64, length_us: u64) -> Result<u64, Failure> {
        let (resource, length, client) = (resource as i64, length_us as i64, &self.connection.client);
        let mut start = from_us as i64;
        loop {
            self.connection.asked();
            if client.execute(&self.reserve, &[&resource, &start, &(start + length)]).await? == 1 {
                return Ok(start as u64);
            }
            self.connection.asked();
            let row = client.query_one(&self.next_free, &[&resource, &start, &length]).await?;
            start = row.get::<_, Option<i64>>(0).unwrap_or(start);
        }
    }
}

impl Booker for Exclusion {
    async fn book(&mut self, resource: u64, from_us: u64, length_us: u64) -> Result<u64, Failure> {
        self.reserve(resource, from_us, length_us).await
    }
}

/// Microseconds since 1970 by the machine's clock.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

impl Agent for Exclusion {
    /// Its window, by this process's clock.
    type Held = Instant;

    fn twin(&self, _index: usize) -> Self {
        self.clone()
    }

    /// One path only: reserves the next free window, and waits for it.
    async fn take(&mut self, wanted: &Wanted, _needed: Instant) -> Result<Self::Held, Failure> {
        let path = wanted.paths.first().ok_or("nothing is wanted")?;
        let length = wanted.work + self.margin;
        let (now, now_us) = (Instant::now(), now_us());
        let start_us = self.reserve(number(path) as u64, now_us, length.as_micros() as u64).await?;
        let starts = now + Duration::from_micros(start_us - now_us);
        sleep_until(starts).await;
        Ok(starts + length)
    }

    fn until(&self, held: &Self::Held) -> Option<Instant> {
        Some(*held)
    }

    async fn work(&self, held: &Self::Held, work: Duration) -> Option<Instant> {
        if !work.is_zero() && Instant::now() < *held {
            sleep(work).await;
        }
        Some(Instant::now()).filter(|used| used < held)
    }

    async fn give(&mut self, _held: Self::Held) -> Result<(), Failure> {
        Ok(())
    }
}
