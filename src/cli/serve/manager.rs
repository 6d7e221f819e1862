//! What the service manager is told: systemd's protocol of `sd_notify(3)`, a datagram to `NOTIFY_SOCKET` for each change, and one
//! every now and then for its watchdog, as long as the slot loop gets on with its work. Without that socket nothing is told.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::super::output;
use crate::coordinator::{Coordinator, Health, View};

/// The least time between two words for the watchdog: a manager that asks for more gets no more.
const BEAT_AT_MOST_EVERY: Duration = Duration::from_millis(10);

/// The service manager that has started this process, where one listens.
#[derive(Debug, Default)]
pub(super) struct Manager {
    line: Option<Line>,
    phase: Mutex<Phase>,
}

#[derive(Debug)]
struct Line {
    socket: UnixDatagram,
    /// How long the watchdog waits for word, where there is one.
    watchdog: Option<Duration>,
}

/// How far the manager has been told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Starting,
    Ready,
    Reloading,
    Stopping,
}

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Ready,
    ReloadBegins,
    ReloadEnds,
    Stops,
}

impl Phase {
    /// What comes after it by `change`; `None` where that is nothing to tell now.
    fn after(self, change: Change) -> Option<Phase> {
        match (self, change) {
            (Phase::Starting, Change::Ready) | (Phase::Reloading, Change::ReloadEnds) => Some(Phase::Ready),
            (Phase::Ready, Change::ReloadBegins) => Some(Phase::Reloading),
            (Phase::Stopping, _) => None,
            (_, Change::Stops) => Some(Phase::Stopping),
            // Before it is ready, a reload is part of its start.
            _ => None,
        }
    }
}

impl Manager {
    /// The one that the environment names. One that cannot be reached is complained of once.
    pub(super) fn of_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Manager::default();
        };
        let watchdog = watchdog(
            std::env::var("WATCHDOG_USEC").ok().as_deref(),
            std::env::var("WATCHDOG_PID").ok().as_deref(),
            std::process::id(),
        );
        match reach(&name) {
            Ok(socket) => Manager { line: Some(Line { socket, watchdog }), phase: Mutex::default() },
            Err(error) => {
                output::talk(format_args!(
                    "warning: the service manager is told nothing: NOTIFY_SOCKET {}: {error}",
                    name.display()
                ));
                Manager::default()
            }
        }
    }

    /// Tells when the coordinator is ready, and from then on, for the watchdog, that it gets on. For as long as the
    /// runtime lasts.
    pub(super) fn follow(self: &Arc<Self>, coordinator: &Coordinator) {
        if self.line.is_none() {
            return;
        }
        let (manager, view, mut health) = (Arc::clone(self), coordinator.view(), coordinator.health());
        let status = format!("listening on {}", coordinator.local_addr());
        tokio::spawn(async move {
            let decides = health.wait_for(|health| *health != Health::Starting).await;
            if decides.is_ok_and(|health| *health == Health::Ready) {
                manager.tell(Change::Ready, &format!("READY=1\nSTATUS={status}"));
            }
            manager.beat(&view).await;
        });
    }

    /// Has the watchdog hear of it while the slot loop gets on. A loop that is stuck, or has given up, is heard of no
    /// more, and the manager ends the process and starts it anew.
    async fn beat(&self, view: &View) {
        let Some(every) = self.line.as_ref().and_then(|line| line.watchdog) else { return };
        let mut beat = tokio::time::interval((every / 2).max(BEAT_AT_MOST_EVERY));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            if gets_on(&view.health()) {
                self.send("WATCHDOG=1");
            }
        }
    }

    /// It stops from here on.
    pub(super) fn stops(&self) {
        self.tell(Change::Stops, "STOPPING=1\nSTATUS=stopping");
    }

    /// It drains, which is no stop that the manager has asked for: it goes on being watched, and has no time to stop within.
    pub(super) fn drains(&self, words: &str) {
        if *self.phase() != Phase::Stopping {
            self.send(&format!("STATUS={words}"));
        }
    }

    /// It reads its files again from here on.
    pub(super) fn reload_begins(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.tell(Change::ReloadBegins, &format!("RELOADING=1\nMONOTONIC_USEC={us}"));
    }

    /// It has read them, or gone on without.
    pub(super) fn reload_ends(&self) {
        self.tell(Change::ReloadEnds, "READY=1");
    }

    /// Under the lock, so that what is told last is how it is.
    fn tell(&self, change: Change, message: &str) {
        let mut phase = self.phase();
        if let Some(next) = phase.after(change) {
            *phase = next;
            self.send(message);
        }
    }

    /// Never waits: a manager that does not read is not worth a slot.
    fn send(&self, message: &str) {
        if let Some(line) = &self.line {
            let _ = line.socket.send(message.as_bytes());
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the slot loop does its work: not where it stands still, or has ended for good.
fn gets_on(health: &Health) -> bool {
    match health {
        Health::Starting | Health::Ready | Health::Draining => true,
        Health::Halted(_) => false,
    }
}

/// How long the watchdog of the process `own` waits, by the two variables of `sd_watchdog_enabled(3)`.
fn watchdog(usec: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0 && is_own)?;
    Some(Duration::from_micros(usec))
}

fn reach(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address(name)?)?;
    Ok(socket)
}

/// A path, or, behind an `@`, a name that is in no directory.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path from / nor a name behind @")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_told_once_and_in_its_order() {
        let told = |changes: &[Change]| {
            let mut phase = Phase::Starting;
            let mut told = Vec::new();
            for change in changes {
                if let Some(next) = phase.after(*change) {
                    phase = next;
                    told.push(*change);
                }
            }
            told
        };
        use Change::{Ready, ReloadBegins, ReloadEnds, Stops};
        let whole = [Ready, ReloadBegins, ReloadEnds, ReloadBegins, ReloadEnds, Stops];
        assert_eq!(told(&whole), whole);
        assert_eq!(told(&[ReloadBegins, ReloadEnds, Ready]), [Ready], "a reload while it starts");
        assert_eq!(told(&[ReloadBegins, Ready, ReloadEnds]), [Ready], "one that ends after the start");
        assert_eq!(told(&[Ready, Ready, Stops, Stops, ReloadBegins, Ready]), [Ready, Stops]);
        assert_eq!(told(&[Ready, ReloadBegins, Stops, ReloadEnds]), [Ready, ReloadBegins, Stops]);
        assert_eq!(told(&[Stops, Ready]), [Stops], "stopped before it was ready");
    }

    #[test]
    fn the_watchdog_hears_of_a_slot_loop_that_gets_on_and_of_no_other() {
        for health in [Health::Starting, Health::Ready, Health::Draining] {
            assert!(gets_on(&health), "{health:?}");
        }
        assert!(!gets_on(&Health::Halted("the slot loop has stood still for 4 s".into())));
    }

    #[test]
    fn the_watchdog_is_that_of_this_process() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None, 7), second);
        assert_eq!(watchdog(Some("1000000"), Some("7"), 7), second);
        assert_eq!(watchdog(Some("1000000"), Some("8"), 7), None);
        for usec in [None, Some("0"), Some(""), Some("-1"), Some("1s")] {
            assert_eq!(watchdog(usec, None, 7), None, "{usec:?}");
        }
    }

    #[test]
    fn addresses_are_paths_and_abstract_names() {
        assert!(address(OsStr::new("/run/notify")).is_ok());
        assert_eq!(address(OsStr::new("@name")).is_ok(), cfg!(target_os = "linux"));
        for wrong in ["", "run/notify", "vsock:2:1234"] {
            assert!(address(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }
}
