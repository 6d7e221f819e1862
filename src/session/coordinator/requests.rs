//! What sessions ask for: checked, counted, and handed on in order.

use std::sync::Arc;

use super::bounding::Bounding;
use super::forbidding::Attempt;
use super::intents::{OverLimit, Wanted};
use super::priority::Caps;
use super::rights::{Asked as AskedAt, Forbidden};
use super::traces::NoRoom;
use super::{Admission, Ask, Denial, Effect, Member, Origin, Place, Sessions, Terms};
use crate::limits::{self, Limit};
use crate::resolver::{AgentOp, SystemOp};
use crate::slot::{Asked, Rank, Refused, Turned};
use crate::types::{Agent, IntentId, Invalid, Micros, Slot, Time, TraceContext};
use crate::wire::{
    Administer, Answer, Declaration, DrainAsk, Extensions, Refusal, Release, Renew, SetCapacity, ToAgent,
    ToCoordinator, Verdict, Watch,
};

/// Nothing new is taken in: the batch, as it was.
#[derive(Debug)]
pub struct Drained(pub Vec<Asked<Origin>>);

/// Where admitted messages go: the slot that is open.
pub trait Inbox {
    /// Takes in messages of one agent, in order, all with one arrival. Returns what has no place in the slot: of
    /// these, and of those of others that were taken in before and gave way to them.
    ///
    /// # Errors
    /// Where nothing new is taken in.
    fn take_in(&self, agent: &Agent, batch: Vec<Asked<Origin>>) -> Result<Vec<Turned<Origin>>, Drained>;

    /// A drain begins: whoever watches the coordinator is told, what waits and asks for more by `is_new` is handed back, and
    /// what is undecided ends with `reason` in the slot that is open. Also returns when that is, as an arrival.
    fn clear(&self, reason: &str, is_new: &dyn Fn(&Agent, &AgentOp) -> bool) -> (Time, Vec<Turned<Origin>>);

    /// Takes in what an agent asks for in the operator's place.
    ///
    /// # Errors
    /// Where there is no room for it in this slot, or nothing new is taken in.
    fn administer(&self, op: SystemOp, origin: Origin) -> Result<(), Refused>;
}

/// How many messages did not reach the core, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    fn note(&mut self, reason: Refusal) {
        // One that this build does not know is never given by it.
        let at = Refusal::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.0.get_mut(at)) {
            *count += 1;
        }
    }

    /// Each reason, with how often it was given since the start.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.iter().copied().zip(self.0)
    }
}

/// What a message needs on its way: the time, who may pass, and where to.
pub struct Door<'a> {
    /// The coordinator's time.
    pub now: Time,
    /// Who may ask for what.
    pub admission: &'a dyn Admission,
    /// Where it goes.
    pub inbox: &'a dyn Inbox,
}

impl std::fmt::Debug for Door<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("now", &self.now).finish_non_exhaustive()
    }
}

/// A message whose values have been looked at, which needs no table of the sessions: so it is done before
/// their lock is taken.
#[derive(Debug)]
pub struct Request(Inner);

#[derive(Debug)]
enum Inner {
    /// For the core, or refused before it.
    Core(Vec<Result<Message, Denied>>),
    /// To release another's intent.
    Administer {
        request: u64,
        id: IntentId,
        whose: Result<Administer, Denied>,
    },
    /// To set a capacity.
    SetCapacity {
        request: u64,
        what: Result<SetCapacity, Denied>,
    },
    /// To drain, or how the drain stands.
    Drain {
        request: u64,
        asked: Result<DrainAsk, Denied>,
    },
    Watch(Watch),
    Bye,
    /// Answered elsewhere.
    Other,
}

impl From<ToCoordinator> for Request {
    fn from(message: ToCoordinator) -> Self {
        Request(match message {
            ToCoordinator::Declare(declare) => {
                Inner::Core(declare.batch.into_iter().map(of_declaration).collect())
            }
            ToCoordinator::Release(release) => of_release(&release),
            ToCoordinator::Renew(Renew { request, id, until, extensions }) => {
                Inner::Core(vec![of_plain(request, AgentOp::Renew { id, until }, &extensions)])
            }
            ToCoordinator::Watch(watch) => Inner::Watch(watch),
            ToCoordinator::Bye(_) => Inner::Bye,
            ToCoordinator::Hello(_) | ToCoordinator::ClockPing(_) | ToCoordinator::List(_) => Inner::Other,
        })
    }
}

/// A message on its way to the core.
#[derive(Debug)]
struct Message {
    id: IntentId,
    request: u64,
    revision: bool,
    op: AgentOp,
    ask: Ask,
    /// Where it stands in a trace that is recorded.
    trace: Option<Box<TraceContext>>,
}

/// A message that does not reach the core.
#[derive(Debug)]
pub(super) struct Denied {
    id: IntentId,
    request: u64,
    revision: bool,
    denial: Denial,
}

impl Denied {
    /// An operator's order about no intent.
    pub(super) fn of_order(request: u64, denial: Denial) -> Self {
        Denied { id: IntentId::new(0), request, revision: false, denial }
    }
}

impl Sessions {
    /// Takes in a message for the core, or a watch, or a goodbye. What is refused is answered at once.
    pub fn request(&mut self, from: Place, Request(request): Request, door: &Door<'_>) -> Vec<Effect> {
        match request {
            Inner::Core(messages) => self.hand_on(from, messages, door),
            Inner::Administer { request, id, whose } => self.administer(from, (request, id), whose, door),
            Inner::SetCapacity { request, what } => self.set_capacity(from, request, what, door),
            Inner::Drain { request, asked } => self.asked_to_drain(from, request, asked, door),
            Inner::Watch(watch) => self.watch(from, &watch, door),
            Inner::Bye => self.bye(from.connection),
            Inner::Other => Vec::new(),
        }
    }

    fn hand_on(
        &mut self,
        from: Place,
        messages: Vec<Result<Message, Denied>>,
        door: &Door<'_>,
    ) -> Vec<Effect> {
        // A connection that was replaced, or has said goodbye, may still have frames on their way.
        let Some(member) = self.members.get(&from.connection).cloned() else { return Vec::new() };
        let mut denied = Vec::new();
        let mut batch = Vec::with_capacity(messages.len());
        for message in messages {
            match message.and_then(|message| self.check(&member, message, door)) {
                Ok((rank, Message { id, request, op, ask, .. })) => {
                    let label = member.label.clone().unwrap_or_else(|| Arc::from(""));
                    self.take_up(&member.agent, id, from, &label);
                    batch.push(Asked { rank, op, origin: Origin { from: Some(from), label, request, ask } });
                }
                Err(refused) => denied.push(refused),
            }
        }
        denied.iter().for_each(|Denied { denial, .. }| self.refusals.note(denial.reason));
        let answer = |denied| self.answer_to(&member.agent, denied, door.now);
        let answers = denied.into_iter().map(answer).map(|message| Effect::Send { to: from, message });
        let mut effects: Vec<Effect> = answers.collect();
        if !batch.is_empty() {
            effects.extend(self.take_in(&member.agent, batch, door));
        }
        effects
    }

    /// Hands on what passed, and answers those who have no place for it, of whatever name.
    fn take_in(&mut self, agent: &Agent, batch: Vec<Asked<Origin>>, door: &Door<'_>) -> Vec<Effect> {
        let now = door.now;
        let turned: Vec<_> = match door.inbox.take_in(agent, batch) {
            Ok(turned) => {
                let of =
                    |it: Turned<Origin>| (it.agent, no_room(&it.op, it.back.since(now)), it.op, it.origin);
                turned.into_iter().map(of).collect()
            }
            Err(Drained(batch)) => {
                let reason = self.draining.as_deref().unwrap_or("the coordinator shuts down");
                let of = |it: Asked<Origin>| (agent.clone(), drained(&it.op, reason), it.op, it.origin);
                batch.into_iter().map(of).collect()
            }
        };
        self.hand_back(turned, now)
    }

    /// Answers those who have no place for what they asked for, with why.
    pub(super) fn hand_back(
        &mut self,
        turned: Vec<(Agent, Denial, AgentOp, Origin)>,
        now: Time,
    ) -> Vec<Effect> {
        let answers = turned.into_iter().filter_map(|(agent, denial, op, origin)| {
            self.intents.settle(&agent, &origin);
            self.pay_back(&agent, origin.cost(), now);
            self.refusals.note(denial.reason);
            if denial.reason == Refusal::Overloaded {
                self.reached.note(Limit::SlotInputs);
            }
            let denied = Denied { id: op.id(), request: origin.request, revision: is_revision(&op), denial };
            Some(Effect::Send { to: origin.from?, message: self.answer_to(&agent, denied, now) })
        });
        answers.collect()
    }

    /// Whether a message may go to the core, and how firmly it holds its place; it is counted then.
    fn check(
        &mut self,
        member: &Member,
        mut message: Message,
        door: &Door<'_>,
    ) -> Result<(Rank, Message), Denied> {
        match self.admit(member, &mut message, door) {
            Ok(rank) => Ok((rank, message)),
            Err(denial) => {
                let Message { id, request, revision, .. } = message;
                Err(Denied { id, request, revision, denial })
            }
        }
    }

    fn admit(&mut self, member: &Member, message: &mut Message, door: &Door<'_>) -> Result<Rank, Denial> {
        let agent = &member.agent;
        if member.label.is_none() {
            return Err(self.forbid_observer(agent, attempt(&message.op), door));
        }
        self.pass_drain(agent, &mut message.op, door.now)?;
        let bounding = match &message.op {
            AgentOp::Invalid { .. } => None,
            _ => self.weigh(agent, message, door)?,
        };
        let rank = self.rank(agent, &message.op);
        let adds = match &message.op {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => Some((message.id, &*intent.claims)),
            _ => None,
        };
        let (slot, _) = self.open_slot(door.now);
        let reserved = self.intents.reserve(agent, slot, Wanted { rank, adds }, &self.terms.bounds);
        let load = reserved.map_err(|over| self.over(over, door.now))?;
        if let Some(bounding) = &bounding {
            self.pay_for(agent, bounding, door.now);
        }
        message.ask.bind(load, bounding);
        if let Some(context) = message.trace.take() {
            match self.traces.take_in(*context) {
                Ok(trace) => trace.into_iter().for_each(|trace| message.ask.follow(trace)),
                Err(NoRoom) => self.reached.note(Limit::Traces),
            }
        }
        Ok(rank)
    }

    /// What is told of a limit that was reached: which it is, and when to come back.
    fn over(&mut self, OverLimit { limit, slots, claim }: OverLimit, now: Time) -> Denial {
        self.reached.note(limit);
        self.passed = limit.is_of_one_agent().then_some(limit).or(self.passed);
        let length = self.terms.slot_length;
        let (hint, retry_after) = match limit {
            Limit::SlotInputsPerAgent => {
                let (_, decided_at) = self.open_slot(now);
                let later = Micros::from_us(length.as_us().saturating_mul(slots.saturating_sub(1)));
                let until = decided_at.after(later).since(now);
                ("too many messages in one slot", until.min(limits::ASK_AGAIN_MOST))
            }
            Limit::Undecided | Limit::UndecidedPerAgent => ("too many intents are undecided", length),
            Limit::WindowsPerAgent => ("too many windows are in force", limits::RETRY_WHEN_FULL),
            Limit::WindowsPerAgentAndPath => {
                ("too many windows of one agent on a path and below it", limits::RETRY_WHEN_FULL)
            }
            Limit::WindowsPerPath => {
                ("too many windows may be in its way for one of several claims", limits::RETRY_WHEN_FULL)
            }
            Limit::RegionsPerFrame => ("too many regions in one frame", limits::RETRY_WHEN_FULL),
            Limit::Search | Limit::SearchPerAgent => ("too many windows to look among in one slot", length),
            _ => ("too many intents are in force", limits::RETRY_WHEN_FULL),
        };
        let field = claim.map_or_else(String::new, |claim| format!("claims[{claim}]"));
        let hint = format!("{hint} ({})", limit.as_str());
        Denial { field, retry_after: Some(retry_after), ..denial(Refusal::Overloaded, &hint) }
    }

    /// Asks the rights and the check of the operator's own, and has the message say what counts of its priority.
    fn weigh(
        &mut self,
        agent: &Agent,
        message: &mut Message,
        door: &Door<'_>,
    ) -> Result<Option<Arc<Bounding>>, Denial> {
        let caps = match self.judge(agent, &message.op, door.now) {
            Ok(caps) => caps,
            Err(why) => {
                return Err(self.forbid(agent, attempt(&message.op), why, door.now));
            }
        };
        if let Err(denial) = door.admission.admit(agent, &message.op) {
            if denial.reason != Refusal::Forbidden {
                return Err(denial);
            }
            let why = Forbidden::by_check(denial.field, denial.hint);
            let forbidden = self.forbid(agent, attempt(&message.op), why, door.now);
            return Err(Denial { retry_after: denial.retry_after, ..forbidden });
        }
        Ok(self.bound(agent, &mut message.op, &caps, door.now))
    }

    /// What rights say of a valid message: how much of its priority counts. A release is never forbidden.
    fn judge(&self, agent: &Agent, op: &AgentOp, now: Time) -> Result<Caps, Forbidden> {
        let asked = self.asked_at(now);
        match op {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => self.rights.judge(agent, intent, asked),
            AgentOp::Renew { id, until } => {
                let route = self.intents.route(agent, *id);
                let granted = route.and_then(|route| Some((route, route.granted()?)));
                // Without a grant there is nothing to renew, which is the core's to say.
                let Some((route, (start, _))) = granted else { return Ok(Caps::default()) };
                let renewed = self.rights.judge_renewal(agent, &route.claims, (start, *until), asked);
                renewed.map(|()| Caps::default())
            }
            AgentOp::Release { .. } | AgentOp::Invalid { .. } => Ok(Caps::default()),
        }
    }

    fn asked_at(&self, now: Time) -> AskedAt {
        let Terms { slot_length, min_lead, .. } = self.terms;
        AskedAt { decided_at: self.open_slot(now).1, min_lead, slot_length }
    }

    pub(super) fn forbid_observer(&mut self, agent: &Agent, asked: Attempt, door: &Door<'_>) -> Denial {
        let why = Forbidden::by_check(String::new(), "an observer only lists and watches".into());
        self.forbid(agent, asked, why, door.now)
    }

    /// Releases another's intent, where the rights say so.
    fn administer(
        &mut self,
        from: Place,
        (request, id): (u64, IntentId),
        whose: Result<Administer, Denied>,
        door: &Door<'_>,
    ) -> Vec<Effect> {
        let Some(member) = self.members.get(&from.connection).cloned() else { return Vec::new() };
        let asked = whose.and_then(|whose| {
            let denied = |denial| Denied { id, request, revision: false, denial };
            self.may_administer(&member, &whose, id, door).map_err(denied)?;
            let Administer { agent, reason } = whose;
            Ok((SystemOp::Release { agent, id, reason }, Ask::Administer { by: member.agent.clone() }))
        });
        self.operate(from, &member, (request, id), asked, door)
    }

    /// Hands in what an agent asks for in the operator's place, or says why not.
    pub(super) fn operate(
        &mut self,
        from: Place,
        member: &Member,
        (request, id): (u64, IntentId),
        asked: Result<(SystemOp, Ask), Denied>,
        door: &Door<'_>,
    ) -> Vec<Effect> {
        let done = asked.and_then(|(op, ask)| {
            let label = member.label.clone().unwrap_or_else(|| Arc::from(""));
            let origin = Origin { from: Some(from), label, request, ask };
            door.inbox.administer(op, origin).map_err(|refused| {
                let denial = no_room_for_operator(refused, door.now);
                Denied { id, request, revision: false, denial }
            })
        });
        let Err(denied) = done else { return Vec::new() };
        self.refusals.note(denied.denial.reason);
        let message = self.answer_to(&member.agent, denied, door.now);
        vec![Effect::Send { to: from, message }]
    }

    fn may_administer(
        &mut self,
        member: &Member,
        whose: &Administer,
        id: IntentId,
        door: &Door<'_>,
    ) -> Result<(), Denial> {
        let asked = || Attempt::Administer(whose.agent.clone(), id);
        if member.label.is_none() {
            return Err(self.forbid_observer(&member.agent, asked(), door));
        }
        let claims = self.intents.route(&whose.agent, id).map(|route| Arc::clone(&route.claims));
        let claims = claims.unwrap_or_else(|| Arc::from([]));
        let rights = Arc::clone(&self.rights);
        let judged = rights.may_administer(&member.agent, &claims);
        judged.map_err(|why| self.forbid(&member.agent, asked(), why, door.now))
    }

    /// Begins a drain, or says how it stands, where the rights say so.
    fn asked_to_drain(
        &mut self,
        from: Place,
        request: u64,
        asked: Result<DrainAsk, Denied>,
        door: &Door<'_>,
    ) -> Vec<Effect> {
        let Some(member) = self.members.get(&from.connection).cloned() else { return Vec::new() };
        let id = IntentId::new(0);
        let asked = asked.and_then(|asked| match self.may_drain(&member, door) {
            Ok(()) => Ok(asked),
            Err(denial) => Err(Denied { id, request, revision: false, denial }),
        });
        let mut effects = match asked {
            Ok(DrainAsk::Order(order)) => self.drain(&order, Some(member.agent), door.inbox, door.now),
            Ok(DrainAsk::How) => Vec::new(),
            Err(denied) => {
                self.refusals.note(denied.denial.reason);
                let message = self.answer_to(&member.agent, denied, door.now);
                return vec![Effect::Send { to: from, message }];
            }
        };
        let stands = self.drain_stands(from.connection);
        let verdict = match &stands {
            Some(_) => Verdict::Released { reason: None },
            None => Verdict::ReleasedUnknown,
        };
        let extensions = stands.map(|stands| stands.extensions()).unwrap_or_default();
        // No slot decides it.
        let (slot, at) = (Slot::default(), Time::ZERO);
        let message = Answer { request, id, slot, at, repeat: false, verdict, extensions }.into();
        effects.push(Effect::Send { to: from, message });
        effects
    }

    fn may_drain(&mut self, member: &Member, door: &Door<'_>) -> Result<(), Denial> {
        if member.label.is_none() {
            return Err(self.forbid_observer(&member.agent, Attempt::Drain, door));
        }
        let judged = self.rights.may_drain(&member.agent);
        judged.map_err(|why| self.forbid(&member.agent, Attempt::Drain, why, door.now))
    }

    /// After a reconnect an intent goes on on the lane on which its session first names it. Another session
    /// of the name takes it up only where that one is gone for good: otherwise it comes back for its news.
    fn take_up(&mut self, agent: &Agent, id: IntentId, place: Place, label: &Arc<str>) {
        let Some(route) = self.intents.route(agent, id) else { return };
        let is_forgotten =
            || self.names.get(agent).is_none_or(|name| !name.sessions.contains_key(&route.label));
        if !self.is_live(route.place) && (route.label == *label || is_forgotten()) {
            self.intents.move_to(agent, id, place, label);
        }
    }

    fn answer_to(&self, agent: &Agent, denied: Denied, now: Time) -> ToAgent {
        let Denied { id, request, revision, denial } = denied;
        let (slot, at) = self.open_slot(now);
        let verdict = Verdict::Rejected {
            reason: denial.reason,
            field: denial.field,
            hint: denial.hint,
            retry_after_us: denial.retry_after.map(Micros::as_us),
            kept: revision && self.intents.is_granted(agent, id),
        };
        Answer { request, id, slot, at, repeat: false, verdict, extensions: Extensions::NONE }.into()
    }
}

fn of_release(release: &Release) -> Inner {
    let Release { request, id, extensions } = release;
    let (request, id) = (*request, *id);
    if let Some(what) = release.sets_capacity().transpose() {
        let what = checked(what, extensions, Release::SET_CAPACITY);
        return Inner::SetCapacity {
            request,
            what: what.map_err(|denial| Denied::of_order(request, denial)),
        };
    }
    if let Some(asked) = release.asks_about_drain().transpose() {
        let asked = checked(asked, extensions, Release::DRAIN);
        return Inner::Drain { request, asked: asked.map_err(|denial| Denied::of_order(request, denial)) };
    }
    let whose = match release.administers().transpose() {
        None => return Inner::Core(vec![of_plain(request, AgentOp::Release { id }, extensions)]),
        Some(whose) => checked(whose, extensions, Release::ADMINISTER),
    };
    let denied = |denial| Denied { id, request, revision: false, denial };
    Inner::Administer { request, id, whose: whose.map_err(denied) }
}

/// What the extension `known` says, where that is right and the only one that must be understood.
fn checked<T>(said: Result<T, &'static str>, extensions: &Extensions, known: u16) -> Result<T, Denial> {
    match not_understood(extensions, &[known]) {
        Some(denial) => Err(denial),
        None => said.map_err(|field| Denial { field: field.into(), ..denial(Refusal::Invalid, "") }),
    }
}

fn of_plain(request: u64, op: AgentOp, extensions: &Extensions) -> Result<Message, Denied> {
    let message = Message { id: op.id(), request, revision: false, op, ask: Ask::Other, trace: None };
    understood(message, extensions)
}

fn of_declaration(declaration: Declaration) -> Result<Message, Denied> {
    let trace = declaration.trace_context().filter(TraceContext::is_sampled).map(Box::new);
    let Declaration { request, revision, intent, note, extensions } = declaration;
    let id = IntentId::new(intent.id);
    // A note decides nothing, so it is no input of the core: a wrong one is answered here.
    if let Err(Invalid { field, expected }) = check_note(&note) {
        let denial = Denial { field, ..denial(Refusal::Invalid, expected) };
        return Err(Denied { id, request, revision, denial });
    }
    let (op, ask) = match intent.parse() {
        Ok(intent) => {
            let note = note.as_str().into();
            let claims = Arc::clone(&intent.claims);
            let ask = Ask::Declare { id, note, claims, load: None, bounding: None, trace: None };
            (if revision { AgentOp::Revise(intent) } else { AgentOp::Declare(intent) }, ask)
        }
        Err(why) => {
            let ask = Ask::Invalid { hint: why.expected };
            (AgentOp::Invalid { revision, raw: Arc::new(intent), why }, ask)
        }
    };
    understood(Message { id, request, revision, op, ask, trace }, &extensions)
}

fn check_note(note: &str) -> Result<(), Invalid> {
    let fits = note.len() <= limits::NOTE_BYTES && !note.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(Invalid::new("note", "up to 128 bytes without control characters")) }
}

/// A message whose sender insists on an extension that is not known here is refused.
fn understood(message: Message, extensions: &Extensions) -> Result<Message, Denied> {
    let Some(denial) = not_understood(extensions, &[]) else { return Ok(message) };
    let Message { id, request, revision, .. } = message;
    Err(Denied { id, request, revision, denial })
}

fn not_understood(extensions: &Extensions, known: &[u16]) -> Option<Denial> {
    let number = extensions.first_not_understood(known)?;
    let hint = format!("extension {number:#06x} is not known here");
    Some(Denial { hint, ..denial(Refusal::Unsupported, "") })
}

/// What a message tries to do, for the record.
fn attempt(op: &AgentOp) -> Attempt {
    match op {
        AgentOp::Declare(_) | AgentOp::Revise(_) | AgentOp::Invalid { .. } => Attempt::Declare(op.id()),
        AgentOp::Renew { id, .. } => Attempt::Renew(*id),
        AgentOp::Release { id } => Attempt::Release(*id),
    }
}

fn no_room_for_operator(refused: Refused, now: Time) -> Denial {
    match refused {
        Refused::Full(full) => {
            let retry_after = Some(full.until.since(now));
            Denial { retry_after, ..denial(Refusal::Overloaded, "the slot has no room for it") }
        }
        Refused::Draining => denial(Refusal::Draining, "the coordinator shuts down"),
    }
}

pub(super) fn denial(reason: Refusal, hint: &str) -> Denial {
    Denial { reason, field: String::new(), hint: hint.to_owned(), retry_after: None }
}

fn no_room(op: &AgentOp, retry_after: Micros) -> Denial {
    let full = || denial(Refusal::Overloaded, "the slot has no room for its class");
    invalid(op).unwrap_or_else(|| Denial { retry_after: Some(retry_after), ..full() })
}

fn drained(op: &AgentOp, why: &str) -> Denial {
    invalid(op).unwrap_or_else(|| denial(Refusal::Draining, why))
}

/// What is invalid is so with or without room.
fn invalid(op: &AgentOp) -> Option<Denial> {
    let AgentOp::Invalid { why, .. } = op else { return None };
    Some(Denial { field: why.field.clone(), ..denial(Refusal::Invalid, why.expected) })
}

fn is_revision(op: &AgentOp) -> bool {
    matches!(op, AgentOp::Revise(_) | AgentOp::Invalid { revision: true, .. })
}
