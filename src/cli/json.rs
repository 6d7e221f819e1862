//! Decisions and listings as JSON, for programs. The same names and the same order as the lines of
//! `preclaim resolve`, with what only the coordinator knows after them.

use serde::Serialize;

use crate::types::{Fence, IntentId, RawMode, RawTarget, Slot, Time, Token};
use crate::wire::{self, Blocker, EntryState, ListEntry, ListedClaim, Verdict, WatchEvent};

/// One decision about one intent.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Slot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    agent: &'a str,
    id: IntentId,
    #[serde(flatten)]
    told: Told<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
    /// What counts of the intent's priority, where its agent was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<InForceBody<'a>>,
    /// Decisions left out just before this one.
    #[serde(skip_serializing_if = "is_zero")]
    missed: u64,
}

impl<'a> Line<'a> {
    /// What `agent` was told about its intent `id`.
    pub(super) fn told(agent: &'a str, id: IntentId, told: Told<'a>) -> Self {
        Line { slot: None, at: None, agent, id, told, note: "", in_force: None, missed: 0 }
    }

    /// With what counts of its priority.
    pub(super) fn counting(self, of: Option<&'a wire::InForce>) -> Self {
        Line { in_force: of.map(InForceBody::of), ..self }
    }

    pub(super) fn watched(event: &'a WatchEvent) -> Self {
        let WatchEvent { request: _, missed, agent, id, slot, at, verdict, note, extensions: _ } = event;
        let told = Told::of(verdict);
        let (slot, at) = (Some(*slot), Some(*at));
        Line { slot, at, agent, id: *id, told, note, in_force: None, missed: *missed }
    }
}

/// What counts of an intent's priority.
#[derive(Serialize)]
struct InForceBody<'a> {
    class: u8,
    urgency: f64,
    safety_margin: f64,
    social_value: f64,
    /// Whether that is less than was sent.
    lowered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    by_allowance: bool,
    allowance: Option<AllowanceBody>,
}

#[derive(Serialize)]
struct AllowanceBody {
    left: f64,
    size: f64,
    refill: f64,
}

impl<'a> InForceBody<'a> {
    fn of(of: &'a wire::InForce) -> Self {
        let wire::InForce { class, urgency, safety_margin, social_value, rule, by_allowance, allowance } = of;
        InForceBody {
            class: class.number(),
            urgency: *urgency,
            safety_margin: *safety_margin,
            social_value: *social_value,
            lowered: of.is_lowered(),
            rule: rule.as_deref(),
            by_allowance: *by_allowance,
            allowance: allowance.map(|wire::AllowanceLeft { left, size, refill }| AllowanceBody {
                left,
                size,
                refill,
            }),
        }
    }
}

/// What was decided.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told<'a> {
    Granted(Placed),
    Moved(Placed),
    Conflict(Conflict<'a>),
    Stale(Stale<'a>),
    Rejected(Rejected<'a>),
    Released(Released<'a>),
    Renewed(Renewed),
    RenewDenied(Denied<'a>),
    Expired(Expired),
    Revoked(Revoked<'a>),
}

impl<'a> Told<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        match verdict {
            &Verdict::Granted { start, end, token } => Told::Granted(Placed::new(start, end, token)),
            &Verdict::Moved { start, end, token } => Told::Moved(Placed::new(start, end, token)),
            Verdict::Conflict(conflict) => Told::Conflict(Conflict::of(conflict)),
            Verdict::Stale { path, as_of, kept } => Told::Stale(Stale { path, as_of: *as_of, kept: *kept }),
            Verdict::Rejected { reason, field, hint, retry_after_us, kept } => {
                let reason = reason.as_str();
                Told::Rejected(Rejected { reason, field, kept: *kept, hint, retry_after: *retry_after_us })
            }
            Verdict::Released { reason } => {
                Told::Released(Released { reason: reason.as_deref(), unknown: false })
            }
            Verdict::ReleasedUnknown => Told::Released(Released { reason: None, unknown: true }),
            Verdict::Renewed { end } => Told::Renewed(Renewed { end: *end }),
            Verdict::RenewDeniedUnknown => Told::RenewDenied(Denied::UNKNOWN),
            Verdict::RenewDenied { end, blockers } => Told::RenewDenied(Denied::until(*end, blockers)),
            Verdict::Expired { token } => Told::Expired(Expired { token: *token }),
            Verdict::Revoked { by, by_id, offer, waiting } => {
                Told::Revoked(Revoked { by: Key { agent: by, id: *by_id }, offer: *offer, waiting: *waiting })
            }
        }
    }
}

#[derive(Serialize)]
pub(super) struct Placed {
    start: Time,
    end: Time,
    token: Token,
    /// Of a claim that begins with the intent.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<String>,
}

impl Placed {
    pub(super) fn new(start: Time, end: Time, token: Token) -> Self {
        Placed { start, end, token, fence: None }
    }

    pub(super) fn fenced(self, fence: Fence) -> Self {
        Placed { fence: Some(fence.to_string()), ..self }
    }
}

#[derive(Serialize)]
pub(super) struct Conflict<'a> {
    r#final: bool,
    deadlock: bool,
    offer: Option<Time>,
    blockers: Vec<InTheWay<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    kept: bool,
}

impl<'a> Conflict<'a> {
    fn of(conflict: &'a wire::Conflict) -> Self {
        let wire::Conflict { is_final, deadlock, offer, blockers, kept } = conflict;
        let blockers = in_the_way(blockers);
        Conflict { r#final: *is_final, deadlock: *deadlock, offer: *offer, blockers, kept: *kept }
    }

    /// The end of a declaration.
    pub(super) fn last(deadlock: bool, offer: Option<Time>, blockers: &'a [Blocker]) -> Self {
        Conflict { r#final: true, deadlock, offer, blockers: in_the_way(blockers), kept: false }
    }
}

#[derive(Serialize)]
struct InTheWay<'a> {
    agent: &'a str,
    id: IntentId,
    token: Option<Token>,
    claim: u16,
    their_claim: u16,
    window: [Time; 2],
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holding: Option<Holding<'a>>,
}

impl<'a> InTheWay<'a> {
    fn of(blocker: &'a Blocker) -> Self {
        let Blocker { agent, id, token, claim, their_claim, start, end, ratio, holding } = blocker;
        InTheWay {
            agent,
            id: *id,
            token: *token,
            claim: *claim,
            their_claim: *their_claim,
            window: [*start, *end],
            ratio: *ratio,
            holding: holding.as_ref().map(Holding::of),
        }
    }
}

#[derive(Serialize)]
struct Holding<'a> {
    #[serde(flatten)]
    target: Target<'a>,
    mode: Mode,
    window: [Time; 2],
    hold: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
}

impl<'a> Holding<'a> {
    fn of(holding: &'a wire::Holding) -> Self {
        let wire::Holding { target: of, mode: used, window, hold, note } = holding;
        let window = [window.start(), window.end()];
        Holding { target: target(of), mode: mode(*used), window, hold: *hold, note }
    }
}

fn in_the_way(blockers: &[Blocker]) -> Vec<InTheWay<'_>> {
    blockers.iter().map(InTheWay::of).collect()
}

#[derive(Serialize)]
pub(super) struct Stale<'a> {
    pub(super) path: &'a str,
    pub(super) as_of: Time,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) kept: bool,
}

#[derive(Serialize)]
pub(super) struct Rejected<'a> {
    pub(super) reason: &'a str,
    pub(super) field: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) kept: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) hint: &'a str,
    /// In µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Released<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) unknown: bool,
}

#[derive(Serialize)]
pub(super) struct Renewed {
    pub(super) end: Time,
}

#[derive(Serialize)]
pub(super) struct Denied<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blockers: Option<Vec<InTheWay<'a>>>,
    #[serde(skip_serializing_if = "is_false")]
    unknown: bool,
}

impl<'a> Denied<'a> {
    /// There is no such grant.
    pub(super) const UNKNOWN: Denied<'static> = Denied { end: None, blockers: None, unknown: true };

    pub(super) fn until(end: Time, blockers: &'a [Blocker]) -> Self {
        Denied { end: Some(end), blockers: Some(in_the_way(blockers)), unknown: false }
    }
}

#[derive(Serialize)]
pub(super) struct Expired {
    token: Token,
}

#[derive(Serialize)]
pub(super) struct Revoked<'a> {
    by: Key<'a>,
    offer: Option<Time>,
    waiting: bool,
}

#[derive(Serialize)]
struct Key<'a> {
    agent: &'a str,
    id: IntentId,
}

/// A target, in the fields of an offline declaration.
#[derive(Serialize)]
#[serde(untagged)]
enum Target<'a> {
    Path { path: &'a str },
    Box { frame: &'a str, r#box: Corners<'a> },
    Polygon { frame: &'a str, polygon: Polygon<'a> },
}

#[derive(Serialize)]
struct Corners<'a> {
    min: &'a [f64],
    max: &'a [f64],
}

#[derive(Serialize)]
struct Polygon<'a> {
    corners: &'a [Vec<f64>],
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<&'a [f64]>,
}

fn target(target: &RawTarget) -> Target<'_> {
    match target {
        RawTarget::Path(path) => Target::Path { path },
        RawTarget::Box { frame, min, max } => Target::Box { frame, r#box: Corners { min, max } },
        RawTarget::Polygon { frame, corners, height } => {
            Target::Polygon { frame, polygon: Polygon { corners, height: height.as_deref() } }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Shared,
    Exclusive,
    Units(u64),
}

fn mode(mode: RawMode) -> Mode {
    match mode {
        RawMode::Shared => Mode::Shared,
        RawMode::Exclusive => Mode::Exclusive,
        RawMode::Units(units) => Mode::Units(units),
    }
}

/// One intent of a listing.
#[derive(Serialize)]
pub(super) struct Listed<'a> {
    agent: &'a str,
    id: IntentId,
    #[serde(flatten)]
    state: State,
    hold: bool,
    class: u8,
    task: u64,
    since: Time,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
    claims: Vec<Claim<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Granted(Placed),
    Undecided { until: Time, offer: Option<Time> },
}

#[derive(Serialize)]
struct Claim<'a> {
    #[serde(flatten)]
    target: Target<'a>,
    mode: Mode,
    offset: u64,
    duration: u64,
}

impl<'a> Listed<'a> {
    pub(super) fn of(entry: &'a ListEntry) -> Self {
        let ListEntry { agent, id, state, hold, class, task, since, note, claims } = entry;
        let state = match *state {
            EntryState::Granted { start, end, token } => State::Granted(Placed::new(start, end, token)),
            EntryState::Undecided { until, offer } => State::Undecided { until, offer },
        };
        let claim = |claim: &'a ListedClaim| Claim {
            target: target(&claim.target),
            mode: mode(claim.mode),
            offset: claim.offset_us,
            duration: claim.duration_us,
        };
        Listed {
            agent,
            id: *id,
            state,
            hold: *hold,
            class: class.number(),
            task: task.number(),
            since: *since,
            note,
            claims: claims.iter().map(claim).collect(),
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::super::output::json;
    use super::*;
    use crate::types::{Agent, Class, Decision, IntentKey, Path, Reason, TaskId, Verdict as Decided, Window};
    use crate::wire::{Extensions, Refusal};

    const AT: Time = Time::from_us(30);

    /// The line that `preclaim resolve` prints, and the one that `preclaim watch` prints.
    fn both(offline: Decided, watched: Verdict) -> [String; 2] {
        let key = IntentKey { agent: Agent::new("a").unwrap(), id: IntentId::new(7) };
        let decision = Decision { key, answers: None, verdict: offline };
        let mut out = Vec::new();
        crate::trace::write_decision(&mut out, Slot::new(2), AT, &decision).unwrap();
        let event = WatchEvent {
            request: 1,
            missed: 0,
            agent: "a".into(),
            id: IntentId::new(7),
            slot: Slot::new(2),
            at: AT,
            verdict: watched,
            note: String::new(),
            extensions: Extensions::NONE,
        };
        [String::from_utf8(out).unwrap(), json(&Line::watched(&event)) + "\n"]
    }

    #[test]
    fn a_decision_is_the_same_line_as_offline() {
        let (start, end, token) = (Time::from_us(1), Time::from_us(2), Token::new(9));
        let conflict = |blockers| crate::types::Conflict {
            is_final: true,
            deadlock: false,
            offer: Some(end),
            blockers,
            kept: true,
        };
        let theirs = crate::types::Blocker {
            key: IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(3) },
            token: None,
            claim: 0,
            their_claim: 1,
            window: Window::new(start, end).unwrap(),
            ratio: Some(0.5),
        };
        let seen = Blocker {
            agent: "b".into(),
            id: IntentId::new(3),
            token: None,
            claim: 0,
            their_claim: 1,
            start,
            end,
            ratio: Some(0.5),
            holding: None,
        };
        let wire_conflict = wire::Conflict {
            is_final: true,
            deadlock: false,
            offer: Some(end),
            blockers: vec![seen],
            kept: true,
        };
        let rejected = Verdict::Rejected {
            reason: Refusal::TooLate,
            field: "start".into(),
            hint: String::new(),
            retry_after_us: None,
            kept: false,
        };
        let by = IntentKey { agent: Agent::new("b").unwrap(), id: IntentId::new(3) };
        let revoked =
            Verdict::Revoked { by: "b".into(), by_id: IntentId::new(3), offer: None, waiting: true };
        let stale = Verdict::Stale { path: "p".into(), as_of: start, kept: false };
        for (offline, watched) in [
            (Decided::Granted { start, end, token }, Verdict::Granted { start, end, token }),
            (Decided::Moved { start, end, token }, Verdict::Moved { start, end, token }),
            (Decided::Conflict(conflict(vec![theirs])), Verdict::Conflict(wire_conflict)),
            (Decided::Stale { path: Path::new("p").unwrap(), as_of: start, kept: false }, stale),
            (Decided::Rejected { reason: Reason::TooLate, field: "start".into(), kept: false }, rejected),
            (Decided::Released { reason: None }, Verdict::Released { reason: None }),
            (Decided::ReleasedUnknown, Verdict::ReleasedUnknown),
            (Decided::Renewed { end }, Verdict::Renewed { end }),
            (Decided::RenewDenied(crate::types::RenewDenial::Unknown), Verdict::RenewDeniedUnknown),
            (
                Decided::RenewDenied(crate::types::RenewDenial::Kept { end, blockers: Vec::new() }),
                Verdict::RenewDenied { end, blockers: Vec::new() },
            ),
            (Decided::Expired { token }, Verdict::Expired { token }),
            (Decided::Revoked { by, offer: None, waiting: true }, revoked),
        ] {
            let [offline, watched] = both(offline, watched);
            assert_eq!(offline, watched);
        }
    }

    #[test]
    fn a_listed_intent_has_its_claims_in_the_fields_of_a_declaration() {
        let claim = |target, mode| ListedClaim { target, mode, offset_us: 0, duration_us: 5 };
        let square = RawTarget::Box { frame: "f".into(), min: vec![0.0, 0.0], max: vec![1.5, 1.0] };
        let entry = ListEntry {
            agent: "a".into(),
            id: IntentId::new(7),
            state: EntryState::Undecided { until: AT, offer: None },
            hold: false,
            class: Class::default(),
            task: TaskId::new(2),
            since: AT,
            note: "n".into(),
            claims: vec![
                claim(RawTarget::Path("p".into()), RawMode::Units(3)),
                claim(square, RawMode::Shared),
            ],
        };
        let line = r#"{"agent":"a","id":7,"undecided":{"until":30,"offer":null},"hold":false,"class":0,"task":2,"since":30,"note":"n","claims":[{"path":"p","mode":{"units":3},"offset":0,"duration":5},{"frame":"f","box":{"min":[0.0,0.0],"max":[1.5,1.0]},"mode":"shared","offset":0,"duration":5}]}"#;
        assert_eq!(json(&Listed::of(&entry)), line);
    }
}
