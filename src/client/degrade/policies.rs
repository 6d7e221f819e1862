//! Which policy applies to an intent, and the last plan of each resource.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{Choice, Degrade, LastPlan};
use crate::client::grant::Standing;
use crate::client::shared::Shared;
use crate::client::{Intent, Lost};
use crate::types::{IntentId, Path, RawTarget};

/// The path that a policy is for; `None` for all that no other one is for.
type Resource = Option<Path>;

/// The policies of a client. What is remembered is one plan for each of them that keeps to it.
#[derive(Debug, Default)]
pub(in crate::client) struct Policies {
    otherwise: Degrade,
    by_path: BTreeMap<Path, Degrade>,
    plans: Mutex<BTreeMap<Resource, Plan>>,
}

/// The last grant on a resource, which goes on being followed as it is renewed, moved and lost.
#[derive(Debug)]
struct Plan {
    intent: Intent,
    id: IntentId,
    standing: watch::Receiver<Standing>,
}

/// An intent that, once granted, is the last plan of these resources.
#[derive(Debug)]
pub(in crate::client) struct Candidate {
    intent: Intent,
    resources: Vec<Resource>,
}

/// The policy that applies to an intent.
#[derive(Debug)]
pub(super) struct Applied<'a> {
    pub(super) resource: Resource,
    pub(super) policy: &'a Degrade,
}

impl Policies {
    pub(in crate::client) fn new(otherwise: Degrade, by_path: BTreeMap<Path, Degrade>) -> Self {
        Policies { otherwise, by_path, plans: Mutex::default() }
    }

    /// The most careful of the policies of its claims; of equally careful ones that of the first claim.
    pub(super) fn of(&self, intent: &Intent) -> Applied<'_> {
        let mut applied = intent.raw.claims.iter().map(|claim| self.on(&claim.target));
        let first = applied.next().unwrap_or(Applied { resource: None, policy: &self.otherwise });
        applied.fold(
            first,
            |best, next| {
                if next.policy.choice.care() > best.policy.choice.care() { next } else { best }
            },
        )
    }

    /// The policy of the longest prefix of the target's path; a region is at its frame.
    fn on(&self, target: &RawTarget) -> Applied<'_> {
        let (RawTarget::Path(path)
        | RawTarget::Box { frame: path, .. }
        | RawTarget::Polygon { frame: path, .. }) = target;
        let found = Path::new(path)
            .and_then(|path| path.lineage().rev().find_map(|prefix| self.by_path.get_key_value(prefix)));
        match found {
            Some((resource, policy)) => Applied { resource: Some(resource.clone()), policy },
            None => Applied { resource: None, policy: &self.otherwise },
        }
    }

    /// Whether `intent` is worth remembering should it be granted.
    pub(in crate::client) fn candidate(&self, intent: &Intent) -> Option<Candidate> {
        let claims = intent.raw.claims.iter().map(|claim| self.on(&claim.target));
        let kept = claims.filter(|applied| matches!(applied.policy.choice, Choice::Keep));
        let resources: Vec<Resource> = kept.map(|applied| applied.resource).collect();
        (!resources.is_empty()).then(|| Candidate { intent: intent.clone(), resources })
    }

    /// It was granted.
    pub(in crate::client) fn granted(
        &self,
        candidate: Option<Candidate>,
        id: IntentId,
        standing: &watch::Receiver<Standing>,
    ) {
        let Some(Candidate { intent, resources }) = candidate else { return };
        let mut plans = self.plans();
        for resource in resources {
            let plan = Plan { intent: intent.clone(), id, standing: standing.clone() };
            plans.insert(resource, plan);
        }
    }

    /// The plan to keep to; `None` where there is none, or it was taken away.
    pub(super) fn last_plan(&self, resource: &Resource, shared: &Shared) -> Option<LastPlan> {
        let (intent, id, Standing { live, gone }) = {
            let plans = self.plans();
            let plan = plans.get(resource)?;
            (plan.intent.clone(), plan.id, plan.standing.borrow().clone())
        };
        let may_be_kept = match gone {
            // It is in force, it has run out, or the agent itself was through with it.
            None
            | Some(
                Lost::Ended
                | Lost::Unreachable
                | Lost::NotRenewed { .. }
                | Lost::Expired
                | Lost::Released { reason: None },
            ) => true,
            Some(_) => false,
        };
        let until = shared.until(&live);
        may_be_kept.then_some(LastPlan { intent, id, start: live.start, end: live.end, until })
    }

    // A panic under the lock would leave whole plans.
    fn plans(&self) -> MutexGuard<'_, BTreeMap<Resource, Plan>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{path, secs};

    fn policies() -> Policies {
        let place = |text| Path::new(text).unwrap();
        let by_path = BTreeMap::from([
            (place("fleet"), Degrade::fall_back(|_| ()).after(1)),
            (place("fleet/3"), Degrade::keep_last_plan().after(2)),
            (place("fleet/3/arm"), Degrade::stop().after(3)),
            (place("map/junction"), Degrade::keep_last_plan().after(4)),
        ]);
        Policies::new(Degrade::stop().after(9), by_path)
    }

    /// The policy that applies, by the number that it has.
    fn applied(claims: &[&str]) -> u32 {
        let claim = |intent: Intent, at: &&str| intent.claim(path(at).unwrap().exclusive(), secs(1));
        policies().of(&claims.iter().fold(Intent::asap(), claim)).policy.bounds.after
    }

    #[test]
    fn the_longest_prefix_decides_by_segments_and_what_has_none_stops() {
        for (at, after) in [("fleet", 1), ("fleet/7/arm", 1), ("fleet/3", 2), ("fleet/3/leg", 2)] {
            assert_eq!(applied(&[at]), after, "{at}");
        }
        for (at, after) in
            [("fleet/3/arm", 3), ("fleet/3/arm/x", 3), ("fleet/33", 1), ("fleets", 9), ("map", 9)]
        {
            assert_eq!(applied(&[at]), after, "{at}");
        }
        assert_eq!(applied(&[]), 9);
    }

    #[test]
    fn of_several_claims_the_most_careful_policy_applies_and_of_equal_ones_the_first() {
        assert_eq!(applied(&["fleet/1", "fleet/3"]), 2, "keep before fall back");
        assert_eq!(applied(&["fleet/3", "fleet/3/arm"]), 3, "stop before keep");
        assert_eq!(applied(&["fleet/1", "fleet/3", "elsewhere"]), 9);
        assert_eq!(applied(&["elsewhere", "fleet/3/arm"]), 9);
        assert_eq!(applied(&["fleet/3/arm", "elsewhere"]), 3);
        assert_eq!(applied(&["map/junction", "fleet/3"]), 4);
    }

    #[test]
    fn a_region_is_at_its_frame() {
        let area = path("map/junction").unwrap().area([0.0, 0.0], [1.0, 1.0]).exclusive();
        assert_eq!(policies().of(&Intent::asap().claim(area, secs(1))).policy.bounds.after, 4);
    }

    #[test]
    fn only_what_somebody_keeps_to_is_remembered() {
        let on = |at| Intent::asap().claim(path(at).unwrap().exclusive(), secs(1));
        assert!(policies().candidate(&on("fleet/1")).is_none());
        assert!(policies().candidate(&on("elsewhere")).is_none());
        let both = on("fleet/3/leg").claim(path("map/junction").unwrap().shared(), secs(1));
        assert_eq!(policies().candidate(&both).unwrap().resources.len(), 2);
    }
}
