//! What was asked and is not answered yet: kept as it was, so that it can be asked again.

use super::held::Terms;
use super::{AgentSession, Draft, Link, Local, Reply};
use crate::limits;
use crate::types::{IntentId, Micros, Slot, Time};
use crate::wire::{
    Administer, Declaration, Declare, DrainAsk, Extensions, Release, Renew, SetCapacity, ToCoordinator,
};

/// A request without its final answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    /// How often it was made.
    pub(super) asked: u32,
    /// Whoever asked has been told what it came to: what the coordinator still says of it is told to nobody.
    pub(super) is_told: bool,
    pub(super) ask: Ask,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    Declare {
        id: IntentId,
        draft: Box<Draft>,
        /// Bytes of its frame, alone.
        bytes: usize,
        /// It was withdrawn since, and what it comes to is not handed out.
        abandoned: bool,
        /// Somebody waits for it; otherwise it takes its course, and a grant is not taken in hand.
        claimed: bool,
    },
    Release {
        id: IntentId,
    },
    /// To release another's intent.
    Administer {
        id: IntentId,
        whose: Administer,
    },
    /// To drain, or how the drain stands.
    Drain(DrainAsk),
    SetCapacity(SetCapacity),
    Renew {
        id: IntentId,
        until: Time,
        /// The session's own, of which only news is told.
        automatic: bool,
    },
    /// How these stand.
    Standing {
        ids: Vec<IntentId>,
    },
}

impl Ask {
    pub(super) fn declare(id: IntentId, draft: Draft, bytes: usize) -> Self {
        Ask::Declare { id, draft: Box::new(draft), bytes, abandoned: false, claimed: true }
    }

    /// The intent of the agent's own that it is about; of several, none.
    pub(super) fn id(&self) -> IntentId {
        match self {
            Ask::Declare { id, .. } | Ask::Release { id } | Ask::Renew { id, .. } => *id,
            Ask::Administer { .. } | Ask::SetCapacity(_) | Ask::Drain(_) | Ask::Standing { .. } => {
                IntentId::new(0)
            }
        }
    }

    /// As the coordinator is asked it; `name` is the one in force.
    fn message(&self, request: u64, name: &str) -> ToCoordinator {
        let extensions = Extensions::NONE;
        match self {
            Ask::Declare { draft, .. } => declaration(request, Draft::clone(draft)),
            Ask::Release { id } => Release { request, id: *id, extensions }.into(),
            Ask::Administer { id, whose } => Release::of_another(request, *id, whose).into(),
            Ask::Drain(asked) => Release::about_drain(request, asked).into(),
            Ask::SetCapacity(what) => what.order(request).into(),
            Ask::Renew { id, until, .. } => Renew { request, id: *id, until: *until, extensions }.into(),
            Ask::Standing { ids } => crate::wire::standing_of(request, name, ids).into(),
        }
    }
}

fn declaration(request: u64, draft: Draft) -> ToCoordinator {
    let Draft { intent, note, revision, trace } = draft;
    let declaration = Declaration { request, revision, intent, note, extensions: Extensions::NONE };
    let declaration = match &trace {
        Some(context) => declaration.in_trace(context),
        None => declaration,
    };
    Declare { batch: vec![declaration] }.into()
}

/// Bytes of a declaration's frame, where it fits in one: without where it stands in a trace, if need be.
pub(super) fn fit(draft: &mut Draft) -> Option<usize> {
    size(draft).or_else(|| {
        draft.trace.take()?;
        size(draft)
    })
}

fn size(draft: &Draft) -> Option<usize> {
    let mut frame = Vec::new();
    declaration(1, draft.clone()).encode(&mut frame).ok()?;
    Some(frame.len())
}

impl AgentSession {
    /// Makes a request: now where there is a connection, otherwise over the next one.
    pub(super) fn ask(&mut self, ask: Ask) -> u64 {
        self.last_request += 1;
        let request = self.last_request;
        self.pending.insert(request, Pending { asked: 0, is_told: false, ask });
        self.send(request);
        request
    }

    /// The request has its final answer: whoever asked is told, once.
    pub(super) fn finish(&mut self, request: u64, id: IntentId, reply: Reply) {
        let is_told = self.pending.get(&request).is_some_and(|pending| pending.is_told);
        self.done(request);
        if !is_told {
            self.reply(request, id, reply);
        }
    }

    /// The request has its final answer, or needs none.
    pub(super) fn done(&mut self, request: u64) {
        let Some(pending) = self.pending.remove(&request) else { return };
        if let Ask::Declare { id, .. } = pending.ask
            && self.declared.get(&id) == Some(&request)
        {
            self.declared.remove(&id);
        }
    }

    /// A declaration with the content of the one that nobody waits for.
    pub(super) fn claim_again(&mut self, request: u64, draft: &Draft) -> Option<u64> {
        match &mut self.pending.get_mut(&request)?.ask {
            Ask::Declare { draft: known, claimed, abandoned: false, .. }
                if !*claimed && known.asks_the_same(draft) =>
            {
                *claimed = true;
                Some(request)
            }
            _ => None,
        }
    }

    /// Whether the declaration `request` is a revision.
    pub(super) fn is_revision(&self, request: u64) -> bool {
        match self.pending.get(&request).map(|pending| &pending.ask) {
            Some(Ask::Declare { draft, .. }) => draft.revision,
            _ => false,
        }
    }

    /// How the grant of the declaration `request` would last.
    pub(super) fn terms_of(&self, request: u64) -> Terms {
        match self.pending.get(&request).map(|pending| &pending.ask) {
            Some(Ask::Declare { draft, .. }) => Terms::of(&draft.intent),
            _ => Terms::default(),
        }
    }

    /// The connection is gone, and with it what is of no use over another one.
    pub(super) fn forget_what_goes_with_a_connection(&mut self) {
        let useless = |pending: &Pending| match &pending.ask {
            // It must not be decided for nobody when the coordinator is back.
            Ask::Declare { .. } => !self.is_waited_for(pending),
            // Asked for anew, with the time of then.
            Ask::Renew { automatic, .. } => *automatic,
            // Of the coordinator that was there, by its time of then.
            Ask::Standing { .. } | Ask::Drain(_) => true,
            Ask::Release { .. } | Ask::Administer { .. } | Ask::SetCapacity(_) => false,
        };
        let gone: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, pending)| useless(pending))
            .map(|(request, _)| *request)
            .collect();
        for request in gone {
            match self.pending.get(&request).map(|pending| &pending.ask) {
                Some(Ask::Drain(_)) => self.finish(request, IntentId::new(0), Reply::Unknown),
                _ => self.done(request),
            }
        }
    }

    /// Whether a declaration is worth being made again. One that was abandoned is not, whose release is among what is
    /// asked again and reaches further; nor one that nobody waits for. A revision is for the holder of what
    /// it revises.
    fn is_waited_for(&self, pending: &Pending) -> bool {
        match &pending.ask {
            Ask::Declare { id, draft, abandoned, claimed, .. } => {
                !*abandoned && (*claimed || self.holdings.are_revised_by(*id, draft))
            }
            Ask::Release { .. }
            | Ask::Administer { .. }
            | Ask::Drain(_)
            | Ask::SetCapacity(_)
            | Ask::Renew { .. }
            | Ask::Standing { .. } => true,
        }
    }

    /// Makes every request again, in order.
    pub(super) fn ask_all_again(&mut self) {
        let open = |(request, pending): (&u64, &Pending)| {
            (!matches!(pending.ask, Ask::Standing { .. })).then_some(*request)
        };
        let open: Vec<u64> = self.pending.iter().filter_map(open).collect();
        open.into_iter().for_each(|request| self.send(request));
    }

    /// The coordinator had no room for a request whose fate is not known, or that must be done: it is
    /// made again, after `retry_after` at least, for as long as somebody waits for it.
    pub(super) fn ask_later(&mut self, request: u64, retry_after: Option<Micros>, now: Local) {
        if self.pending.get(&request).is_none_or(|pending| !self.is_waited_for(pending)) {
            return self.done(request);
        }
        let soon = retry_after.unwrap_or(self.slot_length());
        self.again.insert((now.after(soon.clamp(self.slot_length(), limits::ASK_AGAIN_MOST)), request));
    }

    pub(super) fn ask_again(&mut self, now: Local) {
        while let Some((at, request)) = self.again.first().copied()
            && at <= now
        {
            self.again.remove(&(at, request));
            self.send(request);
        }
    }

    fn send(&mut self, request: u64) {
        let Link::Up { welcome, .. } = &self.link else { return };
        let Some(pending) = self.pending.get_mut(&request) else { return };
        pending.asked = pending.asked.saturating_add(1);
        let message = pending.ask.message(request, &welcome.name);
        match (message, &pending.ask) {
            (ToCoordinator::Declare(declare), Ask::Declare { bytes, .. }) => {
                let most = usize::try_from(welcome.limits.batch).unwrap_or(usize::MAX).min(limits::BATCH);
                let bytes = *bytes;
                self.say_together(declare, bytes, most);
            }
            (message, _) => self.out.push_back(message),
        }
        self.may_give_up(request);
    }

    /// Declarations that wait to leave one after the other leave in one message, up to `most` in each.
    fn say_together(&mut self, declare: Declare, bytes: usize, most: usize) {
        // Each counts with a frame's head of its own, so that the sum is never too low.
        let together = self.last_bytes.saturating_add(bytes);
        match self.out.back_mut() {
            Some(ToCoordinator::Declare(last))
                if last.batch.len() < most && together <= limits::FRAME_BYTES =>
            {
                last.batch.extend(declare.batch);
                self.last_bytes = together;
            }
            _ => {
                self.out.push_back(declare.into());
                self.last_bytes = bytes;
            }
        }
    }

    /// A revision goes out: what it frees may be granted to another from the next slot on, and begin at the end of
    /// that.
    fn may_give_up(&mut self, request: u64) {
        let (id, draft) = match self.pending.get(&request).map(|pending| &pending.ask) {
            Some(Ask::Declare { id, draft, .. }) if draft.revision => (id, draft),
            _ => return,
        };
        let Some(bounds) = self.clock.bounds(self.now) else { return };
        let slot_length = self.slot_length();
        let first = Slot::of(bounds.earliest, slot_length).decided_at(slot_length);
        self.holdings.revised_from(*id, &draft.intent, first.after(slot_length));
    }
}
