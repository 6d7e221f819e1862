//! State directories in memory, and one on a real disk.

mod directory;
mod faults;

use std::sync::Arc;

use super::sim::SimDisk;
use super::*;
use crate::audit::{Appended, Link};

const ID: u64 = 0x1d;

/// What the records of a log come to: here, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bodies(Vec<Vec<u8>>);

impl Bodies {
    fn take(&mut self, item: Item<'_>) -> Result<(), Rejection> {
        match item {
            Item::Start(_) => self.0.clear(),
            Item::Chunk(body) => self.0.push(body.to_vec()),
            Item::Record(_, entry) => {
                self.0.push(entry.body.to_vec());
                assert_eq!(entry.stamp.seq, self.0.len() as u64, "a record is left out");
                assert!(entry.stamp.synced < entry.stamp.seq);
            }
        }
        Ok(())
    }
}

/// The body of the record with this number: different ones, of different lengths.
fn body(number: usize) -> Vec<u8> {
    let length = number * 389 % 1500;
    (0..length).map(|at| if number.is_multiple_of(3) { 0 } else { (at * 7 + number) as u8 }).collect()
}

fn options() -> Options {
    Options { segment_bytes: 4096, upkeep: UpkeepBy::Caller, ..Options::default() }
}

fn open(disk: &SimDisk, options: Options, begin: Begin) -> Result<(Log, Recovered, Bodies), OpenError> {
    let mut bodies = Bodies::default();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (log, recovered) = Log::open(disk, options, begin, &mut |item| bodies.take(item))?;
    assert_eq!(recovered.last.seq, bodies.0.len() as u64);
    Ok((log, recovered, bodies))
}

/// Makes a snapshot of all that is closed, from the one before and what followed.
fn make_snapshot(archive: &Archive, closed: u64) -> Result<(), OpenError> {
    let mut bodies = Bodies::default();
    let read = archive.read(Upto::Closed(closed), &mut |item| bodies.take(item))?;
    if read.base < closed {
        let position = Position { segment: closed, last: read.last };
        archive.write_snapshot(position, read.base, |writer| {
            bodies.0.iter().try_for_each(|body| writer.chunk(body))
        })?;
    }
    Ok(())
}
