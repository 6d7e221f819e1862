//! `preclaim declare`: one intent, and what came of it.

use std::cell::Cell;
use std::io::{self, BufRead, IsTerminal, Read};
use std::time::{Duration, Instant};

use super::claims::{self, Written};
use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::explain::{self, Again, Asked};
use super::json::{Conflict, Line, Placed, Rejected, Stale, Told};
use super::output::{self, Colour, Format, Output, json};
use super::quote::Words;
use super::signal::Stop;
use super::times::{self, Moment, Wall};
use super::{ExitCode, expect, traced};
use crate::client::{Client, Event, Events, Grant, Intent, Outcome};
use crate::limits;
use crate::types::{Class, IntentId, Micros, Time};
use crate::wire::InForce;

const EXAMPLE: &str = "\
Examples:
  $ preclaim declare file/README.md --for 30s
  $ preclaim declare db/schema gpu/pool:2 --for 5m --wait 30s --note 'nightly migration'
  $ preclaim declare yard@0,0..4,2.5 --for 2s --at +500ms --slack 1s

Ends with 0 when granted, 10 on a conflict, 11 when the wait passed, 12 when rejected, 13 when
stale, 15 when nobody knows (the message has the command that asks again); see preclaim exit-codes.
A grant runs to its end, whatever becomes of this command: preclaim release ends it before.
TRACEPARENT and TRACESTATE (W3C Trace Context) say in which trace it is declared.";

/// Declare what will be used, and when; granted whole or not at all
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXAMPLE}", claims::SYNTAX))]
pub(super) struct Args {
    /// What will be used: PATH, PATH:shared, PATH:UNITS, FRAME@x0,y0..x1,y1; see below
    #[arg(required = true, value_name = "CLAIM")]
    claims: Vec<String>,
    /// For how long, such as 250us, 10ms, 30s, 5m
    #[arg(long = "for", value_name = "DURATION", value_parser = times::lasting)]
    lasts: Duration,
    /// When it starts: now, +2s, an RFC 3339 time [default: as soon as it can]
    #[arg(long, value_name = "TIME", value_parser = times::moment)]
    at: Option<Moment>,
    /// How long from now it starts; the same as --at +DURATION
    #[arg(long = "in", value_name = "DURATION", value_parser = times::span, conflicts_with = "at")]
    starts_in: Option<Duration>,
    /// The start may be moved later by up to this much
    #[arg(long, value_name = "DURATION", value_parser = times::span, default_value = "0s")]
    slack: Duration,
    /// How long to wait for a place, rather than end as a conflict at once
    #[arg(long, value_name = "DURATION", value_parser = times::span, default_value = "0s")]
    wait: Duration,
    /// A lease: preclaim renew may move its end
    #[arg(long)]
    hold: bool,
    /// 0 to 7; the highest goes first
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(limits::CLASS_MAX)))]
    class: u8,
    /// Priority input, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = share)]
    urgency: f64,
    /// Priority input, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = share)]
    safety_margin: f64,
    /// Priority input, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = share)]
    social_value: f64,
    /// Its id, unique within the name; the same id and content again asks what came of it [default:
    /// drawn at random]
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    /// For people, up to 128 bytes: what for, who, a link
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// It rests on what PATH was at TIME: it ends as stale where somebody may have written there
    /// since. Not with --at, --in, --slack, --wait
    #[arg(long = "expect", value_name = "PATH@TIME", value_parser = expect::reading,
        conflicts_with_all = ["at", "starts_in", "slack", "wait"])]
    expects: Vec<expect::Reading>,
    /// Which of several things that the name does at once it is for
    #[arg(long, value_name = "N", default_value_t = 0)]
    task: u64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// Reads a priority input.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it is a number from 0 to 1".into())
}

pub(super) fn run(args: &Args) -> ExitCode {
    let claims = match read_claims(&args.claims, io::stdin().lock()) {
        Ok(claims) => claims,
        Err(complaint) => return complaint.say(),
    };
    args.connect.run("declare", Role::Agent, async |client| {
        let plan = Plan::made(args, &claims, client);
        plan.carry_out(client).await
    })
}

/// The claims, those on standard input in the place of `-`.
pub(super) fn read_claims(texts: &[String], input: impl Read) -> Result<Vec<Written>, Complaint> {
    let mut claims = Vec::new();
    let mut input = Some(input.take(limits::FRAME_BYTES as u64));
    for text in texts {
        match (text.as_str(), input.as_mut()) {
            ("-", Some(_)) => {
                let lines = input.take().into_iter().flat_map(|input| io::BufReader::new(input).lines());
                for line in lines {
                    let line = line.map_err(|error| {
                        Complaint::new(ExitCode::Usage, format!("standard input: {error}"))
                    })?;
                    if !line.trim().is_empty() {
                        claims.push(claim(line.trim_end())?);
                    }
                }
            }
            ("-", None) => {} // read once already
            (text, _) => claims.push(claim(text)?),
        }
    }
    within_limits(claims)
}

/// As many as one intent may have.
pub(super) fn within_limits(claims: Vec<Written>) -> Result<Vec<Written>, Complaint> {
    match claims.len() {
        0 => Err(Complaint::new(ExitCode::Usage, "standard input has no claim").todo("one claim a line")),
        many if many > limits::CLAIMS => {
            let what = format!("{many} claims are more than the {} of one intent", limits::CLAIMS);
            Err(Complaint::new(ExitCode::Usage, what).todo("claim a path above several of them"))
        }
        _ => Ok(claims),
    }
}

/// Reads one claim.
pub(super) fn claim(text: &str) -> Result<Written, Complaint> {
    text.parse().map_err(|why: String| {
        Complaint::new(ExitCode::Usage, format!("`{}` is no claim", output::harmless(text)))
            .why(why)
            .todo("PATH, PATH:shared, PATH:5 or FRAME@x0,y0..x1,y1; see preclaim declare --help")
    })
}

/// A declaration with all its times fixed, so that it can be asked for again as it was.
struct Plan<'a> {
    args: &'a Args,
    claims: &'a [Written],
    id: IntentId,
    /// `None`: asap.
    start: Option<Time>,
    expects: Vec<expect::Dated<'a>>,
    /// What was told of how much of its priority counts.
    told: Cell<Option<InForce>>,
}

impl<'a> Plan<'a> {
    fn made(args: &'a Args, claims: &'a [Written], client: &Client) -> Self {
        let (now, _) = client.coordinator_time();
        let asked = args.at.or_else(|| args.starts_in.map(|span| Moment::In(micros(span))));
        Plan {
            args,
            claims,
            id: IntentId::new(args.id.unwrap_or_else(connect::fresh_id)),
            // By the time that it is decided, now has passed: what is meant is as soon as it can be.
            start: asked.filter(|at| *at != Moment::Now).map(|at| at.time(now)),
            expects: args.expects.iter().map(|reading| reading.dated(client.reading())).collect(),
            told: Cell::new(None),
        }
    }

    fn intent(&self) -> Intent {
        let args = self.args;
        let mut intent = self.start.map_or_else(Intent::asap, Intent::at);
        for claim in self.claims {
            intent = intent.claim(claim.to_use(), args.lasts);
        }
        for reading in &self.expects {
            intent = intent.expect(reading.path.clone(), reading.as_of);
        }
        let intent = if args.hold { intent.lease() } else { intent };
        traced::in_context(intent)
            .id(self.id.number())
            .slack(args.slack)
            .wait(args.wait)
            .class(args.class)
            .urgency(args.urgency)
            .safety_margin(args.safety_margin)
            .social_value(args.social_value)
            .task(args.task)
            .note(args.note.clone())
    }

    async fn carry_out(&self, client: &Client) -> ExitCode {
        let mut stop = match Stop::listen() {
            Ok(stop) => stop,
            Err(error) => return Complaint::new(ExitCode::Failure, error.to_string()).say(),
        };
        let began = Instant::now();
        let mut events = client.events();
        let shown = Cell::new(false);
        let outcome = tokio::select! {
            biased;
            outcome = client.declare(self.intent()) => outcome,
            () = self.show_waiting(client, &mut events, &shown) => return ExitCode::Failure,
            () = stop.asked() => {
                return Complaint::new(ExitCode::Failure, "interrupted; the intent is withdrawn").say();
            }
        };
        let wall = Wall::at(client.coordinator_time().0);
        let waited =
            (!self.args.wait.is_zero() && began.elapsed() >= self.args.wait).then_some(self.args.wait);
        match outcome {
            Ok(outcome) => {
                let counts = self.counts(&mut events);
                let code = self.tell(client, outcome, &wall, (waited.map(micros), counts.as_ref()));
                self.say_what_counts(counts.as_ref());
                code
            }
            Err(error) => connect::undecided(&error, self.words(None, self.start, Some(self.id))).say(),
        }
    }

    /// What counts of its priority, as it was told last.
    fn counts(&self, events: &mut Events) -> Option<InForce> {
        let of_this = |event| match event {
            Event::InForce { id, of } if id == self.id => Some(of),
            _ => None,
        };
        std::iter::from_fn(|| events.try_next()).filter_map(of_this).last().or_else(|| self.told.take())
    }

    /// Says what counts where that is less than was asked for.
    fn say_what_counts(&self, counts: Option<&InForce>) {
        if self.args.output.format() == Format::Table
            && let Some(of) = counts.filter(|of| of.is_lowered())
        {
            output::talk(format_args!("  note {}", explain::lowered(of)));
        }
    }

    /// Says on a terminal whom it waits for. Never ends while the client lives.
    async fn show_waiting(&self, client: &Client, events: &mut Events, shown: &Cell<bool>) {
        while let Some(event) = events.next().await {
            if let Event::InForce { id, of } = &event
                && *id == self.id
            {
                self.told.set(Some(of.clone()));
            }
            if let Event::Waiting { blockers, .. } = event
                && !shown.replace(true)
                && io::stderr().is_terminal()
            {
                let wall = Wall::at(client.coordinator_time().0);
                let who = explain::reasons(&blockers, &wall).join("\n         ");
                let wait = times::spelled(self.args.wait);
                output::talk(format_args!("waiting up to {wait}; Ctrl-C withdraws\n  why  {who}"));
            }
        }
        std::future::pending().await
    }

    fn tell(
        &self,
        client: &Client,
        outcome: Outcome,
        wall: &Wall,
        (waited, counts): (Option<Micros>, Option<&InForce>),
    ) -> ExitCode {
        let name = client.name();
        let told = |complaint: Complaint, told| {
            let line = Line::told(name, self.id, told).counting(counts);
            complaint.beside(self.args.output.format(), &line)
        };
        match outcome {
            Outcome::Granted(grant) => self.granted(grant, (name, counts), wall),
            Outcome::Conflict(conflict) => {
                let complaint = explain::conflict(&self.asked(name, waited), (&conflict).into(), wall, self);
                let body = Conflict::last(conflict.is_deadlock(), conflict.offer(), conflict.blockers());
                told(complaint, Told::Conflict(body))
            }
            Outcome::Stale(stale) => {
                let (path, as_of) = (stale.path(), stale.as_of());
                let complaint = explain::stale(path, as_of, wall, self);
                told(complaint, Told::Stale(Stale { path, as_of, kept: false }))
            }
            Outcome::Rejected(why) => {
                let retry_after = why.retry_after().map(|after| micros(after).as_us());
                let (reason, field, hint) = (why.reason().as_str(), why.field(), why.hint());
                let body = Rejected { reason, field, kept: false, hint, retry_after };
                told(explain::rejected((&why).into()), Told::Rejected(body))
            }
        }
    }

    fn asked<'b>(&'b self, name: &'b str, waited: Option<Micros>) -> Asked<'b> {
        let expects = !self.expects.is_empty();
        Asked { name, claims: self.claims, is_asap: self.start.is_none(), expects, waited }
    }

    fn granted(&self, grant: Grant, (name, counts): (&str, Option<&InForce>), wall: &Wall) -> ExitCode {
        let (start, end, token, fence) = (grant.start(), grant.end(), grant.token(), grant.fence(0));
        let id = grant.detach();
        if self.args.output.format() == Format::Json {
            let placed = Placed::new(start, end, token).fenced(fence);
            let line = Line::told(name, id, Told::Granted(placed)).counting(counts);
            return output::print(format_args!("{}\n", json(&line)));
        }
        let what = explain::listed(self.claims);
        let from = match self.start {
            Some(_) if start > wall.now => format!("from {} ", wall.ahead(start)),
            _ => String::new(),
        };
        let granted = output::painted("granted", Colour::Green, &io::stdout());
        let code = output::print(format_args!(
            "{granted}: {what} {from}until {}\n  intent {id}, token {token}, fence {fence}\n",
            wall.ahead(end)
        ));
        let release = self.release(id);
        output::talk(format_args!("  do   {release}      when it is no longer needed"));
        if self.args.hold {
            let renew = self.args.connect.command_on("renew", id);
            output::talk(format_args!(
                "  or   {renew} --for {}      for longer",
                times::spelled(self.args.lasts)
            ));
        }
        code
    }

    /// The command that declares the same.
    fn words(&self, wait: Option<&str>, start: Option<Time>, id: Option<IntentId>) -> String {
        let args = self.args;
        let mut words = Words::of(&["preclaim", "declare"]);
        self.claims.iter().for_each(|claim| words.word(claim.text()));
        words.flag("--for", &times::spelled(args.lasts));
        if let Some(start) = start {
            words.flag("--at", &times::rfc3339(start));
        }
        let wait = wait.map_or_else(|| times::spelled(args.wait), str::to_owned);
        for (flag, span) in [("--slack", times::spelled(args.slack)), ("--wait", wait)] {
            if span != "0us" {
                words.flag(flag, &span);
            }
        }
        self.rarer_flags(&mut words);
        if let Some(id) = id {
            words.flag("--id", &id.to_string());
        }
        args.connect.flags(&mut words);
        words.to_string()
    }

    fn rarer_flags(&self, words: &mut Words) {
        let args = self.args;
        if args.hold {
            words.word("--hold");
        }
        if args.class != Class::default().number() {
            words.flag("--class", &args.class.to_string());
        }
        let inputs = [
            ("--urgency", args.urgency),
            ("--safety-margin", args.safety_margin),
            ("--social-value", args.social_value),
        ];
        for (flag, input) in inputs.into_iter().filter(|(_, input)| *input > 0.0) {
            words.flag(flag, &input.to_string());
        }
        if args.task > 0 {
            words.flag("--task", &args.task.to_string());
        }
        for reading in &self.expects {
            words.flag("--expect", &reading.to_string());
        }
        if !args.note.is_empty() {
            words.flag("--note", &args.note);
        }
    }
}

impl Again for Plan<'_> {
    fn waiting(&self, wait: &str) -> String {
        self.words(Some(wait), self.start, None)
    }

    fn at(&self, start: Time) -> String {
        // It is free then: there is nothing to wait for.
        self.words(Some("0us"), Some(start), None)
    }

    fn expecting(&self, path: &str) -> String {
        let mut fresh = Words::of(&["preclaim", "declare"]);
        self.claims.iter().for_each(|claim| fresh.word(claim.text()));
        fresh.flag("--for", &times::spelled(self.args.lasts));
        fresh.flag("--expect", &format!("{path}@TIME"));
        self.args.connect.flags(&mut fresh);
        fresh.to_string()
    }

    fn release(&self, id: IntentId) -> String {
        self.args.connect.command_on("release", id).to_string()
    }
}

fn micros(span: Duration) -> Micros {
    Micros::from_us(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
