//! The signals that `hold` hears while its command runs.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is handed on to the command. Not those of job control: they reach it without help.
const FORWARDED: [(SignalKind, Signal); 6] = [
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::quit(), Signal::QUIT),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// Hears them from its making on; none ends the process by itself any more.
pub(super) struct Signals {
    heard: Vec<(unix::Signal, Signal)>,
    child: unix::Signal,
}

impl Signals {
    /// # Errors
    /// Where the system does not hand the signals over.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let mut heard = Vec::new();
        for (kind, signal) in FORWARDED {
            // What was ignored from the beginning, as under nohup or by `&` in a script, stays so, for the
            // command too: a handler would have it end by them.
            if ignored & (1 << (signal.as_raw() - 1)) == 0 {
                heard.push((unix::signal(kind)?, signal));
            }
        }
        Ok(Signals { heard, child: unix::signal(SignalKind::child())? })
    }

    /// What is heard next. Cancel safe.
    pub(super) async fn next(&mut self) -> Heard {
        poll_fn(|cx| {
            if self.child.poll_recv(cx).is_ready() {
                return Poll::Ready(Heard::Child);
            }
            let mut heard = self.heard.iter_mut();
            let found = heard.find_map(|(heard, signal)| heard.poll_recv(cx).is_ready().then_some(*signal));
            found.map_or(Poll::Pending, |signal| Poll::Ready(Heard::ToHandOn(signal)))
        })
        .await
    }

    /// Resolves when the process is asked to stop. Cancel safe.
    pub(super) async fn asked_to_stop(&mut self) {
        loop {
            if let Heard::ToHandOn(signal) = self.next().await
                && ends(signal)
            {
                return;
            }
        }
    }
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A child of this process has ended, or may have.
    Child,
    /// A signal that is the command's too.
    ToHandOn(Signal),
}

/// Whether the signal asks a process to end.
pub(super) fn ends(signal: Signal) -> bool {
    ![Signal::USR1, Signal::USR2].contains(&signal)
}

/// Whether the terminal sends this signal to the command too, which is of the same process group: in the
/// foreground, Ctrl-C and Ctrl-\ reach every process of it. To hand it on as well would be a second Ctrl-C,
/// at which many programs drop everything.
pub(super) fn came_from_terminal(signal: Signal) -> bool {
    [Signal::INT, Signal::QUIT].contains(&signal) && is_in_foreground()
}

fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The signals that this process ignores, as bits; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
