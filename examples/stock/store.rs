//! The store's own books, in SQLite: units that know who has them, and a mere count.

use std::sync::{Mutex, MutexGuard, PoisonError};

use preclaim::types::{Fence, Time};
use rusqlite::{Connection, Params};

use super::Failure;
use super::world::REGIONS;

#[derive(Debug)]
struct Books(Mutex<Connection>);

impl Books {
    fn new(schema: &str) -> Result<Self, Failure> {
        let sqlite = Connection::open_in_memory()?;
        sqlite.execute_batch(schema)?;
        Ok(Books(Mutex::new(sqlite)))
    }

    // Each statement is whole or not at all.
    fn sqlite(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows the statement changed.
    fn execute(&self, statement: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.sqlite().prepare(statement)?.execute(params)?)
    }

    fn number(&self, statement: &str, params: impl Params) -> Result<i64, Failure> {
        Ok(self.sqlite().prepare(statement)?.query_row(params, |row| row.get(0))?)
    }
}

/// The units of each pool, one a row. Reservations of units stand side by side, so their fences order nothing
/// among them: each is bound to one unit, and whoever wants to sell that one has to come with its fence.
#[derive(Debug)]
pub(crate) struct Units(Books);

impl Units {
    pub(crate) fn new(pools: [u64; 2]) -> Result<Self, Failure> {
        let books = Books::new(
            "CREATE TABLE unit (no INTEGER PRIMARY KEY, pool TEXT NOT NULL, sold INTEGER NOT NULL DEFAULT 0,
                 start_us INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, end_us INTEGER NOT NULL DEFAULT 0);
             CREATE INDEX by_fence ON unit (start_us, token)",
        )?;
        for (pool, units) in pools.into_iter().enumerate() {
            for _ in 0..units {
                books.execute("INSERT INTO unit (pool) VALUES (?1)", (REGIONS[pool],))?;
            }
        }
        Ok(Units(books))
    }

    /// Binds a reservation to a unit that no other had when this one began. There always is one, since no more are
    /// reserved than are left: `false` would be a broken promise.
    pub(crate) fn pick(&self, pool: usize, fence: Fence, end: Time) -> Result<bool, Failure> {
        let (start, token) = numbers(fence)?;
        let picked = self.0.execute(
            "UPDATE unit SET start_us = ?2, token = ?3, end_us = ?4 WHERE no =
                 (SELECT no FROM unit WHERE pool = ?1 AND sold = 0 AND end_us <= ?2 ORDER BY no LIMIT 1)",
            (REGIONS[pool], start, token, i64::try_from(end.as_us())?),
        )?;
        Ok(picked == 1)
    }

    /// The unit is free again, ahead of the reservation's end.
    pub(crate) fn put_back(&self, fence: Fence) -> Result<(), Failure> {
        let back = "UPDATE unit SET end_us = 0 WHERE start_us = ?1 AND token = ?2 AND sold = 0";
        self.0.execute(back, numbers(fence)?).map(|_| ())
    }

    /// The decrement, check and write in one statement. Refused where another reservation has had the unit since,
    /// or this one is over.
    pub(crate) fn sell(&self, fence: Fence, now: Time) -> Result<bool, Failure> {
        let (start, token) = numbers(fence)?;
        let sold = self.0.execute(
            "UPDATE unit SET sold = 1 WHERE start_us = ?1 AND token = ?2 AND sold = 0 AND end_us > ?3",
            (start, token, i64::try_from(now.as_us())?),
        )?;
        Ok(sold == 1)
    }

    pub(crate) fn left(&self, pool: usize) -> Result<u64, Failure> {
        let left =
            self.0.number("SELECT COUNT(*) FROM unit WHERE pool = ?1 AND sold = 0", (REGIONS[pool],))?;
        Ok(left.try_into()?)
    }
}

fn numbers(fence: Fence) -> Result<(i64, i64), Failure> {
    Ok((fence.start.as_us().try_into()?, fence.token.number().try_into()?))
}

/// How many each pool has, as a number that anybody may write.
#[derive(Debug)]
pub(crate) struct Counter(Books);

impl Counter {
    pub(crate) fn new(pools: [u64; 2]) -> Result<Self, Failure> {
        let books = Books::new("CREATE TABLE pool (name TEXT PRIMARY KEY, stock INTEGER NOT NULL)")?;
        for (pool, units) in pools.into_iter().enumerate() {
            books.execute("INSERT INTO pool VALUES (?1, ?2)", (REGIONS[pool], i64::try_from(units)?))?;
        }
        Ok(Counter(books))
    }

    pub(crate) fn read(&self, pool: usize) -> Result<i64, Failure> {
        self.0.number("SELECT stock FROM pool WHERE name = ?1", (REGIONS[pool],))
    }

    pub(crate) fn write(&self, pool: usize, stock: i64) -> Result<(), Failure> {
        self.0.execute("UPDATE pool SET stock = ?2 WHERE name = ?1", (REGIONS[pool], stock)).map(|_| ())
    }

    /// Takes one off where there is one.
    pub(crate) fn decrement(&self, pool: usize) -> Result<bool, Failure> {
        let one_off = "UPDATE pool SET stock = stock - 1 WHERE name = ?1 AND stock > 0";
        Ok(self.0.execute(one_off, (REGIONS[pool],))? == 1)
    }
}
