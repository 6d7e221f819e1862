//! Numbers, texts and names as bytes.

use std::sync::Arc;

use crate::audit::TextKept;
use crate::types::{Agent, FixedMap, IntentId, IntentKey, Path, Time, Token, Window};

/// Writes one body: where it goes, what numbers count from, and which names it has spelled.
pub(crate) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// What times count from.
    base: u64,
    /// What the next arrival number counts from.
    arrivals: u64,
    /// The token that was written last: the next one counts from it.
    token: u64,
    agents: FixedMap<Agent, u32>,
    paths: FixedMap<Path, u32>,
    texts: FixedMap<Arc<str>, u32>,
    keys: FixedMap<(u32, u64), u32>,
    /// By the number of its key, what this record says of an intent.
    told: Vec<Told>,
    /// What is kept of agents' free text.
    pub(super) kept: &'o TextKept,
}

/// What a record has said so far of one intent, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// The latest input that declares it.
    pub(crate) declared: Option<u32>,
    /// The latest decision about it.
    pub(crate) decided: Option<u32>,
}

impl<'o> Writer<'o> {
    /// Bytes of what it is written to, so far.
    pub(super) fn written(&self) -> usize {
        self.out.len()
    }

    /// Appends to `out`; times count from `base`. About so many intents are expected.
    pub(crate) fn new(out: &'o mut Vec<u8>, base: Time, intents: usize) -> Self {
        let mut keys = FixedMap::default();
        keys.reserve(intents);
        Writer {
            out,
            base: base.as_us(),
            arrivals: 0,
            token: 0,
            agents: FixedMap::default(),
            paths: FixedMap::default(),
            texts: FixedMap::default(),
            keys,
            told: Vec::with_capacity(intents),
            kept: &TextKept::All,
        }
    }

    /// From here on no more than that is kept of agents' free text.
    pub(crate) fn keep_text(&mut self, kept: &'o TextKept) {
        self.kept = kept;
    }

    /// From here on tokens and arrival numbers count from these.
    pub(crate) fn count_from(&mut self, token: u64, arrivals: u64) {
        (self.token, self.arrivals) = (token, arrivals);
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// LEB128.
    pub(crate) fn number(&mut self, number: u64) {
        let mut rest = number;
        while rest >= 0x80 {
            self.out.push(rest as u8 | 0x80); // the low 7 bits, and that more follow
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }

    /// Zigzag.
    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    /// What is added to `from`, wrapping, to come to `to`.
    pub(crate) fn step(&mut self, from: u64, to: u64) {
        self.signed(to.wrapping_sub(from).cast_signed());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// A list: how many, then each.
    pub(crate) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        items.iter().for_each(|item| write(self, item));
    }

    pub(crate) fn float(&mut self, float: f64) {
        self.bytes(&float.to_bits().to_le_bytes());
    }

    pub(crate) fn wide(&mut self, number: u128) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn time(&mut self, time: Time) {
        self.step(self.base, time.as_us());
    }

    /// Whether `time` is what times count from.
    pub(crate) fn is_base(&self, time: Time) -> bool {
        time.as_us() == self.base
    }

    pub(crate) fn window(&mut self, window: Window) {
        self.time(window.start());
        self.number(window.duration().as_us());
    }

    pub(crate) fn token(&mut self, token: Token) {
        self.step(self.token, token.number());
        self.token = token.number();
    }

    pub(crate) fn arrival_number(&mut self, number: u64) {
        self.step(number, self.arrivals);
    }

    /// A text that stands here only.
    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes(text.as_bytes());
    }

    /// A name that was spelled before, or is spelled now: an odd number is twice its place among the
    /// spelled ones and 1, an even one twice the length of what follows.
    fn name(&mut self, seen: Option<u32>, text: &str) {
        match seen {
            Some(place) => self.number(u64::from(place) * 2 + 1),
            None => {
                self.number(text.len() as u64 * 2);
                self.bytes(text.as_bytes());
            }
        }
    }

    /// Returns its place among the spelled ones.
    pub(crate) fn agent(&mut self, agent: &Agent) -> u32 {
        let seen = self.agents.get(agent).copied();
        self.name(seen, agent.as_str());
        seen.unwrap_or_else(|| {
            let place = self.agents.len() as u32;
            self.agents.insert(agent.clone(), place);
            place
        })
    }

    pub(crate) fn path(&mut self, path: &Path) {
        let seen = self.paths.get(path).copied();
        self.name(seen, path.as_str());
        if seen.is_none() {
            self.paths.insert(path.clone(), self.paths.len() as u32);
        }
    }

    /// A label or a note, which many intents have alike.
    pub(crate) fn common_text(&mut self, text: &Arc<str>) {
        let seen = self.texts.get(text).copied();
        self.name(seen, text);
        if seen.is_none() {
            self.texts.insert(text.clone(), self.texts.len() as u32);
        }
    }

    pub(crate) fn key(&mut self, key: &IntentKey) -> usize {
        self.key_of(&key.agent, key.id)
    }

    /// The key of an intent: 0, its agent and its id where it stands first, else its place among the
    /// keys and 1. Returns that place.
    pub(crate) fn key_of(&mut self, agent: &Agent, id: IntentId) -> usize {
        let known = self.agents.get(agent).and_then(|agent| self.keys.get(&(*agent, id.number())));
        if let Some(place) = known.copied() {
            self.number(u64::from(place) + 1);
            return place as usize;
        }
        self.byte(0);
        let agent = self.agent(agent);
        self.number(id.number());
        let place = self.told.len();
        self.keys.insert((agent, id.number()), place as u32);
        self.told.push(Told::default());
        place
    }

    /// What this record has said of the intent whose key is at `place`.
    pub(crate) fn told(&mut self, place: usize) -> &mut Told {
        &mut self.told[place]
    }
}
