//! What an agent's process and the one that judges say to each other: JSON lines over a Unix socket,
//! each answered before the next.

use std::path::PathBuf;
use std::time::Duration;

use preclaim::types::Fence;
use preclaim::{Intent, path};
use serde::{Deserialize, Serialize};

use super::plan::Leases;

/// What an agent's process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) ledger: PathBuf,
    pub(crate) name: String,
    /// Which process of this name it is, counted from 0.
    pub(crate) life: u64,
    pub(crate) addr: String,
    pub(crate) ca: PathBuf,
    pub(crate) seed: u64,
    pub(crate) resources: u64,
    pub(crate) leases: Leases,
}

/// A declaration, and what is to be done with its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) id: u64,
    pub(crate) resource: u64,
    pub(crate) lease_ms: u64,
    pub(crate) wait_ms: u64,
    pub(crate) work_ms: u64,
}

impl Ask {
    /// The same each time, so that it may be declared again under its id.
    pub(crate) fn intent(&self) -> Intent {
        let claim = path(&resource_path(self.resource)).unwrap().exclusive();
        let intent = Intent::asap().claim(claim, Duration::from_millis(self.lease_ms)).lease();
        intent.wait(Duration::from_millis(self.wait_ms)).id(self.id)
    }
}

pub(crate) fn resource_path(number: u64) -> String {
    format!("dock/{number}")
}

/// (start, token), by which a guarded store orders writers.
pub(crate) type Order = (u64, u64);

pub(crate) fn order(fence: Fence) -> Order {
    (fence.start.as_us(), fence.token.number())
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    Hello {
        name: String,
        life: u64,
    },
    /// It has nothing to do.
    Next,
    ConnectFailed {
        why: String,
    },
    Declared(Ask),
    /// Whether the declaration was first made by this process, and how long it took then.
    Granted {
        id: u64,
        token: u64,
        took_us: Option<u64>,
    },
    /// A final answer that is no grant.
    Refused {
        id: u64,
        what: Refused,
        took_us: Option<u64>,
    },
    /// It may have been decided; it is asked again.
    Unknown {
        id: u64,
        why: String,
    },
    /// Nothing was sent; it is asked again.
    Unsent {
        id: u64,
        why: String,
    },
    /// Begins to use what it was granted: the first write.
    Enter {
        id: u64,
        fence: Order,
    },
    Write {
        id: u64,
        fence: Order,
    },
    /// `check()` has said after the last `Enter` or `Write` that the grant is in hand.
    Held {
        id: u64,
    },
    Lost {
        id: u64,
        why: String,
    },
    Released {
        id: u64,
        existed: bool,
    },
    ReleaseUnknown {
        id: u64,
    },
    Event {
        what: Event,
    },
    /// It cannot go on.
    Gone {
        why: String,
    },
    Bye,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refused {
    Conflict,
    Rejected,
    /// Granted before, and ended.
    Ended,
    Withdrawn,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Event {
    Disconnected,
    Resumed,
    RenewalDenied,
    Renewed,
    Lost,
    ClockUncertain,
    Replaced,
    Other,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// To a write: whether the store took it.
    pub(crate) accepted: bool,
    /// No new declarations.
    pub(crate) stop: bool,
    /// To a hello: what an earlier process of this name left open.
    pub(crate) open: Vec<Ask>,
}

/// The library that lies about the time, where it is installed.
pub(crate) fn faketime() -> Option<PathBuf> {
    let homes = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let homes = homes.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")]);
    homes.map(|home| home.join("faketime/libfaketimeMT.so.1")).find(|file| file.exists())
}
