//! `preclaim renew`: a later end for a lease.

use std::io;
use std::time::Duration;

use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::json::{Denied, Line, Renewed, Told};
use super::output::{self, Colour, Format, Output, json};
use super::times::{self, Moment, Wall};
use super::{ExitCode, explain, release};
use crate::client::{Client, Renewal};
use crate::types::{IntentId, Micros, Time};
use crate::wire::Blocker;

const EXAMPLE: &str = "\
Example:
  $ preclaim renew 4711 --for 30s

Ends with 0 when renewed, 10 when somebody is in the way, and 12 when there is no such lease or the
new end is beyond what is allowed; the old end stands then. An end before the present one changes
nothing.";

/// Ask for a later end of a lease (declare --hold)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
#[group(id = "end", required = true, multiple = false, args = ["until", "lasts"])]
pub(super) struct Args {
    /// The intent's id, as preclaim declare and preclaim ls print it
    #[arg(value_name = "ID")]
    id: u64,
    /// The new end: +2s, an RFC 3339 time
    #[arg(long, value_name = "TIME", value_parser = times::moment)]
    until: Option<Moment>,
    /// How long from now the new end is
    #[arg(long = "for", value_name = "DURATION", value_parser = times::lasting)]
    lasts: Option<Duration>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.connect.run("renew", Role::Agent, async |client| renew(args, client).await)
}

async fn renew(args: &Args, client: &Client) -> ExitCode {
    let id = IntentId::new(args.id);
    let (now, _) = client.coordinator_time();
    let lasts = args.lasts.map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    let until = lasts.map(|us| Moment::In(Micros::from_us(us))).or(args.until);
    // Clap sees to it that one of the two is given.
    let until = until.unwrap_or(Moment::Now).time(now);
    let renewal = match client.renew(id, until).await {
        Ok(renewal) => renewal,
        Err(error) => return connect::unanswered(&error).say(),
    };
    let wall = Wall::at(client.coordinator_time().0);
    let format = args.output.format();
    let line = |told| Line::told(client.name(), id, told);
    match renewal {
        Renewal::Until(end) if format == Format::Json => {
            output::print(format_args!("{}\n", json(&line(Told::Renewed(Renewed { end })))))
        }
        Renewal::Until(end) => {
            let renewed = output::painted("renewed", Colour::Green, &io::stdout());
            output::print(format_args!("{renewed}: intent {id} until {}\n", wall.ahead(end)))
        }
        Renewal::Denied { end, blockers } => {
            let told = Told::RenewDenied(Denied::until(end, &blockers));
            denied(id, until, end, &blockers, &wall).beside(format, &line(told))
        }
        Renewal::Ended => {
            let told = Told::RenewDenied(Denied::UNKNOWN);
            release::nothing(client.name(), id).beside(format, &line(told))
        }
    }
}

fn denied(id: IntentId, until: Time, end: Time, blockers: &[Blocker], wall: &Wall) -> Complaint {
    let what =
        format!("intent {id} is not renewed until {}; it ends at {}", wall.clock(until), wall.ahead(end));
    if blockers.is_empty() {
        return Complaint::new(ExitCode::Rejected, what)
            .why("it is no lease, or the new end is beyond max_hold or the horizon")
            .todo("declare with --hold what is to be renewed, or ask for less");
    }
    let mut complaint = Complaint::new(ExitCode::Conflict, what);
    complaint.why = explain::reasons(blockers, wall);
    match blockers.iter().map(|blocker| blocker.start).min() {
        Some(free) if free > end => complaint.todo(format!(
            "ask for no later than {}: --until {}",
            wall.clock(free),
            times::rfc3339(free)
        )),
        _ => complaint.todo("be done by then, and declare anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Token;

    const NOW: Time = Time::from_us(1_795_948_258_350_000); // 2026-11-29T10:30:58.35Z

    #[test]
    fn a_denial_says_which_end_stands_and_how_far_it_could_go() {
        let after = |secs| NOW.after(Micros::from_secs(secs));
        let blocker = Blocker {
            agent: "b".into(),
            id: IntentId::new(3),
            token: Some(Token::new(9)),
            claim: 0,
            their_claim: 0,
            start: after(20),
            end: after(30),
            ratio: None,
            holding: None,
        };
        let wall = Wall::utc(NOW);
        let id = IntentId::new(7);
        let said = denied(id, after(30), after(10), &[blocker], &wall);
        assert_eq!(said.code, ExitCode::Conflict);
        let said = said.to_string();
        assert!(said.contains("until 10:31:28.350; it ends at 10:31:08.350, in 10.0 s"), "{said}");
        assert!(said.contains("--until 2026-11-29T10:31:18.35Z"), "{said}");
        let said = denied(id, after(30), after(10), &[], &wall);
        assert_eq!(said.code, ExitCode::Rejected);
        assert!(said.to_string().contains("--hold"), "{said}");
    }
}
