//! The command itself: how it is started, and what it ended with.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ExitStatus};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, kill_process, waitid};

use super::super::output;
use super::tree;
use crate::limits;
use crate::types::Fence;

/// As shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const BY_SIGNAL: i32 = 128;

/// A command that runs. Dropped before it has ended, as a panic would, it is killed with all that it
/// started, so that nothing of it outlives the lease, which is dropped after it.
pub(super) struct Running {
    child: Child,
    pid: Pid,
    /// All below it goes with the command: this process, which adopts what the command leaves behind.
    root: Pid,
    ended: Option<ExitStatus>,
    /// It cannot be ended, and nobody waits for it any more.
    is_given_up: bool,
}

impl Running {
    /// Starts `words`, with the fences and the end in its environment.
    ///
    /// # Errors
    /// With which code `hold` ends, which has said why.
    pub(super) fn start(words: &[OsString], fences: &[Fence], until: &str) -> Result<Self, u8> {
        let (mut command, named) = wrapped(words);
        for number in 0..limits::CLAIMS {
            let name = format!("PRECLAIM_FENCE_{number}");
            match fences.get(number) {
                Some(fence) => command.env(name, fence.to_string()),
                // Those of a `hold` around this one are not this one's.
                None => command.env_remove(name),
            };
        }
        command.envs(fences.first().map(|fence| ("PRECLAIM_FENCE", fence.to_string())));
        command.env("PRECLAIM_UNTIL", until);
        tree::adopt();
        let child = command.spawn().map_err(|error| cannot_run(&named, &error))?;
        let pid = Pid::from_child(&child);
        Ok(Running { child, pid, root: rustix::process::getpid(), ended: None, is_given_up: false })
    }

    /// One that is no child of a `hold`, and has nothing below it.
    #[cfg(test)]
    pub(super) fn bare(words: &[&str]) -> Self {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let child = bare(&words).spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let pid = Pid::from_child(&child);
        Running { child, pid, root: pid, ended: None, is_given_up: false }
    }

    /// Takes note of the ends of what the command left behind.
    pub(super) fn reap(&self) {
        tree::reap(self.pid);
    }

    /// What it ended with, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Only a child that somebody else has waited for is an error, and nobody does.
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Whether it was seen to have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it is stopped now, as by Ctrl-Z.
    pub(super) fn is_stopped(&self) -> bool {
        // It stays as it is, for the next look.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.ended.is_none() && matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Whether it is in the process group of `hold`, as it was when it began.
    pub(super) fn is_in_own_group(&self) -> bool {
        self.ended.is_none() && getpgid(Some(self.pid)).is_ok_and(|group| group == getpgrp())
    }

    /// Whether nothing that it started lives any more.
    pub(super) fn left_nothing(&self) -> bool {
        tree::is_empty(self.root, self.pid)
    }

    /// Hands a signal on to the command alone, as if it had been sent to it.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // It is not reaped yet, so the number is still its own.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Signals the command and all that it started.
    pub(super) fn signal_all(&self, signal: Signal) {
        // The command itself needs no search, and has it whatever becomes of that.
        self.signal(signal);
        tree::signal(self.root, self.ended.is_none().then_some(self.pid), signal);
    }

    /// It goes on, whatever was tried.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_some() || self.is_given_up {
            return;
        }
        self.signal_all(Signal::KILL);
        // No longer than for any other: there are programs that cannot be killed.
        let gives_up = Instant::now() + limits::HOLD_LEFTOVERS.to_std();
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < gives_up {
            thread::sleep(limits::HOLD_LOOKS_EVERY.to_std());
        }
    }
}

/// The exit code that says what the command ended with.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Says why a command cannot be run, and with which code that ends.
fn cannot_run(name: &OsStr, error: &io::Error) -> u8 {
    let name = output::harmless(&name.to_string_lossy());
    if error.kind() == io::ErrorKind::NotFound {
        output::complain(format_args!("{name}: command not found"));
        return NOT_FOUND;
    }
    output::complain(format_args!("{name} cannot be run: {error}"));
    NOT_EXECUTABLE
}

/// What stands between `hold` and its command until that runs. Only the new process itself can ask to be
/// told of its parent's end, so it is this program first, and then becomes the command.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Inner {
    /// Who started it.
    parent: i32,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The command, and its name for messages: on Linux in the clothes of this program.
fn wrapped(words: &[OsString]) -> (process::Command, OsString) {
    let name = words.first().cloned().unwrap_or_default();
    if !cfg!(target_os = "linux") {
        return (bare(words), name);
    }
    // This very file, also where it has been replaced meanwhile.
    let mut command = process::Command::new("/proc/self/exe");
    command.args(["hold-inner", &process::id().to_string(), "--"]).args(words);
    (command, name)
}

fn bare(words: &[OsString]) -> process::Command {
    let (name, arguments) =
        words.split_first().map_or((OsStr::new(""), &[][..]), |(name, rest)| (name, rest));
    let mut command = process::Command::new(name);
    command.args(arguments);
    command
}

/// Becomes the command; gets TERM once `hold` is gone, however that ended.
pub(in super::super) fn run_inner(args: &Inner) -> u8 {
    #[cfg(target_os = "linux")]
    {
        // Without it, the command is not told of the end of `hold`; that is no reason not to run it.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
        // It may have ended before that was asked for.
        let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
        if parent != args.parent {
            return u8::try_from(BY_SIGNAL + Signal::TERM.as_raw()).unwrap_or(u8::MAX);
        }
    }
    let error = bare(&args.command).exec();
    cannot_run(args.command.first().map_or(OsStr::new(""), OsString::as_os_str), &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_by_a_signal_has_its_number_above_128() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
        assert_eq!(code(ExitStatus::from_raw(255 << 8)), 255);
    }

    #[test]
    fn a_command_that_is_dropped_has_ended_once_that_is_done() {
        let running = Running::bare(&["sleep", "600"]);
        let pid = running.pid;
        let panicked = std::panic::catch_unwind(move || {
            let _running = running;
            panic!("as a defect would");
        });
        assert!(panicked.is_err());
        assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn the_command_itself_is_signalled_whatever_is_found_below() {
        let mut running = Running::bare(&["sleep", "60"]); // and no longer, where it is not
        running.signal_all(Signal::KILL);
        assert_eq!(running.child.wait().unwrap().signal(), Some(9));
    }
}
