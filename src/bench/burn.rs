//! Other work on the machine: threads that compute and never pause.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use std::{io, thread};

/// Steps between two looks at whether to go on: some microseconds.
const STEPS: u64 = 4_096;

/// Computes until `stop`, or `until` at the latest, without a pause in which the core would be another's.
pub fn burn(until: Instant, stop: &AtomicBool) {
    let mut number = 1_u64;
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        for _ in 0..STEPS {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Threads that do so until it is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Busy {
    /// `count` of them, until `until` at the latest.
    pub(super) fn start(count: usize, until: Instant) -> io::Result<Self> {
        let mut busy = Busy { stop: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            let stop = Arc::clone(&busy.stop);
            let thread =
                thread::Builder::new().name("bench-busy".into()).spawn(move || burn(until, &stop))?;
            busy.threads.push(thread);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn they_end_when_it_is_dropped_or_when_it_is_time() {
        // Would hang the test.
        drop(Busy::start(2, Instant::now() + Duration::from_secs(600)).unwrap());
        burn(Instant::now(), &AtomicBool::new(false));
    }
}
