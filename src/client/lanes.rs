//! The lanes of a connection, as its one writer sees them: which message goes on which, and what waits to be
//! written on each.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connector::{Lane, Link};
use super::driver::{Broken, read};
use super::shared::Shared;
use crate::wire::{Declaration, Declare, ToCoordinator};

/// Over how many lanes the intents of a client are spread, unless it says otherwise.
pub(super) const LANES: usize = 1;

/// Of so many lanes that a coordinator allows, how many carry intents where `wanted` were asked for: at least the
/// first, and no more than half, since each listing and each watch has one of its own.
pub(super) fn spread(wanted: usize, allowed: u32) -> usize {
    let half = usize::try_from(allowed).unwrap_or(usize::MAX) / 2;
    wanted.min(half).max(1)
}

/// The lane, of `lanes`, of an intent: it stays on one for its whole life, so that no release overtakes its
/// declaration. By its id alone: a client numbers its intents one after the other, so those that are under way
/// together are on different lanes as far as these go.
fn by_id(id: u64, lanes: usize) -> usize {
    usize::try_from(id % lanes.max(1) as u64).unwrap_or(0)
}

/// What goes on which of `lanes`: `message`, or, of several declarations, those of each lane.
fn dealt(message: ToCoordinator, lanes: usize) -> Vec<(usize, ToCoordinator)> {
    let lane = match &message {
        ToCoordinator::Release(release) => by_id(release.id.number(), lanes),
        ToCoordinator::Renew(renew) => by_id(renew.id.number(), lanes),
        ToCoordinator::Declare(_)
        | ToCoordinator::Hello(_)
        | ToCoordinator::ClockPing(_)
        | ToCoordinator::List(_)
        | ToCoordinator::Watch(_)
        | ToCoordinator::Bye(_) => 0,
    };
    match message {
        ToCoordinator::Declare(declare) if lanes > 1 => {
            let mut batches: BTreeMap<usize, Vec<Declaration>> = BTreeMap::new();
            for declaration in declare.batch {
                batches.entry(by_id(declaration.intent.id, lanes)).or_default().push(declaration);
            }
            batches.into_iter().map(|(lane, batch)| (lane, Declare { batch }.into())).collect()
        }
        message => vec![(lane, message)],
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

    /// `message` waits to be written, on one of `lanes`, or each part of it on its own.
    pub(super) fn put(&mut self, message: ToCoordinator, lanes: usize) {
        for (lane, message) in dealt(message, lanes) {
            if self.lanes.len() <= lane {
                self.lanes.resize_with(lane + 1, Outgoing::default);
            }
            let bytes = &mut self.lanes[lane].bytes;
            let before = bytes.len();
            // The session checks the size of the one message that can be too large.
            let _ = message.encode(bytes);
            self.waiting += bytes.len() - before;
        }
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
    use crate::types::{IntentId, RawIntent, Time};
    use crate::wire::{Bye, Extensions, Release, Renew};

    fn declaration(id: u64) -> Declaration {
        Declaration { intent: RawIntent { id, ..RawIntent::default() }, ..Declaration::default() }
    }

    fn about(id: u64) -> [ToCoordinator; 3] {
        let declare = Declare { batch: vec![declaration(id)] };
        let (request, id, until) = (1, IntentId::new(id), Time::ZERO);
        let release = Release { request, id, extensions: Extensions::NONE };
        [declare.into(), release.into(), Renew { request, id, until, extensions: Extensions::NONE }.into()]
    }

    #[test]
    fn an_intents_whole_life_is_on_one_lane_and_its_neighbours_are_on_others() {
        for lanes in [1, 2, 8] {
            for id in 0..100_u64 {
                for message in about(id) {
                    assert_eq!(dealt(message.clone(), lanes), [(id as usize % lanes, message)]);
                }
            }
        }
        let bye = ToCoordinator::from(Bye::default());
        assert_eq!(dealt(bye.clone(), 8), [(0, bye)], "what is about no intent is on the first");
    }

    #[test]
    fn several_declarations_in_one_go_each_on_the_lane_of_its_intent_and_stay_one_where_there_is_one() {
        let of = |ids: &[u64]| -> ToCoordinator {
            Declare { batch: ids.iter().copied().map(declaration).collect() }.into()
        };
        let all = of(&[4, 5, 6, 7, 8]);
        assert_eq!(dealt(all.clone(), 1), [(0, all.clone())]);
        assert_eq!(dealt(all, 2), [(0, of(&[4, 6, 8])), (1, of(&[5, 7]))]);
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
