//! Numbers, texts and names from bytes that may be anything.

use std::sync::Arc;

use super::BodyError;
use super::write::Told;
use crate::limits;
use crate::types::{Agent, IntentId, IntentKey, Micros, Path, Time, Token, Window};

pub(crate) type Read<T> = Result<T, BodyError>;

/// Reads one body, front to back.
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    body: &'b [u8],
    at: usize,
    /// See the fields of the writer.
    base: u64,
    arrivals: u64,
    token: u64,
    agents: Vec<Agent>,
    paths: Vec<Path>,
    texts: Vec<Arc<str>>,
    keys: Vec<IntentKey>,
    told: Vec<Told>,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(body: &'b [u8]) -> Self {
        Reader {
            body,
            at: 0,
            base: 0,
            arrivals: 0,
            token: 0,
            agents: Vec::new(),
            paths: Vec::new(),
            texts: Vec::new(),
            keys: Vec::new(),
            told: Vec::new(),
        }
    }

    /// From here on times count from `base`.
    pub(crate) fn time_from(&mut self, base: Time) {
        self.base = base.as_us();
    }

    /// What times count from.
    pub(crate) fn base(&self) -> Time {
        Time::from_us(self.base)
    }

    /// From here on tokens and arrival numbers count from these.
    pub(crate) fn count_from(&mut self, token: u64, arrivals: u64) {
        (self.token, self.arrivals) = (token, arrivals);
    }

    /// Where the next byte stands.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.body.len()
    }

    fn left(&self) -> usize {
        self.body.len() - self.at
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Read<()> {
        if self.is_at_end() { Ok(()) } else { Err(self.wrong("bytes after the end of the body")) }
    }

    /// What is read next is wrong.
    pub(crate) fn wrong(&self, what: &'static str) -> BodyError {
        wrong_at(self.at, what)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Read<&'b [u8]> {
        let bytes = self.body.get(self.at..).and_then(|rest| rest.get(..count));
        let bytes = bytes.ok_or_else(|| self.wrong("the body ends too early"))?;
        self.at += count;
        Ok(bytes)
    }

    pub(crate) fn array<const COUNT: usize>(&mut self) -> Read<[u8; COUNT]> {
        let at = self.at;
        self.bytes(COUNT)?.try_into().map_err(|_| wrong_at(at, "the body ends too early"))
    }

    pub(crate) fn byte(&mut self) -> Read<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A byte of flags, none but those of `known`.
    pub(crate) fn flags(&mut self, known: u8) -> Read<u8> {
        let at = self.at;
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(wrong_at(at, "a flag that is not known")) }
    }

    pub(crate) fn number(&mut self) -> Read<u64> {
        let at = self.at;
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(wrong_at(at, "a number beyond 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Read<i64> {
        let zigzag = self.number()?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// See [`Writer::step`](super::Writer::step).
    pub(crate) fn step(&mut self, from: u64) -> Read<u64> {
        Ok(from.wrapping_add(self.signed()?.cast_unsigned()))
    }

    pub(crate) fn size(&mut self) -> Read<usize> {
        let at = self.at;
        usize::try_from(self.number()?).map_err(|_| wrong_at(at, "a number beyond this machine's memory"))
    }

    /// A list of at most `most`, each of which takes a byte at least.
    pub(crate) fn list<T>(
        &mut self,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let at = self.at;
        let count = self.size()?;
        if count > most {
            return Err(wrong_at(at, "a list of more than there may be"));
        }
        if count > self.left() {
            return Err(wrong_at(at, "a list of more than there are bytes left"));
        }
        let mut list = Vec::new(); // grows as it is read: an item in memory is larger than its bytes
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    pub(crate) fn float(&mut self) -> Read<f64> {
        self.array().map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub(crate) fn wide(&mut self) -> Read<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn time(&mut self) -> Read<Time> {
        self.step(self.base).map(Time::from_us)
    }

    pub(crate) fn micros(&mut self) -> Read<Micros> {
        self.number().map(Micros::from_us)
    }

    pub(crate) fn window(&mut self) -> Read<Window> {
        let at = self.at;
        let start = self.time()?;
        let end = start.as_us().checked_add(self.number()?).map(Time::from_us);
        end.and_then(|end| Window::new(start, end)).ok_or_else(|| wrong_at(at, "a window that has no end"))
    }

    pub(crate) fn token(&mut self) -> Read<Token> {
        self.token = self.step(self.token)?;
        Ok(Token::new(self.token))
    }

    pub(crate) fn arrival_number(&mut self) -> Read<u64> {
        let step = self.signed()?;
        Ok(self.arrivals.wrapping_sub(step.cast_unsigned()))
    }

    /// A text that stands here only, of at most so many bytes.
    pub(crate) fn text(&mut self, most: usize) -> Read<&'b str> {
        let at = self.at;
        let count = self.size()?;
        if count > most {
            return Err(wrong_at(at, "a text of more bytes than there may be"));
        }
        self.utf8(count)
    }

    fn utf8(&mut self, count: usize) -> Read<&'b str> {
        let at = self.at;
        std::str::from_utf8(self.bytes(count)?).map_err(|_| wrong_at(at, "a text that is no UTF-8"))
    }

    /// A name by its place among `seen`, or one that `make` makes of what is spelled here.
    fn name<T: Clone>(
        &mut self,
        seen: fn(&mut Self) -> &mut Vec<T>,
        make: impl FnOnce(&str) -> Option<T>,
        rule: &'static str,
    ) -> Read<(usize, T)> {
        let at = self.at;
        let head = self.size()?;
        if head % 2 == 1 {
            let known = seen(self).get(head / 2).cloned();
            return known
                .map(|name| (head / 2, name))
                .ok_or_else(|| wrong_at(at, "a name not spelled before"));
        }
        let name = make(self.utf8(head / 2)?).ok_or_else(|| wrong_at(at, rule))?;
        let seen = seen(self);
        seen.push(name.clone());
        Ok((seen.len() - 1, name))
    }

    pub(crate) fn agent(&mut self) -> Read<Agent> {
        self.name(|reader| &mut reader.agents, Agent::new, "a name that no agent may have").map(|it| it.1)
    }

    pub(crate) fn path(&mut self) -> Read<Path> {
        self.name(|reader| &mut reader.paths, Path::new, "a text that is no path").map(|it| it.1)
    }

    /// A label or a note.
    pub(crate) fn common_text(&mut self) -> Read<Arc<str>> {
        let make = |text: &str| (text.len() <= limits::RECORD_TEXT_BYTES).then(|| text.into());
        let rule = "a text of more bytes than there may be";
        self.name(|reader| &mut reader.texts, make, rule).map(|it| it.1)
    }

    pub(crate) fn key(&mut self) -> Read<IntentKey> {
        self.key_and_place().map(|(key, _)| key)
    }

    /// An intent's key, and its place among the keys.
    pub(crate) fn key_and_place(&mut self) -> Read<(IntentKey, usize)> {
        let at = self.at;
        if let Some(place) = self.size()?.checked_sub(1) {
            let known = self.keys.get(place).cloned();
            return known.map(|key| (key, place)).ok_or_else(|| wrong_at(at, "an intent not named before"));
        }
        let key = IntentKey { agent: self.agent()?, id: IntentId::new(self.number()?) };
        self.keys.push(key.clone());
        self.told.push(Told::default());
        Ok((key, self.keys.len() - 1))
    }

    /// What this record has said of the intent whose key is at `place`.
    pub(crate) fn told(&mut self, place: usize) -> &mut Told {
        &mut self.told[place]
    }
}

pub(crate) fn wrong_at(at: usize, what: &'static str) -> BodyError {
    BodyError { at, what }
}
