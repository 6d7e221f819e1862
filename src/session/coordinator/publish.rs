//! From a slot's outcome to who is told what, and where.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::bounding::Bounding;
use super::intents::{Payment, Waiter, Waiters};
use super::looking::{Reader, Scope};
use super::operating::{capacities_set_in, capacity_answer};
use super::watch::{Room, Seen, TooManyWatches, size};
use super::{Ask, ConnectionId, Denial, Door, Effect, LaneId, Origin, Place, Sessions};
use crate::limits::{self, Limit};
use crate::resolver::{Input, Resolver, SlotOutcome, SystemOp};
use crate::slot::Closed;
use crate::types::{self, Agent, Decision, FixedMap, IntentId, IntentKey, Micros, Slot, Time};
use crate::wire::{
    Answer, ContestedNews, Extensions, Holding, Refusal, ToAgent, Verdict, Watch, raw_mode, raw_target,
};

/// Takes what somebody is told, and where.
pub type Tell<'a> = dyn FnMut(Place, &ToAgent) + 'a;

impl Sessions {
    /// As [`Sessions::publish_to`], told as effects.
    pub fn publish(
        &mut self,
        closed: &Closed<Origin>,
        outcome: &SlotOutcome,
        resolver: &Resolver,
        room: &dyn Room,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut send = |to, message: &ToAgent| effects.push(Effect::Send { to, message: message.clone() });
        self.publish_to(closed, outcome, resolver, room, &mut send);
        effects
    }

    /// Follows what was decided in the slot `closed`, and says to `send` who is told what, in order. `resolver` is
    /// how things stand after the slot.
    pub fn publish_to(
        &mut self,
        closed: &Closed<Origin>,
        outcome: &SlotOutcome,
        resolver: &Resolver,
        room: &dyn Room,
        send: &mut Tell<'_>,
    ) {
        let when = (outcome.slot, outcome.at);
        self.intents.follow_slot(outcome.at, self.terms.retention);
        let is_lease = |token| resolver.grant(token).is_some_and(|grant| grant.intent.hold);
        let mut fates = Fates::new(closed, outcome);
        let last_words = LastWords::of(&outcome.decisions);
        for (at, decision) in outcome.decisions.iter().enumerate() {
            self.bind_fates(&mut fates, decision.answers);
            let origin = decision.answers.and_then(|input| closed.origins.get(input));
            let goes_on = last_words.come_after(at, decision);
            if goes_on && matches!(decision.verdict, types::Verdict::Expired { .. }) {
                // What was asked since is not answered by the end of the lease before it.
                self.intents.go_on(&decision.key);
            }
            if let Some(origin) = origin.filter(|_| self.intents.is_new_grant(decision)) {
                self.intents.take_at_once(&decision.key.agent, origin);
            }
            self.trace(at, decision, origin);
            self.tell(decision, origin, when, resolver, room, send);
            self.intents.follow(decision, goes_on, &is_lease);
        }
        self.bind_fates(&mut fates, None);
        for news in &outcome.contested {
            let message = ContestedNews::of(news, when, self.note_for(news));
            self.tell_holder(&news.holder, &message.into(), room, send);
        }
        self.intents.forget_ended(outcome.at);
        self.drain.follow_slot(outcome.at);
        self.settle_payments(outcome.at);
        self.operating.follow(closed.batch.inputs());
        self.tell_administrators(closed, outcome, send);
        for (path, place, request) in capacities_set_in(closed).filter(|(_, place, _)| self.is_live(*place)) {
            send(place, &capacity_answer(path, request, outcome, resolver).into());
        }
    }

    /// Notes the decision at index `at` for those who follow its intent's trace.
    fn trace(&mut self, at: usize, decision: &Decision, origin: Option<&Origin>) {
        if !self.traces.is_followed() {
            return;
        }
        let own = match origin {
            Some(Origin { ask: Ask::Declare { trace, .. }, .. }) => trace.as_ref(),
            _ => None,
        };
        let standing = || self.intents.route(&decision.key.agent, decision.key.id)?.trace.as_ref();
        if let Some(trace) = own.or_else(standing).map(Arc::clone) {
            self.traces.decided(at, trace);
        }
    }

    /// What was paid for what came to nothing is given back, and leases that last longer are paid for.
    fn settle_payments(&mut self, now: Time) {
        for payment in self.intents.take_payments() {
            match payment {
                Payment::Back(agent, cost) => self.pay_back(&agent, cost, now),
                Payment::Renewal(agent, span, in_force) => self.pay_for_renewal(&agent, span, in_force, now),
            }
        }
    }

    /// The core says nothing of an operator's release where there is nothing to release; an agent that asked is told.
    fn tell_administrators(&self, closed: &Closed<Origin>, outcome: &SlotOutcome, send: &mut Tell<'_>) {
        let inputs = closed.batch.inputs().iter().zip(&closed.origins).enumerate();
        for (at, (input, origin)) in inputs {
            let (Input::System { op: SystemOp::Release { id, .. }, .. }, Some(place)) = (input, origin.from)
            else {
                continue;
            };
            let is_answered = outcome.decisions.iter().any(|decision| decision.answers == Some(at));
            if !is_answered && self.is_live(place) {
                let (slot, at) = (outcome.slot, outcome.at);
                let (request, verdict, extensions) =
                    (origin.request, Verdict::ReleasedUnknown, Extensions::NONE);
                send(
                    place,
                    &Answer { request, id: *id, slot, at, repeat: false, verdict, extensions }.into(),
                );
            }
        }
    }

    /// Sends every decision from here on to `place`, as far as it keeps up. A watch that cannot be
    /// taken up is answered as rejected, with id 0.
    pub(super) fn watch(&mut self, place: Place, watch: &Watch, door: &Door<'_>) -> Vec<Effect> {
        if !self.is_live(place) {
            return Vec::new();
        }
        let message = match self.add_watch(place, watch, door) {
            Ok(()) => return Vec::new(),
            Err(denial) => self.refuse(watch.request, denial, door.now),
        };
        vec![Effect::Send { to: place, message }]
    }

    fn add_watch(&mut self, place: Place, watch: &Watch, door: &Door<'_>) -> Result<(), Denial> {
        if self.draining.is_some() {
            return Err(refusal(Refusal::Draining, "")); // nothing is decided any more that could be watched
        }
        let scope = Scope::of(watch.under.as_deref(), watch.agent.as_deref());
        let scope = scope.map_err(|field| refusal(Refusal::Invalid, field))?;
        let reader = self.may_look(place.connection, &scope, door.now)?;
        let added = if self.watches_of_the_name_at(place.connection) < limits::WATCHES_OF_A_NAME {
            self.watchers.add(place, watch.request, scope, reader.reads_all())
        } else {
            Err(TooManyWatches)
        };
        added.map_err(|TooManyWatches| {
            self.reached.note(Limit::Watches);
            refusal(Refusal::Overloaded, "")
        })
    }

    fn watches_of_the_name_at(&self, connection: ConnectionId) -> usize {
        let agent = self.members.get(&connection).map(|member| &member.agent);
        self.watchers.count(|other| self.members.get(&other).map(|member| &member.agent) == agent)
    }

    /// The answer to a listing that is refused.
    pub fn refuse_look(&self, request: u64, reason: Refusal, field: &str, now: Time) -> ToAgent {
        self.refuse(request, refusal(reason, field), now)
    }

    /// The answer to a listing or a watch that is refused.
    pub fn refuse(&self, request: u64, denial: Denial, now: Time) -> ToAgent {
        let (slot, at) = self.open_slot(now);
        let Denial { reason, field, mut hint, retry_after } = denial;
        if reason == Refusal::Draining {
            hint = self.draining.as_deref().unwrap_or_default().to_owned();
        }
        let retry_after_us = retry_after.map(Micros::as_us);
        let verdict = Verdict::Rejected { reason, field, hint, retry_after_us, kept: false };
        let id = IntentId::new(0);
        Answer { request, id, slot, at, repeat: false, verdict, extensions: Extensions::NONE }.into()
    }

    /// The lane has ended: nothing is watched on it any more.
    pub fn lane_gone(&mut self, place: Place) {
        self.watchers.forget_lane(place);
    }

    /// The requests whose fate the core has taken in hand are those that it did not answer at once.
    /// Those up to input `last` are bound to their intents, since what ends an intent there ends it
    /// for them alone; all of them with `None`.
    fn bind_fates(&mut self, fates: &mut Fates<'_>, last: Option<usize>) {
        for Fate { agent, origin, place } in fates.take(last) {
            self.intents.settle_and_bind(agent, origin, place);
        }
    }

    fn tell(
        &mut self,
        decision: &Decision,
        origin: Option<&Origin>,
        when: (Slot, Time),
        resolver: &Resolver,
        room: &dyn Room,
        send: &mut Tell<'_>,
    ) {
        let answer = self.answer_of(decision, origin, when, resolver);
        if let (types::Verdict::Rejected { .. }, Some(origin)) = (&decision.verdict, origin) {
            self.pay_back(&decision.key.agent, origin.cost(), when.1);
        }
        self.tell_watchers(decision, origin, &answer, room, send);
        let asker = origin.and_then(|origin| Some(Waiter { place: origin.from?, request: origin.request }));
        let (waiters, owner) = self.concerned(decision, asker.is_some());
        // A handful at most, mostly one.
        let mut told = Vec::new();
        for Waiter { place, request } in asker.into_iter().chain(waiters.into_iter().flat_map(Waiters::iter))
        {
            if self.is_live(place) && !told.contains(&(place, request)) {
                told.push((place, request));
                send(place, &Answer { request, ..answer.clone() }.into());
            }
        }
        if let (Some(origin), Some(Waiter { place, .. })) = (origin, asker)
            && is_waiting(&decision.verdict)
        {
            // Something sent twice that waits: it has a fate to hear of, as the first one does.
            self.intents.bind_repeat(&decision.key.agent, origin, place);
        }
        let news = || ToAgent::from(Answer { request: 0, repeat: false, ..answer });
        match owner {
            Some(owner) if told.iter().any(|(place, _)| place.connection == owner.connection) => {}
            Some(owner) if self.is_live(owner) => send(owner, &news()),
            None if !told.is_empty() => {}
            _ => self.tell_or_keep(&decision.key, origin, when.0, &news(), &told, send),
        }
    }

    fn answer_of(
        &self,
        decision: &Decision,
        origin: Option<&Origin>,
        when: (Slot, Time),
        resolver: &Resolver,
    ) -> Answer {
        let reader = OnceCell::new();
        let holding = |blocker: &types::Blocker| {
            let reader = reader.get_or_init(|| self.reader(&decision.key.agent));
            self.holding(blocker, resolver, reader)
        };
        let mut answer = Answer::of(decision, 0, when, &holding);
        answer.repeat &= !self.intents.is_new_grant(decision);
        if let Some(bounding) = self.bounding_of(decision, origin) {
            answer.extensions = bounding.told().extensions();
        }
        if let (Verdict::Rejected { hint, .. }, Some(Origin { ask: Ask::Invalid { hint: of }, .. })) =
            (&mut answer.verdict, origin)
        {
            hint.push_str(of);
        }
        answer
    }

    /// What was sent of the intent that `decision` is about, where its agent is to know that less counts.
    fn bounding_of<'a>(&'a self, decision: &Decision, origin: Option<&'a Origin>) -> Option<&'a Bounding> {
        if let Some(Origin { ask: Ask::Declare { bounding, .. }, .. }) = origin {
            return bounding.as_deref();
        }
        if !is_about_placement(&decision.verdict) {
            return None;
        }
        let route = self.intents.route(&decision.key.agent, decision.key.id)?;
        route.boundings().last().map(|bounding| &**bounding)
    }

    /// Whose fate a decision is, by request, and where its intent lives, where that is to hear of it:
    /// not of what changed nothing, which concerns the asker alone.
    fn concerned(&self, decision: &Decision, is_asked: bool) -> (Option<&Waiters>, Option<Place>) {
        let Some(route) = self.intents.route(&decision.key.agent, decision.key.id) else {
            return (None, None);
        };
        let is_fate = match &decision.verdict {
            types::Verdict::Released { .. } => true,
            types::Verdict::Granted { .. } => self.intents.is_new_grant(decision),
            types::Verdict::Conflict(_) | types::Verdict::Stale { .. } => !is_asked,
            types::Verdict::Expired { token } => self.intents.stands(&decision.key, *token),
            _ => false,
        };
        if is_fate {
            return (Some(&route.waiters), Some(route.place));
        }
        let changes = !is_asked || matches!(decision.verdict, types::Verdict::Renewed { .. });
        (None, Some(route.place).filter(|_| changes))
    }

    /// News for an intent whose own connection is gone: to its session, or to all of its name that
    /// have not been told already, or kept until one of them comes.
    fn tell_or_keep(
        &mut self,
        key: &IntentKey,
        origin: Option<&Origin>,
        slot: Slot,
        message: &ToAgent,
        told: &[(Place, u64)],
        send: &mut Tell<'_>,
    ) {
        let route = self.intents.route(&key.agent, key.id);
        let label = route.map(|route| &route.label).or(origin.map(|origin| &origin.label)).cloned();
        let Some(label) = label else { return };
        let (places, is_session) = self.reach(&key.agent, &label);
        for to in &places {
            if told.iter().all(|(place, _)| place.connection != to.connection) {
                send(*to, message);
            }
        }
        let comes_back = self.names.get(&key.agent).is_some_and(|name| name.sessions.contains_key(&label));
        if !is_session && (comes_back || places.is_empty()) {
            let fell_out = self.mailbox.keep(&key.agent, &label, slot, message.clone());
            (0..fell_out).for_each(|_| self.reached.note(Limit::NewsKept));
        }
    }

    /// News that means nothing later: told to whoever is there and has room, so that nobody is cut off
    /// by how many others want what it holds.
    fn tell_holder(&self, key: &IntentKey, message: &ToAgent, room: &dyn Room, send: &mut Tell<'_>) {
        let Some(route) = self.intents.route(&key.agent, key.id) else { return };
        let places = if self.is_live(route.place) {
            vec![route.place]
        } else {
            self.reach(&key.agent, &route.label).0
        };
        let bytes = size(message);
        let with_room = places.into_iter().filter(|to| room.has_room(to.connection, bytes));
        with_room.for_each(|to| send(to, message));
    }

    /// The note of who wants a grant, where its holder may look at what that one claims.
    fn note_for(&self, news: &types::Contested) -> &str {
        let Some(route) = self.intents.route(&news.by, news.by_id) else { return "" };
        let reader = self.reader(&news.holder.agent);
        if route.claims.iter().all(|claim| reader.reads(&claim.target)) { &route.note } else { "" }
    }

    /// Where to find session `label` of `agent`, or else all others of the name; and whether it is
    /// the session itself.
    fn reach(&self, agent: &Agent, label: &Arc<str>) -> (Vec<Place>, bool) {
        let Some(name) = self.names.get(agent) else { return (Vec::new(), false) };
        let first = |connection| Place { connection, lane: LaneId::FIRST };
        let own = name.sessions.get(label).and_then(|session| session.connection);
        match own {
            Some(connection) => (vec![first(connection)], true),
            None => (name.sessions.values().filter_map(|other| other.connection).map(first).collect(), false),
        }
    }

    fn tell_watchers(
        &mut self,
        decision: &Decision,
        origin: Option<&Origin>,
        answer: &Answer,
        room: &dyn Room,
        send: &mut Tell<'_>,
    ) {
        if self.watchers.is_empty() {
            return;
        }
        let route = self.intents.route(&decision.key.agent, decision.key.id);
        let asked = origin.and_then(|origin| match &origin.ask {
            Ask::Declare { claims, note, .. } => Some((claims, note)),
            _ => None,
        });
        let about = route.map(|route| (&route.claims, &route.note)).or(asked);
        let seen = Seen {
            key: &decision.key,
            slot: answer.slot,
            at: answer.at,
            verdict: &answer.verdict,
            claims: about.map_or(&[], |(claims, _)| claims),
            note: about.map_or("", |(_, note)| note),
        };
        let events = self.watchers.events(&seen, room);
        events.iter().for_each(|(to, message)| send(*to, message));
    }

    /// What the holder of a blocker has there, as it stands after the slot, where `reader` may look at it.
    fn holding(&self, blocker: &types::Blocker, resolver: &Resolver, reader: &Reader) -> Option<Holding> {
        let grant = resolver.grant(blocker.token?)?;
        let claim = grant.intent.claims.get(blocker.their_claim)?;
        if *reader.agent() != blocker.key.agent && !reader.reads(&claim.target) {
            return None;
        }
        Some(Holding {
            target: raw_target(&claim.target),
            mode: raw_mode(claim.mode),
            window: *grant.windows.get(blocker.their_claim)?,
            hold: grant.intent.hold,
            note: self.note(&blocker.key.agent, blocker.key.id).unwrap_or_default().to_owned(),
        })
    }
}

/// The last decision on each intent that answers no message by itself, by index. What looks like an
/// intent's end ahead of it is not: its id has been declared anew, or its old grant, withdrawn after
/// its revision failed, waits on. Looked for in slots alone in which something looks like an end.
struct LastWords<'a>(FixedMap<&'a IntentKey, usize>);

impl<'a> LastWords<'a> {
    fn of(decisions: &'a [Decision]) -> Self {
        let placed = decisions.iter().enumerate().filter(|(_, decision)| decision.answers.is_none());
        let needed = decisions.iter().any(|decision| looks_like_an_end(&decision.verdict));
        let last = |(at, decision): (usize, &'a Decision)| (&decision.key, at);
        LastWords(if needed { placed.map(last).collect() } else { FixedMap::default() })
    }

    /// Whether there are more on the intent of `decision`, which looks like its end at index `at`.
    fn come_after(&self, at: usize, decision: &Decision) -> bool {
        looks_like_an_end(&decision.verdict) && self.0.get(&decision.key).is_some_and(|last| *last > at)
    }
}

fn refusal(reason: Refusal, field: &str) -> Denial {
    Denial { reason, field: field.to_owned(), hint: String::new(), retry_after: None }
}

fn looks_like_an_end(verdict: &types::Verdict) -> bool {
    match verdict {
        types::Verdict::Expired { .. } => true,
        types::Verdict::Conflict(conflict) => conflict.is_final && !conflict.kept,
        types::Verdict::Stale { kept, .. } => !kept,
        _ => false,
    }
}

fn is_about_placement(verdict: &types::Verdict) -> bool {
    matches!(
        verdict,
        types::Verdict::Granted { .. } | types::Verdict::Conflict(_) | types::Verdict::Stale { .. }
    )
}

fn is_waiting(verdict: &types::Verdict) -> bool {
    match verdict {
        types::Verdict::Conflict(conflict) => !conflict.is_final,
        types::Verdict::Revoked { waiting, .. } => *waiting,
        _ => false,
    }
}

/// An agent's input, and where its fate is to be told that is still to come.
struct Fate<'a> {
    agent: &'a Agent,
    origin: &'a Origin,
    place: Option<Place>,
}

/// The inputs of a slot in arrival order, as far as they have not been bound to their intents.
struct Fates<'a> {
    closed: &'a Closed<Origin>,
    answered: BTreeSet<usize>,
    next: usize,
}

impl<'a> Fates<'a> {
    fn new(closed: &'a Closed<Origin>, outcome: &SlotOutcome) -> Self {
        let answered = outcome.decisions.iter().filter_map(|decision| decision.answers).collect();
        Fates { closed, answered, next: 0 }
    }

    /// The agents' inputs up to and with `last` that have not been taken yet, all of them with `None`.
    fn take(&mut self, last: Option<usize>) -> Vec<Fate<'a>> {
        let inputs = self.closed.batch.inputs();
        let end = last.map_or(inputs.len(), |last| last + 1);
        let from = self.next;
        self.next = from.max(end);
        let mut taken = Vec::new();
        for index in from..end {
            let (Some(Input::Agent { agent, .. }), Some(origin)) =
                (inputs.get(index), self.closed.origins.get(index))
            else {
                continue;
            };
            let place = origin.from.filter(|_| !self.answered.contains(&index));
            taken.push(Fate { agent, origin, place });
        }
        taken
    }
}
