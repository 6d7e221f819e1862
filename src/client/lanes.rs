//! The lanes of a connection, as its one writer sees them: which message goes on which, and what waits to be
//! written on each.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connector::{Lane, Link};
use super::driver::{Broken, read};
use super::shared::Shared;
use crate::types::IntentId;
use crate::wire::ToCoordinator;

/// Over how many lanes the intents of a client are spread, unless it says otherwise.
pub(super) const LANES: usize = 1;

/// Of so many lanes that a coordinator allows, how many carry intents where `wanted` were asked for: at least the
/// first, and no more than half, since each listing and each watch has one of its own.
pub(super) fn spread(wanted: usize, allowed: u32) -> usize {
    let half = usize::try_from(allowed).unwrap_or(usize::MAX) / 2;
    wanted.min(half).max(1)
}

/// The lane, of `lanes`, of a message: that of the intent that it is about, which stays on one for its whole life,
/// so that no release overtakes its declaration. By its id alone: a client numbers its intents one after the other,
/// so those that are under way together are on different lanes as far as these go.
pub(super) fn lane_of(message: &ToCoordinator, lanes: usize) -> usize {
    let by_id = |id: IntentId| usize::try_from(id.number() % lanes.max(1) as u64).unwrap_or(0);
    match message {
        // The session declares one at a time.
        ToCoordinator::Declare(declare) => {
            declare.batch.first().map_or(0, |first| by_id(IntentId::new(first.intent.id)))
        }
        ToCoordinator::Release(release) => by_id(release.id),
        ToCoordinator::Renew(renew) => by_id(renew.id),
        ToCoordinator::Hello(_)
        | ToCoordinator::ClockPing(_)
        | ToCoordinator::List(_)
        | ToCoordinator::Watch(_)
        | ToCoordinator::Bye(_) => 0,
    }
}

/// The lanes that are written to. Further ones than the first are opened when something is to be said on them,
/// and each is read in a task of its own, which ends with this.
pub(super) struct Lanes {
    shared: Arc<Shared>,
    link: Arc<dyn Link>,
    lanes: Vec<Outgoing>,
    waiting: usize,
    readers: JoinSet<()>,
    /// Told why where one of the further lanes breaks.
    broken: mpsc::Sender<Broken>,
}

#[derive(Default)]
struct Outgoing {
    /// Once it is open.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    bytes: Vec<u8>,
}

impl Lanes {
    pub(super) fn new(
        shared: Arc<Shared>,
        link: Arc<dyn Link>,
        first: Box<dyn AsyncWrite + Send + Unpin>,
        broken: mpsc::Sender<Broken>,
    ) -> Self {
        let lanes = vec![Outgoing { writer: Some(first), bytes: Vec::new() }];
        Lanes { shared, link, lanes, waiting: 0, readers: JoinSet::new(), broken }
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// `message` waits to be written, on one of `lanes`.
    pub(super) fn put(&mut self, message: &ToCoordinator, lanes: usize) {
        let lane = lane_of(message, lanes);
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Outgoing::default);
        }
        let bytes = &mut self.lanes[lane].bytes;
        let before = bytes.len();
        // The session checks the size of the one message that can be too large.
        let _ = message.encode(bytes);
        self.waiting += bytes.len() - before;
    }

    /// Writes all that waits.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        for at in 0..self.lanes.len() {
            if self.lanes[at].bytes.is_empty() {
                continue;
            }
            if self.lanes[at].writer.is_none() {
                self.lanes[at].writer = Some(self.open().await?);
            }
            let lane = &mut self.lanes[at];
            if let Some(writer) = &mut lane.writer {
                writer.write_all(&lane.bytes).await?;
            }
            lane.bytes.clear();
        }
        self.waiting = 0;
        Ok(())
    }

    async fn open(&mut self) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let Lane { reader, writer } =
            self.link.open_lane().await.map_err(|closed| io::Error::other(closed.why))?;
        let (shared, broken) = (Arc::clone(&self.shared), self.broken.clone());
        self.readers.spawn(async move {
            match read(&shared, reader).await {
                // What is still to be said about its intents comes on the first lane.
                Broken::Ended => {}
                // One reason is enough, and without a receiver the connection has ended.
                why => drop(broken.try_send(why)),
            }
        });
        Ok(writer)
    }

    /// Ends all lanes; the first one last.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        for lane in self.lanes.iter_mut().rev() {
            if let Some(writer) = &mut lane.writer {
                writer.shutdown().await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{RawIntent, Time};
    use crate::wire::{Bye, Declaration, Declare, Extensions, Release, Renew};

    fn about(id: u64) -> [ToCoordinator; 3] {
        let (extensions, request) = (Extensions::NONE, 1);
        let intent = RawIntent { id, ..RawIntent::default() };
        let declaration = Declaration {
            request,
            revision: false,
            intent,
            note: String::new(),
            extensions: Extensions::NONE,
        };
        let (id, until) = (IntentId::new(id), Time::ZERO);
        [
            Declare { batch: vec![declaration] }.into(),
            Release { request, id, extensions: Extensions::NONE }.into(),
            Renew { request, id, until, extensions }.into(),
        ]
    }

    #[test]
    fn an_intents_whole_life_is_on_one_lane_and_its_neighbours_are_on_others() {
        for lanes in [1, 2, 8] {
            let of = |id| about(id).map(|message| lane_of(&message, lanes));
            for id in 0..100_u64 {
                assert_eq!(of(id), [id as usize % lanes; 3]);
            }
        }
        assert_eq!(lane_of(&Bye::default().into(), 8), 0, "what is about no intent is on the first");
    }

    #[test]
    fn lanes_stay_free_for_listings_and_watches() {
        assert_eq!(spread(8, 256), 8);
        assert_eq!(spread(8, 16), 8);
        assert_eq!(spread(8, 15), 7);
        assert_eq!(spread(8, 1), 1);
        assert_eq!(spread(8, 0), 1);
        assert_eq!(spread(0, 256), 1);
    }
}
