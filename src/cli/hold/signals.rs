//! The signals that `hold` hears while its command runs.

use std::fs::File;
use std::io;
use std::thread;

use rustix::process::Signal;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::{Cause, Origin};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;

/// What is handed on to the command.
const FORWARDED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What is handed on while the command runs: before, they do to this process what they do to any.
const JOB_CONTROL: [Signal; 2] = [Signal::TSTP, Signal::CONT];

/// So many that came at once are not coalesced.
const UNHEARD: usize = 16;

/// Hears them from its making on; none ends the process by itself any more.
pub(super) struct Signals {
    ignored: u64,
    handle: Handle,
    heard: mpsc::Receiver<Heard>,
    child: unix::Signal,
}

impl Signals {
    /// # Errors
    /// Where the system does not hand the signals over.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = FORWARDED.into_iter().filter(|signal| !is_in(ignored, *signal));
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted.map(Signal::as_raw))?;
        let handle = signals.handle();
        let (hear, heard) = mpsc::channel(UNHEARD);
        thread::Builder::new().name("signals".into()).spawn(move || {
            let told = signals.forever().filter_map(Heard::of);
            // Until nobody listens any more.
            told.take_while(|heard| hear.blocking_send(*heard).is_ok()).for_each(drop);
        })?;
        Ok(Signals { ignored, handle, heard, child: unix::signal(SignalKind::child())? })
    }

    /// From now on, Ctrl-Z and its like are heard too, and stop nothing by themselves.
    ///
    /// # Errors
    /// As [`Signals::listen`].
    pub(super) fn hear_of_job_control(&self) -> io::Result<()> {
        let mut wanted = JOB_CONTROL.into_iter().filter(|signal| !is_in(self.ignored, *signal));
        wanted.try_for_each(|signal| self.handle.add_signal(signal.as_raw()))
    }

    /// What is heard next. Cancel safe.
    pub(super) async fn next(&mut self) -> Heard {
        tokio::select! {
            biased;
            Some(heard) = self.heard.recv() => heard,
            _ = self.child.recv() => Heard::Child,
        }
    }

    /// Resolves when the process is asked to stop. Cancel safe.
    pub(super) async fn asked_to_stop(&mut self) {
        loop {
            if let Heard::ToHandOn { signal, .. } = self.next().await
                && ends(signal)
            {
                return;
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A child of this process has ended or stopped, or may have.
    Child,
    /// A signal that is the command's too.
    ToHandOn {
        signal: Signal,
        /// By a key, and so to each process of the foreground's group.
        by_terminal: bool,
    },
}

impl Heard {
    fn of(origin: Origin) -> Option<Self> {
        let known = FORWARDED.into_iter().chain(JOB_CONTROL);
        let signal = known.into_iter().find(|signal| signal.as_raw() == origin.signal)?;
        let by_terminal = has_key(signal)
            && match origin.cause {
                Cause::Kernel => true,
                Cause::Sent(_) => false,
                // A system that does not tell.
                _ => is_in_foreground(),
            };
        Some(Heard::ToHandOn { signal, by_terminal })
    }
}

/// Whether there is a key for it. A terminal that is closed sends HUP, to one process of the session.
fn has_key(signal: Signal) -> bool {
    [Signal::INT, Signal::QUIT, Signal::TSTP].contains(&signal)
}

/// Whether the signal asks a process to end.
pub(super) fn ends(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// What was ignored from the beginning, as under nohup or by `&` in a script, stays so, for the command too: a
/// handler would have it end by them.
fn is_in(ignored: u64, signal: Signal) -> bool {
    ignored & (1 << (signal.as_raw() - 1)) != 0
}

/// The signals that this process ignores, as bits; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
