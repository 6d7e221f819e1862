//! `preclaim hold`: a command that runs under a lease, and no longer than that.

mod command;
mod keeper;
mod news;
mod signals;
mod tree;

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process;
use std::time::{Duration, Instant};

use super::claims::{self, Written};
use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::explain::{self, Again, Asked};
use super::json::{Conflict, Line, Placed, Rejected, Told};
use super::output::{self, Output, json};
use super::quote::Words;
use super::times::{self, Wall};
use super::{ExitCode, declare, traced};
use crate::client::{Client, Event, Events, Grant, Intent, Outcome};
use crate::limits;
use crate::types::{IntentId, Micros, Time};
use signals::Signals;

const EXAMPLE: &str = "\
Examples:
  $ preclaim hold db/schema -- make migrate
  $ preclaim hold db/schema gpu/pool:2 --wait 10m --note 'nightly migration' -- ./migrate.sh
  $ preclaim hold file/plan.md -- sh -c './edit --fence \"$PRECLAIM_FENCE\" plan.md'

The command runs once the claims are held, with the same standard input, output and error, and finds
the fences in PRECLAIM_FENCE (start:token, of the first claim) and PRECLAIM_FENCE_0, _1, ... (one a
claim), and in PRECLAIM_UNTIL until when it holds them, by this machine's clock, unless that is
renewed. Where the lease is lost, or about to end without having been renewed, the command and what
it started get TERM, and KILL after --grace or just before the end of the lease.

Ends with the command's own code (126: it cannot be run, 127: not found, 128+N: ended by signal N), with
14 where the lease was lost while it ran, and where it was not had, so that the command did not run, as
preclaim declare ends: 10, 11, 12, 15, ...; see preclaim exit-codes. The lease is released as soon as
the command has ended. TRACEPARENT and TRACESTATE (W3C Trace Context) say in which trace it is declared.";

/// Run a command under a lease; end it where the lease is lost
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXAMPLE}", claims::SYNTAX))]
pub(super) struct Args {
    /// What the command uses: PATH, PATH:shared, PATH:UNITS, FRAME@x0,y0..x1,y1; see below
    #[arg(required = true, value_name = "CLAIM")]
    claims: Vec<String>,
    /// How long to wait for a place, rather than end as a conflict at once
    #[arg(long, value_name = "DURATION", value_parser = times::span, default_value = "0s")]
    wait: Duration,
    /// How long the lease is: it is renewed at a third of that, and what is left of it is how long others
    /// wait for a machine that died
    #[arg(long, value_name = "DURATION", value_parser = times::lasting, default_value = "30s")]
    lease: Duration,
    /// How long the command may take to end by itself after TERM, before KILL
    #[arg(long, value_name = "DURATION", value_parser = times::span, default_value = "5s")]
    grace: Duration,
    /// 0 to 7; the highest goes first
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(limits::CLASS_MAX)))]
    class: u8,
    /// Priority input, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = declare::share)]
    urgency: f64,
    /// For people, up to 128 bytes: what for, who, a link; others see it [default: the command, without its arguments]
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) use command::{Inner, run_inner};

/// The exit code of `hold` may be any: it is its command's.
pub(super) fn run(args: &Args) -> process::ExitCode {
    let claims = match read_claims(&args.claims) {
        Ok(claims) => claims,
        Err(complaint) => return complaint.say().into(),
    };
    // Set where the command ran.
    let own = Cell::new(None);
    // Whoever does not read what is said is no reason not to renew the lease, nor not to end the command.
    output::talk_without_waiting();
    let code = args.connect.run("hold", Role::Agent, async |client| {
        let plan = Plan { args, claims: &claims, id: IntentId::new(connect::fresh_id()) };
        match plan.carry_out(client).await {
            Ok(code) => {
                own.set(Some(code));
                ExitCode::Done
            }
            Err(code) => code,
        }
    });
    output::flush();
    own.get().map_or_else(|| code.into(), process::ExitCode::from)
}

fn read_claims(texts: &[String]) -> Result<Vec<Written>, Complaint> {
    if texts.iter().any(|text| text == "-") {
        let what = "claims cannot come from standard input: it is the command's";
        return Err(Complaint::new(ExitCode::Usage, what).todo("name them before the --"));
    }
    declare::read_claims(texts, io::empty())
}

fn failed(error: &io::Error) -> ExitCode {
    Complaint::new(ExitCode::Failure, error.to_string()).say()
}

struct Plan<'a> {
    args: &'a Args,
    claims: &'a [Written],
    id: IntentId,
}

impl Plan<'_> {
    fn intent(&self) -> Intent {
        let args = self.args;
        let mut intent = Intent::asap().lease();
        for claim in self.claims {
            intent = intent.claim(claim.to_use(), args.lease);
        }
        let note = if args.note.is_empty() { self.program() } else { args.note.clone() };
        let intent = intent.id(self.id.number()).wait(args.wait).class(args.class).urgency(args.urgency);
        traced::in_context(intent.note(note))
    }

    /// What runs, as a note: without its arguments, among which may be what is nobody else's business.
    fn program(&self) -> String {
        let name = self.args.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        let shown =
            name.char_indices().take_while(|(at, letter)| at + letter.len_utf8() <= limits::NOTE_BYTES);
        shown.map(|(_, letter)| if letter.is_control() { ' ' } else { letter }).collect()
    }

    /// The code that the command ended with, or the one of why it did not run to its end under the lease.
    async fn carry_out(&self, client: &Client) -> Result<u8, ExitCode> {
        let mut signals = Signals::listen().map_err(|error| failed(&error))?;
        let mut events = client.events();
        let began = Instant::now();
        let outcome = tokio::select! {
            biased;
            outcome = client.declare(self.intent()) => outcome,
            () = self.show_waiting(client, &mut events) => return Err(ExitCode::Failure),
            () = signals.asked_to_stop() => {
                let what = "interrupted; the intent is withdrawn, and the command did not run";
                return Err(Complaint::new(ExitCode::Failure, what).say());
            }
        };
        let wall = Wall::at(client.coordinator_time().0);
        match outcome {
            Ok(Outcome::Granted(grant)) => {
                self.say_granted(&grant, client.name(), &wall);
                keeper::Keeper::new(self, client).keep(grant, &mut events, &mut signals).await
            }
            Ok(outcome) => {
                let passed = !self.args.wait.is_zero() && began.elapsed() >= self.args.wait;
                Err(self.not_had(client.name(), &outcome, &wall, passed))
            }
            Err(error) => Err(connect::undecided(&error, self.words(None)).say()),
        }
    }

    /// Says on a terminal whom it waits for. Never ends while the client lives.
    async fn show_waiting(&self, client: &Client, events: &mut Events) {
        let mut is_said = false;
        while let Some(event) = events.next().await {
            if let Event::Waiting { blockers, .. } = event
                && !std::mem::replace(&mut is_said, true)
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

    /// Standard output is the command's, and so is standard error where nobody asked: a person at a
    /// terminal is told, and a program that wants to know.
    fn say_granted(&self, grant: &Grant, name: &str, wall: &Wall) {
        let (id, token, fence) = (grant.id(), grant.token(), grant.fence(0));
        if self.is_json() {
            let placed = Placed::new(grant.start(), grant.end(), token).fenced(fence);
            output::talk(json(&Line::told(name, id, Told::Granted(placed))));
        } else if io::stderr().is_terminal() {
            let (what, end) = (explain::listed(self.claims), wall.ahead(grant.end()));
            output::talk(format_args!(
                "held: {what} until {end}, and renewed\n  intent {id}, token {token}, fence {fence}"
            ));
        }
    }

    fn not_had(&self, name: &str, outcome: &Outcome, wall: &Wall, passed: bool) -> ExitCode {
        let waited = passed.then(|| Micros::from(self.args.wait));
        match outcome {
            Outcome::Conflict(conflict) => {
                // A start that somebody names is none for this command: what it offers is to wait for it.
                let asked = Asked { name, claims: self.claims, is_asap: false, expects: false, waited };
                let complaint =
                    explain::conflict(&asked, conflict.into(), wall, &Later { plan: self, now: wall.now });
                let body = Conflict::last(conflict.is_deadlock(), conflict.offer(), conflict.blockers());
                self.complain(&complaint, name, Told::Conflict(body))
            }
            Outcome::Rejected(why) => {
                let retry_after = why.retry_after().map(|after| Micros::from(after).as_us());
                let (reason, field, hint) = (why.reason().as_str(), why.field(), why.hint());
                let body = Rejected { reason, field, kept: false, hint, retry_after };
                self.complain(&explain::rejected(why.into()), name, Told::Rejected(body))
            }
            // It rests on no reading, and a grant is no refusal.
            Outcome::Stale(_) | Outcome::Granted(_) => ExitCode::Failure,
        }
    }

    fn complain(&self, complaint: &Complaint, name: &str, told: Told<'_>) -> ExitCode {
        if !self.is_json() {
            return complaint.say();
        }
        output::talk(json(&Line::told(name, self.id, told)));
        complaint.code
    }

    fn is_json(&self) -> bool {
        self.args.output.is_json_asked()
    }

    /// The same command again.
    fn words(&self, wait: Option<&str>) -> String {
        let args = self.args;
        let mut words = Words::of(&["preclaim", "hold"]);
        self.claims.iter().for_each(|claim| words.word(claim.text()));
        let own = times::spelled(args.wait);
        for (flag, value, default) in [
            ("--wait", wait.unwrap_or(&own), "0us"),
            ("--lease", &times::spelled(args.lease), "30s"),
            ("--grace", &times::spelled(args.grace), "5s"),
            ("--class", &args.class.to_string(), "0"),
            ("--urgency", &args.urgency.to_string(), "0"),
            ("--note", &args.note, ""),
        ] {
            if value != default {
                words.flag(flag, value);
            }
        }
        args.connect.flags(&mut words);
        words.word("--");
        args.command.iter().for_each(|word| words.word(&word.to_string_lossy()));
        words.to_string()
    }
}

/// What to do about a conflict: the same, with a wait that reaches to when it is free.
struct Later<'a> {
    plan: &'a Plan<'a>,
    now: Time,
}

impl Again for Later<'_> {
    fn waiting(&self, wait: &str) -> String {
        self.plan.words(Some(wait))
    }

    fn at(&self, start: Time) -> String {
        self.waiting(&times::at_least(start.since(self.now)))
    }

    fn expecting(&self, _path: &str) -> String {
        self.plan.words(None)
    }

    fn release(&self, id: IntentId) -> String {
        self.plan.args.connect.command_on("release", id).to_string()
    }
}
