//! What the coordinator's threads ask of the machine beside their work: to go before others (`SCHED_FIFO`), to stay on
//! some cores, and that no memory is swapped out.
//!
//! None of it changes a decision, only when it is made: what is refused is told with what to do about it, and
//! whoever asked goes on without. What is asked holds for one thread, and for memory, the process; it is never asked
//! for threads that this package does not start.

mod refusal;
mod system;

use std::thread;

pub use refusal::Refusal;
pub(crate) use system::{CAP_IPC_LOCK, CAP_SYS_NICE, has_capability, limit};

use crate::limits;

/// What is asked of the machine. By default nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// The slot loop's real-time priority (`SCHED_FIFO`), from [`limits::REALTIME_RANGE`]; the threads of the
    /// connections have the one below it, since the loop waits for them where they hold a lock, and what it has
    /// decided leaves by them. `None` leaves both as they are.
    pub realtime: Option<u8>,
    /// Whether all memory stays in memory.
    pub lock_memory: bool,
    /// The cores on which the slot loop runs; none named is any.
    pub cores: Vec<usize>,
    /// The cores on which the threads of the connections run; none named is any.
    pub network_cores: Vec<usize>,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It decides slots.
    SlotLoop,
    /// It serves connections.
    Network,
}

impl HostConfig {
    /// Whether anything is asked.
    pub fn asks(&self) -> bool {
        *self != HostConfig::default()
    }

    fn priority(&self, role: Role) -> Option<u8> {
        self.realtime.map(|priority| match role {
            Role::SlotLoop => priority,
            Role::Network => priority.saturating_sub(1),
        })
    }

    fn cores(&self, role: Role) -> &[usize] {
        match role {
            Role::SlotLoop => &self.cores,
            Role::Network => &self.network_cores,
        }
    }

    /// Asks for the calling thread what its role wants; returns what was refused.
    pub fn take(&self, role: Role) -> Vec<Refusal> {
        let (cores, priority) = (self.cores(role), self.priority(role));
        let pinned = if cores.is_empty() { Ok(()) } else { system::pin(cores) };
        let pinned = pinned.map_err(|error| Refusal::Cores { cores: cores.to_vec(), error });
        let raised = priority.map_or(Ok(()), |priority| {
            system::raise(priority).map_err(|error| Refusal::Realtime { priority, error })
        });
        [pinned, raised].into_iter().filter_map(Result::err).collect()
    }

    /// Asks for the calling thread what its role wants, and logs what was refused.
    pub fn settle(&self, role: Role) {
        for refusal in self.take(role) {
            tracing::warn!("{refusal}");
        }
    }

    /// Has the kernel give memory in small pages, locks it where that is asked, and tries the rest on a thread that ends at once: what is given, and
    /// what is refused, each once. So all that is to be said can be said before anything starts.
    pub fn prepare(mut self) -> (HostConfig, Vec<Refusal>) {
        let mut refused = Vec::new();
        if let Err(error) = system::take_small_pages() {
            tracing::debug!(%error, "memory may come in huge pages");
        }
        if self.lock_memory
            && let Err(refusal) = system::lock_memory()
        {
            self.lock_memory = false;
            refused.push(refusal);
        }
        let tried = [Role::SlotLoop, Role::Network].map(|role| {
            thread::scope(|scope| {
                let thread = thread::Builder::new().spawn_scoped(scope, || self.take(role));
                // Without a thread to try it on, those that are to have it will tell.
                thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_default()
            })
        });
        for refusal in tried.into_iter().flatten() {
            self.go_without(&refusal);
            if refused.iter().all(|told: &Refusal| !told.is_like(&refusal)) {
                refused.push(refusal);
            }
        }
        (self, refused)
    }

    fn go_without(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::Realtime { .. } => self.realtime = None,
            Refusal::Cores { cores, .. } => {
                for asked in [&mut self.cores, &mut self.network_cores] {
                    if asked == cores {
                        asked.clear();
                    }
                }
            }
            Refusal::Memory { .. } | Refusal::MemoryLimit { .. } => self.lock_memory = false,
        }
    }
}

const _: () =
    assert!(*limits::REALTIME_RANGE.start() > 1, "the connections' threads have the priority below it");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_by_default_and_nothing_refused() {
        let asked = HostConfig::default();
        assert!(!asked.asks());
        assert_eq!(asked.take(Role::SlotLoop).len(), 0);
        let (given, refused) = asked.clone().prepare();
        assert_eq!((given, refused.len()), (asked, 0));
    }

    #[test]
    fn the_connections_are_one_below_the_slot_loop() {
        let asked = HostConfig { realtime: Some(10), ..HostConfig::default() };
        assert_eq!([Role::SlotLoop, Role::Network].map(|role| asked.priority(role)), [Some(10), Some(9)]);
        assert_eq!(HostConfig::default().priority(Role::SlotLoop), None);
    }

    #[test]
    fn each_role_has_its_cores() {
        let asked = HostConfig { cores: vec![1], network_cores: vec![0, 2], ..HostConfig::default() };
        assert_eq!(asked.cores(Role::SlotLoop), [1]);
        assert_eq!(asked.cores(Role::Network), [0, 2]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_core_that_is_not_there_is_refused_and_gone_without() {
        let nowhere = vec![limits::CORES - 1];
        let asked = HostConfig { cores: nowhere.clone(), ..HostConfig::default() };
        let (given, refused) = asked.prepare();
        assert_eq!(given, HostConfig::default());
        assert!(matches!(&refused[..], [Refusal::Cores { cores, .. }] if *cores == nowhere), "{refused:?}");
        let both = HostConfig { cores: nowhere.clone(), network_cores: nowhere, ..HostConfig::default() };
        assert_eq!(both.prepare().1.len(), 1, "told once");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_the_cores_that_it_may_use_anyway() {
        let first = system::cores_of_this_thread().into_iter().next().unwrap();
        thread::spawn(move || {
            let asked = HostConfig { cores: vec![first], ..HostConfig::default() };
            assert_eq!(asked.take(Role::SlotLoop).len(), 0);
            assert_eq!(system::cores_of_this_thread(), [first]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_refused_is_gone_without_and_the_rest_stays() {
        let error = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let mut asked =
            HostConfig { realtime: Some(10), lock_memory: true, cores: vec![1], network_cores: vec![0] };
        asked.go_without(&Refusal::Realtime { priority: 9, error: error() });
        assert_eq!((asked.realtime, asked.lock_memory), (None, true));
        asked.go_without(&Refusal::Cores { cores: vec![0], error: error() });
        assert_eq!((&asked.cores[..], &asked.network_cores[..]), (&[1][..], &[][..]));
        asked.go_without(&Refusal::MemoryLimit { bytes: 1 });
        assert!(!asked.lock_memory);
    }
}
