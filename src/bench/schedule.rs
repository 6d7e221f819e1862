//! Which declaration is due when, and what it asks for. Pure: the same plan and seed declare the same.

use super::{Grid, Plan};
use crate::types::{Micros, RawClaim, RawIntent, RawMode, RawTarget, Time};

/// Paths that all agents contend for: some, so that conflicts meet different holders.
const HOT_PATHS: u64 = 4;
/// How long a grant on one of them lasts. At a hundred declarations a second on them, all but a few
/// hundredths come while one lasts, and are conflicts.
const HOT_FOR: Micros = Micros::from_secs(1);
/// An agent takes up a path of its own again only after so long: by then no grant of it is left, even
/// where slots run late.
const OWN_AGAIN_AFTER_S: f64 = 0.5;

/// One declaration that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When.
    pub(super) at: Time,
    /// Whose.
    pub(super) agent: usize,
    /// The agent's count of it.
    pub(super) count: u64,
}

/// When each agent declares. All have one period and a phase of their own, spread over it evenly with
/// some jitter, so that slots are filled evenly but not all alike; in bursts all declare as a slot opens.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    start: Time,
    period_us: f64,
    /// In periods, rising.
    phases: Vec<f64>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, grid: Grid, start: Time) -> Self {
        if plan.burst {
            return Schedule::of_bursts(plan, grid, start);
        }
        let agents = plan.agents as f64;
        let phase =
            |agent: usize| (agent as f64 + fraction(draw(plan.seed, agent as u64, u64::MAX))) / agents;
        Schedule { start, period_us: 1e6 / plan.rate, phases: (0..plan.agents).map(phase).collect() }
    }

    /// From the first boundary after `start` on, and again after whole slots.
    fn of_bursts(plan: &Plan, grid: Grid, start: Time) -> Self {
        let slot = grid.length.as_us() as f64;
        let slots = (1e6 / plan.rate / slot).round().max(1.0);
        let (start, period_us) = (grid.boundary_after(start), slots * slot);
        Schedule { start, period_us, phases: vec![0.0; plan.agents] }
    }

    /// Everything that is due, in order, without end.
    pub(super) fn dues(&self) -> impl Iterator<Item = Due> + '_ {
        (0..).flat_map(move |count: u64| {
            self.phases.iter().enumerate().map(move |(agent, phase)| {
                let after = (count as f64 + phase) * self.period_us;
                Due { at: self.start.after(Micros::from_us(after as u64)), agent, count }
            })
        })
    }
}

/// What declarations ask for.
#[derive(Clone, Debug)]
pub(super) struct Asks {
    seed: u64,
    conflict: f64,
    /// First segments of every path, so that two benches on one coordinator do not meet.
    prefix: String,
    own_paths: u64,
    own_for: Micros,
}

impl Asks {
    pub(super) fn new(plan: &Plan, prefix: String, slot: Micros) -> Self {
        let own_for = slot;
        let busy = OWN_AGAIN_AFTER_S + 3.0 * slot.to_std().as_secs_f64();
        let own_paths = (plan.rate * busy).ceil() as u64 + 1;
        Asks { seed: plan.seed, conflict: plan.conflict, prefix, own_paths, own_for }
    }

    /// The intent, asap and without slack or wait, so that its first decision is final.
    pub(super) fn intent(&self, due: &Due, id: u64) -> RawIntent {
        let drawn = draw(self.seed, due.agent as u64, due.count);
        let (path, duration) = if fraction(drawn) < self.conflict {
            (format!("{}/hot/{}", self.prefix, drawn % HOT_PATHS), HOT_FOR)
        } else {
            (format!("{}/own/{}/{}", self.prefix, due.agent, due.count % self.own_paths), self.own_for)
        };
        let claim = RawClaim {
            target: RawTarget::Path(path),
            mode: RawMode::Exclusive,
            offset: 0,
            duration: duration.as_us(),
        };
        RawIntent { id, claims: vec![claim], ..RawIntent::default() }
    }
}

/// A number that looks random, the same for the same three: splitmix64's finish over their mix.
fn draw(seed: u64, agent: u64, count: u64) -> u64 {
    let mut mixed =
        seed ^ agent.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ count.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for multiplier in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(multiplier);
        mixed ^= mixed >> 27;
    }
    mixed ^ (mixed >> 31)
}

/// In `[0, 1)`, from the upper 53 bits.
fn fraction(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(plan: &Plan) -> Schedule {
        Schedule::new(plan, Grid { length: plan.slot, ahead_us: 0 }, Time::from_us(1_000_001))
    }

    #[test]
    fn in_a_burst_all_are_due_as_a_slot_opens() {
        let plan = Plan { agents: 3, rate: 30.0, burst: true, ..Plan::default() };
        let dues: Vec<Due> = schedule(&plan).dues().take(6).collect();
        let at: Vec<u64> = dues.iter().map(|due| due.at.as_us()).collect();
        assert_eq!(at, [1_010_000, 1_010_000, 1_010_000, 1_040_000, 1_040_000, 1_040_000]);
        assert_eq!(dues.iter().map(|due| due.agent).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        let often = Plan { agents: 1, rate: 1_000.0, burst: true, ..Plan::default() };
        let at: Vec<u64> = schedule(&often).dues().take(2).map(|due| due.at.as_us()).collect();
        assert_eq!(at[1] - at[0], 10_000, "no more than one a slot");
    }

    #[test]
    fn each_agent_is_due_once_a_period_and_all_in_order() {
        let plan = Plan { agents: 7, rate: 10.0, ..Plan::default() };
        let dues: Vec<Due> = schedule(&plan).dues().take(70).collect();
        assert!(dues.is_sorted_by_key(|due| due.at));
        for agent in 0..7 {
            let own: Vec<u64> =
                dues.iter().filter(|due| due.agent == agent).map(|due| due.at.as_us()).collect();
            assert_eq!(own.len(), 10);
            assert!(own.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(100_000) <= 1), "{own:?}");
        }
    }

    #[test]
    fn the_same_seed_declares_the_same_and_another_does_not() {
        let made = |seed| schedule(&Plan { seed, ..Plan::default() }).dues().take(200).collect::<Vec<_>>();
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn the_share_that_conflicts_is_on_hot_paths() {
        let plan = Plan { conflict: 0.1, ..Plan::default() };
        let asks = Asks::new(&plan, "bench".into(), plan.slot);
        let is_hot = |due: &Due| {
            let claims = asks.intent(due, 1).claims;
            matches!(&claims[0].target, RawTarget::Path(path) if path.starts_with("bench/hot/"))
        };
        let hot = schedule(&plan).dues().take(10_000).filter(is_hot).count();
        assert!((900..1_100).contains(&hot), "{hot} of 10000");
    }

    #[test]
    fn an_agent_takes_up_no_path_of_its_own_while_its_grant_may_last() {
        let plan = Plan { agents: 1, rate: 1_000.0, conflict: 0.0, ..Plan::default() };
        let asks = Asks::new(&plan, "bench".into(), plan.slot);
        let targets: Vec<RawTarget> = schedule(&plan)
            .dues()
            .take(500)
            .flat_map(|due| asks.intent(&due, 1).claims)
            .map(|claim| claim.target)
            .collect();
        let repeats = (1..targets.len()).filter(|at| targets[..*at].contains(&targets[*at])).count();
        assert_eq!(repeats, 0, "half a second of declarations, each on another path");
    }
}
