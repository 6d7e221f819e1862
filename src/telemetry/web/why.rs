//! `/why`: what is kept of one intent, as the records that a log would have of it. They are picked out of the ring of
//! the last slots, and what still stands from before those out of the decision core's state. `preclaim why` makes a
//! story of them, as of a log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::feed::Feed;
use super::news::{News, SlotNews, blockers};
use crate::audit::{RULES_VERSION, Record, StoredInput};
use crate::coordinator::View;
use crate::limits;
use crate::replay::{Story, Wanted};
use crate::resolver::{AgentOp, Rank, Resolver, StateDigest};
use crate::session::coordinator::SessionNotes;
use crate::trace::{raw_record, read_record};
use crate::types::{Agent, Decision, Intent, IntentId, IntentKey, Micros, Slot, Time, Token, Verdict};

/// What may be asked after `/why?intent=`, for messages.
pub(in crate::telemetry) const RULE: &str = "intent is an agent's name, /, and an intent's number; what is no letter, digit, -, . or _ of it as %XX\n";

/// Where it is asked for `key`: the path and what follows it.
pub(crate) fn place_of(key: &IntentKey) -> String {
    let mut place = String::from("/why?intent=");
    for byte in format!("{}/{}", key.agent.as_str(), key.id).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                place.push(byte.into())
            }
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
        let of = key.clone();
        let Some(mut stands) = self.view.look(move |resolver| Stands::look(resolver, &of)).await else {
            return Ok(None);
        };
        // After the look: what it saw decided has been put in.
        let (past, is_whole) = self.feed.kept();
        let found = Found::pick(&past, &key);
        if !found.own.is_empty() {
            let missing = found.missing();
            let looked = self.view.look(move |resolver| look_up(resolver, missing)).await;
            stands.rivals = looked.unwrap_or_default();
        }
        let now = self.view.now();
        let kept = Kept {
            since: past.first().map_or(now, |slot| slot.at),
            slots: past.len() as u64,
            whole: is_whole,
            left_out: (found.left_out + past.iter().map(|slot| slot.left_out).sum::<usize>()) as u64,
        };
        Known::of(&key, &found, &stands, self.length, now, kept).map(Some)
    }
}

/// How far back decisions are kept.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The decision time of the first slot that is.
    pub(crate) since: Time,
    pub(crate) slots: u64,
    /// Whether nothing was decided before, since the coordinator's start.
    pub(crate) whole: bool,
    /// Decisions since then that are not kept, and those about this intent that are not told.
    pub(crate) left_out: u64,
}

/// `/why`, as it is written here and read by `preclaim why`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) now: Time,
    pub(crate) kept: Kept,
    /// How near to its start a grant is not withdrawn; none where nothing is.
    freeze_us: Option<Micros>,
    /// What is kept of it and of what was in its way.
    records: Vec<Box<RawValue>>,
    /// What stood of it from before. Its slot is when that was seen, or the first one of which anything is kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        Verdict::Conflict(_) | Verdict::Revoked { .. } => Err(slot.slot),
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
    let mut found: Vec<(Time, usize)> =
        rivals.values().flatten().map(|(slot, news)| (slot.at, news.weight())).collect();
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
    /// Runs where the resolver is owned: looks up the intent and those in its way now.
    fn look(resolver: &Resolver, key: &IntentKey) -> Self {
        let own = Standing::look(resolver, key);
        let line = own.as_ref().and_then(|own| own.line.as_ref());
        let others = line.map_or(&[][..], blockers).iter().map(|it| (it.key.clone(), it.token)).collect();
        let rivals = look_up(resolver, others);
        Stands { decided: resolver.last_decided(), freeze: resolver.rules().preemption, own, rivals }
    }
}

/// Looks up grants by their tokens, and those who hold a place while they wait; no more than
/// [`limits::WHY_LOOKED_UP`].
fn look_up(resolver: &Resolver, others: Vec<(IntentKey, Option<Token>)>) -> Vec<(IntentKey, Standing)> {
    let look = |(key, token): (IntentKey, Option<Token>)| {
        let standing = match token {
            Some(token) => Standing::of_grant(resolver, &key, token),
            None => Standing::look(resolver, &key).filter(|standing| standing.waits),
        };
        Some((key, standing?))
    };
    others.into_iter().take(limits::WHY_LOOKED_UP).filter_map(look).collect()
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

    /// Whether a part of it is older than what is kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.stood.is_some()
    }

    /// What it comes to for `key`, as from a log.
    ///
    /// # Errors
    /// In words, where a record is none.
    pub(crate) fn story(&self, key: &IntentKey) -> Result<Story, String> {
        let records = self.records.iter().map(|record| read_record(record.get()));
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let stood = self.stood.as_ref().map(|record| read_record(record.get())).transpose()?;
        let mut story = Story::known(key.clone(), self.freeze_us);
        // What it declared comes ahead of what came of that; what it was told last, after all that is older.
        let (first, last) = match &stood {
            Some(stood) if stood.decisions.is_empty() => (Some(stood), None),
            other => (None, other.as_ref()),
        };
        first.into_iter().for_each(|record| story.take_standing(record));
        for record in &records {
            story.take(record).map_err(|error| error.to_string())?;
        }
        last.into_iter().for_each(|record| story.take_standing(record));
        records.iter().for_each(|record| story.look(record));
        Ok(story)
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
        let mut answers = None;
        if let (Some(arrived), Some(intent)) = (news.arrived, news.intent.as_deref()) {
            if let Verdict::Rejected { kept, .. } = news.verdict {
                // It was answered at once and came to nothing.
                let inputs = &mut self.at(slot.slot).inputs;
                answers = Some(inputs.len());
                inputs.push(declared(&news.key, arrived, intent, kept));
            } else {
                self.declare(&news.key, arrived, intent);
            }
        }
        let record = self.at(slot.slot);
        push(record, &news.key, &news.verdict, news.rank);
        record.decisions.last_mut().into_iter().for_each(|decision| decision.answers = answers);
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
        let (Some(intent), Some(since), Some(line)) = (&standing.intent, standing.since, &standing.line)
        else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::coordinator::{Decided, Punctuality, SlotReport};
    use crate::replay::{Event, Holder};
    use crate::resolver::{Input, SlotBatch};
    use crate::trace::TraceReader;

    /// A resolver whose slots are kept as the ring has them, and as a log would.
    struct Script {
        resolver: Resolver,
        length: Micros,
        feed: Feed,
        log: Vec<Record>,
    }

    impl Script {
        fn run(config: &str, lines: &[&str]) -> Self {
            let config = Config::parse("config.toml", config).unwrap();
            let resolver = Resolver::new(config.rules.clone());
            let length = resolver.rules().length;
            let mut script = Script { resolver, length, feed: Feed::default(), log: Vec::new() };
            let mut reader = TraceReader::new(config);
            let inputs: Vec<Input> =
                lines.iter().filter_map(|line| reader.read(line.as_bytes()).unwrap()).collect();
            for inputs in inputs.chunk_by(|a, b| Slot::of(a.at(), length) == Slot::of(b.at(), length)) {
                let slot = Slot::of(inputs[0].at(), length);
                script.until(slot);
                script.decide(&SlotBatch::new(slot, length, inputs.to_vec()).unwrap());
            }
            script
        }

        /// Decides what is due before `slot`.
        fn until(&mut self, slot: Slot) {
            while let Some(due) = self.resolver.next_due().filter(|due| *due < slot) {
                self.decide(&SlotBatch::empty(due));
            }
        }

        fn decide(&mut self, batch: &SlotBatch) {
            let outcome = self.resolver.resolve(batch);
            let at = outcome.at;
            let report = SlotReport {
                slot: outcome.slot,
                at,
                woken: at,
                closed: at,
                resolved: at,
                persisted: at,
                published: at,
                inputs: batch.inputs().len(),
                decisions: outcome.decisions.len(),
                punctuality: Punctuality::OnTime,
            };
            self.feed
                .slot(&report, &Decided { batch, outcome: &outcome, resolver: &self.resolver, traced: &[] });
            self.log.push(Record {
                inputs: batch.inputs().iter().map(StoredInput::from).collect(),
                decisions: outcome.decisions.clone(),
                ranks: outcome.ranks.clone(),
                ..blank(outcome.slot, at)
            });
        }

        /// What is known of an intent by what is kept of the slots from number `from` on.
        fn known(&self, key: &IntentKey, from: usize) -> Known {
            let (mut past, _) = self.feed.kept();
            past.drain(..from);
            let found = Found::pick(&past, key);
            let mut stands = Stands::look(&self.resolver, key);
            if !found.own.is_empty() {
                stands.rivals = look_up(&self.resolver, found.missing());
            }
            let kept =
                Kept { since: Time::ZERO, slots: 0, whole: from == 0, left_out: found.left_out as u64 };
            Known::of(key, &found, &stands, self.length, Time::ZERO, kept).unwrap()
        }

        fn story(&self, key: &IntentKey, from: usize) -> Story {
            self.known(key, from).story(key).unwrap()
        }

        /// What the log says of it.
        fn logged(&self, key: &IntentKey) -> Story {
            let mut story = Story::known(key.clone(), self.resolver.rules().preemption);
            self.log.iter().for_each(|record| story.take(record).unwrap());
            self.log.iter().for_each(|record| story.look(record));
            story
        }
    }

    fn key(agent: &str, id: u64) -> IntentKey {
        IntentKey { agent: Agent::new(agent).unwrap(), id: IntentId::new(id) }
    }

    /// Decisions and declarations, with what is known of who was in the way.
    fn told(story: &Story) -> Vec<(Slot, String)> {
        let told = |event: &Event| match event {
            Event::Input { slot, input, .. } => match input {
                StoredInput::Agent { op: AgentOp::Declare(_) | AgentOp::Revise(_), .. } => {
                    Some((*slot, format!("{input:?}")))
                }
                _ => None, // the ring has what came of it
            },
            Event::Decided { slot, at, decision, rank } => {
                let holder = |blocker| story.holder(&Wanted::of(blocker, *slot));
                let holders: Vec<Option<&Holder>> = blockers(&decision.verdict).iter().map(holder).collect();
                Some((*slot, format!("{at:?} {:?} {rank:?} {holders:?}", decision.verdict)))
            }
            other => Some((Slot::new(0), format!("{other:?}"))),
        };
        story.events().filter_map(told).collect()
    }

    const RIVALS: &[&str] = &[
        r#"{"at":1000,"agent":"b","declare":{"id":7,"claims":[{"path":"dock","duration":50000}],"urgency":0.9}}"#,
        r#"{"at":2000,"agent":"a","declare":{"id":1,"claims":[{"path":"dock","duration":50000}]}}"#,
        r#"{"at":3000,"agent":"c","declare":{"id":1,"wait":900000,"claims":[{"path":"dock/3","mode":"shared","duration":50000}]}}"#,
        r#"{"at":14000,"agent":"d","declare":{"id":5,"wait":900000,"claims":[{"path":"dock/3","duration":50000}]}}"#,
        r#"{"at":25000,"agent":"e","declare":{"id":1,"hold":true,"claims":[{"path":"quay","duration":30000}]}}"#,
        r#"{"at":26000,"agent":"d","revise":{"id":5,"wait":900000,"class":2,"claims":[{"path":"dock/3","duration":40000}]}}"#,
        r#"{"at":35000,"agent":"e","renew":{"id":1,"until":90000}}"#,
        r#"{"at":36000,"agent":"e","declare":{"id":2,"claims":[]}}"#,
        r#"{"at":45000,"agent":"b","release":{"id":7}}"#,
        r#"{"at":55000,"agent":"f","declare":{"id":1,"claims":[{"path":"dock","duration":5000}]}}"#,
    ];

    fn keys() -> Vec<IntentKey> {
        [("a", 1), ("b", 7), ("c", 1), ("d", 5), ("e", 1), ("f", 1)].map(|(agent, id)| key(agent, id)).into()
    }

    #[test]
    fn while_all_is_kept_it_is_the_story_that_a_log_has_with_scores_and_remedies() {
        let mut script = Script::run("[preemption]\nenabled = true\n", RIVALS);
        script.until(Slot::new(60));
        for key in keys() {
            let (known, logged) = (script.story(&key, 0), script.logged(&key));
            assert_eq!(told(&known), told(&logged), "{key:?}");
            assert_eq!(known.remedies(), logged.remedies(), "{key:?}");
        }
        let story = script.story(&key("a", 1), 0);
        assert!(story.remedies().len() > 1, "{story:?}");
        assert!(script.story(&key("a", 2), 0).is_empty());
    }

    #[test]
    fn what_stands_from_before_is_told_as_that_with_who_holds_what_is_in_the_way() {
        let script = Script::run("", &RIVALS[..4]);
        let all = script.log.len();
        // It waits, and nothing of it is kept: how it stands, and who was granted what before.
        let story = script.story(&key("c", 1), all);
        let events: Vec<&Event> = story.events().collect();
        let [Event::Input { slot, .. }, Event::Stood { decision: Some(decision), .. }] = events[..] else {
            panic!("{story:?}")
        };
        assert_eq!(*slot, Slot::new(0), "when it arrived is known");
        let blocker = &blockers(&decision.verdict)[0];
        let holder = story.holder(&Wanted::of(blocker, Slot::new(1))).unwrap();
        assert_eq!((holder.slot, holder.rank), (Slot::new(0), None), "the score is gone");
        assert_eq!(holder.intent.as_ref().unwrap().claims[0].target.path().as_str(), "dock");
        assert!(!story.remedies().is_empty());
        // What ended is known by its end; when that was is not, nor what would have helped.
        let story = script.story(&key("a", 1), all);
        assert!(matches!(
            story.events().next(),
            Some(Event::Stood { declared: Some(_), decision: Some(_), .. })
        ));
        assert_eq!(story.remedies(), []);
        assert!(script.known(&key("a", 1), all).is_cut() && !script.known(&key("a", 1), 0).is_cut());
    }

    #[test]
    fn a_grant_from_before_that_is_kept_in_part_has_what_was_declared_ahead() {
        let script = Script::run("", &[RIVALS[4], RIVALS[6]]);
        let renewed = script.log.len() - 1;
        let story = script.story(&key("e", 1), renewed);
        let events: Vec<&Event> = story.events().collect();
        let [Event::Stood { declared: Some(_), decision: None, .. }, Event::Decided { .. }] = events[..]
        else {
            panic!("{story:?}")
        };
    }

    #[test]
    fn an_intent_with_more_decisions_than_are_told_has_the_last_of_them() {
        let declared = r#"{"at":1000,"agent":"e","declare":{"id":1,"hold":true,"claims":[{"path":"q","duration":30000}]}}"#;
        let renewals: Vec<String> = (1..2_000)
            .map(|n| {
                let (at, until) = (n * 10_000 + 1_000, n * 10_000 + 50_000);
                format!(r#"{{"at":{at},"agent":"e","renew":{{"id":1,"until":{until}}}}}"#)
            })
            .collect();
        let lines: Vec<&str> = [declared].into_iter().chain(renewals.iter().map(String::as_str)).collect();
        let script = Script::run("", &lines);
        let known = script.known(&key("e", 1), 0);
        let most = limits::WHY_CLAIMS / 2;
        assert!(
            known.records.len() <= most && known.kept.left_out >= 2_000 - most as u64,
            "{:?}",
            known.kept
        );
        let story = known.story(&key("e", 1)).unwrap();
        let Some(Event::Decided { slot, .. }) = story.events().last() else { panic!("{story:?}") };
        assert_eq!(*slot, Slot::new(1_999));
    }

    #[test]
    fn any_name_can_be_asked_for_and_nothing_else() {
        for name in ["car-7", "a b&c=d#e", "ü/%2F/x?", "a\"}</script>"] {
            let key = key(name, u64::MAX);
            let place = place_of(&key);
            assert!(place.is_ascii() && !place.contains([' ', '&', '#', '"', '<']), "{place}");
            assert_eq!(key_of(place.strip_prefix("/why?")), Some(key));
        }
        for wrong in
            ["", "intent=", "intent=a", "intent=a/x", "intent=/1", "id=a/1", "intent=a%/1", "intent=a%2/1"]
        {
            assert_eq!(key_of(Some(wrong)), None, "{wrong}");
        }
        for wrong in ["intent=a%0A/1", "intent=%FF/1", "intent=a/18446744073709551616", "intent=%G1/1"] {
            assert_eq!(key_of(Some(wrong)), None, "{wrong}");
        }
        assert_eq!(key_of(None), None);
    }
}
