//! From a slot's outcome to who is told what, and where.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::intents::Waiter;
use super::watch::{NoWatch, Room, Seen};
use super::{Ask, Effect, LaneId, Origin, Place, Sessions};
use crate::resolver::{Input, Resolver, SlotOutcome};
use crate::slot::Closed;
use crate::types::{self, Agent, Decision, IntentId, IntentKey, Slot, Time};
use crate::wire::{
    Answer, ContestedNews, Extensions, Holding, Refusal, ToAgent, Verdict, Watch, raw_mode, raw_target,
};

impl Sessions {
    /// Follows what was decided in the slot `closed`, and says who is told what. `resolver` is how
    /// things stand after the slot.
    pub fn publish(
        &mut self,
        closed: &Closed<Origin>,
        outcome: &SlotOutcome,
        resolver: &Resolver,
        room: &dyn Room,
    ) -> Vec<Effect> {
        let when = (outcome.slot, outcome.at);
        self.bind_fates(closed, outcome);
        let mut effects = Vec::with_capacity(outcome.decisions.len());
        for decision in &outcome.decisions {
            let origin = decision.answers.and_then(|input| closed.origins.get(input));
            self.tell(decision, origin, when, resolver, room, &mut effects);
            self.intents.follow(decision);
        }
        for news in &outcome.contested {
            let note = self.note(&news.by, news.by_id).unwrap_or_default();
            let message = ContestedNews::of(news, when, note);
            self.tell_holder(&news.holder, message.into(), &mut effects);
        }
        self.intents.forget_ended(outcome.at);
        effects
    }

    /// Sends every decision from here on to `place`, as far as it keeps up. A watch that cannot be
    /// taken up is answered as rejected, with id 0.
    pub fn watch(&mut self, place: Place, watch: &Watch, now: Time) -> Vec<Effect> {
        if !self.is_live(place) {
            return Vec::new();
        }
        let Err(NoWatch(field)) = self.watchers.add(place, watch) else { return Vec::new() };
        let reason = if field.is_some() { Refusal::Invalid } else { Refusal::Overloaded };
        let message = self.refuse_look(watch.request, reason, field.unwrap_or_default(), now);
        vec![Effect::Send { to: place, message }]
    }

    /// The answer to a listing or a watch that is refused.
    pub fn refuse_look(&self, request: u64, reason: Refusal, field: &str, now: Time) -> ToAgent {
        let (slot, at) = self.open_slot(now);
        let verdict = Verdict::Rejected {
            reason,
            field: field.to_owned(),
            hint: String::new(),
            retry_after_us: None,
            kept: false,
        };
        let id = IntentId::new(0);
        Answer { request, id, slot, at, repeat: false, verdict, extensions: Extensions::NONE }.into()
    }

    /// The lane has ended: nothing is watched on it any more.
    pub fn lane_gone(&mut self, place: Place) {
        self.watchers.forget_lane(place);
    }

    /// The requests whose fate the core has taken in hand are those that it did not answer at once.
    fn bind_fates(&mut self, Closed { batch, origins }: &Closed<Origin>, outcome: &SlotOutcome) {
        let answered: BTreeSet<usize> = outcome.decisions.iter().filter_map(|it| it.answers).collect();
        for (index, (input, origin)) in batch.inputs().iter().zip(origins).enumerate() {
            let Input::Agent { agent, .. } = input else { continue };
            self.intents.settle(agent);
            if let Some(place) = origin.from.filter(|_| !answered.contains(&index)) {
                self.intents.bind(agent, origin, place);
            }
        }
    }

    fn tell(
        &mut self,
        decision: &Decision,
        origin: Option<&Origin>,
        when: (Slot, Time),
        resolver: &Resolver,
        room: &dyn Room,
        effects: &mut Vec<Effect>,
    ) {
        let holding = |blocker: &types::Blocker| self.holding(blocker, resolver);
        let mut answer = Answer::of(decision, 0, when, &holding);
        if let (Verdict::Rejected { hint, .. }, Some(Origin { ask: Ask::Invalid { hint: of }, .. })) =
            (&mut answer.verdict, origin)
        {
            hint.push_str(of);
        }
        self.tell_watchers(decision, origin, &answer, room, effects);
        let mut told = BTreeSet::new();
        for Waiter { place, request } in self.recipients(decision, origin) {
            if self.is_live(place) && told.insert((place, request)) {
                let message = Answer { request, ..answer.clone() }.into();
                effects.push(Effect::Send { to: place, message });
            }
        }
        if told.is_empty() {
            answer.repeat = false;
            self.tell_or_keep(&decision.key, origin, when.0, answer.into(), effects);
        }
    }

    /// Who is to be told of a decision, by request; some may be gone.
    fn recipients(&self, decision: &Decision, origin: Option<&Origin>) -> Vec<Waiter> {
        let asker =
            origin.and_then(|origin| origin.from.map(|place| Waiter { place, request: origin.request }));
        let route = self.intents.route(&decision.key.agent, decision.key.id);
        let mut recipients: Vec<Waiter> = asker.into_iter().collect();
        let Some(route) = route else { return recipients };
        let owner = Waiter { place: route.place, request: 0 };
        let elsewhere = asker.is_none_or(|asker| asker.place.connection != route.place.connection);
        match &decision.verdict {
            types::Verdict::Released { .. } => {
                recipients.extend(&route.waiters);
                recipients.extend(Some(owner).filter(|_| elsewhere && route.waiters.is_empty()));
            }
            types::Verdict::Renewed { .. } => recipients.extend(Some(owner).filter(|_| elsewhere)),
            _ if asker.is_some() => {}
            types::Verdict::Granted { .. }
            | types::Verdict::Conflict(_)
            | types::Verdict::Stale { .. }
            | types::Verdict::Rejected { .. }
                if !route.waiters.is_empty() =>
            {
                recipients.extend(&route.waiters);
            }
            _ => recipients.push(owner),
        }
        recipients
    }

    /// News for an intent whose own connection is gone: to its session, or to all of its name, or
    /// kept until one of them comes.
    fn tell_or_keep(
        &mut self,
        key: &IntentKey,
        origin: Option<&Origin>,
        slot: Slot,
        message: ToAgent,
        effects: &mut Vec<Effect>,
    ) {
        let route = self.intents.route(&key.agent, key.id);
        let label = route.map(|route| &route.label).or(origin.map(|origin| &origin.label)).cloned();
        let Some(label) = label else { return };
        let (places, is_session) = self.reach(&key.agent, &label);
        for to in &places {
            effects.push(Effect::Send { to: *to, message: message.clone() });
        }
        let comes_back = self.names.get(&key.agent).is_some_and(|name| name.sessions.contains_key(&label));
        if !is_session && (comes_back || places.is_empty()) {
            self.mailbox.keep(&key.agent, &label, slot, message);
        }
    }

    /// News that means nothing later: told to whoever is there.
    fn tell_holder(&self, key: &IntentKey, message: ToAgent, effects: &mut Vec<Effect>) {
        let Some(route) = self.intents.route(&key.agent, key.id) else { return };
        let places = if self.is_live(route.place) {
            vec![route.place]
        } else {
            self.reach(&key.agent, &route.label).0
        };
        effects.extend(places.into_iter().map(|to| Effect::Send { to, message: message.clone() }));
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
        effects: &mut Vec<Effect>,
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
        effects.extend(events.into_iter().map(|(to, message)| Effect::Send { to, message }));
    }

    /// What the holder of a blocker has there, as it stands after the slot.
    fn holding(&self, blocker: &types::Blocker, resolver: &Resolver) -> Option<Holding> {
        let grant = resolver.grant(blocker.token?)?;
        let claim = grant.intent.claims.get(blocker.their_claim)?;
        Some(Holding {
            target: raw_target(&claim.target),
            mode: raw_mode(claim.mode),
            window: *grant.windows.get(blocker.their_claim)?,
            hold: grant.intent.hold,
            note: self.note(&blocker.key.agent, blocker.key.id).unwrap_or_default().to_owned(),
        })
    }
}
