//! Messages for those who look: what is granted and undecided now, and what is being decided.

use serde::{Deserialize, Serialize};

use super::answer::Verdict;
use super::codec;
use super::extension::{Extension, Extensions};
use crate::limits;
use crate::types::grown::grown_up_to;
use crate::types::{Class, IntentId, RawMode, RawTarget, Slot, TaskId, Time, Token};

/// Asks for a page of what is granted or undecided. Answered with one [`ListReply`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The sender's number for it, which the reply repeats.
    pub request: u64,
    /// Only what has a claim at or below this path.
    pub under: Option<String>,
    /// Only this agent's.
    pub agent: Option<String>,
    /// Grants are listed.
    pub granted: bool,
    /// Undecided intents are listed.
    pub undecided: bool,
    /// The `next` of the page before; empty for the first.
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::CURSOR_BYTES }>")]
    pub after: Vec<u8>,
    /// At most so many entries; the coordinator may give fewer. 0 leaves it to the coordinator.
    pub limit: u32,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// A page of a listing. Pages are of different instants: an entry that came or went between two of
/// them may be in either or in neither.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListReply {
    /// The number of the request.
    pub request: u64,
    /// The last slot that had been decided.
    pub slot: Slot,
    /// The decision time of that slot.
    pub at: Time,
    /// At most [`limits::LIST_PAGE`] entries.
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::LIST_PAGE }>")]
    pub entries: Vec<ListEntry>,
    /// Where the next page goes on; empty where this was the last.
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::CURSOR_BYTES }>")]
    pub next: Vec<u8>,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// One intent that is granted or undecided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Whose it is.
    pub agent: String,
    /// Its id.
    pub id: IntentId,
    /// Granted, or undecided.
    pub state: EntryState,
    /// Whether it is a lease.
    pub hold: bool,
    /// Its class.
    pub class: Class,
    /// Its task.
    pub task: TaskId,
    /// When it was granted, or when it arrived.
    pub since: Time,
    /// Its note for people; may be empty.
    pub note: String,
    /// Its claims.
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::CLAIMS }>")]
    pub claims: Vec<ListedClaim>,
}

/// Where an intent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryState {
    /// In force until its end.
    Granted {
        /// The intent's start, before offsets.
        start: Time,
        /// The latest end of its claims.
        end: Time,
        /// The grant's token.
        token: Token,
    },
    /// It waits.
    Undecided {
        /// Until when it may wait.
        until: Time,
        /// The latest counter-offer.
        offer: Option<Time>,
    },
}

/// One claim of a listed intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedClaim {
    /// What is used.
    pub target: RawTarget,
    /// How.
    pub mode: RawMode,
    /// From the intent's start to the start of the claim, in µs.
    pub offset_us: u64,
    /// From the start of the claim to its end, renewals included, in µs.
    pub duration_us: u64,
}

/// Asks to be sent every decision, on this lane until it is closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// The sender's number for it, which each event repeats.
    pub request: u64,
    /// Only what has a claim at or below this path.
    pub under: Option<String>,
    /// Only this agent's.
    pub agent: Option<String>,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// One decision, as watchers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// The number of the request.
    pub request: u64,
    /// Events left out just before this one, because the watcher reads too slowly.
    pub missed: u64,
    /// Whose intent it is about.
    pub agent: String,
    /// Which intent.
    pub id: IntentId,
    /// The slot in which it was decided.
    pub slot: Slot,
    /// The decision time of that slot.
    pub at: Time,
    /// What was decided.
    pub verdict: Verdict,
    /// The intent's note for people; may be empty.
    pub note: String,
    /// See [`Extensions`].
    pub extensions: Extensions,
}

/// How one intent of the asker's stands: what a repeat of its declaration would be told, without
/// declaring anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Which intent.
    pub id: IntentId,
    /// Its latest verdict, without those in its way, as long as it is in force, undecided or remembered.
    pub verdict: Option<Verdict>,
}

/// The extension of a [`List`] that names the intents whose standings are asked for, and of the
/// [`ListReply`] that tells them.
const STANDING: u16 = 1;

/// Asks how the intents `ids` of `agent` stand: at most [`limits::STANDINGS`] of them.
pub fn standing_of(request: u64, agent: &str, ids: &[IntentId]) -> List {
    let value = ids.iter().take(limits::STANDINGS).flat_map(|id| id.number().to_le_bytes()).collect();
    // 64 ids are 512 bytes, which an extension always has room for.
    let extensions = Extensions::new(vec![Extension { number: STANDING, value }]).unwrap_or_default();
    List { request, agent: Some(agent.to_owned()), extensions, ..List::default() }
}

/// A standings' extension that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStandings;

impl List {
    /// The intents whose standings are asked for, where this asks for that instead of a page.
    ///
    /// # Errors
    /// Where the extension is there and names no ids, or too many.
    pub fn standings(&self) -> Result<Option<Vec<IntentId>>, NoStandings> {
        let Some(value) = self.extensions.value(STANDING) else { return Ok(None) };
        let (ids, rest) = value.as_chunks::<8>();
        if ids.is_empty() || ids.len() > limits::STANDINGS || !rest.is_empty() {
            return Err(NoStandings);
        }
        Ok(Some(ids.iter().map(|id| IntentId::new(u64::from_le_bytes(*id))).collect()))
    }
}

impl Standing {
    /// The reply that tells as many of `standings`, from the first on, as fit: one always does.
    pub fn reply(request: u64, (slot, at): (Slot, Time), standings: &[Standing]) -> ListReply {
        let mut fitting = &standings[..standings.len().min(limits::STANDINGS)];
        let extensions = loop {
            let mut value = Vec::new();
            let written = codec::encode(&fitting, &mut value);
            match Extensions::new(vec![Extension { number: STANDING, value }]) {
                Some(extensions) if written.is_ok() => break extensions,
                _ if fitting.is_empty() => break Extensions::NONE,
                _ => fitting = &fitting[..fitting.len() / 2],
            }
        };
        ListReply { request, slot, at, entries: Vec::new(), next: Vec::new(), extensions }
    }

    /// What a reply tells; `None` where it tells no standings.
    pub fn all_in(reply: &ListReply) -> Option<Vec<Standing>> {
        codec::decode::<Standings>(reply.extensions.value(STANDING)?).ok().map(|Standings(all)| all)
    }
}

#[derive(Deserialize)]
struct Standings(#[serde(deserialize_with = "grown_up_to::<_, _, { limits::STANDINGS }>")] Vec<Standing>);
