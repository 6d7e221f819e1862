//! What it takes to go on from a state directory with a million grants in force, step by step.
//! `cargo bench --bench recovery [DIRECTORY]`; the directory, on the disk to be measured, is the one for
//! temporary files unless named. Takes about a minute, 3 GiB of memory and 300 MB of disk.
//!
//! No step is over in less than a second, so none is repeated thousands of times: each line is one run,
//! and of the last steps there are several.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use preclaim::audit::{FRAME_HEAD_BYTES, Follower, STAMP_BYTES};
use preclaim::bench::{Crowd, fill};
use preclaim::config::{Config, Durability, StateConfig, TextConfig};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, StartFrom, recover};
use preclaim::resolver::Rules;
use preclaim::store::{Archive, Item, RealDisk, Upto, make_snapshot};
use preclaim::types::Time;

/// Unmeasured, where benches are only tried out.
const GRANTS: u64 = if cfg!(debug_assertions) { 500 } else { 1_000_000 };
/// Declarations of a slot: with slots of 10 ms, a hundred thousand a second, or ten thousand.
const PER_SLOT: [u64; 2] = if cfg!(debug_assertions) { [10, 50] } else { [100, 1000] };
/// Small enough that nearly all of the log is closed, and in the snapshot.
const SEGMENT: u64 = if cfg!(debug_assertions) { 1 << 13 } else { 4 << 20 };
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 3 };

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parent = named.map_or_else(std::env::temp_dir, PathBuf::from);
    for per_slot in PER_SLOT {
        println!("{GRANTS} grants, {per_slot} declarations a record");
        measure(&Directory::new(&parent)?.0, Crowd { grants: GRANTS, per_slot })?;
    }
    Ok(())
}

fn measure(directory: &Path, crowd: Crowd) -> Done {
    let settings = settings(directory);
    let disk = || Arc::new(RealDisk::new(directory));
    let (config, now) = (Config::default(), now()?);
    let start = Start::now();
    fill(Arc::new(RealDisk::create(directory)?), &config, &settings, crowd, now)?;
    println!("  decided and written                   {}", start.took());
    let archive = Archive::open(disk())?;
    let checked = read(&archive, "read and checked", |_| Ok(()))?;
    let mut follower = Follower::default();
    read(&archive, "read, checked and followed", |body| {
        follower.record(body)?;
        Ok(())
    })?;
    let state = follower.finish();
    assert_eq!(state.image().next_token(), crowd.grants + 1);
    drop(state);
    let start = Start::now();
    make_snapshot(&archive, checked - 1)?;
    println!("  a snapshot made of the log            {}", start.took());
    for _ in 0..ROUNDS {
        go_on(directory, &config, &settings, now)?;
    }
    Ok(())
}

/// Reads the whole log; the number of its last segment.
fn read(archive: &Archive, what: &str, mut visit: impl FnMut(&[u8]) -> Done) -> Result<u64, Box<dyn Error>> {
    let start = Start::now();
    let (mut bytes, mut records, mut failed) = (0, 0, Ok(()));
    let read = archive.read(Upto::End, &mut |item| {
        if let Item::Record(_, entry) = item {
            bytes += FRAME_HEAD_BYTES + STAMP_BYTES + entry.body.len();
            records += 1;
            if failed.is_ok() {
                failed = visit(entry.body);
            }
        }
        Ok(())
    })?;
    failed?;
    let took = start.seconds();
    let (mib, each) = (bytes as f64 / f64::from(1 << 20) / took, f64::from(records) / took);
    println!(
        "  {what:<37} {}, {mib:.0} MiB a second, {each:.0} records a second ({records} of {} bytes)",
        start.took(),
        bytes / records as usize
    );
    Ok(read.tail.segment)
}

/// From the directory to a coordinator that listens.
fn go_on(directory: &Path, config: &Config, settings: &StateConfig, now: Time) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let in_memory = CoordinatorConfig::in_memory(Rules::default())?;
    let start = Start::now();
    let restart = recover(Arc::new(RealDisk::new(directory)), config, settings, StartFrom::State, now)?;
    let recovered = start.took();
    let (grants, records) = (restart.report.grants, restart.report.records);
    let (journal, recovered_state) = (Box::new(restart.journal), Some(restart.recovered));
    let coordinator =
        Coordinator::bind(CoordinatorConfig { journal, recovered: recovered_state, ..in_memory })?;
    println!(
        "  gone on from a snapshot, {records:>4} records    {} ({recovered} until the state was there; {grants} grants)",
        start.took()
    );
    drop(coordinator);
    Ok(())
}

fn settings(directory: &Path) -> StateConfig {
    StateConfig {
        dir: directory.to_owned(),
        durability: Durability::None,
        segment_bytes: SEGMENT,
        keep_for: None,
        keep_bytes: None,
        compress: true,
        text: TextConfig::default(),
    }
}

fn now() -> Result<Time, Box<dyn Error>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(Time::from_us(u64::try_from(since.as_micros())?))
}

/// A step's start, by the clock and by this thread's processor time: on a busy machine, the latter says
/// more.
#[derive(Clone, Copy)]
struct Start(Instant, Option<f64>);

impl Start {
    fn now() -> Self {
        Start(Instant::now(), processor_seconds())
    }

    fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn took(self) -> String {
        let processor = self.1.zip(processor_seconds()).map_or(0.0, |(start, now)| now - start);
        format!("{:>6.2} s ({processor:.2} s on a core)", self.seconds())
    }
}

/// How long this thread has run, where the system says.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(|nanoseconds: f64| nanoseconds / 1e9)
}

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("preclaim-recovery-{}", std::process::id()));
        std::fs::create_dir_all(parent)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left over is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
