//! A disk that notes when snapshots are made.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::store::{Access, Disk, DiskFile, Listed, RealDisk, SNAPSHOT_THREAD};

/// A directory of this machine.
#[derive(Debug)]
pub(super) struct Watched {
    disk: RealDisk,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// When the one that is being made was begun.
    begun: Option<Instant>,
    made: Vec<(Instant, Instant)>,
}

impl Watched {
    pub(super) fn new(disk: RealDisk) -> Self {
        Watched { disk, made: Mutex::default() }
    }

    /// From when to when each snapshot was made, up to now.
    pub(super) fn snapshots(&self) -> Vec<(Instant, Instant)> {
        let made = self.made();
        made.made.iter().copied().chain(made.begun.map(|begun| (begun, Instant::now()))).collect()
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_making() -> bool {
    std::thread::current().name() == Some(SNAPSHOT_THREAD)
}

impl Disk for Watched {
    fn place(&self) -> String {
        self.disk.place()
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        self.disk.list()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        // It begins with reading what there is.
        if is_making() {
            self.made().begun.get_or_insert_with(Instant::now);
        }
        self.disk.open(name, access)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let renamed = self.disk.rename(from, to);
        // It ends with taking its name.
        if is_making() {
            let mut made = self.made();
            let begun = made.begun.take();
            made.made.extend(begun.map(|begun| (begun, Instant::now())));
        }
        renamed
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn std::fmt::Debug + Send + Sync>> {
        self.disk.lock(name)
    }
}
