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
    times: Times,
    news: News,
    /// The lease is no longer in hand.
    is_lost: bool,
    /// It was handed a signal that ends processes.
    is_told: bool,
    /// It was asked to stop, as by Ctrl-Z, and does so once the command has stopped.
    is_to_stop: bool,
    ending: Option<Ending>,
}

/// When what is done, before the end of a lease that was not renewed.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// How long before it the command is asked to end.
    early: Duration,
    /// How long before it what is left is killed.
    margin: Duration,
}

impl Times {
    fn new(lease: Duration, grace: Duration) -> Self {
        let margin = limits::HOLD_MARGIN.to_std().min(lease / 6);
        // A lease that is renewed in time never comes nearer to its end than two thirds of its length, and a
        // lost renewal or two leave a third.
        Times { early: grace.saturating_add(margin).min(lease / 3), margin }
    }

    fn asks_at(&self, until: Instant) -> Instant {
        until.checked_sub(self.early).unwrap_or(until)
    }

    fn kills_at(&self, until: Instant) -> Instant {
        until.checked_sub(self.margin).unwrap_or(until)
    }
}

/// The command has been asked to end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    because: Because,
    /// When the time that it is given is over, if the lease lasts so long.
    kill_at: Instant,
    killed_at: Option<Instant>,
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
        let times = Times::new(plan.args.lease, plan.args.grace);
        let news = News::new(plan.id, times.early);
        let (is_lost, is_told, is_to_stop) = (false, false, false);
        Keeper { plan, client, times, news, is_lost, is_told, is_to_stop, ending: None }
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
        signals.hear_of_job_control().map_err(|error| super::failed(&error))?;
        // What was said of the grant stands before what the command says.
        output::flush();
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
            _ => status.map(command::code).ok_or(ExitCode::Failure),
        }
    }

    /// Until the command has ended, and where it was made to, what it started too. `None` where it cannot be
    /// ended.
    async fn watch(
        &mut self,
        grant: &Grant,
        running: &mut Running,
        events: &mut Events,
        signals: &mut Signals,
    ) -> Option<ExitStatus> {
        let mut lost = pin!(grant.lost());
        let mut has_events = true;
        loop {
            if self.look(grant, running) {
                return running.ended();
            }
            let next = tokio::time::Instant::from_std(self.next(grant));
            tokio::select! {
                biased;
                why = &mut lost, if !self.is_lost => self.lost(&why, running),
                heard = signals.next() => self.hear(heard, grant, running),
                event = events.next(), if has_events => match event {
                    Some(event) => self.tell(&event),
                    None => has_events = false,
                },
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Looks at the lease and at the command, and does what is due. Whether nothing is left to be done.
    fn look(&mut self, grant: &Grant, running: &mut Running) -> bool {
        // The command first: what has ended while the lease was still in hand, has ended under it. That it is in
        // hand no more may be known before any timer has rung, after this process or its machine stood still.
        let has_ended = running.ended().is_some();
        if !self.is_lost
            && let Err(why) = grant.check()
        {
            self.lost(&why, running);
        }
        if self.is_over(has_ended, running) {
            return true;
        }
        self.act(grant, running);
        running.reap();
        false
    }

    fn is_over(&mut self, has_ended: bool, running: &mut Running) -> bool {
        let Some(ending) = self.ending else {
            if !has_ended || !self.is_told || running.left_nothing() {
                return has_ended;
            }
            // A shell that was told to stop has ended, and what it ran has not: the lease is still needed.
            self.end(Because::Told, running);
            return false;
        };
        if has_ended && running.left_nothing() {
            return true;
        }
        let leftovers = limits::HOLD_LEFTOVERS.to_std();
        let is_given_up = ending.killed_at.is_some_and(|at| at.elapsed() >= leftovers);
        if is_given_up {
            running.give_up();
            let what = if has_ended { "some of what the command started" } else { "the command" };
            output::talk(format_args!("{what} cannot be ended, and goes on"));
        }
        is_given_up
    }

    /// When something is to be done next, if nothing happens before.
    fn next(&self, grant: &Grant) -> Instant {
        match self.ending {
            None => self.times.asks_at(grant.until()),
            // What was started in the moment of the kill is found at the second look.
            Some(Ending { killed_at: Some(_), .. }) => Instant::now() + limits::HOLD_LOOKS_EVERY.to_std(),
            Some(ending) => self.kills_at(ending, grant),
        }
    }

    /// Whatever time the command was given, nothing of it outlives the lease. That is looked at anew each time:
    /// where the machine was suspended, the end has come nearer.
    fn kills_at(&self, ending: Ending, grant: &Grant) -> Instant {
        ending.kill_at.min(self.times.kills_at(grant.until()))
    }

    /// Does what is due by now.
    fn act(&mut self, grant: &Grant, running: &Running) {
        let now = Instant::now();
        match self.ending {
            // Unless it was renewed meanwhile, or the clock is known better.
            None if now >= self.times.asks_at(grant.until()) => {
                self.end(Because::Lease, running);
                let end = self.wall().ahead(grant.end());
                output::talk(format_args!(
                    "lease lost: it ends at {end}, and was not renewed; the command gets TERM now, and KILL then"
                ));
            }
            Some(ending) if now >= self.kills_at(ending, grant) => {
                running.signal_all(Signal::KILL);
                self.ending = Some(Ending { killed_at: ending.killed_at.or(Some(now)), ..ending });
            }
            _ => {}
        }
    }

    /// Takes note that the lease is no longer in hand.
    fn lost(&mut self, why: &Lost, running: &Running) {
        self.is_lost = true;
        let was_asked = self.ending;
        if was_asked.is_none() {
            self.end(Because::Lease, running);
        }
        // Its time is over, and another's may have begun: nothing is left to be given to the command.
        let is_over =
            matches!(why, Lost::Ended | Lost::Unreachable | Lost::NotRenewed { .. } | Lost::Expired);
        if let Some(ending) = &mut self.ending {
            ending.because = Because::Lease;
            ending.kill_at = if is_over { ending.kill_at.min(Instant::now()) } else { ending.kill_at };
        }
        if was_asked.is_some_and(|ending| ending.because == Because::Lease) {
            return; // it has been said
        }
        let what = if running.has_ended() {
            ", while the command ran".into()
        } else if is_over {
            "; the command gets KILL now".into()
        } else {
            let grace = times::spelled(self.plan.args.grace);
            format!("; the command gets TERM now, and KILL in {grace}")
        };
        output::talk(format_args!("lease lost: {why}{what}"));
    }

    /// Asks the command, and all that it started, to end.
    fn end(&mut self, because: Because, running: &Running) {
        running.signal_all(Signal::TERM);
        // What is stopped would not hear it.
        running.signal_all(Signal::CONT);
        let kill_at = Instant::now() + self.plan.args.grace;
        self.ending = Some(Ending { because, kill_at, killed_at: None });
    }

    fn hear(&mut self, heard: Heard, grant: &Grant, running: &Running) {
        if !self.is_lost && grant.check().is_err() {
            return; // the next look ends it: it is not to be told to go on
        }
        if let Heard::ToHandOn { signal, by_terminal } = heard {
            self.is_told |= signals::ends(signal);
            self.is_to_stop = signal == Signal::TSTP || self.is_to_stop && signal != Signal::CONT;
            // Ctrl-C, Ctrl-\ and Ctrl-Z reach every process of the group in the foreground. To hand them on as
            // well would be a second Ctrl-C, at which many programs drop everything.
            if !(by_terminal && running.is_in_own_group()) {
                running.signal(signal);
            }
        }
        // As the shell expects of its job; not where the command takes no notice, and needs the lease, nor where it
        // has to be ended.
        if self.is_to_stop && self.ending.is_none() && running.is_stopped() {
            self.is_to_stop = false;
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
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
            return; // it has ended, and that has been said
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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use clap::Parser as _;

    use super::super::{Args, read_claims};
    use super::*;
    use crate::client::{Intent, Outcome};
    use crate::testing::World;
    use crate::types::IntentId;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[derive(clap::Parser)]
    struct Hold {
        #[command(flatten)]
        args: Args,
    }

    /// Calls `test` with a keeper, the grant that it keeps, and its world.
    async fn with_a_keeper(test: impl AsyncFnOnce(Keeper<'_>, Grant, &World)) {
        let world = World::new();
        let client = world.client("ada").await;
        let Hold { args } = Hold::parse_from(["hold", "a", "--grace", "10m", "--", "true"]);
        let claims = read_claims(&args.claims).unwrap_or_default();
        let plan = Plan { args: &args, claims: &claims, id: IntentId::new(1) };
        let intent = Intent::asap().lease().claim(claims[0].to_use(), args.lease).id(1);
        let Ok(Outcome::Granted(grant)) = client.declare(intent).await else { panic!("it is free") };
        test(Keeper::new(&plan, &client), grant, &world).await;
    }

    async fn lapse(world: &World) {
        world.unreachable("ada", true);
        world.advance(31 * SECOND).await;
    }

    #[test]
    fn what_is_left_is_killed_before_the_end_and_after_the_time_that_it_was_given() {
        let until = Instant::now() + 100 * SECOND;
        let before = |at: Instant| until.duration_since(at);
        for (lease, grace, asks, kills) in [
            (30 * SECOND, 5 * SECOND, 5_100, 100),
            (30 * SECOND, Duration::ZERO, 100, 100),
            (6 * SECOND, 5 * SECOND, 2_000, 100),
            (SECOND * 3 / 10, 5 * SECOND, 100, 50),
            (30 * SECOND, Duration::MAX, 10_000, 100),
        ] {
            let times = Times::new(lease, grace);
            assert_eq!(before(times.asks_at(until)), Duration::from_millis(asks), "{lease:?} {grace:?}");
            assert_eq!(before(times.kills_at(until)), Duration::from_millis(kills), "{lease:?} {grace:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_time_it_is_given_it_is_killed_before_the_lease_ends() {
        with_a_keeper(async |keeper, grant, _| {
            let told = Ending { because: Because::Told, kill_at: Instant::now() + HOUR, killed_at: None };
            assert!(keeper.kills_at(told, &grant) < grant.until());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_seen_to_have_ended_once_the_lease_is_over_did_not_end_under_it() {
        with_a_keeper(async |mut keeper, grant, world| {
            let mut running = Running::bare(&["true"]);
            while running.ended().is_none() {}
            lapse(world).await;
            assert!(keeper.look(&grant, &mut running));
            assert_eq!(keeper.ending.map(|ending| ending.because), Some(Because::Lease));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_to_end_has_no_time_left_once_the_lease_is_over() {
        for because in [Because::Lease, Because::Told] {
            with_a_keeper(async |mut keeper, grant, world| {
                let mut running = Running::bare(&["sleep", "600"]);
                keeper.ending = Some(Ending { because, kill_at: Instant::now() + HOUR, killed_at: None });
                assert!(!keeper.look(&grant, &mut running));
                assert!(keeper.ending.is_some_and(|ending| ending.killed_at.is_none()));
                lapse(world).await;
                keeper.look(&grant, &mut running);
                assert!(keeper.ending.is_some_and(|ending| ending.killed_at.is_some()), "{because:?}");
            })
            .await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_to_end_is_given_no_more_time_by_a_loss() {
        with_a_keeper(async |mut keeper, _, _| {
            let running = Running::bare(&["sleep", "600"]);
            let kill_at = Instant::now() + SECOND;
            keeper.ending = Some(Ending { because: Because::Told, kill_at, killed_at: None });
            keeper.lost(&Lost::Released { reason: None }, &running);
            assert_eq!(keeper.ending.map(|ending| ending.kill_at), Some(kill_at));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_cannot_be_ended_is_given_up() {
        with_a_keeper(async |mut keeper, grant, _| {
            let mut running = Running::bare(&["sleep", "600"]);
            let killed_at = Instant::now().checked_sub(limits::HOLD_LEFTOVERS.to_std());
            let kill_at = Instant::now() + HOUR;
            keeper.ending = Some(Ending { because: Because::Lease, kill_at, killed_at });
            assert!(keeper.look(&grant, &mut running));
            assert!(running.ended().is_none());
            running.signal(Signal::KILL);
        })
        .await;
    }
}
