//! The oldest state from which the records of a log follow.

use crate::audit::{Follower, Link, State};
use crate::store::{Archive, OpenError, SnapshotRead};

/// A state, and the segment after whose last record it is.
#[derive(Debug)]
pub struct Base {
    /// The segment; 0 for the state before the first record.
    pub segment: u64,
    /// The last record up to there.
    pub last: Link,
    /// The state after it.
    pub state: State,
}

impl Base {
    /// Before the first record.
    pub fn beginning() -> Self {
        Base { segment: 0, last: Link::START, state: State::default() }
    }

    /// The oldest state whose following records are all there: the beginning, or the oldest such good
    /// snapshot.
    ///
    /// # Errors
    /// Where there is none, or the directory cannot be read.
    pub fn oldest(archive: &Archive) -> Result<Base, OpenError> {
        let contents = archive.contents()?;
        let first = contents.segments.first().copied().unwrap_or(1);
        if first == 1 && (!contents.segments.is_empty() || contents.snapshots.is_empty()) {
            return Ok(Base::beginning());
        }
        let mut damaged = None;
        for &segment in contents.snapshots.iter().filter(|segment| **segment + 1 >= first) {
            match Base::of_snapshot(archive, segment)? {
                Ok(base) => return Ok(base),
                Err(why) => damaged = Some((Archive::snapshot_file(segment), why)),
            }
        }
        Err(match damaged {
            Some((file, why)) => OpenError::Unreadable { file, why },
            None => {
                let place = archive.place();
                OpenError::Missing { place, file: Archive::snapshot_file(first.saturating_sub(1)) }
            }
        })
    }

    /// The state that a snapshot holds, or what is wrong with it.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn of_snapshot(archive: &Archive, segment: u64) -> Result<Result<Base, String>, OpenError> {
        let mut follower = Follower::default();
        let mut why = None;
        let read = archive.read_snapshot(segment, &mut |chunk| {
            follower.chunk(chunk).map_err(|error| {
                why = Some(error.to_string());
                error.into()
            })
        });
        if let Some(why) = why {
            return Ok(Err(why));
        }
        Ok(match read? {
            SnapshotRead::Whole(position) => {
                Ok(Base { segment, last: position.last, state: follower.finish() })
            }
            SnapshotRead::Damaged(why) => Err(why),
        })
    }
}
