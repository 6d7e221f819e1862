//! Speaks without waiting for whoever listens.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits;

/// A thread that writes what it is given. Where its reader stalls, the oldest texts are left out, and counted.
pub(super) struct Voice {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    texts: VecDeque<Vec<u8>>,
    /// How many were left out before the first that is there.
    left_out: u64,
    is_writing: bool,
}

impl Queue {
    /// What is to be written next.
    fn next(&mut self) -> Option<Vec<u8>> {
        let text = match std::mem::take(&mut self.left_out) {
            0 => self.texts.pop_front()?,
            count => format!("({count} messages were left out here: nobody read them)\n").into_bytes(),
        };
        self.is_writing = true;
        Some(text)
    }

    fn is_done(&self) -> bool {
        self.texts.is_empty() && self.left_out == 0 && !self.is_writing
    }
}

impl Voice {
    /// # Errors
    /// Where the system has no thread for it.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        // Nobody joins it: it may wait for its reader for ever. It ends with the process.
        thread::Builder::new().name("voice".into()).spawn(move || own.write_to(out))?;
        Ok(Voice { shared })
    }

    pub(super) fn say(&self, text: Vec<u8>) {
        let mut queue = self.shared.queue();
        if queue.texts.len() == limits::VOICE_TEXTS {
            queue.texts.pop_front();
            queue.left_out += 1;
        }
        queue.texts.push_back(text);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, though no longer than `within`.
    pub(super) fn flush(&self, within: Duration) {
        let queue = self.shared.queue();
        // Poisoned or in time or not: there is nothing else to be done about it.
        let _ = self.shared.changed.wait_timeout_while(queue, within, |queue| !queue.is_done());
    }
}

impl Shared {
    // A panic under the lock would leave the queue whole.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut out: impl Write) {
        loop {
            let text = self.next();
            // Where nobody can be told, the exit code still tells.
            let _ = out.write_all(&text).and_then(|()| out.flush());
            self.queue().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue();
        loop {
            if let Some(text) = queue.next() {
                return text;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// Takes a text only once it is told to, and hands it on.
    struct Stalled {
        begun: Sender<()>,
        goes_on: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Stalled {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.begun.send(());
            let _ = self.goes_on.recv();
            let _ = self.written.send(String::from_utf8_lossy(text).into_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_holds_up_nobody_and_is_told_how_much_it_missed() {
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (written, reads) = mpsc::channel();
        let voice = Voice::start(Stalled { begun, goes_on, written }).unwrap();
        voice.say(b"first".to_vec());
        begins.recv().unwrap();
        for number in 0..limits::VOICE_TEXTS + 3 {
            voice.say(number.to_string().into_bytes());
        }
        voice.flush(Duration::ZERO); // it is not written, and that is not waited for
        drop(go_on);
        assert_eq!(reads.recv().unwrap(), "first");
        assert_eq!(reads.recv().unwrap(), "(3 messages were left out here: nobody read them)\n");
        let kept: Vec<String> = (0..limits::VOICE_TEXTS).map(|_| reads.recv().unwrap()).collect();
        let last = (limits::VOICE_TEXTS + 2).to_string();
        assert_eq!((kept[0].as_str(), kept.last()), ("3", Some(&last)));
    }

    #[test]
    fn a_flush_ends_when_all_is_written() {
        let (begun, _begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (written, reads) = mpsc::channel();
        let voice = Voice::start(Stalled { begun, goes_on, written }).unwrap();
        drop(go_on);
        (0..3).for_each(|number| voice.say(number.to_string().into_bytes()));
        voice.flush(Duration::MAX);
        assert_eq!(reads.try_iter().collect::<Vec<_>>(), ["0", "1", "2"]);
    }
}
