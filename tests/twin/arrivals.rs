//! Step 1: what arrives, one by one.

use preclaim::resolver::{AgentOp, Resource, SystemOp};
use preclaim::space::geometry;
use preclaim::types::{
    Agent, Claim, Intent, IntentId, IntentKey, Micros, Mode, Path, Reason, RenewDenial, Start, Target, Time,
    Verdict, Window,
};

use super::fitting::Standing;
use super::fitting::{self, lasts_too_long, parts, windows_at};
use super::reference::{Arrival, Grant, Kind, Twin, Undecided, Work};

/// What an id stands for when a message about it arrives.
enum Stands {
    Undecided(usize),
    Granted(usize),
    /// Its grant has ended, and is not removed yet.
    Over(usize),
    Ended(usize),
    Unknown,
}

type Refusal = (Reason, String);

impl Twin {
    pub(crate) fn agent_input(
        &mut self,
        work: &mut Work,
        index: usize,
        arrival: Arrival,
        agent: &Agent,
        op: &AgentOp,
    ) {
        let key = |id: IntentId| IntentKey { agent: agent.clone(), id };
        match op {
            AgentOp::Declare(intent) => self.declare(work, index, arrival, key(intent.id), intent, false),
            AgentOp::Revise(intent) => self.declare(work, index, arrival, key(intent.id), intent, true),
            AgentOp::Invalid { revision, why, .. } => {
                let refusal = (Reason::Invalid, why.field.clone());
                self.refuse(work, index, arrival.at, &key(op.id()), *revision, refusal);
            }
            AgentOp::Release { id } => {
                let line = if self.release(work.d, arrival.at, &key(*id), None) {
                    Verdict::Released { reason: None }
                } else {
                    Verdict::ReleasedUnknown
                };
                work.say(&key(*id), Some(index), line);
            }
            AgentOp::Renew { id, until } => {
                let line = self.renew(work.d, arrival.at, &key(*id), *until);
                work.say(&key(*id), Some(index), line);
            }
        }
    }

    pub(crate) fn system_input(&mut self, work: &mut Work, index: usize, at: Time, op: &SystemOp) {
        match op {
            SystemOp::Capacity { path, capacity } => {
                self.set_capacity(path, *capacity);
                // A configuration that came before it in this slot must not undo it.
                self.later.push(op.clone());
            }
            SystemOp::Release { agent, id, reason } => {
                let key = IntentKey { agent: agent.clone(), id: *id };
                if self.release(work.d, at, &key, Some(reason)) {
                    work.say(&key, Some(index), Verdict::Released { reason: Some(reason.clone()) });
                }
            }
            SystemOp::Config(_) => self.later.push(op.clone()),
            SystemOp::Restart { next_token } => {
                self.restarted = true;
                self.next_token = self.next_token.max(preclaim::types::Token::new(*next_token));
            }
        }
    }

    pub(crate) fn set_capacity(&mut self, path: &Path, capacity: u64) {
        let resources = &mut self.rules.resources;
        match resources.iter_mut().find(|resource| &resource.path == path) {
            Some(resource) => resource.capacity = Some(capacity),
            None => resources.push(Resource { capacity: Some(capacity), ..Resource::new(path.clone()) }),
        }
    }

    fn stands(&self, key: &IntentKey, at: Time) -> Stands {
        let is_plain = |u: &Undecided| &u.key == key && !u.is_revision();
        if let Some(undecided) = self.undecided.iter().position(is_plain) {
            return Stands::Undecided(undecided);
        }
        if let Some(grant) = self.grants.iter().position(|grant| grant.key() == key && !grant.superseded) {
            let in_force = self.grants[grant].in_force(at);
            return if in_force { Stands::Granted(grant) } else { Stands::Over(grant) };
        }
        let retention = self.rules.retention;
        let remembered =
            |ended: &super::reference::Ended| &ended.key == key && at < ended.at.after(retention);
        self.ended.iter().position(remembered).map_or(Stands::Unknown, Stands::Ended)
    }

    fn granted(&self, key: &IntentKey, at: Time) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.key() == key && grant.in_force(at))
    }

    fn refuse(
        &self,
        work: &mut Work,
        index: usize,
        at: Time,
        key: &IntentKey,
        revision: bool,
        (reason, field): Refusal,
    ) {
        let kept = revision && self.granted(key, at).is_some();
        work.say(key, Some(index), Verdict::Rejected { reason, field, kept });
    }

    fn declare(
        &mut self,
        work: &mut Work,
        index: usize,
        arrival: Arrival,
        key: IntentKey,
        intent: &Intent,
        revision: bool,
    ) {
        let (d, at) = (work.d, arrival.at);
        if let Some(entry) = intent.expects.iter().position(|expect| expect.as_of > d) {
            let refusal = (Reason::Invalid, format!("expects[{entry}].as_of"));
            return self.refuse(work, index, at, &key, revision, refusal);
        }
        let stands = self.stands(&key, at);
        let pending = self.undecided.iter().find(|undecided| undecided.key == key);
        // The content that the id stands for, and its latest line, `None` where it is still to come.
        let standing = match stands {
            Stands::Undecided(u) => Some((&self.undecided[u].intent, self.undecided[u].line.clone())),
            Stands::Granted(g) => Some((&self.grants[g].intent, Some(self.grants[g].line()))),
            // Where a revision came before its end, that is what the id stands for by now.
            Stands::Over(_) if pending.is_some() => pending.map(|revision| (&revision.intent, None)),
            Stands::Over(g) => {
                let grant = &self.grants[g];
                Some((&grant.intent, (!grant.intent.hold).then(|| grant.line())))
            }
            Stands::Ended(e) => Some((&self.ended[e].intent, Some(self.ended[e].line.clone()))),
            Stands::Unknown => None,
        };
        if let Some((content, line)) = standing {
            if content == intent {
                self.saw(if line.is_some() { "sent twice, answered" } else { "sent twice, still to come" });
                if let Some(line) = line {
                    work.say(&key, Some(index), line);
                }
                return;
            }
            if !revision {
                return self.refuse(work, index, at, &key, revision, (Reason::IdInUse, "id".into()));
            }
        }
        let standing_is_undecided = matches!(stands, Stands::Undecided(_));
        if let Stands::Granted(old) = stands {
            return self.revise_grant(work, index, arrival, intent, old);
        }
        if let Some(refusal) = self.judge(intent, None, d) {
            return self.refuse(work, index, at, &key, revision, refusal);
        }
        if revision {
            self.saw(if standing_is_undecided {
                "revision of an undecided"
            } else {
                "revision as a declaration"
            });
        }
        self.undecided.retain(|undecided| undecided.key != key);
        if let Stands::Over(grant) = stands {
            self.grants[grant].superseded = true;
        }
        let intent = intent.clone();
        let (kind, anchor, line) = (Kind::Declared, None, None);
        self.undecided.push(Undecided { key, intent, arrival, waits_from: at, kind, anchor, line });
    }

    /// A revision, with another content, of a grant in force.
    fn revise_grant(&mut self, work: &mut Work, index: usize, arrival: Arrival, intent: &Intent, old: usize) {
        let d = work.d;
        let grant = &self.grants[old];
        let (key, of, anchor) = (grant.key().clone(), grant.token, grant.anchor_for_revision(d));
        if let Some(start) = self.shrinks(grant, intent) {
            let refusal = self.too_short(intent).or_else(|| self.too_long(intent, anchor, start));
            if let Some(refusal) = refusal {
                return self.refuse(work, index, arrival.at, &key, true, refusal);
            }
            self.undecided.retain(|undecided| undecided.key != key);
            let line = self.shrink(d, arrival, intent, old, start);
            return work.say(&key, Some(index), line);
        }
        if let Some(refusal) = self.judge(intent, anchor, d) {
            return self.refuse(work, index, arrival.at, &key, true, refusal);
        }
        if self.undecided.iter().any(|undecided| undecided.key == key) {
            self.saw("second revision in one slot");
        }
        self.undecided.retain(|undecided| undecided.key != key);
        let (waits_from, kind) = (arrival.at, Kind::Revision { of });
        let intent = intent.clone();
        self.undecided.push(Undecided { key, intent, arrival, waits_from, kind, anchor, line: None });
    }

    /// The start of a revision that only shrinks the grant.
    fn shrinks(&self, old: &Grant, new: &Intent) -> Option<Time> {
        let Start::At(start) = new.start else { return None };
        let was = &old.intent;
        let same =
            new.slack == Micros::ZERO && (new.class, new.task, new.hold) == (was.class, was.task, was.hold);
        let mut used = vec![false; was.claims.len()];
        let fits_one = |claim: &Claim| {
            let window = claim.window(start);
            let covers = |(at, old_claim, old_window): &(usize, &Claim, Window)| {
                !used[*at] && old_window.covers(window) && self.covers(old_claim, claim)
            };
            let found = old.standing.parts().find(covers).map(|(at, _, _)| at);
            if let Some(at) = found {
                used[at] = true;
            }
            found.is_some()
        };
        (same && new.claims.iter().all(fits_one)).then_some(start)
    }

    /// Whether `new` takes no more than `old` of its target.
    fn covers(&self, old: &Claim, new: &Claim) -> bool {
        let weaker = match (old.mode, new.mode) {
            (Mode::Exclusive, Mode::Exclusive | Mode::Shared) | (Mode::Shared, Mode::Shared) => true,
            (Mode::Units(had), Mode::Units(has)) => has <= had,
            _ => false,
        };
        let within = match (&old.target, &new.target) {
            (a, b) if a == b => true,
            _ if matches!(new.mode, Mode::Units(_)) => false,
            (Target::Path(a), Target::Path(b)) => {
                let (rules, thresholds) = (&self.rules, fitting::thresholds);
                a.covers(b) && thresholds(rules, a) == thresholds(rules, b)
            }
            (Target::Region(a), Target::Region(b)) => {
                a.frame == b.frame
                    && fitting::overlap_ratio(&self.rules, &a.frame) == 0.0
                    && geometry::contains(&a.shape, &b.shape)
            }
            _ => false,
        };
        weaker && within
    }

    fn shrink(&mut self, d: Time, arrival: Arrival, intent: &Intent, old: usize, start: Time) -> Verdict {
        let token = self.take_token();
        let was = self.grants.remove(old);
        self.close_tenure(&was, d);
        let anchor = was.anchor_for_revision(d);
        self.leftovers.push(was.standing.clone());
        let standing = Standing {
            token: Some(token),
            claims: intent.claims.clone(),
            windows: windows_at(&intent.claims, start),
            ..was.standing
        };
        let (intent, granted_at) = (intent.clone(), d);
        let (moved, shrunk, superseded) = (false, true, false);
        let grant =
            Grant { standing, token, intent, arrival, start, anchor, granted_at, moved, shrunk, superseded };
        let line = grant.line();
        self.grants.push(grant);
        self.saw("granted, a shrink");
        line
    }

    /// Everything that a declaration is judged on beside `invalid` and `id_in_use`.
    fn judge(&self, intent: &Intent, anchor: Option<Time>, d: Time) -> Option<Refusal> {
        let (lo, hi) = self.reachable(intent, d);
        let too_late = || (hi < lo).then(|| (Reason::TooLate, "start".into()));
        let field = |at: usize, name: &str| format!("claims[{at}].{name}");
        let beyond = || {
            let ends = |claim: &Claim| hi.after(claim.offset).after(claim.duration);
            let at = intent.claims.iter().position(|claim| ends(claim) > d.after(self.rules.horizon))?;
            Some((Reason::BeyondHorizon, field(at, "duration")))
        };
        let pools = |claim: &Claim| {
            let pools = self.rules.resources.iter().filter(|resource| resource.capacity.is_some());
            matches!(claim.mode, Mode::Units(_))
                && !{ pools }.any(|resource| resource.path.covers(claim.target.path()))
        };
        let no_capacity = || {
            let at = intent.claims.iter().position(pools)?;
            Some((Reason::NoCapacity, field(at, "mode")))
        };
        let over_capacity = || {
            let windows = windows_at(&intent.claims, Time::ZERO);
            let full = fitting::overfull(&self.rules, &intent.claims, &windows, &[], None);
            (!full.is_empty()).then(|| (Reason::OverCapacity, field(0, "mode")))
        };
        self.too_short(intent)
            .or_else(|| self.too_long(intent, anchor, lo))
            .or_else(too_late)
            .or_else(beyond)
            .or_else(no_capacity)
            .or_else(over_capacity)
    }

    fn too_short(&self, intent: &Intent) -> Option<Refusal> {
        let short = |claim: &Claim| {
            let tolerated = fitting::tolerance(&self.rules, claim.target.path());
            !matches!(claim.mode, Mode::Units(_)) && claim.duration <= tolerated.plus(tolerated)
        };
        let at = intent.claims.iter().position(short)?;
        Some((Reason::TooShort, format!("claims[{at}].duration")))
    }

    fn too_long(&self, intent: &Intent, anchor: Option<Time>, start: Time) -> Option<Refusal> {
        let long = |claim: &Claim| lasts_too_long(&self.rules, claim, claim.window(start), anchor);
        let at = intent.claims.iter().position(long)?;
        Some((Reason::TooLong, format!("claims[{at}].duration")))
    }

    /// Whether there was something to release.
    fn release(&mut self, d: Time, at: Time, key: &IntentKey, reason: Option<&str>) -> bool {
        let line = Verdict::Released { reason: reason.map(str::to_owned) };
        let intent = match self.stands(key, at) {
            Stands::Undecided(undecided) => {
                self.saw("released, undecided");
                self.undecided[undecided].intent.clone()
            }
            Stands::Granted(grant) => {
                if self.leftovers.iter().any(|left| &left.key == key) {
                    self.saw("released with what a shrink left");
                }
                let grant = self.grants.remove(grant);
                self.close_tenure(&grant, d);
                let (left, others): (Vec<Standing>, _) =
                    std::mem::take(&mut self.leftovers).into_iter().partition(|left| &left.key == key);
                self.leftovers = others;
                for standing in left.iter().chain([&grant.standing]) {
                    self.remember_windows(standing, at);
                }
                grant.intent
            }
            // A revision that came before the end of its grant can still be withdrawn.
            Stands::Over(grant) if self.undecided.iter().any(|undecided| &undecided.key == key) => {
                self.saw("revision withdrawn after its grant's end");
                self.grants[grant].intent.clone()
            }
            Stands::Over(_) | Stands::Ended(_) | Stands::Unknown => return false,
        };
        self.undecided.retain(|undecided| &undecided.key != key);
        self.remember(key.clone(), intent, line, d);
        true
    }

    fn renew(&mut self, d: Time, at: Time, key: &IntentKey, until: Time) -> Verdict {
        let Stands::Granted(index) = self.stands(key, at) else {
            return Verdict::RenewDenied(RenewDenial::Unknown);
        };
        let grant = &self.grants[index];
        let end = grant.end();
        let denied = |blockers| Verdict::RenewDenied(RenewDenial::Kept { end, blockers });
        if self.leftovers.iter().any(|left| &left.key != key) {
            self.saw("renewal beside what a shrink left");
        }
        if !grant.intent.hold {
            return denied(Vec::new());
        }
        let Some(added) = Window::new(end, until) else { return Verdict::Renewed { end } };
        let longer = |window: Window| {
            if window.end() == end { Window::new(window.start(), until) } else { None }
        };
        let claims = grant.standing.claims.clone();
        let windows: Vec<_> = grant.standing.windows.iter().map(|window| longer((*window)?)).collect();
        let too_long =
            parts(&claims, &windows).any(|(_, claim, w)| lasts_too_long(&self.rules, claim, w, grant.anchor));
        if too_long || until > d.after(self.rules.horizon) {
            return denied(Vec::new());
        }
        let view = self.view(key, &[]);
        let blockers = fitting::blockers(&self.rules, &claims, &windows, &view, Some(added));
        let full = fitting::overfull(&self.rules, &claims, &windows, &view, Some(added));
        if !blockers.is_empty() || !full.is_empty() {
            return denied(blockers);
        }
        let held = &mut self.grants[index].standing.windows;
        for (window, longer) in held.iter_mut().zip(windows) {
            *window = longer.or(*window);
        }
        Verdict::Renewed { end: until }
    }
}
