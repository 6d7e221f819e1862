//! Keeps command and lease together: no command without the lease, no lease without the command.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::Plan;
use super::command::{self, Running};
use super::news::News;
use super::signals::{self, Heard, Signals};
use crate::cli::ExitCode;
use crate::cli::complaint::Complaint;
use crate::cli::json::{Denied, Line, Told};
use crate::cli::output;
use crate::cli::times::{self, Wall};
use crate::client::{Client, Event, Events, Grant, Lost};
use crate::limits;
use crate::types::Time;

/// A command and its lease.
pub(super) struct Keeper<'a> {
    plan: &'a Plan<'a>,
    client: &'a Client,
    /// How long before the end of a lease that was not renewed the command is asked to end.
    early: Duration,
    news: News,
    /// It was handed a signal that ends processes.
    is_told: bool,
    ending: Option<Ending>,
}

/// The command has been asked to end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    because: Because,
    kill_at: Instant,
    is_killed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Because {
    /// The lease is lost, or as good as.
    Lease,
    /// It was told to, has ended, and something that it started has not.
    Told,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, client: &'a Client) -> Self {
        // A lease that is renewed in time never comes nearer to its end than two thirds of its length, and a
        // lost renewal or two leave a third.
        let early = plan.args.grace.min(plan.args.lease / 3);
        let news = News::new(plan.id, early);
        Keeper { plan, client, early, news, is_told: false, ending: None }
    }

    /// Runs the command while the grant is in force. The code that it ended with, or why that does not count.
    pub(super) async fn keep(
        mut self,
        grant: Grant,
        events: &mut Events,
        signals: &mut Signals,
    ) -> Result<u8, ExitCode> {
        tokio::select! {
            biased;
            why = grant.lost() => return Err(lost_before(&why)),
            () = signals.asked_to_stop() => {
                self.release(grant).await;
                let what = "interrupted; the lease is released, and the command did not run";
                return Err(Complaint::new(ExitCode::Failure, what).say());
            }
            () = grant.begun() => {}
        }
        grant.check().map_err(|why| lost_before(&why))?;
        let fences: Vec<_> = (0..self.plan.claims.len()).map(|claim| grant.fence(claim)).collect();
        let until = times::rfc3339(by_the_wall(grant.until()));
        // Made after the grant, so gone before it: whatever goes wrong, the command ends first.
        let mut running = match Running::start(&self.plan.args.command, &fences, &until) {
            Ok(running) => running,
            Err(code) => {
                self.release(grant).await;
                return Ok(code);
            }
        };
        let status = self.watch(&grant, &mut running, events, signals).await;
        self.release(grant).await;
        match self.ending {
            Some(Ending { because: Because::Lease, .. }) => Err(ExitCode::LeaseLost),
            _ => Ok(command::code(status)),
        }
    }

    /// Until the command has ended, and where it was made to, what it started too.
    async fn watch(
        &mut self,
        grant: &Grant,
        running: &mut Running,
        events: &mut Events,
        signals: &mut Signals,
    ) -> ExitStatus {
        let mut lost = pin!(grant.lost());
        let (mut is_lost, mut has_events) = (false, true);
        loop {
            if let Some(status) = running.ended()
                && self.is_over(running)
            {
                return status;
            }
            let next = tokio::time::Instant::from_std(self.next(grant));
            tokio::select! {
                biased;
                why = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.lost(&why, running);
                }
                heard = signals.next() => self.hear(heard, running),
                event = events.next(), if has_events => match event {
                    Some(event) => self.tell(&event),
                    None => has_events = false,
                },
                () = tokio::time::sleep_until(next) => self.due(grant, running),
            }
        }
    }

    /// The command has ended: whether nothing is left to be done.
    fn is_over(&mut self, running: &Running) -> bool {
        let Some(ending) = self.ending else {
            if !self.is_told || running.left_nothing() {
                return true;
            }
            // A shell that was told to stop has ended, and what it ran has not: the lease is still needed.
            self.end(Because::Told, Instant::now() + self.plan.args.grace, running);
            return false;
        };
        let gives_up = ending.kill_at + limits::HOLD_LEFTOVERS.to_std();
        let is_given_up = ending.is_killed && Instant::now() >= gives_up;
        if is_given_up {
            output::talk("some of what the command started cannot be ended, and goes on");
        }
        is_given_up || running.left_nothing()
    }

    /// When something is to be done next, if nothing happens before.
    fn next(&self, grant: &Grant) -> Instant {
        let now = Instant::now();
        match self.ending {
            None => self.asks_at(grant),
            // What was started in the moment of the kill is found at the second look.
            Some(Ending { is_killed: true, .. }) => now + limits::HOLD_LOOKS_EVERY.to_std(),
            Some(Ending { kill_at, .. }) => kill_at,
        }
    }

    /// When the command is asked to end, where the lease is not renewed.
    fn asks_at(&self, grant: &Grant) -> Instant {
        let until = grant.until();
        until.checked_sub(self.early).unwrap_or(until)
    }

    fn due(&mut self, grant: &Grant, running: &Running) {
        let now = Instant::now();
        match self.ending {
            // Unless it was renewed meanwhile, or the clock is known better.
            None if now >= self.asks_at(grant) => {
                let end = self.wall().ahead(grant.end());
                output::talk(format_args!(
                    "lease lost: it ends at {end}, and was not renewed; the command gets TERM now, and KILL then"
                ));
                self.end(Because::Lease, grant.until(), running);
            }
            Some(ending) if now >= ending.kill_at => {
                self.ending = Some(Ending { is_killed: true, ..ending });
                running.signal_all(Signal::KILL);
            }
            _ => {}
        }
    }

    fn lost(&mut self, why: &Lost, running: &Running) {
        // Where it has been asked to end already, the time for that runs, until just now at most.
        if self.ending.is_none_or(|ending| ending.because != Because::Lease) {
            let grace = times::spelled(self.plan.args.grace);
            output::talk(format_args!("lease lost: {why}; the command gets TERM now, and KILL in {grace}"));
            self.end(Because::Lease, Instant::now() + self.plan.args.grace, running);
        }
    }

    /// Asks the command, and all that it started, to end.
    fn end(&mut self, because: Because, kill_at: Instant, running: &Running) {
        self.ending = Some(Ending { because, kill_at, is_killed: false });
        running.signal_all(Signal::TERM);
        // What is stopped would not hear it.
        running.signal_all(Signal::CONT);
    }

    fn hear(&mut self, heard: Heard, running: &Running) {
        let Heard::ToHandOn(signal) = heard else { return };
        self.is_told |= signals::ends(signal);
        if !signals::came_from_terminal(signal) {
            running.signal(signal);
        }
    }

    fn tell(&mut self, event: &Event) {
        if !self.news.is_new(event) {
            return;
        }
        if let (true, Event::RenewalDenied { id, end, blockers }) = (self.plan.is_json(), event) {
            let told = Told::RenewDenied(Denied::until(*end, blockers));
            output::talk(output::json(&Line::told(self.client.name(), *id, told)));
        } else if let Some(words) = self.news.words(event, &self.wall()) {
            output::talk(words);
        }
    }

    async fn release(&self, grant: Grant) {
        if grant.check().is_err() {
            return; // it has been said
        }
        let end = self.wall().ahead(grant.end());
        let released = tokio::time::timeout(limits::HOLD_RELEASES_WITHIN.to_std(), grant.release()).await;
        if !matches!(released, Ok(Ok(_))) {
            output::talk(format_args!("nobody confirmed the release: the lease may run until {end}"));
        }
    }

    fn wall(&self) -> Wall {
        Wall::at(self.client.coordinator_time().0)
    }
}

fn lost_before(why: &Lost) -> ExitCode {
    Complaint::new(ExitCode::LeaseLost, format!("{why}, before the command ran")).say()
}

/// The instant by this machine's own clock on the wall, which is what the command can look at.
fn by_the_wall(at: Instant) -> Time {
    let left = at.saturating_duration_since(Instant::now());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_us(u64::try_from((now + left).as_micros()).unwrap_or(u64::MAX))
}
