//! What of capacities stands in messages: an operator sets one, and asks how they stand.
//!
//! None of it has a message of its own: it stands in the extensions of those that there are, so that a peer which
//! does not know it says so.

use serde::{Deserialize, Serialize};

use super::codec;
use super::extension::{Extension, Extensions};
use super::listing::{List, ListReply};
use super::message::Release;
use crate::limits;
use crate::resolver::CapacityView;
use crate::types::grown::grown_up_to;
use crate::types::{IntentId, Path, Slot, Time};

/// The extension of a [`List`] that asks for capacities, of the [`ListReply`] that tells them, and of an
/// [`Answer`](super::Answer) to who has set one.
const CAPACITY: u16 = 8;
/// The extension of a [`Release`] that has it set a capacity and release nothing. Who does not know it must not take
/// it for a release.
const SET_CAPACITY: u16 = CAPACITY | Extension::REQUIRED;

/// An operator's order: a capacity holds from its turn among the arrivals on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCapacity {
    /// Where.
    pub path: Path,
    /// How many units may be out at one instant, there and below; may be 0.
    pub capacity: u64,
    /// Why, for the record; up to [`limits::REASON_BYTES`] bytes without control characters, may be empty.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
struct SetCapacityText {
    path: String,
    capacity: u64,
    reason: String,
}

impl SetCapacity {
    /// As the message that orders it.
    pub fn order(&self, request: u64) -> Release {
        let SetCapacity { path, capacity, reason } = self;
        let (path, capacity) = (path.as_str().to_owned(), *capacity);
        let text = SetCapacityText { path, capacity, reason: reason.clone() };
        Release { request, id: IntentId::new(0), extensions: extension(SET_CAPACITY, &text) }
    }
}

impl Release {
    /// The number of the extension that must be understood.
    pub(crate) const SET_CAPACITY: u16 = SET_CAPACITY;

    /// The capacity that it sets, where it is no release.
    ///
    /// # Errors
    /// Where it sets one, and not rightly: the field at fault.
    pub fn sets_capacity(&self) -> Result<Option<SetCapacity>, &'static str> {
        let Some(value) = self.extensions.value(SET_CAPACITY) else { return Ok(None) };
        let SetCapacityText { path, capacity, reason } = codec::decode(value).map_err(|_| "extensions")?;
        let path = Path::new(&path).ok_or("path")?;
        let fits = reason.len() <= limits::REASON_BYTES && !reason.contains(char::is_control);
        if fits { Ok(Some(SetCapacity { path, capacity, reason })) } else { Err("reason") }
    }
}

/// How a capacity stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityEntry {
    /// The path.
    pub path: String,
    /// Units that may be out at one instant, there and below.
    pub capacity: u64,
    /// What the configuration has; `None` where it has none.
    pub configured: Option<u64>,
    /// Whether it was set at run time.
    pub is_set_at_run_time: bool,
    /// Units that are out.
    pub in_use: u64,
    /// The most that are granted at any instant from now on.
    pub most: u64,
    /// From when on one unit more has room, by what is granted so far and unless leases are renewed; `None` where the
    /// capacity is 0.
    pub room_from: Option<Time>,
}

impl CapacityEntry {
    /// By how much more is granted than there is, at the worst instant.
    pub fn over(&self) -> u64 {
        self.most.saturating_sub(self.capacity)
    }

    /// As the extensions of an answer.
    pub fn extensions(&self) -> Extensions {
        extension(CAPACITY, self)
    }

    /// What the extensions of an answer tell; a value of another form tells nothing.
    pub fn in_extensions(extensions: &Extensions) -> Option<Self> {
        codec::decode(extensions.value(CAPACITY)?).ok()
    }
}

impl From<CapacityView> for CapacityEntry {
    fn from(view: CapacityView) -> Self {
        let CapacityView { path, capacity, configured, is_set_at_run_time, in_use, most, room_from } = view;
        let path = path.as_str().to_owned();
        CapacityEntry { path, capacity, configured, is_set_at_run_time, in_use, most, room_from }
    }
}

/// Asks for a page of the capacities at and below `under`, those after the path `after`.
pub fn capacities_of(request: u64, under: Option<&str>, after: &str) -> List {
    let value = after.as_bytes().to_vec();
    let extensions = Extensions::new(vec![Extension { number: CAPACITY, value }]).unwrap_or_default();
    List { request, under: under.map(str::to_owned), extensions, ..List::default() }
}

/// A mark for where capacities go on that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMark;

impl List {
    /// After which path capacities are asked for, where this asks for them: for the first page, after none.
    ///
    /// # Errors
    /// Where the extension is there and names no path.
    pub fn capacities(&self) -> Result<Option<Option<Path>>, NoMark> {
        let Some(value) = self.extensions.value(CAPACITY) else { return Ok(None) };
        if value.is_empty() {
            return Ok(Some(None));
        }
        let path = std::str::from_utf8(value).ok().and_then(Path::new);
        path.map(|path| Some(Some(path))).ok_or(NoMark)
    }
}

/// A page of capacities, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityPage {
    /// At most [`limits::CAPACITY_PAGE`].
    #[serde(deserialize_with = "grown_up_to::<_, _, { limits::CAPACITY_PAGE }>")]
    pub entries: Vec<CapacityEntry>,
    /// The path after which the next page goes on; `None` where this is the last.
    pub next: Option<String>,
}

impl CapacityPage {
    /// The reply that tells as many of them, from the first on, as fit: one always does.
    pub fn reply(mut self, request: u64, (slot, at): (Slot, Time)) -> ListReply {
        let extensions = loop {
            let extensions = extension(CAPACITY, &self);
            if !extensions.is_empty() || self.entries.len() <= 1 {
                break extensions;
            }
            self.entries.truncate(self.entries.len() / 2);
            self.next = self.entries.last().map(|entry| entry.path.clone());
        };
        ListReply { request, slot, at, entries: Vec::new(), next: Vec::new(), extensions }
    }

    /// What a reply tells; `None` where it tells no capacities.
    pub fn in_reply(reply: &ListReply) -> Option<Self> {
        codec::decode(reply.extensions.value(CAPACITY)?).ok()
    }
}

/// The value in an extension of that number; none where it has no room there.
fn extension(number: u16, of: &impl Serialize) -> Extensions {
    let mut value = Vec::new();
    match codec::encode(of, &mut value) {
        Ok(()) => Extensions::new(vec![Extension { number, value }]).unwrap_or_default(),
        Err(_) => Extensions::NONE, // nothing here is of a kind that cannot be written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> CapacityEntry {
        CapacityEntry {
            path: path.into(),
            capacity: 4,
            configured: Some(10),
            is_set_at_run_time: true,
            in_use: 6,
            most: 7,
            room_from: Some(Time::from_us(9)),
        }
    }

    #[test]
    fn an_order_comes_back_as_it_was_given_and_must_be_understood() {
        let path = Path::new("llm/acct1").unwrap();
        let order = SetCapacity { path, capacity: 4, reason: "a 429 of the provider's".into() };
        let message = order.order(7);
        assert_eq!((message.request, message.id.number()), (7, 0));
        assert_eq!(message.sets_capacity(), Ok(Some(order.clone())));
        assert_eq!(message.administers(), Ok(None));
        assert_eq!(message.extensions.first_not_understood(&[]), Some(SET_CAPACITY));
        assert_eq!(Release::default().sets_capacity(), Ok(None));
        for (reason, field) in [("x".repeat(limits::REASON_BYTES + 1), "reason"), ("a\nb".into(), "reason")] {
            assert_eq!(SetCapacity { reason, ..order.clone() }.order(1).sets_capacity(), Err(field));
        }
        let of = |text: &SetCapacityText| Release {
            extensions: extension(SET_CAPACITY, text),
            ..Release::default()
        };
        let no_path = SetCapacityText { path: "a//b".into(), capacity: 1, reason: String::new() };
        assert_eq!(of(&no_path).sets_capacity(), Err("path"));
        let broken = Extensions::new(vec![Extension { number: SET_CAPACITY, value: vec![1] }]).unwrap();
        assert_eq!(Release { extensions: broken, ..Release::default() }.sets_capacity(), Err("extensions"));
    }

    #[test]
    fn how_it_stands_comes_back_and_need_not_be_understood() {
        let told = entry("a/b").extensions();
        assert_eq!(CapacityEntry::in_extensions(&told), Some(entry("a/b")));
        assert_eq!(told.first_not_understood(&[]), None);
        assert_eq!(CapacityEntry::in_extensions(&Extensions::NONE), None);
        assert_eq!((entry("a").over(), CapacityEntry { most: 3, ..entry("a") }.over()), (3, 0));
    }

    #[test]
    fn a_page_is_asked_for_after_a_path() {
        assert_eq!(capacities_of(1, Some("a"), "").capacities(), Ok(Some(None)));
        assert_eq!(capacities_of(1, None, "a/b").capacities(), Ok(Some(Path::new("a/b"))));
        assert_eq!(List::default().capacities(), Ok(None));
        let broken = Extensions::new(vec![Extension { number: CAPACITY, value: vec![0xff] }]).unwrap();
        assert_eq!(List { extensions: broken, ..List::default() }.capacities(), Err(NoMark));
    }

    #[test]
    fn a_page_tells_what_fits_and_goes_on_after_it() {
        let long = |number: usize| format!("{}/{number:03}", ["xxx"; 15].join("/"));
        let entries: Vec<CapacityEntry> = (0..limits::CAPACITY_PAGE).map(|it| entry(&long(it))).collect();
        let page = CapacityPage { entries: entries.clone(), next: None };
        let told = CapacityPage::in_reply(&page.reply(3, (Slot::new(1), Time::ZERO))).unwrap();
        assert!(!told.entries.is_empty() && told.entries.len() < entries.len());
        assert_eq!(told.entries, entries[..told.entries.len()]);
        assert_eq!(told.next.as_ref(), told.entries.last().map(|entry| &entry.path));
        let last = CapacityPage { entries: entries[..2].to_vec(), next: None };
        assert_eq!(CapacityPage::in_reply(&last.clone().reply(3, (Slot::new(1), Time::ZERO))), Some(last));
        let most = CapacityPage { entries: vec![entry(&"x".repeat(limits::PATH_BYTES))], next: None };
        assert!(
            CapacityPage::in_reply(&most.reply(3, (Slot::new(1), Time::ZERO))).is_some(),
            "one always fits"
        );
    }
}
