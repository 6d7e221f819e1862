use super::*;
use crate::types::{Class, RawClaim, RawMode, RawTarget, Slot, Token, Window};
use crate::wire::{
    Answer, Conflict, ContestedNews, DrainAsk, DrainOrder, DrainStands, Extension, Extensions, InForce,
    Refusal, Verdict, WireLimits,
};

/// A session on virtual time against a scripted coordinator whose clock is `AHEAD` of the agent's.
struct Bench {
    session: AgentSession,
    now: Local,
}

const AHEAD: u64 = 1_000_000_000;
/// The round trip of each clock exchange.
const TRIP: u64 = 200;

fn identity() -> Identity {
    Identity {
        name: Some("car-7".into()),
        label: "main".into(),
        incarnation: 7,
        role: Role::Agent,
        refuse_if_live: false,
        software: "test".into(),
        clock_bound: Micros::from_ms(100),
        bearer: None,
    }
}

fn welcome(now: Time) -> Welcome {
    Welcome {
        version: 1,
        name: "car-7".into(),
        label: "main".into(),
        session: 1,
        resumed: false,
        state: 1,
        slot_length: Micros::from_ms(10),
        min_lead: Micros::ZERO,
        horizon: Micros::from_secs(86_400),
        slot: Slot::new(1),
        now,
        limits: WireLimits { frame_bytes: 65_536, batch: 256, lanes: 8, undecided: 3 },
        software: String::new(),
        extensions: Extensions::NONE,
    }
}

impl Bench {
    /// Connected, welcomed, and with as many clock exchanges as the session wants at first.
    fn up() -> Self {
        Bench::up_with(welcome(Time::ZERO).limits)
    }

    fn up_with(limits: WireLimits) -> Self {
        let mut bench = Bench { session: AgentSession::new(identity()), now: Local::from_us(5_000) };
        bench.session.connected(bench.now);
        assert!(matches!(bench.session.poll_send(), Some(ToCoordinator::Hello(_))));
        let now = bench.coordinator();
        bench.receive(Welcome { limits, ..welcome(now) });
        for _ in 0..FIRST_PINGS {
            bench.exchange();
        }
        assert_eq!(bench.session.poll_event(), Some(Event::Welcomed));
        bench
    }

    fn coordinator(&self) -> Time {
        Time::from_us(AHEAD + self.now.as_us())
    }

    fn receive(&mut self, message: impl Into<ToAgent>) {
        self.session.receive(message.into(), self.now).unwrap();
    }

    /// Answers the ping that is out, with half of the round trip each way.
    fn exchange(&mut self) {
        let Some(ToCoordinator::ClockPing(ping)) = self.session.poll_send() else { panic!("a ping") };
        self.now = self.now.after(Micros::from_us(TRIP / 2));
        let coordinator = self.coordinator();
        self.now = self.now.after(Micros::from_us(TRIP / 2));
        self.receive(ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator });
    }

    fn answer(&mut self, request: u64, id: u64, verdict: Verdict) {
        let at = self.coordinator();
        let answer = Answer {
            request,
            id: IntentId::new(id),
            slot: Slot::of(at, Micros::from_ms(10)),
            at,
            repeat: false,
            verdict,
            extensions: Extensions::NONE,
        };
        self.receive(answer);
    }

    fn declare(&mut self, id: u64, hold: bool) -> u64 {
        let request = self.session.declare(draft(id, hold), self.now).unwrap();
        assert!(matches!(self.sent(), ToCoordinator::Declare(_)));
        request
    }

    /// A grant of `span_us` from now on.
    fn grant(&mut self, id: u64, hold: bool, token: u64, span_us: u64) -> Time {
        let request = self.session.declare(lasting(id, hold, span_us), self.now).unwrap();
        assert!(matches!(self.sent(), ToCoordinator::Declare(_)));
        let end = self.coordinator().after(Micros::from_us(span_us));
        let verdict = Verdict::Granted { start: self.coordinator(), end, token: Token::new(token) };
        self.answer(request, id, verdict);
        assert!(matches!(self.event(), Event::Reply { reply: Reply::Granted { .. }, .. }));
        end
    }

    /// The next message that is no ping.
    fn sent(&mut self) -> ToCoordinator {
        self.sent_at_most().expect("a message")
    }

    fn sent_at_most(&mut self) -> Option<ToCoordinator> {
        std::iter::from_fn(|| self.session.poll_send())
            .find(|message| !matches!(message, ToCoordinator::ClockPing(_)))
    }

    fn event(&mut self) -> Event {
        self.session.poll_event().expect("an event")
    }

    fn lost(&mut self) -> (u64, Loss) {
        match self.event() {
            Event::News(News::Lost { id, why, .. }) => (id.number(), why),
            other => panic!("a loss, not {other:?}"),
        }
    }

    /// Runs the timers up to `until`, as a shell does.
    fn run_to(&mut self, until: Local) {
        while let Some(at) = self.session.next_timeout(self.now).filter(|at| *at <= until) {
            assert!(at > self.now, "a timer in the past would spin");
            self.now = at;
            self.session.tick(self.now);
        }
        self.now = until;
    }
}

fn draft(id: u64, hold: bool) -> Draft {
    Draft { intent: RawIntent { id, hold, ..RawIntent::default() }, ..Draft::default() }
}

/// With a claim of `span_us`.
fn lasting(id: u64, hold: bool, span_us: u64) -> Draft {
    let claim = RawClaim {
        target: RawTarget::Path("dock".into()),
        mode: RawMode::Exclusive,
        offset: 0,
        duration: span_us,
    };
    let intent = RawIntent { id, hold, claims: vec![claim], ..RawIntent::default() };
    Draft { intent, ..Draft::default() }
}

fn conflict(is_final: bool) -> Verdict {
    Verdict::Conflict(Conflict { is_final, deadlock: false, offer: None, blockers: Vec::new(), kept: false })
}

#[test]
fn where_a_declaration_stands_in_a_trace_travels_beside_it_where_there_is_room() {
    let mut bench = Bench::up();
    let context = TraceContext::new(7, 9, true).unwrap().with_state("a=b");
    let mut told = |id, note: usize| {
        let trace = Some(context.clone());
        let draft = Draft { trace, note: "x".repeat(note), ..draft(id, false) };
        bench.session.declare(draft, bench.now).map(|_| match bench.sent() {
            ToCoordinator::Declare(declare) => declare.batch[0].trace_context(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(told(1, 0), Ok(Some(context.clone())));
    let full = (1..limits::FRAME_BYTES).rev().find(|note| told(1_000 + *note as u64, *note).is_ok());
    assert_eq!(told(2, full.unwrap()), Ok(None), "it goes without");
}

#[test]
fn the_hello_is_the_first_message_and_nothing_is_declared_before_the_welcome() {
    let mut session = AgentSession::new(identity());
    session.declare(draft(1, false), Local::default()).unwrap();
    session.connected(Local::from_us(1));
    session.declare(draft(2, false), Local::default()).unwrap();
    let Some(ToCoordinator::Hello(hello)) = session.poll_send() else { panic!("a hello") };
    assert_eq!((hello.lowest_version, hello.highest_version), VERSIONS);
    assert_eq!(hello.name.as_deref(), Some("car-7"));
    assert_eq!(session.poll_send(), None);
}

#[test]
fn the_offset_is_known_within_half_a_round_trip_after_the_first_exchanges() {
    let bench = Bench::up();
    let bounds = bench.session.clock().bounds(bench.now).unwrap();
    assert!(bounds.earliest <= bench.coordinator() && bench.coordinator() <= bounds.latest);
    assert!(bounds.uncertainty() <= Micros::from_us(TRIP / 2 + 2));
}

#[test]
fn a_waiting_declaration_is_news_until_its_final_answer() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.answer(request, 1, conflict(false));
    assert!(matches!(bench.event(), Event::News(News::Waiting { .. })));
    bench.answer(request, 1, conflict(true));
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Conflict { .. }, .. }));
    assert_eq!(bench.session.unanswered(), 0);
}

#[test]
fn an_answer_without_its_number_still_finds_the_declaration() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.answer(0, 1, conflict(true));
    assert!(matches!(bench.event(), Event::Reply { request: of, .. } if of == request));
}

#[test]
fn no_more_is_declared_than_the_coordinator_takes() {
    let mut bench = Bench::up();
    for id in 0..3 {
        bench.declare(id, false);
    }
    assert_eq!(bench.session.declare(draft(3, false), bench.now), Err(NotTaken::Full));
    assert_eq!(bench.session.declare(draft(2, false), bench.now), Err(NotTaken::IdBusy));
}

#[test]
fn declarations_that_wait_together_leave_together_up_to_what_the_coordinator_takes_in_a_message() {
    let limits = WireLimits { batch: 2, undecided: 9, ..welcome(Time::ZERO).limits };
    let mut bench = Bench::up_with(limits);
    let ids = |message: Option<ToCoordinator>| match message {
        Some(ToCoordinator::Declare(declare)) => {
            declare.batch.iter().map(|it| it.intent.id).collect::<Vec<_>>()
        }
        other => panic!("declarations, not {other:?}"),
    };
    for id in 1..=3 {
        bench.session.declare(draft(id, false), bench.now).unwrap();
    }
    bench.session.release(IntentId::new(9)).unwrap();
    bench.session.declare(draft(4, false), bench.now).unwrap();
    assert_eq!(ids(bench.sent_at_most()), [1, 2]);
    assert_eq!(ids(bench.sent_at_most()), [3]);
    assert!(matches!(bench.sent(), ToCoordinator::Release(_)), "what is asked keeps its order");
    assert_eq!(ids(bench.sent_at_most()), [4]);
    assert_eq!(bench.sent_at_most(), None);
}

#[test]
fn what_leaves_together_fits_in_a_frame() {
    let mut bench = Bench::up_with(WireLimits { undecided: 99, ..welcome(Time::ZERO).limits });
    let claim = lasting(0, false, 9).intent.claims[0].clone();
    let claim = RawClaim { target: RawTarget::Path("p".repeat(200)), ..claim };
    for id in 1..=9 {
        let intent = RawIntent { id, claims: vec![claim.clone(); 64], ..RawIntent::default() };
        bench.session.declare(Draft { intent, ..Draft::default() }, bench.now).unwrap();
    }
    let mut batches = Vec::new();
    while let Some(message) = bench.sent_at_most() {
        message.encode(&mut Vec::new()).unwrap();
        let ToCoordinator::Declare(declare) = message else { panic!("a declaration") };
        batches.push(declare.batch.len());
    }
    assert_eq!(batches, [4, 4, 1]);
}

#[test]
fn a_grant_is_given_up_by_the_agents_own_clock_before_its_end_can_have_come() {
    let mut bench = Bench::up();
    let end = bench.grant(1, false, 9, 1_000_000);
    bench.run_to(bench.now.after(Micros::from_secs(3)));
    let Event::News(News::Lost { why: Loss::Ended, .. }) = bench.event() else { panic!("the end") };
    let mut again = Bench::up();
    again.grant(1, false, 9, 1_000_000);
    let at = again.session.clock().may_be(end, again.now).unwrap();
    assert!(AHEAD + at.as_us() <= end.as_us());
    assert!(AHEAD + at.as_us() + 1_000 > end.as_us(), "and not long before");
}

#[test]
fn a_lease_asks_for_its_renewal_at_a_third_of_its_time() {
    let mut bench = Bench::up();
    let granted = bench.coordinator();
    bench.grant(1, true, 9, 3_000_000);
    bench.run_to(bench.now.after(Micros::from_ms(990)));
    assert_eq!(bench.sent_at_most(), None);
    bench.run_to(bench.now.after(Micros::from_ms(15)));
    let ToCoordinator::Renew(renew) = bench.sent() else { panic!("a renewal") };
    assert!(renew.until >= granted.after(Micros::from_ms(3_990)));
    bench.answer(renew.request, 1, Verdict::Renewed { end: renew.until });
    assert!(matches!(bench.event(), Event::News(News::Renewed { .. })));
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().end, renew.until);
}

#[test]
fn an_unanswered_renewal_is_asked_again_and_the_lease_is_lost_at_its_end_whatever_hangs() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 600_000);
    bench.run_to(bench.now.after(Micros::from_secs(1)));
    let renewals = std::iter::from_fn(|| bench.sent_at_most())
        .take_while(|sent| matches!(sent, ToCoordinator::Renew(_)));
    assert!((2..10).contains(&renewals.count()));
    assert_eq!(bench.lost(), (1, Loss::Unreachable));
}

#[test]
fn a_lease_given_up_is_released_since_its_renewal_may_still_be_on_its_way() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 600_000);
    bench.run_to(bench.now.after(Micros::from_secs(1)));
    let last = std::iter::from_fn(|| bench.sent_at_most()).last().unwrap();
    assert!(matches!(last, ToCoordinator::Release(release) if release.id == IntentId::new(1)));
}

#[test]
fn a_lease_whose_renewals_rights_are_against_ends_as_not_renewed() {
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 3_000_000);
    let over = bench.now.after(Micros::from_ms(2_990));
    while bench.now < over {
        bench.run_to(bench.now.after(Micros::from_ms(10)));
        if let Some(ToCoordinator::Renew(renew)) = bench.sent_at_most() {
            let (field, hint) = (String::new(), "by rule \"short\"".into());
            let reason = Refusal::Forbidden;
            let verdict = Verdict::Rejected { reason, field, hint, retry_after_us: None, kept: false };
            bench.answer(renew.request, 1, verdict);
        }
    }
    bench.run_to(over.after(Micros::from_ms(50)));
    let mut seen = Vec::new();
    while let Some(event) = bench.session.poll_event() {
        seen.push(event);
    }
    assert!(
        seen.iter()
            .any(|it| matches!(it, Event::News(News::RenewalDenied { blockers, .. }) if blockers.is_empty()))
    );
    let lost = Event::News(News::Lost {
        id: IntentId::new(1),
        token: Token::new(9),
        why: Loss::NotRenewed { by: None },
    });
    assert_eq!(seen.last(), Some(&lost));
}

#[test]
fn a_denied_renewal_is_told_with_the_end_that_stands_and_tried_again_less_and_less_often() {
    let mut bench = Bench::up();
    let end = bench.grant(1, true, 9, 3_000_000);
    let mut denials = 0;
    let over = bench.now.after(Micros::from_ms(2_990));
    while bench.now < over {
        bench.run_to(bench.now.after(Micros::from_ms(10)));
        if let Some(ToCoordinator::Renew(renew)) = bench.sent_at_most() {
            bench.answer(renew.request, 1, Verdict::RenewDenied { end, blockers: Vec::new() });
            let Event::News(News::RenewalDenied { end: told, .. }) = bench.event() else {
                panic!("a denial")
            };
            assert_eq!(told, end);
            denials += 1;
        }
    }
    assert!((3..12).contains(&denials), "{denials}");
}

#[test]
fn an_older_renewals_answer_that_arrives_late_changes_nothing() {
    let mut bench = Bench::up();
    let end = bench.grant(1, true, 9, 3_000_000);
    let (first, second) = (end.after(Micros::from_secs(1)), end.after(Micros::from_secs(2)));
    let older = bench.session.renew(IntentId::new(1), first).unwrap();
    let newer = bench.session.renew(IntentId::new(1), second).unwrap();
    bench.answer(newer, 1, Verdict::Renewed { end: second });
    bench.answer(older, 1, Verdict::Renewed { end: first });
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().end, second);
}

#[test]
fn a_released_grant_is_lost_at_once_and_no_renewal_brings_it_back() {
    let mut bench = Bench::up();
    let end = bench.grant(1, true, 9, 3_000_000);
    let renewal = bench.session.renew(IntentId::new(1), end.after(Micros::from_secs(1))).unwrap();
    let release = bench.session.release(IntentId::new(1)).unwrap();
    assert_eq!(bench.lost(), (1, Loss::Released { reason: None }));
    bench.answer(renewal, 1, Verdict::Renewed { end: end.after(Micros::from_secs(1)) });
    assert_eq!(bench.session.held(IntentId::new(1)), None);
    bench.answer(release, 1, Verdict::Released { reason: None });
    assert_eq!(bench.session.unanswered(), 0);
}

#[test]
fn refusals_of_a_store_are_told_once_with_what_is_asked_next() {
    let mut bench = Bench::up();
    bench.session.fence_refused();
    bench.session.fence_refused();
    bench.session.declare(draft(1, false), bench.now).unwrap();
    assert_eq!(bench.sent().fence_refusals(), 2);
    bench.session.release(IntentId::new(2)).unwrap();
    assert_eq!(bench.sent().fence_refusals(), 0, "they were told");
    bench.session.disconnected();
    bench.session.fence_refused();
    bench.session.connected(bench.now);
    assert_eq!(bench.sent().fence_refusals(), 1, "with the hello");
}

#[test]
fn a_release_does_not_withdraw_what_was_declared_after_it() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 3_000_000);
    let release = bench.session.release(IntentId::new(1)).unwrap();
    assert!(matches!(bench.sent(), ToCoordinator::Release(_)));
    assert_eq!(bench.lost(), (1, Loss::Released { reason: None }));
    let declared = bench.declare(1, false);
    bench.answer(release, 1, Verdict::Released { reason: None });
    assert_eq!(bench.session.unanswered(), 1);
    bench.answer(declared, 1, conflict(true));
    assert_eq!(bench.session.unanswered(), 0);
}

#[test]
fn an_abandoned_declaration_is_withdrawn_and_a_grant_that_crosses_is_not_kept() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.session.abandon(request);
    let ToCoordinator::Release(release) = bench.sent() else { panic!("a release") };
    let (start, end) = (bench.coordinator(), bench.coordinator().after(Micros::from_secs(1)));
    bench.answer(request, 1, Verdict::Granted { start, end, token: Token::new(4) });
    assert_eq!(bench.session.held(IntentId::new(1)), None);
    bench.answer(release.request, 1, Verdict::Released { reason: None });
    assert_eq!(bench.session.unanswered(), 0);
}

#[test]
fn an_abandoned_declaration_that_was_still_open_ends_with_the_answer_to_its_release() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    bench.session.abandon(request);
    let ToCoordinator::Release(release) = bench.sent() else { panic!("a release") };
    bench.answer(release.request, 1, Verdict::Released { reason: None });
    assert_eq!(bench.session.unanswered(), 0);
    bench.declare(1, false);
}

#[test]
fn a_repeat_of_a_grant_that_has_ended_is_not_handed_out() {
    let mut bench = Bench::up();
    let request = bench.declare(1, false);
    let at = bench.coordinator();
    bench.receive(Answer {
        request,
        id: IntentId::new(1),
        slot: Slot::new(3),
        at,
        repeat: true,
        verdict: Verdict::Granted { start: at.before(Micros::from_ms(9)), end: at, token: Token::new(3) },
        extensions: Extensions::NONE,
    });
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Ended, .. }));
    assert_eq!(bench.session.held(IntentId::new(1)), None);
}

#[test]
fn a_grant_in_hand_outlives_its_connection_to_its_end() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 1_000_000);
    bench.session.disconnected();
    assert_eq!(bench.event(), Event::News(News::Disconnected));
    assert!(bench.session.held(IntentId::new(1)).is_some());
    bench.run_to(bench.now.after(Micros::from_secs(2)));
    assert_eq!(bench.lost(), (1, Loss::Ended));
}

#[test]
fn a_moved_grant_has_another_token_and_end() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 1_000_000);
    let start = bench.coordinator().after(Micros::from_secs(2));
    let (end, token) = (start.after(Micros::from_secs(1)), Token::new(12));
    bench.answer(0, 1, Verdict::Moved { start, end, token });
    assert!(matches!(bench.event(), Event::News(News::Moved { .. })));
    let held = bench.session.held(IntentId::new(1)).unwrap().clone();
    assert_eq!((held.token, held.end), (token, end));
    bench.answer(0, 1, Verdict::Moved { start, end: start, token: Token::new(10) });
    assert_eq!(bench.session.held(IntentId::new(1)), Some(&held), "an older token is no news");
}

#[test]
fn a_revoked_intent_that_waits_on_may_be_granted_again_or_give_up() {
    let revoked =
        || Verdict::Revoked { by: "amb-1".into(), by_id: IntentId::new(1), offer: None, waiting: true };
    let mut bench = Bench::up();
    bench.grant(1, true, 9, 1_000_000);
    bench.answer(0, 1, revoked());
    assert!(matches!(bench.lost(), (1, Loss::Revoked { waiting: true, .. })));
    let start = bench.coordinator();
    let end = start.after(Micros::from_secs(1));
    bench.answer(0, 1, Verdict::Granted { start, end, token: Token::new(11) });
    assert!(matches!(bench.event(), Event::News(News::Granted { .. })));
    bench.answer(0, 1, revoked());
    assert!(matches!(bench.lost(), (1, _)));
    bench.answer(0, 1, conflict(true));
    assert_eq!(bench.event(), Event::News(News::GaveUp { id: IntentId::new(1) }));
}

#[test]
fn a_revision_keeps_the_old_grant_where_it_is_refused_and_replaces_it_where_it_is_granted() {
    let mut bench = Bench::up();
    let end = bench.grant(1, false, 9, 1_000_000);
    let revision = Draft { revision: true, ..draft(1, false) };
    let refused = bench.session.declare(revision.clone(), bench.now).unwrap();
    bench.answer(refused, 1, conflict(true));
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().end, end);
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Conflict { .. }, .. }));
    let placed = bench.session.declare(revision, bench.now).unwrap();
    let (start, end, token) = (bench.coordinator(), end.after(Micros::from_secs(1)), Token::new(10));
    bench.answer(placed, 1, Verdict::Granted { start, end, token });
    assert_eq!(bench.session.held(IntentId::new(1)).unwrap().token, token);
    assert!(matches!(bench.event(), Event::News(News::Revised { .. })));
    assert!(matches!(bench.event(), Event::Reply { reply: Reply::Granted { .. }, .. }));
}

#[test]
fn an_abandoned_revision_is_left_to_its_course() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 1_000_000);
    let request = bench.session.declare(Draft { revision: true, ..draft(1, false) }, bench.now).unwrap();
    assert!(matches!(bench.sent(), ToCoordinator::Declare(_)));
    bench.session.abandon(request);
    assert_eq!(bench.sent_at_most(), None);
}

#[test]
fn a_newer_incarnation_takes_every_grant() {
    let mut bench = Bench::up();
    bench.grant(1, false, 9, 1_000_000);
    bench.receive(crate::wire::Replaced::default());
    assert_eq!(bench.event(), Event::News(News::Replaced));
    assert_eq!(bench.lost(), (1, Loss::Replaced));
}

#[test]
fn draining_stops_declarations_but_not_releases() {
    let mut bench = Bench::up();
    bench.receive(crate::wire::Draining::default());
    assert!(matches!(bench.event(), Event::News(News::Draining { .. })));
    assert!(matches!(bench.session.declare(draft(1, false), bench.now), Err(NotTaken::Draining(_))));
    assert!(bench.session.release(IntentId::new(1)).is_ok());
}

/// A session that was told of a drain, which lasts `secs` from now.
fn draining(secs: u64) -> (Bench, Time) {
    let bench = Bench::up();
    let deadline = bench.coordinator().after(Micros::from_secs(secs));
    (bench, deadline)
}

fn told_to_drain(bench: &mut Bench, deadline: Time, is_over: bool) {
    let stands = DrainStands { deadline, is_over, left: Some(3) };
    let (reason, extensions) = ("upgrade".into(), stands.extensions());
    bench.receive(crate::wire::Draining { reason, extensions, ..Default::default() });
    let Event::News(News::Draining { deadline: told, left, .. }) = bench.event() else { panic!("a drain") };
    assert_eq!((told, left), ((!is_over).then_some(deadline), Some(3)));
}

#[test]
fn a_drain_stops_declarations_and_leaves_revisions_to_the_coordinator() {
    let (mut bench, deadline) = draining(30);
    bench.grant(1, false, 9, 60_000_000);
    told_to_drain(&mut bench, deadline, false);
    assert!(matches!(bench.session.declare(draft(2, false), bench.now), Err(NotTaken::Draining(_))));
    let revision = Draft { revision: true, ..draft(1, false) };
    assert!(bench.session.declare(revision.clone(), bench.now).is_ok());
    told_to_drain(&mut bench, deadline, true);
    assert!(matches!(bench.session.declare(revision, bench.now), Err(NotTaken::Draining(_))));
}

#[test]
fn what_waited_when_a_drain_began_is_refused_as_draining_and_not_withdrawn() {
    for drains in [true, false] {
        let (mut bench, deadline) = draining(30);
        let request = bench.declare(1, false);
        if drains {
            told_to_drain(&mut bench, deadline, false);
        }
        bench.answer(request, 1, Verdict::Released { reason: Some("it drains".into()) });
        let Event::Reply { reply, .. } = bench.event() else { panic!("an answer") };
        match reply {
            Reply::Rejected { reason: Refusal::Draining, hint, .. } => assert!(drains && hint == "it drains"),
            Reply::Withdrawn { .. } => assert!(!drains),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_lease_that_was_denied_is_asked_for_at_once_where_a_drain_is_put_off() {
    let (mut bench, deadline) = draining(8);
    bench.grant(1, true, 9, 9_000_000);
    told_to_drain(&mut bench, deadline, false);
    let renewal = |bench: &mut Bench| {
        bench.session.tick(bench.now);
        std::iter::from_fn(|| bench.session.poll_send()).find_map(|message| match message {
            ToCoordinator::Renew(renew) => Some(renew.request),
            _ => None,
        })
    };
    let request = loop {
        bench.now = bench.now.max(bench.session.next_timeout(bench.now).unwrap());
        if let Some(request) = renewal(&mut bench) {
            break request;
        }
    };
    bench.answer(request, 1, Verdict::RenewDenied { end: deadline, blockers: Vec::new() });
    assert!(matches!(bench.event(), Event::News(News::RenewalDenied { .. })));
    assert_eq!(renewal(&mut bench), None, "not before it is due again");
    told_to_drain(&mut bench, deadline.after(Micros::from_secs(60)), false);
    assert!(renewal(&mut bench).is_some());
}

#[test]
fn a_lease_that_a_drain_does_not_renew_is_denied_and_asked_for_less_and_less() {
    let (mut bench, deadline) = draining(8);
    let end = bench.grant(1, true, 9, 9_000_000);
    told_to_drain(&mut bench, deadline, false);
    let mut asked = 0;
    loop {
        let next = bench.session.next_timeout(bench.now).unwrap();
        bench.now = bench.now.max(next);
        bench.session.tick(bench.now);
        while let Some(message) = bench.session.poll_send() {
            match message {
                ToCoordinator::Renew(renew) => {
                    asked += 1;
                    let refused = Verdict::Rejected {
                        reason: Refusal::Draining,
                        field: String::new(),
                        hint: String::new(),
                        retry_after_us: Some(1_000),
                        kept: false,
                    };
                    bench.answer(renew.request, 1, refused);
                }
                ToCoordinator::ClockPing(ping) => {
                    let coordinator = bench.coordinator();
                    bench.receive(ClockPong { seq: ping.seq, client_us: ping.client_us, coordinator });
                }
                _ => {}
            }
        }
        match bench.session.poll_event() {
            Some(Event::News(News::RenewalDenied { end: stands, blockers, .. })) => {
                assert!(stands == end && blockers.is_empty());
            }
            Some(Event::News(News::Lost { why, .. })) => {
                assert_eq!(why, Loss::NotRenewed { by: None });
                break;
            }
            _ => {}
        }
    }
    assert!((2..20).contains(&asked), "asked {asked} times");
}

#[test]
fn an_order_to_drain_is_answered_once_and_not_made_again_over_another_connection() {
    let (mut bench, deadline) = draining(30);
    let stands = DrainStands { deadline, is_over: false, left: Some(2) };
    let answer = |request, verdict, extensions| Answer {
        request,
        id: IntentId::new(0),
        slot: Slot::new(0),
        at: Time::ZERO,
        repeat: false,
        verdict,
        extensions,
    };
    let request = bench.session.drain(DrainAsk::Order(DrainOrder::default())).unwrap();
    let ToCoordinator::Release(release) = bench.sent() else { panic!("a release that is none") };
    assert!(matches!(release.asks_about_drain(), Ok(Some(DrainAsk::Order(_)))));
    bench.receive(answer(request, Verdict::Released { reason: None }, stands.extensions()));
    let id = IntentId::new(0);
    assert_eq!(bench.event(), Event::Reply { request, id, reply: Reply::Drains(Some(stands)) });
    let request = bench.session.drain(DrainAsk::How).unwrap();
    bench.receive(answer(request, Verdict::ReleasedUnknown, Extensions::NONE));
    assert_eq!(bench.event(), Event::Reply { request, id, reply: Reply::Drains(None) });
    let request = bench.session.drain(DrainAsk::How).unwrap();
    bench.session.disconnected();
    assert_eq!(bench.event(), Event::Reply { request, id, reply: Reply::Unknown });
    assert_eq!(bench.session.unanswered(), 0);
}

#[test]
fn being_contested_is_told_as_it_came() {
    let mut bench = Bench::up();
    let now = bench.coordinator();
    let news = ContestedNews {
        id: IntentId::new(1),
        token: Token::new(9),
        slot: Slot::new(1),
        at: now,
        by: "amb-1".into(),
        by_id: IntentId::new(5),
        class: Class::new(7).unwrap(),
        wanted: Window::new(now, now.after(Micros::from_ms(1))).unwrap(),
        waits_us: 0,
        note: String::new(),
        extensions: Extensions::NONE,
    };
    bench.receive(news.clone());
    assert_eq!(bench.event(), Event::News(News::Contested(news)));
}

#[test]
fn what_counts_of_a_priority_is_told_ahead_of_what_the_intent_came_to() {
    let mut bench = Bench::up();
    let of = InForce {
        class: Class::default(),
        urgency: 0.0,
        safety_margin: 0.0,
        social_value: 0.0,
        rule: Some("robots".into()),
        by_allowance: false,
        allowance: None,
    };
    let extensions = of.extensions();
    bench.receive(Answer {
        request: 0,
        id: IntentId::new(1),
        slot: Slot::new(3),
        at: bench.coordinator(),
        repeat: false,
        verdict: Verdict::ReleasedUnknown,
        extensions,
    });
    assert_eq!(bench.event(), Event::News(News::InForce { id: IntentId::new(1), of }));
}

#[test]
fn a_clock_that_jumps_is_told_and_pings_go_on_every_two_seconds() {
    let mut bench = Bench::up();
    bench.run_to(bench.now.after(PING_EVERY));
    let Some(ToCoordinator::ClockPing(ping)) = bench.session.poll_send() else { panic!("a ping") };
    let coordinator = bench.coordinator().after(Micros::from_secs(180));
    bench.receive(ClockPong { seq: ping.seq, client_us: 0, coordinator });
    assert!(matches!(bench.event(), Event::News(News::ClockUncertain { jumped: true, .. })));
    let bounds = bench.session.clock().bounds(bench.now).unwrap();
    assert_eq!(bounds.earliest, coordinator, "the new exchange alone is believed");
}

#[test]
fn a_peer_that_talks_out_of_turn_is_told_so() {
    let mut session = AgentSession::new(identity());
    session.connected(Local::from_us(1));
    let pong = ClockPong { seq: 1, client_us: 1, coordinator: Time::ZERO };
    let breach = session.receive(pong.into(), Local::from_us(2)).unwrap_err();
    assert_eq!(breach.code, CloseCode::ProtocolOrder);
    let mut bench = Bench::up();
    let second = bench.session.receive(welcome(Time::ZERO).into(), bench.now).unwrap_err();
    assert_eq!(second.code, CloseCode::ProtocolOrder);
}

#[test]
fn a_welcome_or_answer_with_an_extension_that_must_be_understood_is_refused() {
    let required = Extension { number: Extension::REQUIRED | 1, value: Vec::new() };
    let extensions = Extensions::new(vec![required]).unwrap();
    let mut session = AgentSession::new(identity());
    session.connected(Local::from_us(1));
    let welcome = Welcome { extensions: extensions.clone(), ..welcome(Time::ZERO) };
    let breach = session.receive(welcome.into(), Local::from_us(2)).unwrap_err();
    assert_eq!(breach.code, CloseCode::UnsupportedExtension);
}

mod reconnect;
mod revising;

#[test]
fn a_welcome_to_slots_of_a_length_that_none_has_is_a_breach() {
    let receive = |slot_length: Micros| {
        let mut session = AgentSession::new(identity());
        session.connected(Local::from_us(1));
        session.receive(Welcome { slot_length, ..welcome(Time::ZERO) }.into(), Local::from_us(2))
    };
    let (least, most) = (limits::SLOT_MIN.as_us(), limits::SLOT_MAX.as_us());
    for wrong in [0, least - 1, most + 1, u64::MAX] {
        assert_eq!(receive(Micros::from_us(wrong)).unwrap_err().code, CloseCode::MalformedBody, "{wrong}");
    }
    for right in [least, most] {
        assert_eq!(receive(Micros::from_us(right)), Ok(()), "{right}");
    }
}
