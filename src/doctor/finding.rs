//! What is said of a host.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: What,
    /// How it is.
    pub grade: Grade,
    /// What was measured.
    pub measured: String,
    /// What is needed.
    pub needed: String,
    /// Why it matters.
    pub why: String,
    /// What to change where it is not well: each line is one way, of which the first is the best.
    pub change: Vec<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As is needed.
    Ok,
    /// The host cannot be asked, or was not.
    Unknown,
    /// The beat is kept, with less room than there should be, or at times not.
    Warning,
    /// The beat is not kept.
    Unfit,
}

impl Grade {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Grade::Ok => "ok",
            Grade::Unknown => "unknown",
            Grade::Warning => "warning",
            Grade::Unfit => "unfit",
        }
    }
}

/// What is looked at. Programs rely on the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// How late a thread wakes on the host as it is.
    TimerIdle,
    /// How late it wakes while each core is busy.
    TimerLoaded,
    /// What else the host does.
    OtherLoad,
    /// Cores that this process may use.
    Cores,
    /// A bound on the processor time of its control group.
    CpuQuota,
    /// Processor time that the hypervisor gave to others.
    StealTime,
    /// How the processor's frequency is governed.
    CpuGovernor,
    /// What the kernel reads the time from.
    ClockSource,
    /// Whether the wall clock was set.
    WallClock,
    /// Room for what has arrived.
    UdpReceiveBuffer,
    /// Room for what leaves.
    UdpSendBuffer,
    /// Many datagrams with one call.
    Gso,
    /// What a sync costs in the state directory.
    Fdatasync,
    /// On what the state directory is.
    StateDirectory,
    /// Whether a thread may go before all others.
    RealtimePriority,
    /// Whether memory may be kept from being swapped out.
    MemoryLocking,
}

impl What {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            What::TimerIdle => "timer, as it is",
            What::TimerLoaded => "timer, under load",
            What::OtherLoad => "other load",
            What::Cores => "cores",
            What::CpuQuota => "CPU quota",
            What::StealTime => "steal time",
            What::CpuGovernor => "CPU governor",
            What::ClockSource => "clock source",
            What::WallClock => "wall clock",
            What::UdpReceiveBuffer => "UDP receive buffer",
            What::UdpSendBuffer => "UDP send buffer",
            What::Gso => "UDP segmentation (GSO)",
            What::Fdatasync => "fdatasync",
            What::StateDirectory => "state directory",
            What::RealtimePriority => "real-time priority",
            What::MemoryLocking => "memory locking",
        }
    }
}

/// What comes of all findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The host keeps the beat; there may be warnings.
    Fit,
    /// It does not.
    Unfit,
}

impl Verdict {
    /// The one that follows: what is unknown, and warnings, make no host unfit.
    pub fn of(findings: &[Finding]) -> Self {
        let is_unfit = findings.iter().any(|finding| finding.grade == Grade::Unfit);
        if is_unfit { Verdict::Unfit } else { Verdict::Fit }
    }
}

impl Finding {
    /// One that is unknown until something is said of it.
    pub(super) fn of(what: What, needed: impl Into<String>, why: &str) -> Self {
        Finding {
            what,
            grade: Grade::Unknown,
            measured: "the system does not tell".to_owned(),
            needed: needed.into(),
            why: why.to_owned(),
            change: Vec::new(),
        }
    }

    /// What was measured, and how that is.
    #[must_use]
    pub(super) fn is(mut self, grade: Grade, measured: impl Into<String>) -> Self {
        (self.grade, self.measured) = (grade, measured.into());
        self
    }

    /// A way to mend it, which is said only where something is to be mended.
    #[must_use]
    pub(super) fn or_else(mut self, change: impl Into<String>) -> Self {
        if matches!(self.grade, Grade::Warning | Grade::Unfit) {
            self.change.push(change.into());
        }
        self
    }
}
