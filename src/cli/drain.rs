//! `preclaim drain`: has a coordinator grant nothing new, waits for its holders, and says when it has ended.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::ExitCode;
use super::complaint::Complaint;
use super::connect::{self, Connect, Role};
use super::output::{self, Colour, Format, Output, Progress, json};
use super::times::{self, Wall};
use crate::client::{Client, Event, Events};
use crate::config::parse_duration;
use crate::limits;
use crate::types::{Micros, Time};
use crate::wire::DrainStands;

const EXAMPLE: &str = "\
Examples:
  $ preclaim drain                                   # waits for holders as long as [drain] deadline says
  $ preclaim drain --deadline 2m --reason upgrade    # where a rule has `administer` for everything
  $ preclaim drain --deadline 0s                     # a drain that goes on is brought to its end

From then on /readyz is 503, what is declared is refused, what waits ends, and all agents are told until when they
may go on: leases are renewed up to the deadline. The coordinator ends once no grant is in force, or at the deadline;
what stands then stands in its state. Asked again, the deadline comes nearer or is put off. A drain is not taken back.
Ends with 0 when the coordinator has ended. SIGUSR2 has `serve` and `dev` drain too.";

/// Have the coordinator grant nothing new, wait for its holders, and end
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// How long holders may go on, up to 24h [default: the coordinator's [drain] deadline]
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    deadline: Option<Duration>,
    /// Why, which all agents are told
    #[arg(long, value_name = "TEXT", value_parser = super::release::reason)]
    reason: Option<String>,
    /// End as soon as the drain has begun
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// How often it is asked how many grants are left.
const LOOK: Duration = Duration::from_millis(200);
/// How long a coordinator that cannot be reached is looked for after the deadline.
const GRACE: Micros = Micros::from_secs(10);

fn deadline(text: &str) -> Result<Duration, String> {
    let most = limits::DRAIN_MOST;
    let rule = || format!("it is a duration from 0s to {}, such as 30s", times::spelled(most.to_std()));
    parse_duration(text).filter(|span| *span <= most).map(Micros::to_std).ok_or_else(rule)
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Draining(Body),
    Drained(Body),
}

#[derive(Serialize)]
struct Body {
    deadline: Time,
    /// Grants in force; `null` where it is not known.
    left: Option<u64>,
}

impl Body {
    fn of(stands: &DrainStands) -> Self {
        Body { deadline: stands.deadline, left: stands.left }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    args.connect.run("drain", Role::Agent, async |client| drain(args, client).await)
}

async fn drain(args: &Args, client: &Client) -> ExitCode {
    // From before the order, so that nothing of it is missed.
    let events = client.events();
    let reason = args.reason.clone().unwrap_or_default();
    let stands = match client.drain(args.deadline, reason).await {
        Ok(stands) => stands,
        Err(error) => return connect::unanswered(&error).say(),
    };
    let format = args.output.format();
    let wall = Wall::at(client.coordinator_time().0);
    if args.no_wait {
        return match format {
            Format::Json => output::print(format_args!("{}\n", json(&Line::Draining(Body::of(&stands))))),
            Format::Table => {
                let draining = output::painted("draining", Colour::Yellow, &io::stdout());
                let (until, left) = (wall.ahead(stands.deadline), grants(stands.left));
                output::print(format_args!("{draining}: until {until}; {left} in force\n"))
            }
        };
    }
    output::talk(format_args!("draining until {}", wall.ahead(stands.deadline)));
    match (Wait { client, events, stands, is_over: false, is_away: false }).until_the_end().await {
        Ok(stands) => ended(&stands, format),
        Err(complaint) => complaint.say(),
    }
}

fn ended(stands: &DrainStands, format: Format) -> ExitCode {
    if format == Format::Json {
        return output::print(format_args!("{}\n", json(&Line::Drained(Body::of(stands)))));
    }
    let drained = output::painted("drained", Colour::Green, &io::stdout());
    let how = match stands.left {
        None => "the coordinator has ended".to_owned(),
        Some(0) => "no grant is in force, and the coordinator has ended".to_owned(),
        Some(_) => format!("the coordinator has ended with {} in force", grants(stands.left)),
    };
    output::print(format_args!("{drained}: {how}\n"))
}

fn grants(left: Option<u64>) -> String {
    match left {
        None => "an unknown number of grants".to_owned(),
        Some(1) => "1 grant".to_owned(),
        Some(count) => format!("{count} grants"),
    }
}

/// Somebody who waits for the end of a drain.
struct Wait<'a> {
    client: &'a Client,
    events: Events,
    /// As it was told last.
    stands: DrainStands,
    /// The coordinator has said that it stops.
    is_over: bool,
    is_away: bool,
}

impl Wait<'_> {
    async fn until_the_end(mut self) -> Result<DrainStands, Complaint> {
        let progress = Progress::start();
        let ended = loop {
            progress.tell(&self.words());
            tokio::select! {
                biased;
                event = self.events.next() => if self.has_ended(event) {
                    break Ok(self.stands);
                },
                () = tokio::time::sleep(LOOK) => match self.look().await {
                    Ok(true) => break Ok(self.stands),
                    Ok(false) => {}
                    Err(complaint) => break Err(complaint),
                }
            }
        };
        progress.done();
        ended
    }

    fn words(&self) -> String {
        let left = self.stands.deadline.since(self.client.coordinator_time().0);
        format!("draining: {} in force, up to {} left", grants(self.stands.left), times::length(left))
    }

    /// Takes note of what happened, and says whether the coordinator has ended.
    fn has_ended(&mut self, event: Option<Event>) -> bool {
        match event {
            Some(Event::Draining { deadline, left, .. }) => {
                self.is_over |= deadline.is_none();
                self.stands.deadline = deadline.unwrap_or(self.stands.deadline);
                self.stands.left = left.or(self.stands.left);
            }
            Some(Event::Disconnected { .. }) if self.is_over => return true,
            Some(Event::Disconnected { .. }) => self.is_away = true,
            Some(Event::Resumed { .. }) => self.is_away = false,
            None => return true,
            Some(_) => {}
        }
        false
    }

    /// Asks how many are left. Whether there is another coordinator by now, which does not drain.
    async fn look(&mut self) -> Result<bool, Complaint> {
        if !self.is_away {
            return Ok(match self.client.drain_stands().await {
                Ok(Some(stands)) => {
                    self.stands = stands;
                    false
                }
                // It has said that it stops, and the next one is there already.
                Ok(None) if self.is_over => true,
                Ok(None) => return Err(started_anew()),
                // Whether it has ended, the events say.
                Err(_) => false,
            });
        }
        if self.client.coordinator_time().0 <= self.stands.deadline.after(GRACE) {
            return Ok(false);
        }
        let lost =
            Complaint::new(ExitCode::Unreachable, "the coordinator is lost from sight while it drains")
                .why("the connection was lost, and there is no other since")
                .todo("look whether it has ended: it says so at the end of its log");
        Err(lost)
    }
}

/// There is a coordinator that does not drain, in the place of one that has not said that it has ended.
fn started_anew() -> Complaint {
    Complaint::new(ExitCode::Failure, "the coordinator has been started anew, and does not drain")
        .why("it ended before the drain had, or was told to; what it had granted stands in its state")
        .todo("preclaim drain      again, if nothing is to be granted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_duration_of_up_to_a_day() {
        assert_eq!(deadline("0s"), Ok(Duration::ZERO));
        assert_eq!(deadline("24h"), Ok(limits::DRAIN_MOST.to_std()));
        for wrong in ["25h", "soon", "-1s", ""] {
            assert!(deadline(wrong).unwrap_err().contains("24h"), "{wrong}");
        }
    }

    #[test]
    fn how_many_are_left_is_said_in_words() {
        assert_eq!(
            [None, Some(0), Some(1), Some(2)].map(grants),
            ["an unknown number of grants", "0 grants", "1 grant", "2 grants"]
        );
    }
}
