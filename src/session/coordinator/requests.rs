//! What sessions ask for: checked, counted, and handed on in order.

use std::sync::Arc;

use super::intents::{OverLimit, Wanted};
use super::{Admission, Ask, Denial, Effect, Member, Origin, Place, Sessions};
use crate::limits::{self, Limit};
use crate::resolver::AgentOp;
use crate::slot::{Asked, Rank, Turned};
use crate::types::{Agent, IntentId, Invalid, Micros, Time};
use crate::wire::{
    Answer, Declaration, Extensions, Refusal, Release, Renew, ToAgent, ToCoordinator, Verdict, Watch,
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
            ToCoordinator::Release(Release { request, id, extensions }) => {
                Inner::Core(vec![of_plain(request, AgentOp::Release { id }, &extensions)])
            }
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
}

/// A message that does not reach the core.
#[derive(Debug)]
struct Denied {
    id: IntentId,
    request: u64,
    revision: bool,
    denial: Denial,
}

impl Sessions {
    /// Takes in a message for the core, or a watch, or a goodbye. What is refused is answered at once.
    pub fn request(&mut self, from: Place, Request(request): Request, door: &Door<'_>) -> Vec<Effect> {
        match request {
            Inner::Core(messages) => self.hand_on(from, messages, door),
            Inner::Watch(watch) => self.watch(from, &watch, door.now),
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
        let answers = turned.into_iter().filter_map(|(agent, denial, op, origin)| {
            self.intents.settle(&agent, &origin);
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
            return Err(denial(Refusal::Forbidden, "an observer only lists and watches"));
        }
        if !matches!(message.op, AgentOp::Invalid { .. }) {
            door.admission.admit(agent, &message.op)?;
        }
        let rank = self.rank(agent, &message.op);
        let adds = match &message.op {
            AgentOp::Declare(intent) | AgentOp::Revise(intent) => Some((message.id, &*intent.claims)),
            _ => None,
        };
        let (slot, _) = self.open_slot(door.now);
        match self.intents.reserve(agent, slot, Wanted { rank, adds }, &self.terms.bounds) {
            Ok(reserved) => {
                if let Ask::Declare { load, .. } = &mut message.ask {
                    *load = reserved;
                }
                Ok(rank)
            }
            Err(over) => Err(self.over(over, door.now)),
        }
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

fn of_plain(request: u64, op: AgentOp, extensions: &Extensions) -> Result<Message, Denied> {
    let message = Message { id: op.id(), request, revision: false, op, ask: Ask::Other };
    understood(message, extensions)
}

fn of_declaration(declaration: Declaration) -> Result<Message, Denied> {
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
            let ask = Ask::Declare { id, note, claims: Arc::clone(&intent.claims), load: None };
            (if revision { AgentOp::Revise(intent) } else { AgentOp::Declare(intent) }, ask)
        }
        Err(why) => {
            let ask = Ask::Invalid { hint: why.expected };
            (AgentOp::Invalid { revision, raw: Arc::new(intent), why }, ask)
        }
    };
    understood(Message { id, request, revision, op, ask }, &extensions)
}

fn check_note(note: &str) -> Result<(), Invalid> {
    let fits = note.len() <= limits::NOTE_BYTES && !note.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(Invalid::new("note", "up to 128 bytes without control characters")) }
}

/// A message whose sender insists on an extension that is not known here is refused.
fn understood(message: Message, extensions: &Extensions) -> Result<Message, Denied> {
    let Some(number) = extensions.first_not_understood(&[]) else { return Ok(message) };
    let denial = Denial {
        hint: format!("extension {number:#06x} is not known here"),
        ..denial(Refusal::Unsupported, "")
    };
    let Message { id, request, revision, .. } = message;
    Err(Denied { id, request, revision, denial })
}

fn denial(reason: Refusal, hint: &str) -> Denial {
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
