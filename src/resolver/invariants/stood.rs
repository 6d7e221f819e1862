//! The windows of all grants, as they stand and, for the latest of those that ended, as they stood: in
//! plain sets of this check's own, by path. What has just been granted is held against them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::lives::Asked;
use super::{Breach, holds, placed};
use crate::resolver::{Resolver, SlotOutcome};
use crate::space::geometry;
use crate::types::{
    Claim, Decision, Fence, Intent, IntentKey, Micros, Mode, Path, Start, Target, Time, Token, Verdict,
    Window,
};

/// Ended grants whose windows are kept in sight: enough for the readings of a test, and a bound for a
/// coordinator that runs for years.
const ENDED_GRANTS_IN_SIGHT: usize = 1_024;

/// A grant, as it stands or stood.
#[derive(Clone, Debug)]
struct Grant {
    key: IntentKey,
    intent: Arc<Intent>,
    /// The window of each claim; of a grant that has ended, as far as it had them.
    windows: Vec<Option<Window>>,
    has_ended: bool,
}

/// Windows by start, token and claim, with their ends.
#[derive(Debug, Default)]
struct Row {
    windows: BTreeMap<(Time, Token, usize), Time>,
    /// No window in it was ever longer.
    longest: Micros,
}

impl Row {
    fn insert(&mut self, at: (Time, Token, usize), window: Window) {
        self.longest = self.longest.max(window.duration());
        self.windows.insert(at, window.end());
    }

    fn overlapping(&self, range: Window) -> impl Iterator<Item = (Token, usize)> {
        let from = (range.start().before(self.longest), Token::default(), 0);
        let near = self.windows.range(from..(range.end(), Token::default(), 0));
        near.filter(move |(_, end)| **end > range.start()).map(|((_, token, claim), _)| (*token, *claim))
    }
}

/// The windows on a path, and those below it; a region is just below its frame.
#[derive(Debug, Default)]
struct Here {
    own: Row,
    below: Row,
}

/// Windows of grants by path and time.
#[derive(Debug, Default)]
pub(super) struct Stood {
    grants: BTreeMap<Token, Grant>,
    by_key: BTreeMap<IntentKey, Token>,
    by_end: BTreeSet<(Time, IntentKey)>,
    by_path: BTreeMap<Path, Here>,
    /// Oldest first.
    ended: VecDeque<Token>,
    /// The renewed grants of the last slot, with the ends that they had before.
    renewed: Vec<(Token, Time)>,
}

/// A claim's window, somebody's.
struct Found<'a> {
    token: Token,
    grant: &'a Grant,
    claim: &'a Claim,
    window: Window,
}

impl Stood {
    /// The windows that the resolver's grants have.
    pub(super) fn of(resolver: &Resolver) -> Self {
        let mut stood = Stood::default();
        resolver.grants().for_each(|grant| stood.begin(resolver, grant.token));
        stood
    }

    /// Takes over what the slot changed: of the ids in its messages and lines, and of those that ended
    /// by time.
    pub(super) fn follow(&mut self, resolver: &Resolver, asked: &[Asked], outcome: &SlotOutcome) {
        self.renewed.clear();
        let mut keys: BTreeSet<&IntentKey> = asked.iter().map(|it| &it.key).collect();
        keys.extend(outcome.decisions.iter().map(|it| &it.key));
        let over: Vec<IntentKey> = self
            .by_end
            .iter()
            .take_while(|(end, _)| *end <= outcome.at)
            .map(|(_, key)| key.clone())
            .collect();
        keys.extend(&over);
        let opened = outcome.at.before(resolver.rules.length);
        for key in keys {
            let is_released =
                |it: &&Decision| it.key == *key && matches!(it.verdict, Verdict::Released { .. });
            // A release takes the rest of the window when it arrives, which was in this slot.
            let released = outcome.decisions.iter().any(|it| is_released(&it));
            self.follow_key(resolver, key, if released { opened } else { outcome.at });
        }
    }

    fn follow_key(&mut self, resolver: &Resolver, key: &IntentKey, ended_at: Time) {
        let now = resolver.book.record(key).and_then(|record| record.grant);
        let before = self.by_key.get(key).copied();
        if before != now {
            before.into_iter().for_each(|token| self.end(token, ended_at));
            now.into_iter().for_each(|token| self.begin(resolver, token));
            return;
        }
        let Some((token, view)) = now.and_then(|token| Some((token, resolver.grant(token)?))) else { return };
        let Some(grant) = self.grants.get(&token) else { return };
        let end = end_of(grant);
        if end != Some(view.end) {
            self.renewed.push((token, end.unwrap_or(Time::ZERO)));
            self.take_out(token);
            self.begin(resolver, token);
        }
    }

    fn begin(&mut self, resolver: &Resolver, token: Token) {
        let Some(view) = resolver.grant(token) else { return };
        let (key, intent) = (view.key.clone(), view.intent.clone());
        let windows = view.windows.iter().copied().map(Some).collect();
        self.by_key.insert(key.clone(), token);
        self.by_end.insert((view.end, key.clone()));
        self.put_in(token, Grant { key, intent, windows, has_ended: false });
    }

    /// Keeps of a grant that ended what it had of its windows until then.
    fn end(&mut self, token: Token, ended_at: Time) {
        let Some(mut grant) = self.take_out(token) else { return };
        let had = |window: Window| Window::new(window.start(), window.end().min(ended_at));
        grant.windows.iter_mut().for_each(|window| *window = window.and_then(had));
        grant.has_ended = true;
        self.put_in(token, grant);
        self.ended.push_back(token);
    }

    /// Drops the oldest of the ended grants beyond those that are kept in sight.
    pub(super) fn forget_old(&mut self) {
        while self.ended.len() > ENDED_GRANTS_IN_SIGHT {
            let oldest = self.ended.pop_front();
            oldest.and_then(|token| self.take_out(token));
        }
    }

    fn put_in(&mut self, token: Token, grant: Grant) {
        for (at, (claim, window)) in grant.intent.claims.iter().zip(&grant.windows).enumerate() {
            let Some(window) = *window else { continue };
            self.for_each_row(&claim.target, |row| row.insert((window.start(), token, at), window));
        }
        self.grants.insert(token, grant);
    }

    fn take_out(&mut self, token: Token) -> Option<Grant> {
        let grant = self.grants.remove(&token)?;
        for (at, (claim, window)) in grant.intent.claims.iter().zip(&grant.windows).enumerate() {
            let Some(window) = *window else { continue };
            self.for_each_row(&claim.target, |row| _ = row.windows.remove(&(window.start(), token, at)));
            self.drop_empty(claim.target.path());
        }
        if !grant.has_ended {
            self.by_key.remove(&grant.key);
            end_of(&grant).map(|end| self.by_end.remove(&(end, grant.key.clone())));
        }
        Some(grant)
    }

    fn for_each_row(&mut self, target: &Target, mut f: impl FnMut(&mut Row)) {
        let is_region = matches!(target, Target::Region(_));
        let mut at = Some(target.path().clone());
        let mut is_leaf = true;
        while let Some(path) = at {
            at = path.parent();
            let here = self.by_path.entry(path).or_default();
            f(if is_leaf && !is_region { &mut here.own } else { &mut here.below });
            is_leaf = false;
        }
    }

    fn drop_empty(&mut self, path: &Path) {
        for text in path.lineage() {
            let is_empty = |here: &Here| here.own.windows.is_empty() && here.below.windows.is_empty();
            if self.by_path.get(text).is_some_and(is_empty) {
                self.by_path.remove(text);
            }
        }
    }
}

/// The latest end of its windows.
fn end_of(grant: &Grant) -> Option<Time> {
    grant.windows.iter().flatten().map(|window| window.end()).max()
}

impl Stood {
    /// The windows in `range` on related targets, shapes looked at, of grants that stand and that stood.
    fn related<'a>(&'a self, resolver: &'a Resolver, target: &'a Target, range: Window) -> Vec<Found<'a>> {
        let mut found: Vec<(Token, usize)> = Vec::new();
        for text in target.path().lineage() {
            found.extend(self.by_path.get(text).into_iter().flat_map(|here| here.own.overlapping(range)));
        }
        let here = self.by_path.get(target.path());
        found.extend(here.into_iter().flat_map(|here| here.below.overlapping(range)));
        let found = found.into_iter().filter_map(|(token, at)| self.found(token, at));
        found.filter(|it| can_meet(resolver, target, &it.claim.target)).collect()
    }

    fn found(&self, token: Token, at: usize) -> Option<Found<'_>> {
        let grant = self.grants.get(&token)?;
        let window = (*grant.windows.get(at)?)?;
        Some(Found { token, grant, claim: grant.intent.claims.get(at)?, window })
    }

    /// What was placed in this slot conflicts with nothing, exceeds nothing, rests on no reading that
    /// somebody has written over, and has the higher fence.
    pub(super) fn new_grants_fit(
        &self,
        resolver: &Resolver,
        outcome: &SlotOutcome,
        first_token: Token,
    ) -> Result<(), Breach> {
        for (line, token) in placed(outcome) {
            holds(token >= first_token, "a placed grant has a token of its own", line)?;
            let Some(grant) = self.grants.get(&token).filter(|grant| !grant.has_ended) else { continue };
            for (at, window) in grant.windows.iter().enumerate() {
                let Some(window) = *window else { continue };
                self.claim_fits(resolver, grant, at, window)?;
                self.units_fit(resolver, &grant.intent.claims[at], window)?;
                self.fence_is_higher(resolver, token, at, window, outcome.at)?;
            }
            self.nobody_wrote(resolver, token, grant)?;
            let start = resolver.grant(token).map_or(Time::ZERO, |view| view.start);
            let is_in_time = match grant.intent.start {
                Start::At(at) => at <= start && start <= at.after(grant.intent.slack),
                Start::Asap => true,
            };
            let earliest = outcome.at.after(resolver.rules.min_lead);
            holds(is_in_time && earliest <= start, "it starts when it may", line)?;
        }
        Ok(())
    }

    /// The windows that were renewed in this slot conflict with nothing; nor do their units in the part
    /// that was added, unless a capacity was set in the slot as well.
    pub(super) fn renewals_fit(
        &self,
        resolver: &Resolver,
        outcome: &SlotOutcome,
        sets_capacity: bool,
    ) -> Result<(), Breach> {
        for (token, before) in &self.renewed {
            let Some(grant) = self.grants.get(token) else { continue };
            let end = end_of(grant);
            let longer = grant.windows.iter().enumerate().filter_map(|(at, window)| Some((at, (*window)?)));
            for (at, window) in longer.filter(|(_, window)| Some(window.end()) == end) {
                self.claim_fits(resolver, grant, at, window)?;
                let added = Window::new(window.start().max(*before), window.end());
                if let Some(added) = added.filter(|_| !sets_capacity) {
                    self.units_fit(resolver, &grant.intent.claims[at], added)?;
                }
            }
            let is_told = |it: &Decision| {
                it.key == grant.key
                    && matches!(it.verdict, Verdict::Renewed { end: told } if Some(told) == end)
            };
            holds(outcome.decisions.iter().any(is_told), "no window is longer than told", &grant.key)?;
        }
        Ok(())
    }

    fn claim_fits(
        &self,
        resolver: &Resolver,
        grant: &Grant,
        at: usize,
        window: Window,
    ) -> Result<(), Breach> {
        let mine = &grant.intent.claims[at];
        let related = self.related(resolver, &mine.target, window);
        for other in related.iter().filter(|it| !it.grant.has_ended && it.grant.key != grant.key) {
            let is_fine = match (mine.mode, other.claim.mode) {
                (Mode::Shared, Mode::Shared) | (Mode::Units(_), Mode::Units(_)) => true,
                _ => {
                    let shared =
                        window.end().min(other.window.end()).since(window.start().max(other.window.start()));
                    shared <= tolerance(resolver, mine, other.claim)
                }
            };
            holds(
                is_fine,
                "no two incompatible grants overlap",
                (&grant.key, at, &other.grant.key, other.token),
            )?;
        }
        Ok(())
    }

    /// The sum of units is looked at wherever it rises within the window.
    fn units_fit(&self, resolver: &Resolver, claim: &Claim, window: Window) -> Result<(), Breach> {
        if !matches!(claim.mode, Mode::Units(_)) {
            return Ok(());
        }
        for (pool, capacity) in resolver.settings.pools(claim.target.path()) {
            let Some(here) = self.by_path.get(pool) else { continue };
            let near = here.own.overlapping(window).chain(here.below.overlapping(window));
            let uses = near.filter_map(|(token, at)| self.found(token, at)).filter(|it| !it.grant.has_ended);
            let uses: Vec<(Window, u64)> =
                uses.filter_map(|it| Some((it.window, units_of(it.claim)?))).collect();
            let rises = uses.iter().map(|(used, _)| used.start().max(window.start()));
            for instant in rises {
                let used = uses.iter().filter(|(used, _)| used.start() <= instant && instant < used.end());
                let sum: u128 = used.map(|(_, units)| u128::from(*units)).sum();
                holds(
                    sum <= u128::from(capacity),
                    "units used are within capacity",
                    (pool, instant, sum, capacity),
                )?;
            }
        }
        Ok(())
    }

    /// Of two exclusive windows on related targets, the one that ends later has the higher fence; and
    /// what begins after this has a higher fence than all that had begun.
    fn fence_is_higher(
        &self,
        resolver: &Resolver,
        token: Token,
        at: usize,
        window: Window,
        now: Time,
    ) -> Result<(), Breach> {
        let Some(mine) = self.found(token, at).filter(|mine| mine.claim.mode == Mode::Exclusive) else {
            return Ok(());
        };
        let fence = Fence { start: window.start(), token };
        let near = Window::new(window.start(), window.end().max(now)).unwrap_or(window);
        for other in self.related(resolver, &mine.claim.target, near) {
            let twice = tolerance(resolver, mine.claim, other.claim).as_us().saturating_mul(2);
            // A bound that was raised while one waited may leave it within what others tolerate.
            let is_short = mine.claim.duration.as_us() <= twice || other.claim.duration.as_us() <= twice;
            if other.claim.mode != Mode::Exclusive || other.grant.key == mine.grant.key || is_short {
                continue;
            }
            let theirs = Fence { start: other.window.start(), token: other.token };
            let is_before = if other.grant.has_ended { true } else { other.window.end() < window.end() };
            holds((theirs < fence) == is_before, "a later holder has the higher fence", (fence, theirs))?;
        }
        Ok(())
    }

    fn nobody_wrote(&self, resolver: &Resolver, token: Token, grant: &Grant) -> Result<(), Breach> {
        let start = resolver.grant(token).map_or(Time::ZERO, |view| view.start);
        for expect in grant.intent.expects.iter() {
            let Some(span) = Window::new(expect.as_of, start) else { continue };
            let target = Target::Path(expect.path.clone());
            let related = self.related(resolver, &target, span);
            let writer = related.iter().find(|it| it.claim.mode != Mode::Shared && it.grant.key != grant.key);
            let writer = writer.map(|it| it.token);
            holds(writer.is_none(), "nobody writes between a reading and its grant", (token, writer))?;
        }
        Ok(())
    }
}

fn units_of(claim: &Claim) -> Option<u64> {
    match claim.mode {
        Mode::Units(units) => Some(units),
        Mode::Shared | Mode::Exclusive => None,
    }
}

/// The overlap in time that both targets tolerate.
fn tolerance(resolver: &Resolver, mine: &Claim, theirs: &Claim) -> Micros {
    let of = |claim: &Claim| resolver.settings.time_tolerance(claim.target.path());
    of(mine).min(of(theirs))
}

/// Whether two targets, one at or above the other, can be in each other's way: regions only in the same
/// frame, where their shapes share more than the threshold.
fn can_meet(resolver: &Resolver, mine: &Target, theirs: &Target) -> bool {
    let (Target::Region(mine), Target::Region(theirs)) = (mine, theirs) else {
        // A region is beside the paths below its frame.
        return match (mine, theirs) {
            (Target::Region(region), other) => other.path().covers(&region.frame),
            (other, Target::Region(region)) => other.path().covers(&region.frame),
            (mine, theirs) => mine.path().is_related_to(theirs.path()),
        };
    };
    let threshold = resolver.settings.overlap_ratio(&mine.frame);
    let ratio = || geometry::overlap_ratio_e9(&mine.shape, &theirs.shape) as f64 / 1e9;
    mine.frame == theirs.frame
        && geometry::meet(&mine.shape, &theirs.shape)
        && (threshold == 0.0 || ratio() > threshold)
}
