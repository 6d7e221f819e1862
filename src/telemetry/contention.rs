//! Which paths intents find no place on, and what becomes of the offers that they are told: bounded,
//! whatever agents name.

use std::cmp::Reverse;

use crate::limits;
use crate::types::{Agent, FixedMap, Micros, Path, Time, Token};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Contention {
    heat: FixedMap<Path, Heat>,
    /// When conflicts were last made to count half as much: at each whole multiple.
    halved: Time,
    /// The offer that an agent was told last, where nothing has come of it.
    offers: FixedMap<Agent, Time>,
}

/// How contended a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heat {
    /// Intents that found no place, halved every [`limits::CONTENDED_HALVES`].
    pub(super) conflicts: u64,
    /// When the last one was.
    pub(super) last: Time,
    /// The grant that was in its way, where one was.
    pub(super) holder: Option<Token>,
}

impl Contention {
    /// An intent found no place at `at` since `holder`, or a place that is held for another, has `path`.
    pub(super) fn note(&mut self, path: &Path, at: Time, holder: Option<Token>) {
        self.cool(at);
        if let Some(heat) = self.heat.get_mut(path) {
            *heat = Heat { conflicts: heat.conflicts.saturating_add(1), last: at, holder };
            return;
        }
        if self.heat.len() >= limits::CONTENDED_PATHS {
            self.thin();
        }
        self.heat.insert(path.clone(), Heat { conflicts: 1, last: at, holder });
    }

    /// The most contended paths, the most first.
    pub(super) fn most(&mut self, count: usize, now: Time) -> Vec<(Path, Heat)> {
        self.cool(now);
        let rank = |it: &(&Path, &Heat)| (Reverse(it.1.conflicts), Reverse(it.1.last));
        let mut all: Vec<(&Path, &Heat)> = self.heat.iter().collect();
        if count < all.len() {
            // The slot loop may be waiting: no more is put in order than is shown.
            all.select_nth_unstable_by_key(count, rank);
            all.truncate(count);
        }
        all.sort_unstable_by_key(rank);
        all.into_iter().map(|(path, heat)| (path.clone(), *heat)).collect()
    }

    /// What happened long ago counts less and less, and then not at all.
    fn cool(&mut self, now: Time) {
        let half = limits::CONTENDED_HALVES.as_us();
        let halves = now.since(self.halved).as_us() / half;
        if halves == 0 {
            return;
        }
        self.halved = self.halved.after(Micros::from_us(halves.saturating_mul(half)));
        let shift = u32::try_from(halves).unwrap_or(u32::MAX);
        self.heat.retain(|_, heat| {
            heat.conflicts = heat.conflicts.checked_shr(shift).unwrap_or(0);
            heat.conflicts > 0
        });
    }

    /// Forgets the less contended half, so that what is forgotten has paid for its place.
    fn thin(&mut self) {
        let mut all: Vec<(u64, Time)> = self.heat.values().map(|heat| (heat.conflicts, heat.last)).collect();
        let middle = all.len() / 2;
        let (_, middle, _) = all.select_nth_unstable(middle);
        let middle = *middle;
        self.heat.retain(|_, heat| (heat.conflicts, heat.last) > middle);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(at: usize) -> Path {
        Path::new(&format!("p/{at}")).unwrap()
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
            contention.note(&path(0), at(step), Some(Token::new(7)));
            contention.note(&path(step + 1), at(step), None);
            assert!(contention.heat.len() <= limits::CONTENDED_PATHS);
        }
        let most = contention.most(1, at(0));
        assert_eq!(most[0].0, path(0));
        assert_eq!(most[0].1.conflicts as usize, 10 * limits::CONTENDED_PATHS);
        assert_eq!(most[0].1.holder, Some(Token::new(7)));
    }

    #[test]
    fn conflicts_count_half_as_much_after_each_minute_and_then_not_at_all() {
        let mut contention = Contention::default();
        let half = limits::CONTENDED_HALVES.as_us();
        let after = |halves: u64| Time::from_us(halves * half);
        (0..3).for_each(|_| contention.note(&path(1), after(7), None));
        contention.note(&path(2), after(7), None);
        assert_eq!(paths(&mut contention, after(8).before(Micros::from_us(1))).len(), 2);
        assert_eq!(paths(&mut contention, after(8)), [("p/1".into(), 1)]);
        assert_eq!(paths(&mut contention, after(1_000_000)), []);
        contention.note(&path(3), after(1_000_000), None);
        assert_eq!(paths(&mut contention, after(1_000_000)), [("p/3".into(), 1)]);
    }

    #[test]
    fn an_offer_is_settled_once_and_only_by_whom_it_was_made_to() {
        let mut contention = Contention::default();
        let [a, b] = ["a", "b"].map(|name| Agent::new(name).unwrap());
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
            contention.offered(&Agent::new(&format!("a{number}")).unwrap(), Some(Time::from_us(1)));
            assert!(contention.offers.len() <= limits::OFFERS_FOLLOWED);
        }
    }
}
