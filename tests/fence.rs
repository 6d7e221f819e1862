//! The gate of a guarded store: what it lets in, what it refuses, and what it remembers.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

mod scratch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use preclaim::fence::{Fence, FileError, FileKeep, Full, Gate, Keep, MemoryKeep, Refused};
use preclaim::limits;
use preclaim::types::{Time, Token};
use scratch::Scratch;

fn fence(start: u64, token: u64) -> Fence {
    Fence { start: Time::from_us(start), token: Token::new(token) }
}

fn memory() -> Gate<MemoryKeep> {
    Gate::new(MemoryKeep::default())
}

#[test]
fn a_lower_fence_is_refused_and_the_same_or_a_higher_one_let_in() {
    let gate = memory();
    assert_eq!(gate.admit("a", fence(10, 5), || 1), Ok(1));
    assert_eq!(gate.admit("a", fence(10, 5), || 2), Ok(2), "the same holder writes again");
    assert_eq!(gate.admit("a", fence(20, 3), || 3), Ok(3), "a later window, granted earlier");
    for lower in [fence(10, 5), fence(20, 2), fence(0, 9)] {
        let refused = Err(Refused::Lower { fence: lower, highest: fence(20, 3) });
        assert_eq!(gate.admit("a", lower, || panic!("it must not run")), refused);
    }
    assert_eq!(gate.admit("a", fence(20, 4), || 4), Ok(4));
    assert_eq!(gate.highest("a"), Ok(Some(fence(20, 4))));
}

#[test]
fn each_key_has_a_highest_of_its_own() {
    let gate = memory();
    gate.admit("a", fence(20, 1), || ()).unwrap();
    gate.admit("a/b", fence(10, 1), || ()).unwrap();
    assert_eq!(gate.highest("a/b"), Ok(Some(fence(10, 1))));
    assert_eq!(gate.highest("b"), Ok(None));
}

#[test]
fn a_window_that_has_not_begun_is_refused_and_shuts_nobody_out() {
    let gate = memory();
    let now = Time::from_us(15);
    let early = Err(Refused::Early { fence: fence(16, 9), now });
    assert_eq!(gate.admit_at(now, "a", fence(16, 9), || panic!("it must not run")), early);
    assert_eq!(gate.admit_at(now, "a", fence(10, 1), || 1), Ok(1));
    assert_eq!(gate.admit_at(now, "a", fence(15, 2), || 2), Ok(2), "a window has its start");
}

#[test]
fn what_is_no_key_is_refused() {
    let gate = memory();
    let longest = "k".repeat(limits::FENCE_KEY_BYTES);
    assert_eq!(gate.admit(&longest, fence(1, 1), || ()), Ok(()));
    for key in ["", "a\nb", "\u{7f}", "\u{85}", &format!("{longest}k")] {
        assert_eq!(gate.admit(key, fence(1, 1), || panic!("it must not run")), Err(Refused::NoKey));
    }
}

#[test]
fn a_write_to_the_same_key_from_inside_a_write_is_refused_rather_than_waited_for() {
    let gate = memory();
    let inner = gate.admit("a", fence(1, 1), || {
        assert_eq!(gate.admit("b", fence(1, 1), || 7), Ok(7));
        gate.admit("a", fence(1, 1), || panic!("it must not run"))
    });
    assert_eq!(inner, Ok(Err(Refused::Inside)));
    assert_eq!(gate.admit("a", fence(1, 1), || ()), Ok(()), "it is given back");
}

#[test]
fn a_write_that_panics_gives_the_key_back_and_its_fence_stays() {
    let gate = memory();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| gate.admit("a", fence(2, 2), || panic!("a broken write"))));
    assert!(panicked.is_err());
    assert_eq!(gate.admit("a", fence(2, 2), || ()), Ok(()));
    assert!(matches!(gate.admit("a", fence(1, 1), || ()), Err(Refused::Lower { .. })));
}

/// Keeps in memory, and fails where it is told to.
#[derive(Default)]
struct Brittle {
    kept: RefCell<BTreeMap<String, Fence>>,
    fails: Cell<Option<Step>>,
    asked: RefCell<Vec<Step>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Load,
    Persist,
    /// It was kept, and then the answer was lost.
    AfterPersist,
    Write,
}

impl Brittle {
    fn step(&self, step: Step) -> Result<(), Step> {
        self.asked.borrow_mut().push(step);
        if self.fails.get() == Some(step) { Err(step) } else { Ok(()) }
    }
}

impl Keep for &Brittle {
    type Error = Step;

    fn load(&self, key: &str) -> Result<Option<Fence>, Step> {
        self.step(Step::Load)?;
        Ok(self.kept.borrow().get(key).copied())
    }

    fn persist(&self, key: &str, fence: Fence) -> Result<(), Step> {
        self.step(Step::Persist)?;
        self.kept.borrow_mut().insert(key.to_owned(), fence);
        self.step(Step::AfterPersist)
    }
}

#[test]
fn a_keep_that_fails_lets_nothing_in() {
    for fails in [Step::Load, Step::Persist, Step::AfterPersist] {
        let keep = Brittle::default();
        let gate = Gate::new(&keep);
        gate.admit("a", fence(1, 1), || ()).unwrap();
        keep.fails.set(Some(fails));
        assert_eq!(gate.admit("a", fence(2, 2), || panic!("it must not run")), Err(Refused::Keep(fails)));
        keep.fails.set(None);
        assert_eq!(gate.admit("a", fence(2, 2), || 2), Ok(2), "{fails:?}: the same holder tries again");
    }
}

#[test]
fn a_fence_is_kept_before_its_write_and_only_once() {
    let keep = Brittle::default();
    let gate = Gate::new(&keep);
    let write = || keep.step(Step::Write).unwrap();
    gate.admit("a", fence(1, 1), write).unwrap();
    gate.admit("a", fence(1, 1), write).unwrap();
    let asked = [Step::Load, Step::Persist, Step::AfterPersist, Step::Write, Step::Load, Step::Write];
    assert_eq!(*keep.asked.borrow(), asked);
}

#[test]
fn a_crash_between_fence_and_write_keeps_earlier_holders_out_and_lets_the_same_one_in() {
    let keep = Brittle::default();
    // The process ends inside the write: whatever comes next has what was kept, and nothing else.
    let crash = catch_unwind(AssertUnwindSafe(|| {
        Gate::new(&keep).admit("a", fence(2, 2), || panic!("power is gone"))
    }));
    assert!(crash.is_err());
    let gate = Gate::new(&keep);
    assert!(matches!(gate.admit("a", fence(1, 1), || ()), Err(Refused::Lower { .. })));
    assert_eq!(gate.admit("a", fence(2, 2), || ()), Ok(()));
}

#[test]
fn a_key_that_there_is_no_room_for_is_refused_and_none_is_forgotten() {
    let gate = Gate::new(MemoryKeep::with_room(1));
    gate.admit("a", fence(5, 5), || ()).unwrap();
    let full = Err(Refused::Keep(Full { room: 1 }));
    assert_eq!(gate.admit("b", fence(6, 6), || panic!("it must not run")), full);
    assert_eq!(gate.admit("a", fence(7, 7), || ()), Ok(()));
    assert!(matches!(gate.admit("a", fence(6, 6), || ()), Err(Refused::Lower { .. })));
}

/// The last write of a key, as a resource has it that checks nothing itself.
#[derive(Default)]
struct Cell64 {
    value: AtomicU64,
    /// How often a lower value was written over a higher one. No panic: that would leave the others waiting.
    lowered: AtomicU64,
}

impl Cell64 {
    /// It takes its time.
    fn write(&self, value: u64) {
        for _ in 0..3 {
            thread::yield_now();
        }
        let before = self.value.swap(value, Ordering::SeqCst);
        self.lowered.fetch_add(u64::from(before > value), Ordering::SeqCst);
    }
}

#[test]
fn among_many_threads_no_lower_fence_comes_between_check_and_write() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 300;
    let gate = memory();
    let cells = [Cell64::default(), Cell64::default()];
    let (admitted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    // All at once in each round: left to themselves they would come one after the other.
    let all = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, cells, admitted, refused, all) = (&gate, &cells, &admitted, &refused, &all);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    all.wait();
                    // Rises on the whole, and is often a little behind what others have.
                    let value = round + (thread * 7 + round * 5) % 11;
                    let at = (round % 2) as usize;
                    let key = ["a", "b"][at];
                    let count = match gate.admit(key, fence(value, 0), || cells[at].write(value)) {
                        Ok(()) => admitted,
                        Err(Refused::Lower { .. }) => refused,
                        Err(other) => panic!("{other}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert!(refused.load(Ordering::Relaxed) > 0, "it was about refusals too");
    for (key, cell) in ["a", "b"].iter().zip(&cells) {
        assert_eq!(cell.lowered.load(Ordering::SeqCst), 0, "a lower fence came after a higher one");
        assert_eq!(gate.highest(key).unwrap().unwrap().start.as_us(), cell.value.load(Ordering::SeqCst));
    }
}

/// The write of one holder is under way when the next one comes: that one is not even looked at before it
/// has ended.
#[test]
fn nobody_is_let_in_while_a_write_to_the_same_key_is_under_way() {
    let gate = memory();
    let (comes, is_in) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let written = gate.admit("a", fence(1, 1), || {
            scope.spawn(|| {
                comes.store(true, Ordering::SeqCst);
                gate.admit("a", fence(2, 2), || is_in.store(true, Ordering::SeqCst)).unwrap();
            });
            while !comes.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            // Time enough for it to come in, if it could.
            for _ in 0..20_000 {
                thread::yield_now();
                assert!(!is_in.load(Ordering::SeqCst), "it came in between check and write");
            }
            assert_eq!(gate.highest("a"), Ok(Some(fence(1, 1))), "its fence was kept before its turn");
        });
        assert_eq!(written, Ok(()));
    });
    assert!(is_in.load(Ordering::SeqCst), "it came in afterwards");
}

#[test]
fn a_write_to_one_key_does_not_hold_up_another() {
    let gate = Arc::new(memory());
    let (done, other) = mpsc::channel();
    let there = Arc::clone(&gate);
    gate.admit("a", fence(1, 1), move || {
        thread::spawn(move || done.send(there.admit("b", fence(1, 1), || 7)));
        // Would never come if `b` waited for `a`.
        assert_eq!(other.recv().unwrap(), Ok(7));
    })
    .unwrap();
}

#[test]
fn a_file_remembers_over_restarts() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let keys = ["file/README.md", "with space", "sum 0", "ü"];
    let gate = Gate::new(FileKeep::create(&file).unwrap());
    for (at, key) in (1..).zip(keys) {
        gate.admit(key, fence(at * 10, at), || ()).unwrap();
        gate.admit(key, fence(u64::MAX, at), || ()).unwrap();
    }
    drop(gate);
    let gate = Gate::new(FileKeep::open(&file).unwrap());
    for (at, key) in (1..).zip(keys) {
        assert_eq!(gate.highest(key).unwrap(), Some(fence(u64::MAX, at)));
        let late = gate.admit(key, fence(at * 10, at), || panic!("it must not run"));
        assert!(matches!(late, Err(Refused::Lower { .. })), "{late:?}");
    }
}

#[test]
fn a_file_is_missing_or_there_and_neither_is_taken_for_the_other() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let missing = FileKeep::open(&file).unwrap_err();
    assert!(matches!(missing, FileError::Io { .. }) && missing.to_string().contains("fences"), "{missing}");
    assert!(!file.exists(), "opening makes none");
    drop(FileKeep::create(&file).unwrap());
    let there = FileKeep::create(&file).unwrap_err();
    assert!(matches!(there, FileError::Io { .. }), "{there}");
    FileKeep::open(&file).unwrap();
}

#[test]
fn a_damaged_file_is_refused_at_each_byte_and_at_each_length() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let gate = Gate::new(FileKeep::create(&file).unwrap());
    gate.admit("a", fence(1795948258350000, 1043), || ()).unwrap();
    drop(gate);
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let damaged = FileKeep::open(&file).unwrap_err();
        assert!(
            matches!(damaged, FileError::Damaged { .. }),
            "{damaged}: {:?}",
            String::from_utf8_lossy(bytes)
        );
        assert!(damaged.to_string().contains("fences is damaged: "), "{damaged}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "it is left as it was");
    };
    for length in 0..whole.len() {
        refused(&whole[..length]);
        let mut flipped = whole.clone();
        flipped[length] ^= 1;
        refused(&flipped);
    }
    refused(&[&whole[..], b"\n"].concat());
    refused(&vec![b'x'; limits::FENCE_FILE_BYTES + 1]);
    fs::write(&file, &whole).unwrap();
    FileKeep::open(&file).unwrap();
}

#[test]
fn a_file_is_for_one_gate_at_a_time() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let first = FileKeep::create(&file).unwrap();
    assert!(matches!(FileKeep::open(&file), Err(FileError::Locked { .. })));
    drop(first);
    FileKeep::open(&file).unwrap();
}

#[test]
fn what_a_crash_left_beside_a_file_is_not_read() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let gate = Gate::new(FileKeep::create(&file).unwrap());
    gate.admit("a", fence(5, 5), || ()).unwrap();
    drop(gate);
    fs::write(scratch.path().join("fences.new"), "preclaim fen").unwrap();
    let gate = Gate::new(FileKeep::open(&file).unwrap());
    assert_eq!(gate.highest("a").unwrap(), Some(fence(5, 5)));
    gate.admit("a", fence(6, 6), || ()).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_lets_nothing_in_until_it_can() {
    let scratch = Scratch::fresh("fence");
    let file = scratch.path().join("fences");
    let gate = Gate::new(FileKeep::create(&file).unwrap());
    gate.admit("a", fence(5, 5), || ()).unwrap();
    // A directory in its way fails for any user, root too.
    fs::create_dir(scratch.path().join("fences.new")).unwrap();
    let refused = gate.admit("a", fence(6, 6), || panic!("it must not run"));
    assert!(matches!(refused, Err(Refused::Keep(FileError::Io { .. }))), "{refused:?}");
    assert_eq!(gate.highest("a").unwrap(), Some(fence(5, 5)));
    gate.admit("a", fence(5, 5), || ()).unwrap();
    fs::remove_dir(scratch.path().join("fences.new")).unwrap();
    gate.admit("a", fence(6, 6), || ()).unwrap();
    drop(gate);
    assert_eq!(FileKeep::open(&file).unwrap().load("a").unwrap(), Some(fence(6, 6)));
}

#[test]
fn a_file_has_room_for_so_many_keys() {
    let scratch = Scratch::fresh("fence");
    let gate = Gate::new(FileKeep::create(scratch.path().join("fences")).unwrap().with_room(1));
    gate.admit("a", fence(1, 1), || ()).unwrap();
    let refused = gate.admit("b", fence(1, 1), || panic!("it must not run"));
    assert!(matches!(refused, Err(Refused::Keep(FileError::Full(Full { room: 1 })))), "{refused:?}");
    gate.admit("a", fence(2, 2), || ()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_behind_a_link_stays_where_it_is() {
    let scratch = Scratch::fresh("fence");
    let (file, link) = (scratch.path().join("fences"), scratch.path().join("link"));
    drop(FileKeep::create(&file).unwrap());
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let gate = Gate::new(FileKeep::open(&link).unwrap());
    gate.admit("a", fence(1, 1), || ()).unwrap();
    drop(gate);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(FileKeep::open(&file).unwrap().load("a").unwrap(), Some(fence(1, 1)));
}

#[test]
fn a_refusal_says_why_in_words() {
    let refused: Refused<Full> = Refused::Lower { fence: fence(1, 2), highest: fence(3, 4) };
    assert_eq!(refused.to_string(), "the fence 1:2 is lower than 3:4, which was here: that grant is over");
    let refused = Refused::Keep(Full { room: 1 });
    assert!(refused.to_string().contains("no room for another"));
    assert!(std::error::Error::source(&refused).is_some());
}
