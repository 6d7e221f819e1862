//! Which paths intents find no place on, who is in whose way there, for how long such paths are held, and
//! what becomes of the offers that agents are told: bounded, whatever agents name.

use std::cmp::Reverse;
use std::hash::Hash;

use super::holds::Holds;
use crate::limits;
use crate::resolver::GrantView;
use crate::types::{Agent, FixedMap, IntentKey, Micros, Path, Time, Token};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Contention {
    paths: Ranking<Path, OnPath>,
    /// Who asked, and who was in the way.
    pairs: Ranking<(Agent, Agent), OfPair>,
    /// When conflicts were last made to count half as much: at each whole multiple.
    halved: Time,
    /// Grants of contended paths, whose ends will say how long they were held.
    followed: FixedMap<IntentKey, Followed>,
    /// The offer that an agent was told last, where nothing has come of it.
    offers: FixedMap<Agent, Time>,
}

/// How contended something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heat<T> {
    /// Intents that found no place, halved every [`limits::CONTENDED_HALVES`].
    pub(super) conflicts: u64,
    /// When the last one was.
    pub(super) last: Time,
    /// What else is known of them.
    pub(super) of: T,
}

/// What is known of the conflicts on a path. The counts are halved like those of the conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OnPath {
    /// The grant that was in the way last, where one was.
    pub(super) holder: Option<Token>,
    /// Conflicts in which both claimed alone.
    pub(super) exclusive: u64,
    /// Conflicts in which the asker named something below the path.
    pub(super) below: u64,
    /// Conflicts in which the asker named something that the path is only a part of.
    pub(super) above: u64,
    /// What the last one of these named.
    pub(super) named: Option<Path>,
    /// For how long it was held, where that was seen.
    pub(super) holds: Option<Box<Holds>>,
}

/// What is known of the conflicts of a pair of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfPair {
    /// Where the last one was.
    pub(super) path: Path,
}

/// A conflict.
#[derive(Debug)]
pub(super) struct Clash<'a> {
    pub(super) at: Time,
    /// Who found no place.
    pub(super) asker: &'a Agent,
    /// Whose claim was in the way, where one was.
    pub(super) holder: Option<&'a Agent>,
    /// The grant of that claim; `None` for a place that is only held.
    pub(super) token: Option<Token>,
    /// What is claimed there; where that has gone, what the asker named.
    pub(super) path: &'a Path,
    /// What the asker named, where it is known.
    pub(super) asked: Option<&'a Path>,
    /// Whether both claimed alone.
    pub(super) is_exclusive: bool,
}

/// A grant while its end is waited for.
#[derive(Debug)]
struct Followed {
    path: Path,
    since: Time,
    /// When it ends unless it is released; `None` for a lease, whose end is told.
    until: Option<Time>,
    stated: Micros,
}

impl Default for Contention {
    fn default() -> Self {
        Contention {
            paths: Ranking::new(limits::CONTENDED_PATHS),
            pairs: Ranking::new(limits::CONTENDED_PAIRS),
            halved: Time::ZERO,
            followed: FixedMap::default(),
            offers: FixedMap::default(),
        }
    }
}

impl Contention {
    /// An intent found no place.
    pub(super) fn note(&mut self, clash: &Clash<'_>) {
        self.cool(clash.at);
        let on_path = self.paths.count(clash.path, clash.at, OnPath::default);
        on_path.note(clash);
        if let Some(holder) = clash.holder {
            let pair = (clash.asker.clone(), holder.clone());
            self.pairs.count(&pair, clash.at, || OfPair { path: clash.path.clone() }).path =
                clash.path.clone();
        }
    }

    /// The most contended paths, the most first.
    pub(super) fn most(&mut self, count: usize, now: Time) -> Vec<(Path, Heat<OnPath>)> {
        self.cool(now);
        self.settle(now);
        self.paths.most(count)
    }

    /// The agents who were in each other's way most, the most first: who asked, and who was in the way.
    pub(super) fn pairs(&mut self, count: usize, now: Time) -> Vec<((Agent, Agent), Heat<OfPair>)> {
        self.cool(now);
        self.pairs.most(count)
    }

    /// What happened long ago counts less and less, and then not at all.
    fn cool(&mut self, now: Time) {
        let half = limits::CONTENDED_HALVES.as_us();
        let halves = now.since(self.halved).as_us() / half;
        if halves == 0 {
            return;
        }
        self.halved = self.halved.after(Micros::from_us(halves.saturating_mul(half)));
        let halves = u32::try_from(halves).unwrap_or(u32::MAX);
        self.paths.cool(halves, |of| of.cool(halves));
        self.pairs.cool(halves, |_| {});
    }

    /// Whether nothing is contended, so that nobody's holds are of interest.
    pub(super) fn is_calm(&self) -> bool {
        self.paths.entries.is_empty()
    }

    /// Waits for the end of a grant, where it is of a contended path. The first of some claims counts.
    pub(super) fn follow(&mut self, grant: &GrantView<'_>) {
        let claims = grant.intent.claims.iter().take(limits::HOLD_CLAIMS);
        let mut paths = claims.map(|claim| claim.target.path());
        let Some(path) = paths.find(|path| self.paths.entries.contains_key(*path)) else { return };
        if self.followed.len() >= limits::HOLDS_FOLLOWED {
            self.settle(grant.granted_at);
            self.followed.clear();
        }
        let followed = Followed {
            path: path.clone(),
            since: grant.start.max(grant.granted_at),
            until: (!grant.intent.hold).then_some(grant.end),
            stated: super::holds::stated(grant.intent),
        };
        self.followed.insert(grant.key.clone(), followed);
    }

    /// The grant of `key` has ended, at `at`.
    pub(super) fn ended(&mut self, key: &IntentKey, at: Time) {
        if let Some(followed) = self.followed.remove(key) {
            let at = followed.until.map_or(at, |until| until.min(at));
            held(&mut self.paths, &followed, at);
        }
    }

    /// The grant of `key` was taken away before it began: that says nothing about how long it is held.
    pub(super) fn forget(&mut self, key: &IntentKey) {
        self.followed.remove(key);
    }

    /// Grants that just run out tell nobody: what has done so by `now` is seen here.
    fn settle(&mut self, now: Time) {
        let Contention { followed, paths, .. } = self;
        followed.retain(|_, followed| match followed.until.filter(|until| *until <= now) {
            Some(until) => {
                held(paths, followed, until);
                false
            }
            None => true,
        });
    }

    /// `agent` was told that it may have another start.
    pub(super) fn offered(&mut self, agent: &Agent, offer: Option<Time>) {
        let Some(offer) = offer else { return };
        if self.offers.len() >= limits::OFFERS_FOLLOWED {
            self.offers.clear();
        }
        self.offers.insert(agent.clone(), offer);
    }

    /// Whether `agent` asks for what it was offered last, which is settled then.
    pub(super) fn was_offered(&mut self, agent: &Agent, start: Time) -> bool {
        let is_that = !self.offers.is_empty() && self.offers.get(agent) == Some(&start);
        if is_that {
            self.offers.remove(agent);
        }
        is_that
    }
}

/// What was followed has ended at `at`. What never began was not held.
fn held(paths: &mut Ranking<Path, OnPath>, followed: &Followed, at: Time) {
    if at <= followed.since {
        return;
    }
    if let Some(heat) = paths.entries.get_mut(&followed.path) {
        heat.of.holds.get_or_insert_default().note(at.since(followed.since), followed.stated);
    }
}

impl OnPath {
    fn note(&mut self, clash: &Clash<'_>) {
        self.holder = clash.token;
        self.exclusive = self.exclusive.saturating_add(clash.is_exclusive.into());
        let Some(asked) = clash.asked.filter(|asked| *asked != clash.path) else { return };
        let count = if clash.path.covers(asked) {
            &mut self.below
        } else if asked.covers(clash.path) {
            &mut self.above
        } else {
            return;
        };
        *count = count.saturating_add(1);
        self.named = Some(asked.clone());
    }

    fn cool(&mut self, halves: u32) {
        for count in [&mut self.exclusive, &mut self.below, &mut self.above] {
            *count = count.checked_shr(halves).unwrap_or(0);
        }
        if let Some(holds) = &mut self.holds {
            holds.cool(halves);
        }
    }
}

/// What is contended, by `K`, for a bounded number of them.
#[derive(Debug)]
struct Ranking<K, T> {
    entries: FixedMap<K, Heat<T>>,
    limit: usize,
}

impl<K: Clone + Eq + Hash, T: Clone> Ranking<K, T> {
    fn new(limit: usize) -> Self {
        Ranking { entries: FixedMap::default(), limit }
    }

    /// Counts a conflict at `at`, and hands out what else is known of `key`.
    fn count(&mut self, key: &K, at: Time, make: impl FnOnce() -> T) -> &mut T {
        if self.entries.len() >= self.limit && !self.entries.contains_key(key) {
            self.thin();
        }
        let new = || Heat { conflicts: 0, last: at, of: make() };
        let heat = self.entries.entry(key.clone()).or_insert_with(new);
        heat.conflicts = heat.conflicts.saturating_add(1);
        heat.last = at;
        &mut heat.of
    }

    fn most(&self, count: usize) -> Vec<(K, Heat<T>)> {
        let rank = |it: &(&K, &Heat<T>)| (Reverse(it.1.conflicts), Reverse(it.1.last));
        let mut all: Vec<(&K, &Heat<T>)> = self.entries.iter().collect();
        if count < all.len() {
            // The slot loop may be waiting: no more is put in order than is shown.
            all.select_nth_unstable_by_key(count, rank);
            all.truncate(count);
        }
        all.sort_unstable_by_key(rank);
        all.into_iter().map(|(key, heat)| (key.clone(), heat.clone())).collect()
    }

    fn cool(&mut self, halves: u32, mut also: impl FnMut(&mut T)) {
        self.entries.retain(|_, heat| {
            heat.conflicts = heat.conflicts.checked_shr(halves).unwrap_or(0);
            also(&mut heat.of);
            heat.conflicts > 0
        });
    }

    /// Forgets the less contended half, so that what is forgotten has paid for its place.
    fn thin(&mut self) {
        let mut all: Vec<(u64, Time)> =
            self.entries.values().map(|heat| (heat.conflicts, heat.last)).collect();
        let middle = all.len() / 2;
        let (_, middle, _) = all.select_nth_unstable(middle);
        let middle = *middle;
        self.entries.retain(|_, heat| (heat.conflicts, heat.last) > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(at: usize) -> Path {
        named(&format!("p/{at}"))
    }

    fn named(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn agent(name: &str) -> Agent {
        Agent::new(name).unwrap()
    }

    /// `b` finds `path` claimed by `a`.
    fn clash(contention: &mut Contention, path: &Path, at: Time, asked: &str, is_exclusive: bool) {
        let (a, b, asked) = (agent("a"), agent("b"), named(asked));
        contention.note(&Clash {
            at,
            asker: &b,
            holder: Some(&a),
            token: Some(Token::new(7)),
            path,
            asked: Some(&asked),
            is_exclusive,
        });
    }

    fn note(contention: &mut Contention, path: &Path, at: Time) {
        clash(contention, path, at, path.as_str(), true);
    }

    fn paths(contention: &mut Contention, now: Time) -> Vec<(String, u64)> {
        let most = contention.most(2, now);
        most.into_iter().map(|(path, heat)| (path.as_str().to_owned(), heat.conflicts)).collect()
    }

    #[test]
    fn what_is_contended_often_stays_whatever_comes_beside_it() {
        let mut contention = Contention::default();
        let at = |step: usize| Time::from_us(1_000 + step as u64);
        for step in 0..10 * limits::CONTENDED_PATHS {
            note(&mut contention, &path(0), at(step));
            note(&mut contention, &path(step + 1), at(step));
            assert!(contention.paths.entries.len() <= limits::CONTENDED_PATHS);
        }
        let most = contention.most(1, at(0));
        assert_eq!(most[0].0, path(0));
        assert_eq!(most[0].1.conflicts as usize, 10 * limits::CONTENDED_PATHS);
        assert_eq!(most[0].1.of.holder, Some(Token::new(7)));
    }

    #[test]
    fn pairs_of_any_number_of_agents_take_bounded_room() {
        let mut contention = Contention::default();
        let (a, at) = (agent("a"), Time::from_us(1));
        for number in 0..3 * limits::CONTENDED_PAIRS {
            for asker in ["often", &format!("once-{number}")] {
                contention.note(&Clash {
                    at,
                    asker: &agent(asker),
                    holder: Some(&a),
                    token: None,
                    path: &path(number % 7),
                    asked: None,
                    is_exclusive: false,
                });
            }
            assert!(contention.pairs.entries.len() <= limits::CONTENDED_PAIRS);
        }
        let most = contention.pairs(1, at);
        assert_eq!(most[0].0, (agent("often"), a));
        assert_eq!(most[0].1.conflicts as usize, 3 * limits::CONTENDED_PAIRS);
    }

    #[test]
    fn conflicts_count_half_as_much_after_each_minute_and_then_not_at_all() {
        let mut contention = Contention::default();
        let half = limits::CONTENDED_HALVES.as_us();
        let after = |halves: u64| Time::from_us(halves * half);
        (0..3).for_each(|_| note(&mut contention, &path(1), after(7)));
        note(&mut contention, &path(2), after(7));
        assert_eq!(paths(&mut contention, after(8).before(Micros::from_us(1))).len(), 2);
        assert_eq!(paths(&mut contention, after(8)), [("p/1".into(), 1)]);
        assert_eq!(contention.pairs(9, after(8))[0].1.conflicts, 2, "four of one pair");
        assert_eq!(contention.most(1, after(8))[0].1.of.exclusive, 1);
        assert_eq!(paths(&mut contention, after(1_000_000)), []);
        assert_eq!(contention.pairs(9, after(1_000_000)), []);
        note(&mut contention, &path(3), after(1_000_000));
        assert_eq!(paths(&mut contention, after(1_000_000)), [("p/3".into(), 1)]);
    }

    #[test]
    fn what_was_asked_for_is_told_apart_by_how_it_lies_to_what_is_held() {
        let mut contention = Contention::default();
        let (held, at) = (named("x/y"), Time::from_us(5));
        for (asked, is_exclusive) in [("x/y", true), ("x/y/z", true), ("x/y/w", false), ("x", true)] {
            clash(&mut contention, &held, at, asked, is_exclusive);
        }
        let of = contention.most(1, at).remove(0).1.of;
        assert_eq!((of.exclusive, of.below, of.above, of.named), (3, 2, 1, Some(named("x"))));
    }

    #[test]
    fn an_offer_is_settled_once_and_only_by_whom_it_was_made_to() {
        let mut contention = Contention::default();
        let [a, b] = ["a", "b"].map(agent);
        let start = Time::from_us(70);
        assert!(!contention.was_offered(&a, start));
        contention.offered(&a, Some(start));
        contention.offered(&b, None);
        assert!(!contention.was_offered(&b, start));
        assert!(!contention.was_offered(&a, Time::from_us(71)));
        assert!(contention.was_offered(&a, start));
        assert!(!contention.was_offered(&a, start));
    }

    #[test]
    fn offers_of_any_number_of_agents_take_bounded_room() {
        let mut contention = Contention::default();
        for number in 0..3 * limits::OFFERS_FOLLOWED {
            contention.offered(&agent(&format!("a{number}")), Some(Time::from_us(1)));
            assert!(contention.offers.len() <= limits::OFFERS_FOLLOWED);
        }
    }
}
