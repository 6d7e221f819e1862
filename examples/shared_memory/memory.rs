//! The shared memory: documents in SQLite, each with a version and a vector by which it is found.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use preclaim::types::Fence;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::Failure;
use super::story::Dice;

/// Numbers of a vector: the words' hashes, counted.
const DIMENSIONS: usize = 256;
/// Documents less similar than this are about something else.
const SIMILAR: f32 = 0.5;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS doc (
        key TEXT PRIMARY KEY, body TEXT NOT NULL, version INTEGER NOT NULL, vector BLOB NOT NULL,
        start_us INTEGER NOT NULL, token INTEGER NOT NULL)";

/// Without a look at who was there before.
const BLIND: &str = "
    INSERT INTO doc VALUES (?1, ?2, 1, ?3, 0, 0)
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, version = doc.version + 1, vector = excluded.vector";

/// Check and write in one statement: where it changes no row, a later holder has been here.
const FENCED: &str = "
    INSERT INTO doc VALUES (?1, ?2, 1, ?3, ?4, ?5)
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, version = doc.version + 1, vector = excluded.vector,
        start_us = excluded.start_us, token = excluded.token
    WHERE (doc.start_us, doc.token) <= (excluded.start_us, excluded.token)";

/// What a database can do by itself for one row: write only over the version that was read.
const ADD: &str = "INSERT OR IGNORE INTO doc VALUES (?1, ?2, 1, ?3, 0, 0)";
const UPDATE: &str =
    "UPDATE doc SET body = ?2, version = version + 1, vector = ?3 WHERE key = ?1 AND version = ?4";

/// Something to be remembered, about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Of this one alone: `agent-2/17`.
    pub(crate) id: String,
    /// What it is about, in three words.
    pub(crate) words: String,
}

impl Task {
    pub(crate) fn new(id: String, topic: u64) -> Self {
        Task { id, words: [0, 1, 2].map(|nth| word(topic, nth)).join(" ") }
    }

    /// A line of a document.
    pub(crate) fn fact(&self) -> String {
        format!("{} says: {}", self.id, self.words)
    }

    /// The key of a document that is added for it.
    fn key(&self) -> String {
        self.words.replace(' ', "-")
    }
}

/// A word that no other topic has, or hardly.
fn word(topic: u64, nth: u64) -> String {
    const SYLLABLES: [&str; 16] =
        ["ka", "lo", "mi", "ne", "ru", "sa", "to", "vi", "do", "fe", "gu", "ha", "ji", "pe", "qua", "zo"];
    let mut dice = Dice::new(topic * 3 + nth);
    (0..4).map(|_| SYLLABLES[dice.below(16) as usize]).collect()
}

/// A document as it was read; of version 0 where there is none yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Doc {
    pub(crate) key: String,
    pub(crate) body: String,
    pub(crate) version: i64,
}

impl Doc {
    /// Whether it has what task `id` was to add.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids().any(|has| has == id)
    }

    /// The tasks whose facts it has.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.body.lines().filter_map(|line| line.split(' ').next())
    }

    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Doc { key: row.get("key")?, body: row.get("body")?, version: row.get("version")? })
    }
}

/// One agent's connection to the database.
#[derive(Debug)]
pub(crate) struct Memory(Connection);

impl Memory {
    pub(crate) fn open(file: &Path) -> Result<Self, Failure> {
        let sqlite = Connection::open(file)?;
        sqlite.busy_timeout(Duration::from_secs(10))?;
        sqlite.execute_batch(SCHEMA)?;
        Ok(Memory(sqlite))
    }

    /// The document most similar to what the task is about, or a new one.
    pub(crate) fn find(&self, task: &Task) -> Result<Doc, Failure> {
        let wanted = vector(&task.words);
        let mut statement = self.0.prepare("SELECT key, vector FROM doc")?;
        let mut rows = statement.query(())?;
        let mut best: Option<(f32, String)> = None;
        while let Some(row) = rows.next()? {
            let similarity = similarity(&wanted, row.get_ref("vector")?.as_blob()?);
            if similarity > best.as_ref().map_or(SIMILAR, |(best, _)| *best) {
                best = Some((similarity, row.get("key")?));
            }
        }
        self.read(&best.map_or_else(|| task.key(), |(_, key)| key))
    }

    pub(crate) fn read(&self, key: &str) -> Result<Doc, Failure> {
        let mut statement = self.0.prepare("SELECT key, body, version FROM doc WHERE key = ?1")?;
        let doc = statement.query_row((key,), Doc::of).optional()?;
        Ok(doc.unwrap_or_else(|| Doc { key: key.to_owned(), body: String::new(), version: 0 }))
    }

    /// Writes where no later holder has been, and says whether it did.
    pub(crate) fn write(&self, fence: Fence, key: &str, body: &str) -> Result<bool, Failure> {
        let (start, token) = (i64::try_from(fence.start.as_us())?, i64::try_from(fence.token.number())?);
        let mut statement = self.0.prepare(FENCED)?;
        Ok(statement.execute((key, body, bytes(&vector(body)), start, token))? == 1)
    }

    /// Writes over whatever is there.
    pub(crate) fn write_blind(&self, key: &str, body: &str) -> Result<(), Failure> {
        self.0.prepare(BLIND)?.execute((key, body, bytes(&vector(body))))?;
        Ok(())
    }

    /// Writes where the document is still as it was read, and says whether it did.
    pub(crate) fn write_if_unchanged(&self, doc: &Doc, body: &str) -> Result<bool, Failure> {
        let (key, vector) = (&doc.key, bytes(&vector(body)));
        let changed = match doc.version {
            0 => self.0.prepare(ADD)?.execute((key, body, vector))?,
            version => self.0.prepare(UPDATE)?.execute((key, body, vector, version))?,
        };
        Ok(changed == 1)
    }

    /// All there is, by key.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, Doc>, Failure> {
        let mut statement = self.0.prepare("SELECT key, body, version FROM doc")?;
        let docs = statement.query_map((), Doc::of)?;
        docs.map(|doc| doc.map(|doc| (doc.key.clone(), doc)).map_err(Failure::from)).collect()
    }
}

/// A hashed bag of words, of length 1: what stands for an embedding.
fn vector(text: &str) -> Vec<f32> {
    let mut counts = vec![0.0_f32; DIMENSIONS];
    for word in text.split_whitespace().filter(|word| !word.contains('/') && *word != "says:") {
        // FNV-1a, the same everywhere.
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        counts[(hash % DIMENSIONS as u64) as usize] += 1.0;
    }
    let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    counts.iter().map(|count| count / length).collect()
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The cosine of the angle between two vectors of length 1.
fn similarity(left: &[f32], right: &[u8]) -> f32 {
    let right = right.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number));
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// A directory of its own for databases, gone with this.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, Failure> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("shared-memory-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir)?;
        Ok(Scratch(dir))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind where it cannot be removed: it is the system's temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
