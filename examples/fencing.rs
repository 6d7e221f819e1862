//! The classic failure of every lease, and what stops it: a holder that was stopped past its end writes late.
//!
//! ```text
//! cargo run --example fencing
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::fence::{Fence, Gate, MemoryKeep, Refused};
use preclaim::resolver::Rules;
use preclaim::{Client, Grant, Intent, Outcome, millis, path, secs};
use rusqlite::Connection;

type Failure = Box<dyn Error + Send + Sync>;

const KEY: &str = "file/plan.md";

/// Check and write in one statement: where it changes no row, a later holder has been here.
const GUARDED: &str = "
    INSERT INTO doc (key, body, start_us, token) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, start_us = excluded.start_us, token = excluded.token
    WHERE (doc.start_us, doc.token) <= (excluded.start_us, excluded.token)";

const UNGUARDED: &str = "INSERT OR REPLACE INTO doc (key, body, start_us, token) VALUES (?1, ?2, ?3, ?4)";

/// What stands between a late holder and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Nothing,
    /// The database checks the fence itself.
    Statement,
    /// For a store that cannot: here the same table, written without a look.
    Gate,
}

/// A database of documents.
struct Store {
    sqlite: Mutex<Connection>,
    guard: Guard,
    gate: Gate<MemoryKeep>,
}

impl Store {
    fn new(guard: Guard) -> Result<Self, Failure> {
        let sqlite = Connection::open_in_memory()?;
        sqlite.execute_batch(
            "CREATE TABLE doc (key TEXT PRIMARY KEY, body TEXT, start_us INTEGER NOT NULL, token INTEGER NOT NULL)",
        )?;
        Ok(Store { sqlite: Mutex::new(sqlite), guard, gate: Gate::new(MemoryKeep::default()) })
    }

    /// Writes, and says whether it was let in.
    fn write(&self, fence: Fence, body: &str) -> Result<bool, Failure> {
        match self.guard {
            Guard::Nothing => self.execute(UNGUARDED, fence, body),
            Guard::Statement => self.execute(GUARDED, fence, body),
            Guard::Gate => match self.gate.admit(KEY, fence, || self.execute(UNGUARDED, fence, body)) {
                Ok(written) => written,
                Err(Refused::Lower { .. }) => Ok(false),
                Err(why) => Err(why.into()),
            },
        }
    }

    fn execute(&self, statement: &str, fence: Fence, body: &str) -> Result<bool, Failure> {
        let (start, token) = (i64::try_from(fence.start.as_us())?, i64::try_from(fence.token.number())?);
        let sqlite = self.sqlite.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sqlite.execute(statement, (KEY, body, start, token))? == 1)
    }

    fn read(&self) -> Result<String, Failure> {
        let sqlite = self.sqlite.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sqlite.query_row("SELECT body FROM doc WHERE key = ?1", (KEY,), |row| row.get(0))?)
    }
}

/// A lease on the document, once it is free.
async fn lease(client: &Client) -> Result<Grant, Failure> {
    let intent = Intent::asap().claim(path(KEY)?.exclusive(), millis(300)).lease().wait(secs(60));
    match client.declare(intent).await? {
        Outcome::Granted(grant) => Ok(grant),
        other => Err(format!("not granted: {other:?}").into()),
    }
}

/// What became of the late write.
struct Late {
    /// Whether the holder could have known.
    check_says_lost: bool,
    let_in: bool,
}

/// A process that has the lease, and is stopped as a whole before it writes: here a thread with a runtime
/// of its own, so that nothing of it goes on, renewals included.
fn stopped_holder(
    client: preclaim::client::ClientBuilder,
    store: &Store,
    holds: &mpsc::Sender<()>,
    wakes: &mpsc::Receiver<()>,
) -> Result<Late, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let grant = runtime.block_on(async { lease(&client.connect().await?).await })?;
    holds.send(())?;
    wakes.recv()?;
    let check_says_lost = grant.check().is_err();
    // It does not ask, as code does that asked just before it was stopped.
    let let_in = store.write(grant.fence(0), "planner-1")?;
    Ok(Late { check_says_lost, let_in })
}

async fn story(coordinator: &Running, guard: Guard, out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let store = Arc::new(Store::new(guard)?);
    let ((holds, held), (wake, wakes)) = (mpsc::channel(), mpsc::channel());
    let holder = {
        let (client, store) = (coordinator.client("planner-1"), Arc::clone(&store));
        thread::spawn(move || stopped_holder(client, &store, &holds, &wakes))
    };
    tokio::task::block_in_place(|| held.recv()).map_err(|_| "planner-1 has no lease")?;
    writeln!(out, "  planner-1  has {KEY}, and is stopped before it writes")?;
    let next = lease(&coordinator.client("planner-2").connect().await?).await?;
    if !store.write(next.fence(0), "planner-2")? {
        return Err("the rightful holder was refused".into());
    }
    writeln!(out, "  planner-2  has it once that lease has ended, and writes")?;
    wake.send(())?;
    let late = tokio::task::block_in_place(|| holder.join()).map_err(|_| "planner-1 panicked")??;
    let check = if late.check_says_lost { "lost" } else { "held" };
    let end = if late.let_in { "writes over it" } else { "writes, and is refused" };
    writeln!(out, "  planner-1  wakes (check() would say: {check}), {end}")?;
    let kept = store.read()?;
    writeln!(out, "  the store  has what {kept} wrote")?;
    let expected = if guard == Guard::Nothing { "planner-1" } else { "planner-2" };
    match kept == expected && late.check_says_lost {
        true => Ok(next.release().await.map(|_| ())?),
        false => Err("it did not show what it is there to show".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    show(&mut io::stdout()).await
}

pub(crate) async fn show(out: &mut (impl Write + Send)) -> Result<(), Failure> {
    let coordinator = Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?.spawn();
    for (guard, title) in [
        (Guard::Nothing, "A store that takes every write"),
        (Guard::Statement, "A store that compares fences, in the statement that writes (SQLite)"),
        (Guard::Gate, "A store that cannot, behind a fence::Gate"),
    ] {
        writeln!(out, "{title}")?;
        story(&coordinator, guard, out).await?;
    }
    coordinator.stop().await?;
    Ok(())
}
