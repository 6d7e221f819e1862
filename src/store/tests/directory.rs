//! Which directories are opened, which refused, and what is kept of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::layout::{packed_name, plain_name, snapshot_name};
use super::*;
use crate::types::Micros;

/// A log with this many records.
fn filled(options: Options, count: usize) -> (SimDisk, Log) {
    let disk = SimDisk::new(1);
    let (mut log, recovered, _) = open(&disk, options, Begin::New(ID)).unwrap();
    assert_eq!((recovered.state_id, recovered.last, recovered.torn), (ID, Link::START, None));
    for number in 1..=count {
        assert_eq!((log.append(&body(number)), log.last().seq), (Appended::Committed, number as u64));
    }
    (disk, log)
}

fn bodies(count: usize) -> Bodies {
    Bodies((1..=count).map(body).collect())
}

fn refusal(disk: &SimDisk, begin: Begin) -> OpenError {
    open(disk, options(), begin).map(drop).expect_err("it must not be opened")
}

fn flip(disk: &SimDisk, name: &str, at: usize) {
    let mut bytes = disk.content(name).unwrap();
    bytes[at] ^= 4;
    disk.plant(name, &bytes);
}

#[test]
fn records_are_read_back_over_segments_and_lives() {
    let (disk, log) = filled(options(), 20);
    assert!(log.closed() > 2);
    drop(log);
    let (mut log, recovered, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!((found, recovered.base, recovered.torn), (bodies(20), 0, None));
    assert_eq!((log.append(&body(21)), log.last().seq), (Appended::Committed, 21));
    assert_eq!(log.synced(), 21);
}

#[test]
fn a_log_of_an_earlier_version_is_read_and_goes_on_in_a_segment_of_its_own() {
    let (disk, log) = filled(options(), 2);
    drop(log);
    let mut bytes = disk.content(&plain_name(1)).unwrap();
    bytes[8..10].copy_from_slice(&1_u16.to_le_bytes());
    bytes[12..16].fill(0);
    let crc = crc32fast::hash(&bytes[..64]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.plant(&plain_name(1), &bytes);
    let (mut log, _, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(found, bodies(2));
    assert_eq!((log.append(&body(3)), log.position().0), (Appended::Committed, 2));
    drop(log);
    let (mut log, _, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(found, bodies(3));
    assert_eq!((log.append(&body(4)), log.position().0), (Appended::Committed, 2), "it is of this version");
}

#[test]
fn a_record_longer_than_a_segment_has_one_for_itself() {
    let (disk, mut log) = filled(options(), 2);
    let long = vec![7; 20_000];
    assert_eq!((log.append(&long), log.last().seq), (Appended::Committed, 3));
    assert_eq!((log.append(&body(4)), log.last().seq), (Appended::Committed, 4));
    assert_eq!(log.closed(), 2);
    drop(log);
    let (_, _, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(found.0[2..], [long, body(4)]);
}

#[test]
fn a_directory_is_opened_by_one_at_a_time() {
    let (disk, log) = filled(options(), 1);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Locked { .. }));
    drop(log);
    assert!(open(&disk, options(), Begin::GoOn).is_ok());
}

#[test]
fn an_empty_directory_is_begun_only_where_that_was_asked_for() {
    let disk = SimDisk::new(1);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Empty { .. }));
    assert!(open(&disk, options(), Begin::New(ID)).is_ok());
    assert!(matches!(refusal(&disk, Begin::New(ID)), OpenError::NotEmpty { .. }));
    assert!(open(&disk, options(), Begin::GoOn).is_ok());
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let disk = SimDisk::new(1);
    disk.plant("letters.txt", b"Dear");
    for begin in [Begin::GoOn, Begin::New(ID)] {
        assert!(matches!(refusal(&disk, begin), OpenError::Foreign { file, .. } if file == "letters.txt"));
    }
    let (disk, log) = filled(options(), 9);
    drop(log);
    let (other, log) = filled(options(), 9);
    drop(log);
    let mut header = other.content(&plain_name(2)).unwrap();
    header[16] ^= 1;
    header[12..16].fill(0);
    let crc = crc32fast::hash(&header[..64]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.plant(&plain_name(2), &header);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Damaged { .. }));
}

#[test]
fn a_later_version_is_refused_by_name() {
    let (disk, log) = filled(options(), 1);
    drop(log);
    let mut state = disk.content("state").unwrap();
    state[8] = 9;
    state[12..16].fill(0);
    let crc = crc32fast::hash(&state);
    state[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.plant("state", &state);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Newer { version: 9, .. }));
}

#[test]
fn a_missing_file_is_missed() {
    let (disk, log) = filled(options(), 20);
    drop(log);
    let before = disk.content(&plain_name(2)).unwrap();
    disk.remove(&plain_name(2)).unwrap();
    let missing = plain_name(2);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Missing { file, .. } if file == missing));
    disk.plant(&missing, &before);
    disk.remove("state").unwrap();
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Missing { file, .. } if file == "state"));
    assert!(matches!(refusal(&disk, Begin::New(ID)), OpenError::NotEmpty { .. }));
}

#[test]
fn a_flipped_bit_stops_the_start_and_is_named_by_segment_and_offset() {
    let (disk, log) = filled(options(), 20);
    drop(log);
    flip(&disk, &plain_name(1), 70);
    let error = refusal(&disk, Begin::GoOn);
    assert!(error.to_string().starts_with("0000000001.log, offset 64: "), "{error}");
    flip(&disk, &plain_name(1), 70);
    let last = (1..).take_while(|number| disk.content(&plain_name(*number)).is_some()).last().unwrap() - 1;
    flip(&disk, &plain_name(last), 64 + 41);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Damaged { .. }));
}

#[test]
fn compressed_segments_are_read_and_a_flipped_bit_in_one_is_found() {
    let (disk, log) = filled(Options { compress: true, ..options() }, 20);
    let closed = log.closed();
    drop(log);
    assert!(closed > 2);
    for number in 1..=closed {
        assert!(disk.content(&plain_name(number)).is_none());
    }
    let (log, _, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(found, bodies(20));
    drop(log);
    let name = packed_name(2);
    let bytes = disk.content(&name).unwrap();
    // Other bytes may say the same: what they say is what counts.
    let is_found_or_harmless = |at: usize| match open(&disk, options(), Begin::GoOn) {
        Ok((_, _, found)) => {
            assert_eq!(found, bodies(20), "byte {at}");
            false
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(&name) || error.contains(&plain_name(3)), "byte {at}: {error}");
            true
        }
    };
    let mut count = 0;
    for at in 0..bytes.len() {
        flip(&disk, &name, at);
        count += usize::from(is_found_or_harmless(at));
        disk.plant(&name, &bytes[..at]);
        is_found_or_harmless(at);
        disk.plant(&name, &bytes);
    }
    assert!(count > bytes.len() * 9 / 10, "{count} of {} flips were found", bytes.len());
}

#[test]
fn a_snapshot_stands_in_for_the_segments_before_it() {
    let (disk, mut log) = filled(options(), 12);
    let first = log.closed();
    make_snapshot(&log.archive(), first).unwrap();
    for number in 13..=24 {
        assert_eq!(log.append(&body(number)), Appended::Committed);
    }
    let second = log.closed();
    make_snapshot(&log.archive(), second).unwrap();
    drop(log);
    let tight = Options { keep_bytes: Some(0), ..options() };
    let (mut log, recovered, found) = open(&disk, tight, Begin::GoOn).unwrap();
    assert_eq!((found, recovered.base), (bodies(24), second));
    log.tidy();
    drop(log);
    // What the older snapshot stands in for is gone, what follows it is there.
    assert!(disk.content(&plain_name(first)).is_none());
    assert!(disk.content(&plain_name(first + 1)).is_some());
    // Should the later one be damaged, wherever, the older one and the segments after it are enough.
    let name = snapshot_name(second);
    let bytes = disk.content(&name).unwrap();
    for at in (0..bytes.len()).step_by(7).chain(bytes.len() - 57..bytes.len()) {
        flip(&disk, &name, at);
        let (_, recovered, found) = open(&disk, options(), Begin::GoOn).unwrap();
        assert_eq!((found, recovered.base), (bodies(24), first), "byte {at}");
        assert_eq!(recovered.passed_over[0].0, name);
        disk.plant(&name, &bytes);
    }
    for cut in (0..bytes.len()).step_by(11) {
        disk.plant(&name, &bytes[..cut]);
        let (_, recovered, found) = open(&disk, options(), Begin::GoOn).unwrap();
        assert_eq!((found, recovered.base), (bodies(24), first), "cut at {cut}");
    }
    // With both damaged there is no way to know what was granted.
    flip(&disk, &snapshot_name(first), 90);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Unreadable { file, .. } if file == name));
}

#[test]
fn a_segment_that_a_snapshot_stands_in_for_is_not_gone_on_with() {
    let (disk, mut log) = filled(Options { durability: Durability::None, ..options() }, 0);
    for _ in 0..4 {
        assert_eq!(log.append(&[9; 1000]), Appended::Committed);
    }
    assert_eq!(log.closed(), 1);
    make_snapshot(&log.archive(), 1).unwrap();
    drop(log);
    // The first write to the next segment is lost, and the snapshot cannot be read, this time.
    disk.plant(&plain_name(2), &[0; 4096]);
    flip(&disk, &snapshot_name(1), 90);
    let (mut log, recovered, _) = open(&disk, options(), Begin::GoOn).unwrap();
    flip(&disk, &snapshot_name(1), 90);
    assert_eq!(recovered.last.seq, 3);
    // The first segment would have room for this one.
    assert_eq!(log.append(b"x"), Appended::Committed);
    drop(log);
    let (_, recovered, found) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!((recovered.base, found.0.len(), found.0.last()), (1, 4, Some(&b"x".to_vec())));
}

#[test]
fn segments_are_kept_as_long_and_as_many_as_configured_but_never_too_few() {
    let old = Options { keep_for: Some(Micros::from_secs(60)), ..options() };
    let (disk, mut log) = filled(old, 12);
    make_snapshot(&log.archive(), 1).unwrap();
    let second = log.closed();
    make_snapshot(&log.archive(), second).unwrap();
    log.tidy();
    assert!(disk.content(&plain_name(1)).is_some(), "nothing is old yet");
    disk.pass(Micros::from_secs(61));
    assert_eq!(log.append(&body(13)), Appended::Committed);
    log.tidy();
    assert!(disk.content(&plain_name(1)).is_none());
    assert!(disk.content(&plain_name(2)).is_some(), "the older snapshot needs it");
    drop(log);
    assert_eq!(open(&disk, old, Begin::GoOn).unwrap().2, bodies(13));
}

#[test]
fn what_the_time_rests_on_is_read_back() {
    let (disk, log) = filled(options(), 1);
    let anchor = Anchor { run: u64::MAX, booted_us: 3 };
    log.write_anchor(anchor).unwrap();
    drop(log);
    let (_, recovered, _) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(recovered.anchor, Some(anchor));
    flip(&disk, "clock", 30);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Unreadable { file, .. } if file == "clock"));
}

#[test]
fn what_is_reserved_is_read_back() {
    let (disk, log) = filled(options(), 1);
    assert_eq!(Log::write_reserve(&log, 77).ok(), Some(()));
    drop(log);
    let (_, recovered, _) = open(&disk, options(), Begin::GoOn).unwrap();
    assert_eq!(recovered.reserve, Some(77));
    flip(&disk, "reserve", 20);
    assert!(matches!(refusal(&disk, Begin::GoOn), OpenError::Unreadable { file, .. } if file == "reserve"));
}

/// A disk whose listings leave out one file, as those do that are made while it takes another's place.
#[derive(Debug)]
struct Overlooks(SimDisk, String);

impl Disk for Overlooks {
    fn place(&self) -> String {
        self.0.place()
    }
    fn list(&self) -> std::io::Result<Vec<Listed>> {
        Ok(self.0.list()?.into_iter().filter(|listed| listed.name != self.1).collect())
    }
    fn open(&self, name: &str, access: Access) -> std::io::Result<Arc<dyn DiskFile>> {
        self.0.open(name, access)
    }
    fn create(&self, name: &str) -> std::io::Result<Arc<dyn DiskFile>> {
        self.0.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn sync_directory(&self) -> std::io::Result<()> {
        self.0.sync_directory()
    }
    fn lock(&self, name: &str) -> std::io::Result<Box<dyn std::fmt::Debug + Send + Sync>> {
        self.0.lock(name)
    }
}

#[test]
fn a_segment_that_a_listing_overlooks_is_no_gap() {
    let (disk, log) = filled(options(), 20);
    let closed = log.closed();
    for number in 2..=closed {
        let disk: Arc<dyn Disk> = Arc::new(Overlooks(disk.clone(), plain_name(number)));
        let archive = Archive::open(disk).unwrap();
        let mut found = Bodies::default();
        archive.read(Upto::End, &mut |item| found.take(item)).unwrap();
        assert_eq!(found, bodies(20), "segment {number}");
        let mut walked = 0;
        archive
            .walk(1, None)
            .read_on(&mut |_| {
                walked += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(walked, 20, "segment {number}");
        make_snapshot(&archive, closed).unwrap();
    }
}

#[test]
fn a_log_that_has_lost_what_it_was_begun_with_is_not_read() {
    let opened = |disk: &SimDisk| Archive::open(Arc::new(disk.clone())).map(drop).unwrap_err();
    let disk = SimDisk::new(1);
    assert!(matches!(opened(&disk), OpenError::Empty { .. }));
    let (disk, log) = filled(options(), 3);
    drop(log);
    let state = disk.content("state").unwrap();
    disk.remove("state").unwrap();
    assert!(matches!(opened(&disk), OpenError::Missing { file, .. } if file == "state"));
    let alone = SimDisk::new(2);
    alone.plant("state", &state);
    assert!(matches!(opened(&alone), OpenError::Missing { file, .. } if file == plain_name(1)));
}

#[test]
fn a_reader_that_would_not_have_a_record_stops_the_start() {
    let (disk, log) = filled(options(), 3);
    drop(log);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut reject = |item: Item<'_>| match item {
        Item::Record(_, entry) if entry.stamp.seq == 2 => Err("slot 2: digests differ".into()),
        _ => Ok(()),
    };
    let error = Log::open(disk, options(), Begin::GoOn, &mut reject).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "slot 2: digests differ");
}

/// A directory that is removed in the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("preclaim-store-{}-{count}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_log_on_a_real_disk_is_read_back_with_threads_under_each_durability() {
    let interval = Durability::Interval(Micros::from_ms(1));
    for durability in [Durability::Slot, interval, Durability::None] {
        let directory = Temporary::new();
        let options = Options {
            durability,
            compress: true,
            upkeep: UpkeepBy::Thread,
            segment_bytes: 4096,
            ..options()
        };
        let mut found = Bodies::default();
        for life in 0..3 {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(&directory.0).unwrap());
            let begin = if life == 0 { Begin::New(ID) } else { Begin::GoOn };
            let (mut log, _) =
                Log::open(Arc::clone(&disk), options, begin, &mut |item| found.take(item)).unwrap();
            assert_eq!(found, bodies(life * 20));
            let again = Log::open(disk, options, Begin::GoOn, &mut |_| Ok(())).map(drop);
            assert!(matches!(again, Err(OpenError::Locked { .. })));
            for number in life * 20 + 1..=life * 20 + 20 {
                assert_eq!((log.append(&body(number)), log.last().seq), (Appended::Committed, number as u64));
            }
            make_snapshot(&log.archive(), log.closed()).unwrap();
            assert_eq!((log.sync(), log.trouble()), (Ok(()), None));
            assert_eq!(log.synced(), life as u64 * 20 + 20);
        }
    }
}

#[test]
fn a_last_segment_that_was_cut_short_is_no_torn_tail() {
    let options = Options { segment_bytes: 64 * 1024, ..options() };
    let (disk, log) = filled(options, 20);
    assert_eq!(log.closed(), 0);
    drop(log);
    let name = plain_name(1);
    let whole = disk.content(&name).unwrap();
    assert_eq!(whole.len(), 64 * 1024);
    for length in [64, 65, 1000, 4096, 20_000, 64 * 1024 - 1] {
        disk.plant(&name, &whole[..length]);
        match open(&disk, options, Begin::GoOn).map(drop) {
            Err(OpenError::Damaged { file, .. }) => assert_eq!(file, name),
            other => panic!("{length}: {other:?}"),
        }
    }
    disk.plant(&name, &whole);
    assert_eq!(open(&disk, options, Begin::GoOn).unwrap().2, bodies(20));
}
