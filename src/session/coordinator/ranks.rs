//! How firmly what an agent asks for holds its place in a full slot.

use super::Sessions;
use super::intents::Route;
use crate::resolver::AgentOp;
use crate::slot::Rank;
use crate::space::geometry;
use crate::types::{Agent, Claim, Class, Intent, Micros, Mode, Start, Target, Time};

impl Sessions {
    /// What asks for something ranks by its class. What keeps up or gives back what the name has stands above
    /// all of that. A release or renewal of what it does not have is of the lowest class, so that nobody is pushed
    /// out by asking for nothing.
    pub(super) fn rank(&self, agent: &Agent, op: &AgentOp) -> Rank {
        match op {
            AgentOp::Declare(intent) => Rank::Class(intent.class),
            AgentOp::Revise(intent) => {
                let route = self.intents.route(agent, intent.id);
                let gives_back = route.is_some_and(|route| gives_back(route, intent));
                if gives_back { Rank::Upkeep } else { Rank::Class(intent.class) }
            }
            AgentOp::Release { id } | AgentOp::Renew { id, .. } => match self.intents.route(agent, *id) {
                Some(_) => Rank::Upkeep,
                None => Rank::Class(Class::default()),
            },
            AgentOp::Invalid { .. } => Rank::Class(Class::default()),
        }
    }
}

/// Whether a revision of what is in force asks for nothing that its grant cannot hold already, as far as it can be
/// told without the grant's windows and the rules: whether it does is the core's to say. It ends no later,
/// and each claim, in order, lies within the next old one that it can be a part of.
pub(super) fn gives_back(route: &Route, intent: &Intent) -> bool {
    let (Some(end), Start::At(start)) = (route.end(), intent.start) else { return false };
    let mut old = route.claims.iter();
    intent.slack == Micros::ZERO
        && last_end(start, &intent.claims) <= end
        && intent.claims.iter().all(|claim| old.any(|old| may_be_part(old, claim)))
}

fn last_end(start: Time, claims: &[Claim]) -> Time {
    claims.iter().map(|claim| claim.window(start).end()).max().unwrap_or(start)
}

/// Whether `new` takes no more of what `old` takes, for no longer.
pub(super) fn may_be_part(old: &Claim, new: &Claim) -> bool {
    let is_weaker = match (old.mode, new.mode) {
        (Mode::Exclusive, Mode::Exclusive | Mode::Shared) | (Mode::Shared, Mode::Shared) => true,
        (Mode::Units(old), Mode::Units(new)) => new <= old,
        _ => false,
    };
    let is_within = || match (&old.target, &new.target) {
        (Target::Path(old), Target::Path(new)) => old.covers(new),
        (Target::Region(old), Target::Region(new)) => {
            old.frame == new.frame && geometry::contains(&old.shape, &new.shape)
        }
        _ => false,
    };
    is_weaker && new.duration <= old.duration && is_within()
}
