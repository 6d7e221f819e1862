//! Pages of what is granted and undecided.
//!
//! Whoever owns the resolver only picks a bounded number of entries out of it; they are put into words
//! afterwards.

use std::sync::Arc;

use super::Sessions;
use super::looking::{Reader, Scope};
use super::standing::standings;
use crate::limits;
use crate::resolver::{GrantView, Resolver, UndecidedView};
use crate::types::{Agent, Claim, Intent, IntentId, IntentKey, Path, Slot, Time, Token, Window};
use crate::wire::{
    EntryState, Extensions, List, ListEntry, ListReply, ListedClaim, NoStandings, Standing, ToAgent,
    raw_mode, raw_target,
};

/// What is asked for, checked.
#[derive(Debug)]
pub struct Query {
    request: u64,
    scope: Scope,
    granted: bool,
    undecided: bool,
    after: Mark,
    limit: usize,
    /// Instead of a page: how these intents of the agent's stand.
    standings: Vec<IntentId>,
}

/// Where a listing goes on: grants come first, by token, then undecided intents, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    Grants(Token),
    Undecided(Option<IntentKey>),
}

/// An entry, as it was picked out.
#[derive(Debug)]
struct Found {
    key: IntentKey,
    intent: Arc<Intent>,
    windows: Vec<Window>,
    state: EntryState,
    since: Time,
    mark: Mark,
    /// Its claims that are not shown, by index.
    hidden: Vec<usize>,
}

/// A page, as it was picked out.
#[derive(Debug)]
pub struct Page {
    request: u64,
    found: Vec<Found>,
    /// Where the next page goes on; `None` where this is the last.
    next: Option<Mark>,
    /// Instead of entries: how intents stand, and as of which slot.
    standings: Option<((Slot, Time), Vec<Standing>)>,
}

impl Query {
    /// What `list` asks for.
    ///
    /// # Errors
    /// The field of it that cannot be understood.
    pub fn of(list: &List) -> Result<Self, &'static str> {
        let limit = usize::try_from(list.limit).unwrap_or(limits::LIST_PAGE);
        let standings = list.standings().map_err(|NoStandings| "extensions")?.unwrap_or_default();
        if !standings.is_empty() && list.agent.is_none() {
            return Err("agent");
        }
        Ok(Query {
            standings,
            request: list.request,
            scope: Scope::of(list.under.as_deref(), list.agent.as_deref())?,
            granted: list.granted,
            undecided: list.undecided,
            after: Mark::read(&list.after).ok_or("after")?,
            limit: if limit == 0 { limits::LIST_PAGE } else { limit.min(limits::LIST_PAGE) },
        })
    }

    /// What it is about. How intents stand is told by their ids, whatever they claim: that is about everything.
    pub fn scope(&self) -> Scope {
        let under = self.scope.under.clone().filter(|_| self.standings.is_empty());
        Scope { under, agent: self.scope.agent.clone() }
    }

    /// Runs where the resolver is owned, between two slots: looks at no more than
    /// [`limits::LIST_SCAN`] entries.
    pub fn page(&self, resolver: &Resolver) -> Page {
        let mut page = Page { request: self.request, found: Vec::new(), next: None, standings: None };
        if let (false, Some(agent)) = (self.standings.is_empty(), &self.scope.agent) {
            page.standings = Some((resolver.last_decided(), standings(resolver, agent, &self.standings)));
            return page;
        }
        let mut left = limits::LIST_SCAN;
        let mut after = self.after.clone();
        if let Mark::Grants(token) = after {
            let grants =
                resolver.grants_after(token).filter(|_| self.granted).map(|view| Found::granted(&view));
            if self.take(grants, &mut left, &mut page) {
                return page;
            }
            after = Mark::Undecided(None);
        }
        let Mark::Undecided(key) = after else { return page };
        let waits: Box<dyn Iterator<Item = UndecidedView<'_>>> = match &key {
            Some(key) => Box::new(resolver.undecided_after(key)),
            None => Box::new(resolver.undecided()),
        };
        if self.undecided {
            self.take(waits.map(|view| Found::undecided(&view)), &mut left, &mut page);
        }
        page
    }

    /// Takes in what is asked for; true where the page ends before the entries do.
    fn take(&self, entries: impl Iterator<Item = Found>, left: &mut usize, page: &mut Page) -> bool {
        let mut last = None;
        for entry in entries {
            if *left == 0 || page.found.len() == self.limit {
                page.next = last.or_else(|| page.found.last().map(|found| found.mark.clone()));
                return page.next.is_some();
            }
            *left -= 1;
            last = Some(entry.mark.clone());
            if self.wants(&entry) {
                page.found.push(entry);
            }
        }
        false
    }

    fn wants(&self, entry: &Found) -> bool {
        let Scope { under, agent } = &self.scope;
        let is_under =
            |under: &Path| entry.intent.claims.iter().any(|claim| under.covers(claim.target.path()));
        agent.as_ref().is_none_or(|agent| *agent == entry.key.agent) && under.as_ref().is_none_or(is_under)
    }
}

impl Found {
    fn granted(view: &GrantView<'_>) -> Self {
        Found {
            key: view.key.clone(),
            intent: Arc::clone(view.intent),
            windows: view.windows.to_vec(),
            state: EntryState::Granted { start: view.start, end: view.end, token: view.token },
            since: view.granted_at,
            mark: Mark::Grants(view.token),
            hidden: Vec::new(),
        }
    }

    fn undecided(view: &UndecidedView<'_>) -> Self {
        Found {
            key: view.key.clone(),
            intent: Arc::clone(view.intent),
            windows: Vec::new(),
            state: EntryState::Undecided { until: view.waits_until, offer: view.offer },
            since: view.arrival,
            mark: Mark::Undecided(Some(view.key.clone())),
            hidden: Vec::new(),
        }
    }

    fn entry(&self, note: &str) -> ListEntry {
        let claims = self.intent.claims.iter().enumerate();
        ListEntry {
            agent: self.key.agent.as_str().to_owned(),
            id: self.key.id,
            state: self.state,
            hold: self.intent.hold,
            class: self.intent.class,
            task: self.intent.task,
            since: self.since,
            note: note.to_owned(),
            claims: claims
                .filter(|(at, _)| !self.hidden.contains(at))
                .map(|(at, claim)| listed(claim, self.windows.get(at)))
                .collect(),
        }
    }
}

fn listed(claim: &Claim, window: Option<&Window>) -> ListedClaim {
    ListedClaim {
        target: raw_target(&claim.target),
        mode: raw_mode(claim.mode),
        offset_us: claim.offset.as_us(),
        duration_us: window.map_or(claim.duration, |window| window.duration()).as_us(),
    }
}

/// A page in words.
#[derive(Debug)]
pub struct Words {
    reply: ListReply,
    marks: Vec<Mark>,
}

impl Page {
    /// Leaves out the claims that `reader` may not look at: one intent may claim more than what was asked for.
    #[must_use]
    pub fn read_by(mut self, reader: &Reader) -> Self {
        let others = self.found.iter_mut().filter(|found| found.key.agent != *reader.agent());
        for found in others.filter(|_| !reader.reads_all()) {
            let claims = found.intent.claims.iter().enumerate();
            let hidden = claims.filter(|(_, claim)| !reader.reads(&claim.target)).map(|(at, _)| at);
            found.hidden = hidden.collect();
        }
        self
    }

    /// Puts the page into words. `decided` is the last slot that was, and its decision time.
    pub fn words(self, sessions: &Sessions, (slot, at): (Slot, Time)) -> Words {
        if let Some((when, standings)) = &self.standings {
            return Words { reply: Standing::reply(self.request, *when, standings), marks: Vec::new() };
        }
        let note = |key: &IntentKey| sessions.note(&key.agent, key.id).unwrap_or_default();
        let entries = self.found.iter().map(|found| found.entry(note(&found.key))).collect();
        let next = self.next.as_ref().map(Mark::write).unwrap_or_default();
        let reply =
            ListReply { request: self.request, slot, at, entries, next, extensions: Extensions::NONE };
        Words { reply, marks: self.found.into_iter().map(|found| found.mark).collect() }
    }
}

impl Words {
    /// As much of the page as fits in one frame; the next page goes on after it.
    pub fn fit_in_frame(self) -> ToAgent {
        let Words { mut reply, mut marks } = self;
        loop {
            let message = ToAgent::ListReply(reply);
            if marks.len() <= 1 || message.encode(&mut Vec::new()).is_ok() {
                return message;
            }
            let ToAgent::ListReply(mut shorter) = message else { return message };
            marks.truncate(marks.len() / 2);
            shorter.entries.truncate(marks.len());
            shorter.next = marks.last().map(Mark::write).unwrap_or_default();
            reply = shorter;
        }
    }
}

const GRANTS: u8 = 1;
const UNDECIDED: u8 = 2;

impl Mark {
    fn write(&self) -> Vec<u8> {
        match self {
            Mark::Grants(token) => [&[GRANTS][..], &token.number().to_le_bytes()].concat(),
            Mark::Undecided(None) => vec![UNDECIDED],
            Mark::Undecided(Some(IntentKey { agent, id })) => {
                [&[UNDECIDED][..], &id.number().to_le_bytes(), agent.as_str().as_bytes()].concat()
            }
        }
    }

    /// `None` where these bytes are no mark that was handed out.
    fn read(bytes: &[u8]) -> Option<Self> {
        let Some((kind, rest)) = bytes.split_first() else { return Some(Mark::Grants(Token::default())) };
        let Some((number, rest)) = rest.split_first_chunk::<8>() else {
            return (*kind == UNDECIDED && rest.is_empty()).then_some(Mark::Undecided(None));
        };
        let number = u64::from_le_bytes(*number);
        match *kind {
            GRANTS if rest.is_empty() => Some(Mark::Grants(Token::new(number))),
            UNDECIDED => {
                let agent = Agent::new(std::str::from_utf8(rest).ok()?)?;
                Some(Mark::Undecided(Some(IntentKey { agent, id: IntentId::new(number) })))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bounds, Terms};
    use super::*;
    use crate::resolver::{AgentOp, Input, Rules, SlotBatch};
    use crate::types::{Micros, RawClaim, RawIntent, RawMode, RawTarget};
    use crate::wire::{Extension, Verdict, standing_of};

    fn declare(agent: &str, id: u64, path: &str) -> Input {
        let target = RawTarget::Path(path.into());
        let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 1_000_000 };
        let intent = RawIntent { id, wait: 500_000, claims: vec![claim], ..RawIntent::default() };
        let op = AgentOp::Declare(intent.parse().unwrap());
        Input::Agent { at: Time::from_us(id), agent: Agent::new(agent).unwrap(), op }
    }

    /// Ids 1 to 5 are granted; 6 and 7 wait.
    fn resolver() -> Resolver {
        let mut resolver = Resolver::new(Rules::default());
        let inputs = (1..=7).map(|id| {
            declare(
                if id % 2 == 0 { "even" } else { "odd" },
                id,
                &format!("a/{}", if id > 5 { 1 } else { id }),
            )
        });
        let batch = SlotBatch::new(Slot::new(0), Micros::from_ms(10), inputs.collect()).unwrap();
        resolver.resolve(&batch);
        resolver
    }

    fn list(resolver: &Resolver, mut list: List) -> Vec<Vec<u64>> {
        let mut pages = Vec::new();
        loop {
            let page = Query::of(&list).unwrap().page(resolver);
            pages.push(page.found.iter().map(|found| found.key.id.number()).collect());
            let Some(next) = page.next else { return pages };
            list.after = next.write();
            assert_eq!(Mark::read(&list.after), Some(next), "a mark reads back");
        }
    }

    #[test]
    fn pages_go_through_grants_and_then_waits_without_a_gap() {
        let all = List { granted: true, undecided: true, limit: 2, ..List::default() };
        assert_eq!(list(&resolver(), all.clone()), [vec![1, 2], vec![3, 4], vec![5, 6], vec![7]]);
        assert_eq!(list(&resolver(), List { granted: false, ..all.clone() }), [[6, 7]]);
        assert_eq!(list(&resolver(), List { undecided: false, ..all }), [vec![1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn a_filter_by_agent_or_path_leaves_the_rest_out() {
        let all = List { granted: true, undecided: true, ..List::default() };
        assert_eq!(list(&resolver(), List { agent: Some("even".into()), ..all.clone() }), [[2, 4, 6]]);
        assert_eq!(list(&resolver(), List { under: Some("a/1".into()), ..all.clone() }), [[1, 6, 7]]);
        assert!(Query::of(&List { under: Some("/".into()), ..all }).is_err());
    }

    #[test]
    fn standings_are_those_of_the_ids_asked_for_and_of_nobody_elses() {
        let resolver = resolver();
        let told = |agent: Option<&str>, ids: &[u64]| {
            let ids: Vec<IntentId> = ids.iter().map(|id| IntentId::new(*id)).collect();
            let list = List { agent: agent.map(str::to_owned), ..standing_of(9, "", &ids) };
            let page = Query::of(&list)?.page(&resolver);
            let sessions = Sessions::new(Terms {
                state: 1,
                slot_length: Micros::from_ms(10),
                min_lead: Micros::ZERO,
                horizon: Micros::ZERO,
                retention: Micros::ZERO,
                software: String::new(),
                bounds: Bounds::default(),
            });
            let ToAgent::ListReply(reply) = page.words(&sessions, Default::default()).fit_in_frame() else {
                panic!("a reply")
            };
            assert_eq!((reply.request, reply.slot, reply.at), (9, Slot::new(0), Time::from_us(10_000)));
            Ok(Standing::all_in(&reply).unwrap())
        };
        let odd = told(Some("odd"), &[1, 2, 7, 99]).unwrap();
        assert_eq!(odd.iter().map(|it| it.id.number()).collect::<Vec<_>>(), [1, 2, 7, 99]);
        assert!(matches!(odd[0].verdict, Some(Verdict::Granted { .. })));
        assert_eq!(odd[1].verdict, None, "another agent's");
        assert!(
            matches!(&odd[2].verdict, Some(Verdict::Conflict(it)) if !it.is_final && it.blockers.is_empty())
        );
        assert_eq!(odd[3].verdict, None);
        assert_eq!(told(None, &[1]), Err("agent"));
        assert!(
            Query::of(&List {
                extensions: Extensions::new(vec![Extension { number: 1, value: vec![1; 7] }]).unwrap(),
                ..List::default()
            })
            .is_err()
        );
    }

    #[test]
    fn bytes_that_are_no_mark_are_refused() {
        for bytes in [&b"\x01"[..], b"\x03", b"\x0112345678x", b"\x0212345678", b"\x0212345678\xff"] {
            assert_eq!(Mark::read(bytes), None, "{bytes:?}");
        }
    }
}
