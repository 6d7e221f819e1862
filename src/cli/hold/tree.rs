//! The command and all that it started: who is to be gone before the lease is another's.
//!
//! It is no process group. The command stays in the group of `hold`, since a group of its own would be a
//! background one to the terminal: it could not read from it, Ctrl-C would not reach it, and after Ctrl-Z the
//! shell would not know of it. To signal that shared group would hit the rest of a pipeline and the script
//! around. So on Linux, `hold` adopts what its command leaves behind, and finds all of it by its parents, also
//! what has moved to a session of its own. Elsewhere it is the command alone.

use rustix::process::{Pid, Signal};

/// From now on, processes whose parent has ended come to this one.
#[cfg(target_os = "linux")]
pub(super) fn adopt() {
    // A kernel that refuses has them go to init; then they are not found.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(super) fn adopt() {}

/// Sends `signal` to all processes below `root`, but for `spared`, which has it already.
#[cfg(target_os = "linux")]
pub(super) fn signal(root: Pid, spared: Option<Pid>, signal: Signal) {
    for process in linux::below(root).into_iter().filter(|process| Some(process.pid) != spared) {
        process.signal(signal);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn signal(_root: Pid, _spared: Option<Pid>, _signal: Signal) {}

/// Whether nothing below `root` lives any more, the command aside.
#[cfg(target_os = "linux")]
pub(super) fn is_empty(root: Pid, command: Pid) -> bool {
    !linux::below(root).iter().any(|process| process.pid != command)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_empty(_root: Pid, _command: Pid) -> bool {
    true
}

/// Takes note of the ends of adopted processes, so that they do not stay in the table for as long as the
/// command runs. The command itself is left to whoever waits for it.
#[cfg(target_os = "linux")]
pub(super) fn reap(command: Pid) {
    for dead in linux::dead_children().into_iter().filter(|pid| *pid != command) {
        let _ = rustix::process::waitpid(Some(dead), rustix::process::WaitOptions::NOHANG);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reap(_command: Pid) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

    /// One line of the table of processes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Process {
        pub(super) pid: Pid,
        parent: i32,
        is_dead: bool,
        /// With the pid, which process it is: pids are given again.
        started: u64,
    }

    impl Process {
        pub(super) fn signal(&self, signal: Signal) {
            self.signal_by(pidfd_open(self.pid, PidfdFlags::empty()).ok(), signal);
        }

        /// By a handle, or where the system gives none, by the number.
        fn signal_by(&self, handle: Option<OwnedFd>, signal: Signal) {
            // What the handle stands for is looked at again, now that it cannot change.
            if read(self.pid.as_raw_nonzero().get()).is_none_or(|now| now.started != self.started) {
                return;
            }
            let is_sent = handle.is_some_and(|handle| pidfd_send_signal(handle, signal).is_ok());
            if !is_sent {
                // In the moment since the look the number may have become another's: hardly ever, and not to end
                // what goes on without the lease would be worse.
                let _ = kill_process(self.pid, signal);
            }
        }
    }

    /// All living processes below `root`.
    pub(super) fn below(root: Pid) -> Vec<Process> {
        let mut by_parent: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for process in table() {
            by_parent.entry(process.parent).or_default().push(process);
        }
        let mut found = Vec::new();
        let mut parents = vec![root.as_raw_nonzero().get()];
        while let Some(parent) = parents.pop() {
            // Each is taken out, so that a table that changed while it was read has no circle.
            for child in by_parent.remove(&parent).unwrap_or_default() {
                parents.push(child.pid.as_raw_nonzero().get());
                found.push(child);
            }
        }
        found.retain(|process| !process.is_dead);
        found
    }

    pub(super) fn dead_children() -> Vec<Pid> {
        let own = getpid().as_raw_nonzero().get();
        table()
            .filter(|process| process.is_dead && process.parent == own)
            .map(|process| process.pid)
            .collect()
    }

    fn table() -> impl Iterator<Item = Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
    }

    fn read(pid: i32) -> Option<Process> {
        parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// A line of /proc/PID/stat. The name of the program, in the second column, may have anything in it.
    fn parse(stat: &str) -> Option<Process> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let columns: Vec<&str> = rest.split(' ').collect();
        let [state, parent, ..] = columns[..] else { return None };
        Some(Process {
            pid: Pid::from_raw(pid.parse().ok()?)?,
            parent: parent.parse().ok()?,
            is_dead: ["Z", "X"].contains(&state),
            started: columns.get(19)?.parse().ok()?,
        })
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::process::ExitStatusExt;

        use super::*;

        #[test]
        fn a_line_is_read_whatever_the_program_is_called() {
            let line = "41 (a) Z 7 ) (b)) S 12 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3\n";
            let read = parse(line).unwrap();
            assert_eq!(
                (read.pid.as_raw_nonzero().get(), read.parent, read.is_dead, read.started),
                (41, 12, false, 987_654)
            );
            assert!(parse(&line.replace(") S", ") Z")).unwrap().is_dead);
            for torn in ["", "41", "41 (a) S", "41 (a) S 12 40"] {
                assert_eq!(parse(torn), None);
            }
        }

        #[test]
        fn children_are_found_and_strangers_are_not() {
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let pid = Pid::from_child(&child);
            let found = below(getpid());
            let process = found.iter().find(|process| process.pid == pid).unwrap();
            assert!(!found.iter().any(|process| process.pid == getpid()));
            // Of another start: another process that was given the same number.
            Process { started: process.started + 1, ..*process }.signal(Signal::KILL);
            assert_eq!(child.try_wait().unwrap(), None);
            process.signal(Signal::KILL);
            assert_eq!(child.wait().unwrap().signal(), Some(9));
            assert!(!below(getpid()).iter().any(|process| process.pid == pid));
        }

        #[test]
        fn where_there_are_no_handles_a_process_is_signalled_by_its_number_if_it_is_still_the_same() {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap(); // and no longer
            let process = read(Pid::from_child(&child).as_raw_nonzero().get()).unwrap();
            Process { started: process.started + 1, ..process }.signal_by(None, Signal::KILL);
            assert_eq!(child.try_wait().unwrap(), None);
            process.signal_by(None, Signal::TERM);
            assert_eq!(child.wait().unwrap().signal(), Some(15));
        }
    }
}
