//! `/why`: what is kept of one intent, as the records that a log would have of it. They are picked out of the ring of
//! the last slots, and what still stands from before those out of the decision core's state. `preclaim why` makes a
//! story of them, as of a log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::feed::Feed;
use super::news::{News, SlotNews, blockers};
use crate::audit::{RULES_VERSION, Record, StoredInput};
use crate::coordinator::View;
use crate::limits;
use crate::replay::Wanted;
use crate::resolver::{AgentOp, Rank, Resolver, StateDigest};
use crate::session::coordinator::SessionNotes;
use crate::trace::raw_record;
use crate::types::{
    Agent, Decision, Intent, IntentId, IntentKey, Micros, Slot, Time, Token, Verdict,
};

/// What may be asked after `/why?intent=`, for messages.
pub(in crate::telemetry) const RULE: &str =
    "intent is an agent's name, /, and an intent's number; what is no letter, digit, -, . or _ of it as %XX\n";

/// Where it is asked for `key`: the path and what follows it.
pub(crate) fn place_of(key: &IntentKey) -> String {
    let mut place = String::from("/why?intent=");
    for byte in format!("{}/{}", key.agent.as_str(), key.id).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => place.push(byte.into()),
            _ => place.push_str(&format!("%{byte:02X}")),
        }
    }
    place
}

/// The intent that a query names; `None` where it names none.
pub(in crate::telemetry) fn key_of(query: Option<&str>) -> Option<IntentKey> {
    let named = unescaped(query?.strip_prefix("intent=")?)?;
    let (agent, id) = named.rsplit_once('/')?;
    Some(IntentKey { agent: Agent::new(agent)?, id: IntentId::new(id.parse().ok()?) })
}

/// `%XX` as the byte that it stands for.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
        bytes.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Tells of one intent at a time.
#[derive(Clone, Debug)]
pub(in crate::telemetry) struct Why {
    feed: Arc<Feed>,
    view: View,
    length: Micros,
    turn: Arc<Semaphore>,
}

impl Why {
    pub(in crate::telemetry) fn new(feed: Arc<Feed>, view: View, length: Micros) -> Self {
        Why { feed, view, length, turn: Arc::new(Semaphore::new(1)) }
    }

    /// What is known of `key`; `None` where the slot loop does not answer.
    ///
    /// # Errors
    /// Where it cannot be written as JSON.
    pub(in crate::telemetry) async fn of(&self, key: IntentKey) -> io::Result<Option<Known>> {
        // One at a time: each holds the ring for as long as a page that opens does, and the slot loop puts slots in.
        let Ok(_turn) = self.turn.acquire().await else { return Ok(None) };
        let (past, is_whole) = self.feed.kept();
        let found = Found::pick(&past, &key);
        let missing = found.missing();
        let asked = (!found.own.is_empty()).then_some(missing);
        let of = key.clone();
        let Some(stands) = self.view.look(move |resolver| Stands::look(resolver, &of, asked)).await else {
            return Ok(None);
        };
        let now = self.view.now();
        let kept = Kept {
            since: past.first().map_or(now, |slot| slot.at),
            slots: past.len(),
            whole: is_whole,
            left_out: found.left_out + past.iter().map(|slot| slot.left_out).sum::<usize>(),
        };
        Known::of(&key, &found, &stands, self.length, now, kept).map(Some)
    }
}

/// How far back decisions are kept.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::telemetry) struct Kept {
    /// The decision time of the first slot that is.
    since: Time,
    slots: usize,
    /// Whether nothing was decided before, since the start.
    whole: bool,
    /// Decisions in between that are not kept, and those about this intent that are not told.
    left_out: usize,
}

/// `/why`.
#[derive(Debug, Serialize)]
pub(in crate::telemetry) struct Known {
    now: Time,
    kept: Kept,
    /// What the rules withhold from being withdrawn; none where nothing is withdrawn.
    freeze_us: Option<Micros>,
    /// What is kept of it and of what was in its way.
    records: Vec<Box<RawValue>>,
    /// What stands of it from before; its slot is when that was looked at, or that of the first record which is kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stood: Option<Box<RawValue>>,
}

/// A decision, and the slot that it was made in.
type Told<'a> = (&'a SlotNews, &'a News);

/// What the ring has.
struct Found<'a> {
    /// Of the intent, in order.
    own: Vec<Told<'a>>,
    /// Of what was in its way.
    rivals: BTreeMap<Wanted, Option<Told<'a>>>,
    left_out: usize,
}

impl<'a> Found<'a> {
    fn pick(past: &'a [Arc<SlotNews>], key: &IntentKey) -> Self {
        let all = past.iter().flat_map(|slot| slot.news.iter().map(move |news| (&**slot, news)));
        let mut own: Vec<Told<'a>> = all.clone().filter(|(_, news)| news.key == *key).collect();
        let left_out = own.len() - latest(&own, limits::WHY_CLAIMS / 2);
        own.drain(..left_out);
        let wanted = own.iter().flat_map(|(slot, news)| {
            blockers(&news.verdict).iter().map(|blocker| Wanted::of(blocker, slot.slot))
        });
        let mut rivals: BTreeMap<Wanted, Option<Told<'a>>> = wanted.map(|wanted| (wanted, None)).collect();
        let keys: BTreeSet<IntentKey> = rivals.keys().map(|wanted| wanted.key.clone()).collect();
        all.filter(|(_, news)| keys.contains(&news.key)).for_each(|told| fill(&mut rivals, told));
        bound(&mut rivals, limits::WHY_CLAIMS / 2);
        Found { own, rivals, left_out }
    }

    /// What was in the way and is not in the ring: it may be in force from before. The last first.
    fn missing(&self) -> Vec<(IntentKey, Option<Token>)> {
        let of = |(slot, news): &Told<'_>| {
            let wanted = blockers(&news.verdict).iter().map(|blocker| Wanted::of(blocker, slot.slot));
            wanted.collect::<Vec<_>>()
        };
        let mut seen = BTreeSet::new();
        let wanted = self.own.iter().rev().flat_map(of);
        let missing = wanted.filter(|wanted| matches!(self.rivals.get(wanted), Some(None)));
        let missing = missing.map(|wanted| (wanted.key, wanted.of.ok()));
        missing.filter(|wanted| seen.insert(wanted.clone())).take(limits::WHY_LOOKED_UP).collect()
    }
}

/// How many of the last of `told` weigh no more than `most` claims.
fn latest(told: &[Told<'_>], most: usize) -> usize {
    let mut room = most;
    let fits = |(_, news): &&Told<'_>| {
        let rest = room.checked_sub(news.weight());
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    told.iter().rev().take_while(fits).count()
}

/// Takes down what a decision says of what was in the way: a grant by its token, a place that is held by what was told
/// last before the slot in which it was.
fn fill<'a>(rivals: &mut BTreeMap<Wanted, Option<Told<'a>>>, told: Told<'a>) {
    let (slot, news) = told;
    let of = match news.verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } => Ok(token),
        Verdict::Conflict(_) => Err(slot.slot),
        _ => return,
    };
    let least = Wanted { key: news.key.clone(), of };
    if of.is_ok() {
        if let Some(found) = rivals.get_mut(&least) {
            *found = Some(told);
        }
        return;
    }
    for (_, found) in rivals.range_mut(&least..).take_while(|(wanted, _)| wanted.key == least.key) {
        *found = Some(told);
    }
}

/// Leaves out what is beyond `most` claims, the oldest first: those in the way last count most.
fn bound(rivals: &mut BTreeMap<Wanted, Option<Told<'_>>>, most: usize) {
    let mut found: Vec<(Time, usize)> = rivals.values().flatten().map(|(slot, news)| (slot.at, news.weight())).collect();
    found.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut room = most;
    let too_much = found.into_iter().find(|(_, weight)| {
        let rest = room.checked_sub(*weight);
        room = rest.unwrap_or(0);
        rest.is_none()
    });
    let Some((last_out, _)) = too_much else { return };
    for told in rivals.values_mut() {
        *told = told.filter(|(slot, _)| slot.at > last_out);
    }
}

/// What stands between two slots.
#[derive(Debug)]
struct Stands {
    /// The last slot, and its decision time.
    decided: (Slot, Time),
    freeze: Option<Micros>,
    own: Option<Standing>,
    rivals: Vec<(IntentKey, Standing)>,
}

/// One that stands: what was declared, and what it was told last.
#[derive(Debug)]
struct Standing {
    intent: Option<Arc<Intent>>,
    /// When it arrived, of one that waits; when it was granted, of a grant.
    since: Option<Time>,
    waits: bool,
    line: Option<Verdict>,
}

impl Stands {
    /// Runs where the resolver is owned: looks up the intent and `others`, no more than [`limits::WHY_LOOKED_UP`] of
    /// them, or those in its way now where nobody has said whom.
    fn look(resolver: &Resolver, key: &IntentKey, others: Option<Vec<(IntentKey, Option<Token>)>>) -> Self {
        let own = Standing::look(resolver, key);
        let others = others.unwrap_or_else(|| {
            let line = own.as_ref().and_then(|own| own.line.as_ref());
            line.map_or(&[][..], blockers).iter().map(|it| (it.key.clone(), it.token)).collect()
        });
        let rivals = others.into_iter().filter_map(|(key, token)| {
            let standing = match token {
                Some(token) => Standing::of_grant(resolver, &key, token),
                None => Standing::look(resolver, &key).filter(|standing| standing.waits),
            };
            Some((key, standing?))
        });
        let rivals = rivals.collect();
        Stands { decided: resolver.last_decided(), freeze: resolver.rules().preemption, own, rivals }
    }
}

impl Standing {
    fn look(resolver: &Resolver, key: &IntentKey) -> Option<Self> {
        let standing = resolver.look_up(key)?;
        let line = resolver.standing(key, resolver.last_decided().1);
        let (intent, since, waits) = match (&standing.undecided, &standing.grant) {
            (Some(waits), None) => (Some(waits.intent), Some(waits.arrival), true),
            (_, Some(grant)) => (Some(grant.intent), Some(grant.granted_at), false),
            (None, None) => (standing.ended, None, false),
        };
        Some(Standing { intent: intent.cloned(), since, waits, line })
    }

    /// The grant of that token, while it is in force.
    fn of_grant(resolver: &Resolver, key: &IntentKey, token: Token) -> Option<Self> {
        let grant = resolver.look_up(key)?.grant.filter(|grant| grant.token == token)?;
        let line = Some(Verdict::Granted { start: grant.start, end: grant.end, token });
        let intent = Some(Arc::clone(grant.intent));
        Some(Standing { intent, since: Some(grant.granted_at), waits: false, line })
    }
}

impl Known {
    fn of(
        key: &IntentKey,
        found: &Found<'_>,
        stands: &Stands,
        length: Micros,
        now: Time,
        kept: Kept,
    ) -> io::Result<Self> {
        let mut records = Records::new(length);
        found.own.iter().for_each(|told| records.own(told));
        found.rivals.values().flatten().for_each(|told| records.rival(told));
        stands.rivals.iter().for_each(|(key, standing)| records.standing(key, standing));
        let stood = stood(key, found, stands, &mut records);
        let stood = stood.as_ref().map(raw_record).transpose()?;
        let records = records.by_slot.values().map(raw_record).collect::<io::Result<_>>()?;
        Ok(Known { now, kept, freeze_us: stands.freeze, records, stood })
    }
}

/// What is known of the intent from before the slots that are kept, where these do not say it.
fn stood(key: &IntentKey, found: &Found<'_>, stands: &Stands, records: &mut Records) -> Option<Record> {
    if let Some((slot, news)) = found.own.first() {
        if found.own.iter().any(|(_, news)| news.arrived.is_some()) {
            return None;
        }
        let mut record = blank(slot.slot, slot.at);
        record.inputs.push(declared(key, slot.at, news.intent.as_deref()?, false));
        return Some(record);
    }
    let own = stands.own.as_ref()?;
    let mut record = blank(stands.decided.0, stands.decided.1);
    match (own.intent.as_deref(), own.since) {
        (Some(intent), Some(arrived)) if own.waits => records.declare(key, arrived, intent),
        (Some(intent), _) => record.inputs.push(declared(key, record.at, intent, false)),
        (None, _) => {}
    }
    if let Some(line) = &own.line {
        push(&mut record, key, line, None);
    }
    Some(record)
}

/// The records, by slot.
struct Records {
    by_slot: BTreeMap<Slot, Record>,
    length: Micros,
    /// When declarations and revisions of the intent arrived.
    arrived: BTreeSet<Time>,
}

impl Records {
    fn new(length: Micros) -> Self {
        Records { by_slot: BTreeMap::new(), length, arrived: BTreeSet::new() }
    }

    fn at(&mut self, slot: Slot) -> &mut Record {
        let at = slot.decided_at(self.length);
        self.by_slot.entry(slot).or_insert_with(|| blank(slot, at))
    }

    /// A declaration of the intent, or a revision where there was one before; once.
    fn declare(&mut self, key: &IntentKey, arrived: Time, intent: &Intent) {
        let is_revision = !self.arrived.is_empty();
        if self.arrived.insert(arrived) {
            let record = self.at(Slot::of(arrived, self.length));
            record.inputs.push(declared(key, arrived, intent, is_revision));
        }
    }

    fn own(&mut self, (slot, news): &Told<'_>) {
        let is_rejected = matches!(news.verdict, Verdict::Rejected { .. });
        if let (Some(arrived), Some(intent)) = (news.arrived, news.intent.as_deref()) {
            if is_rejected {
                // It was answered at once and came to nothing.
                let answers = self.at(slot.slot).inputs.len();
                self.at(slot.slot).inputs.push(declared(&news.key, arrived, intent, !self.arrived.is_empty()));
                push(self.at(slot.slot), &news.key, &news.verdict, news.rank);
                if let Some(decision) = self.at(slot.slot).decisions.last_mut() {
                    decision.answers = Some(answers);
                }
                return;
            }
            self.declare(&news.key, arrived, intent);
        }
        push(self.at(slot.slot), &news.key, &news.verdict, news.rank);
    }

    /// What was in the way: what it declared stands beside what was decided then, whenever it arrived.
    fn rival(&mut self, (slot, news): &Told<'_>) {
        let record = self.at(slot.slot);
        let is_there = |decision: &Decision| decision.key == news.key && decision.verdict == news.verdict;
        if record.decisions.iter().any(is_there) {
            return; // in the way more than once
        }
        if let Some(intent) = news.intent.as_deref() {
            record.inputs.push(declared(&news.key, news.arrived.unwrap_or(news.at), intent, false));
        }
        push(record, &news.key, &news.verdict, news.rank);
    }

    /// What is in the way from before: a grant in the slot that gave it, one that waits in the slot that it came in.
    fn standing(&mut self, key: &IntentKey, standing: &Standing) {
        let (Some(intent), Some(since), Some(line)) = (&standing.intent, standing.since, &standing.line) else {
            return;
        };
        let arrived = if standing.waits { since } else { since.before(Micros::from_us(1)) };
        let record = self.at(Slot::of(arrived, self.length));
        record.inputs.push(declared(key, arrived, intent, false));
        push(record, key, line, None);
    }
}

fn blank(slot: Slot, at: Time) -> Record {
    Record {
        slot,
        at,
        rules_version: RULES_VERSION,
        config_hash: [0; 32],
        inputs: Vec::new(),
        decisions: Vec::new(),
        ranks: Vec::new(),
        digest: StateDigest::default(),
        notes: SessionNotes::default(),
    }
}

fn push(record: &mut Record, key: &IntentKey, verdict: &Verdict, rank: Option<Rank>) {
    record.decisions.push(Decision { key: key.clone(), answers: None, verdict: verdict.clone() });
    record.ranks.push(rank);
}

fn declared(key: &IntentKey, at: Time, intent: &Intent, is_revision: bool) -> StoredInput {
    let intent = intent.clone();
    let op = if is_revision { AgentOp::Revise(intent) } else { AgentOp::Declare(intent) };
    StoredInput::Agent { at, agent: key.agent.clone(), op }
}
