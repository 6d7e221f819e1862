//! What would have made a conflict a grant, as far as that follows from what is recorded.

use super::Holder;
use crate::limits::BLOCKERS;
use crate::resolver::Rank;
use crate::types::{Blocker, Claim, Class, Conflict, Intent, Micros, Mode, Path, Slot, Start, Target, Time};

/// Something that the agent could have declared otherwise. Each stands alone: one of them is enough,
/// had nothing else come in between.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// This start was free in the slots after.
    Start {
        /// The start.
        at: Time,
        /// The slack that reaches it from the start that was asked for.
        slack: Micros,
        /// The wait that reaches it, for an intent that starts as soon as it is granted.
        wait: Option<Micros>,
    },
    /// A class above all that were in the way: it goes before them in the slot that decided all of them,
    /// or has their grants withdrawn, where the rules allow that.
    Class {
        /// The highest class in the way.
        above: Class,
        /// Whether their grants would have been withdrawn.
        by_preemption: bool,
    },
    /// A score above theirs, who were decided in the same slot and are of the same class.
    Score {
        /// The highest score in the way.
        above: f64,
    },
    /// Shared claims: all that is in the way is shared.
    Shared,
    /// Deeper paths: all that is in the way lies below what was claimed.
    Deeper {
        /// What lies there.
        beside: Vec<Path>,
    },
    /// A reading made at this time or later.
    Reading {
        /// Of what.
        path: Path,
        /// The earliest time.
        as_of: Time,
    },
}

/// A conflict, and what is known beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// What was declared, and when that arrived.
    pub(super) declared: Option<&'a (Time, Intent)>,
    pub(super) conflict: &'a Conflict,
    pub(super) slot: Slot,
    pub(super) at: Time,
    pub(super) rank: Option<Rank>,
    /// What is safe from being withdrawn; `None` where nothing is withdrawn, or that is not known.
    pub(super) freeze: Option<Micros>,
}

/// A pair in the way, with all that is known of the other side.
struct Pair<'a> {
    own: &'a Claim,
    theirs: &'a Claim,
    holder: &'a Holder,
    class: Class,
}

impl Case<'_> {
    /// What is known of each that is in the way, `found` tells.
    pub(super) fn remedies<'h>(&self, found: &dyn Fn(&Blocker) -> Option<&'h Holder>) -> Vec<Remedy> {
        let mut remedies: Vec<Remedy> = self.start().into_iter().collect();
        let Some((_, intent)) = self.declared else { return remedies };
        let blockers = &self.conflict.blockers;
        // A list that is full may leave some out.
        if self.conflict.deadlock || blockers.is_empty() || blockers.len() >= BLOCKERS {
            return remedies;
        }
        let pair = |blocker: &Blocker| {
            let holder = found(blocker)?;
            let other = holder.intent.as_ref()?;
            let (own, theirs) = (intent.claims.get(blocker.claim)?, other.claims.get(blocker.their_claim)?);
            Some(Pair { own, theirs, holder, class: other.class })
        };
        if let Some(pairs) = blockers.iter().map(pair).collect::<Option<Vec<_>>>() {
            remedies.extend(self.order(intent, &pairs));
            remedies.extend(shared(&pairs));
            remedies.extend(deeper(&pairs));
        }
        remedies
    }

    fn start(&self) -> Option<Remedy> {
        let at = self.conflict.offer?;
        let Some((arrival, intent)) = self.declared else {
            return Some(Remedy::Start { at, slack: at.since(self.at), wait: None });
        };
        let (from, wait) = match intent.start {
            Start::Asap => (self.at, Some(at.since(*arrival))),
            Start::At(start) => (start, None),
        };
        Some(Remedy::Start { at, slack: at.since(from), wait })
    }

    /// What goes by class and score.
    fn order(&self, intent: &Intent, pairs: &[Pair<'_>]) -> Option<Remedy> {
        let above = pairs.iter().map(|pair| pair.class).max()?;
        let has_room = Class::new(u64::from(above.number()) + 1).is_some();
        if pairs.iter().all(|pair| pair.holder.slot == self.slot && pair.holder.rank.is_some()) {
            let scores = pairs.iter().filter_map(|pair| pair.holder.rank).filter(|rank| !rank.is_overdue);
            let scores: Vec<f64> = scores.map(|rank| rank.score).collect();
            let is_patient = self.rank.is_some_and(|rank| !rank.is_overdue);
            let is_of_one_class = pairs.iter().all(|pair| pair.class == intent.class);
            if is_patient && is_of_one_class && scores.len() == pairs.len() {
                let above = scores.into_iter().max_by(f64::total_cmp)?;
                return Some(Remedy::Score { above });
            }
            return has_room.then_some(Remedy::Class { above, by_preemption: false });
        }
        let safe_until = self.at.after(self.freeze?);
        let can_go = |pair: &Pair<'_>| pair.holder.granted.is_some_and(|(start, _)| start > safe_until);
        let by_preemption = pairs.iter().all(can_go) && has_room;
        by_preemption.then_some(Remedy::Class { above, by_preemption })
    }
}

fn shared(pairs: &[Pair<'_>]) -> Option<Remedy> {
    pairs.iter().all(|pair| pair.theirs.mode == Mode::Shared).then_some(Remedy::Shared)
}

fn deeper(pairs: &[Pair<'_>]) -> Option<Remedy> {
    let below = |pair: &Pair<'_>| match (&pair.own.target, &pair.theirs.target) {
        (Target::Path(own), Target::Path(theirs)) if own.covers(theirs) && own != theirs => {
            Some(theirs.clone())
        }
        _ => None,
    };
    let mut beside = pairs.iter().map(below).collect::<Option<Vec<_>>>()?;
    beside.sort();
    beside.dedup();
    Some(Remedy::Deeper { beside })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Agent, IntentId, IntentKey, RawClaim, RawIntent, RawMode, RawTarget, Token, Window};

    fn intent(path: &str, mode: RawMode, class: u64) -> Intent {
        let target = RawTarget::Path(path.into());
        let claim = RawClaim { target, mode, offset: 0, duration: 10 };
        RawIntent { id: 1, class, claims: vec![claim], ..RawIntent::default() }.parse().unwrap()
    }

    fn remedies(own: &Intent, theirs: Intent, granted: u64, freeze: Option<Micros>) -> Vec<Remedy> {
        let key = IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(1) };
        let window = Window::new(Time::from_us(60), Time::from_us(70)).unwrap();
        let token = Some(Token::new(1));
        let blocker = Blocker { key, token, claim: 0, their_claim: 0, window, ratio: None };
        let rank = Some(Rank { score: 0.5, is_overdue: false });
        let conflict =
            Conflict { is_final: true, deadlock: false, offer: None, blockers: vec![blocker], kept: false };
        let span = (Time::from_us(60), Time::from_us(70));
        let holder = Holder {
            slot: Slot::new(granted),
            at: Time::ZERO,
            rank,
            granted: Some(span),
            intent: Some(theirs),
        };
        let (slot, at) = (Slot::new(4), Time::from_us(50));
        Case { declared: Some(&(Time::ZERO, own.clone())), conflict: &conflict, slot, at, rank, freeze }
            .remedies(&|_| Some(&holder))
    }

    #[test]
    fn a_remedy_is_told_where_it_follows_and_only_there() {
        let own = intent("a/b", RawMode::Exclusive, 0);
        let other = |path, mode, class| intent(path, mode, class);
        let (alone, shared) = (RawMode::Exclusive, RawMode::Shared);
        assert_eq!(remedies(&own, other("a/b", alone, 0), 3, None), []);
        assert_eq!(remedies(&own, other("a/b", alone, 0), 4, None), [Remedy::Score { above: 0.5 }]);
        let class = |by_preemption, above| Remedy::Class { above: Class::new(above).unwrap(), by_preemption };
        assert_eq!(remedies(&own, other("a/b", alone, 2), 4, None), [class(false, 2)]);
        let freeze = |us| Some(Micros::from_us(us));
        assert_eq!(remedies(&own, other("a/b", alone, 2), 3, freeze(9)), [class(true, 2)]);
        assert_eq!(remedies(&own, other("a/b", alone, 2), 3, freeze(10)), []);
        assert_eq!(remedies(&own, other("a/b", alone, 7), 3, freeze(9)), []);
        assert_eq!(remedies(&own, other("a/b", shared, 0), 3, None), [Remedy::Shared]);
        let beside = vec![Path::new("a/b/c").unwrap()];
        assert_eq!(remedies(&own, other("a/b/c", alone, 0), 3, None), [Remedy::Deeper { beside }]);
        assert_eq!(remedies(&own, other("a", alone, 0), 3, None), []);
    }
}
