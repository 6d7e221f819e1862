//! What a record costs on this machine's disk: the log's append with a sync each, beside a bare write
//! and `fdatasync` of as many bytes to a file that grows, one that was filled with zeros and one whose
//! space was set aside. `cargo bench --bench store [DIRECTORY]`; the directory, on the disk to be
//! measured, is the one for temporary files unless named.
//!
//! Rounds of each kind take turns, so that what else the disk does meets all of them alike.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use preclaim::audit::{Appended, FRAME_HEAD_BYTES, STAMP_BYTES};
use preclaim::store::{Archive, Begin, Disk, Item, Log, Options, RealDisk};

/// Bytes of a record with its frame: a busy slot's.
const RECORD: usize = 16 * 1024;
const BODY: usize = RECORD - FRAME_HEAD_BYTES - STAMP_BYTES;
/// Unmeasured, where benches are only tried out.
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 20 };
const APPENDS: usize = if cfg!(debug_assertions) { 2 } else { 100 };

fn main() -> Result<(), Box<dyn Error>> {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parent = named.map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = Directory::new(&parent)?;
    let mut bare: Vec<Bare> = ["growing", "zero-filled", "set aside"].into_iter().map(Bare::new).collect();
    let mut appended = Vec::new();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(directory.0.join("log"))?);
    let (mut log, _) = Log::open(disk, Options::default(), Begin::New(1), &mut |_| Ok(()))?;
    for round in 0..ROUNDS {
        for kind in &mut bare {
            kind.round(&directory.0, round)?;
        }
        append(&mut log, &mut appended)?;
    }
    println!("{RECORD} bytes and a sync, {} times each   p50        p99", ROUNDS * APPENDS);
    for kind in &mut bare {
        report(kind.name, &mut kind.took);
    }
    report("the log's append", &mut appended);
    drop(log);
    read_back(directory.0.join("log"))
}

/// Reads and checks the whole log.
fn read_back(directory: PathBuf) -> Result<(), Box<dyn Error>> {
    let archive = Archive::open(Arc::new(RealDisk::new(directory)))?;
    let start = Instant::now();
    let mut bytes = 0;
    archive.read_all(&mut |item| {
        if let Item::Record(_, entry) = item {
            bytes += FRAME_HEAD_BYTES + STAMP_BYTES + entry.body.len();
        }
        Ok(())
    })?;
    let (seconds, mib) = (start.elapsed().as_secs_f64(), bytes as f64 / f64::from(1 << 20));
    println!("reading back, each record checked: {:.0} MiB a second", mib / seconds);
    Ok(())
}

/// Appends to the log, timing each.
fn append(log: &mut Log, took: &mut Vec<Duration>) -> Result<(), Box<dyn Error>> {
    let body = vec![0x5a; BODY];
    for _ in 0..APPENDS {
        let start = Instant::now();
        let appended = log.append(&body);
        took.push(start.elapsed());
        let Appended::Committed = appended else { return Err(format!("{appended:?}").into()) };
    }
    Ok(())
}

/// One kind of file, without a log.
struct Bare {
    name: &'static str,
    took: Vec<Duration>,
}

impl Bare {
    fn new(name: &'static str) -> Self {
        Bare { name, took: Vec::new() }
    }

    fn round(&mut self, directory: &Path, round: usize) -> Result<(), Box<dyn Error>> {
        let path = directory.join(format!("{round}"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let bytes = vec![0x5a; RECORD];
        match self.name {
            "zero-filled" => {
                file.write_all(&vec![0; RECORD * APPENDS])?;
                file = OpenOptions::new().write(true).open(&path)?;
            }
            "set aside" => set_aside(&file, (RECORD * APPENDS) as u64)?,
            _ => {}
        }
        file.sync_all()?;
        for _ in 0..APPENDS {
            let start = Instant::now();
            file.write_all(&bytes)?;
            file.sync_data()?;
            self.took.push(start.elapsed());
        }
        std::fs::remove_file(&path)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn set_aside(file: &File, bytes: u64) -> Result<(), Box<dyn Error>> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?)
}

#[cfg(not(target_os = "linux"))]
fn set_aside(_: &File, _: u64) -> Result<(), Box<dyn Error>> {
    Ok(())
}

fn report(name: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |part: usize| {
        took.get((took.len() * part).div_ceil(100) - 1).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    println!("  {name:<40} {:>7.3} ms {:>7.3} ms", at(50), at(99));
}

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("preclaim-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left over is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
