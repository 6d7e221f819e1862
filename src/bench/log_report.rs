//! What the log of the coordinator in this process cost.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::disk::DiskPlace;
use super::load::Measured;
use super::stats::Quantiles;
use crate::config::{Durability, show_duration};
use crate::coordinator::{Punctuality, SlotReport};
use crate::types::{FixedMap, Slot, Time};

/// The log, in the measured time. Spans of time are in µs.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// When a record is on disk: `slot`, `interval (100ms)` or `none`.
    pub durability: String,
    /// The state directory.
    pub directory: String,
    /// The disk that it is on, where the system says.
    pub disk: Option<DiskPlace>,
    /// How long it took to go on from what the directory held, up to a coordinator that listens.
    pub recovery_us: u64,
    /// Grants that were in force there.
    pub recovered_grants: usize,
    /// Records that were read there, after the last snapshot.
    pub recovered_records: u64,
    /// Records that were appended.
    pub records: u64,
    /// Their bytes, frames included.
    pub bytes: u64,
    /// Segments that they are in.
    pub segments: usize,
    /// Bytes for each record.
    pub bytes_per_record: Option<f64>,
    /// Bytes for each declaration that was due.
    pub bytes_per_declaration: Option<f64>,
    /// From resolved to durable, of slots that have a record; one span a slot.
    pub persist: Option<Quantiles>,
    /// One write and one `fdatasync` of as many bytes, by a thread that does nothing else, on the same
    /// disk in the same seconds; one span a slot.
    pub fdatasync: Option<Quantiles>,
    /// The same with that thread's sleep to an instant before it: from the instant to durable.
    pub bare_sync: Option<Quantiles>,
    /// The making of snapshots, where some were made meanwhile.
    pub snapshots: Option<Snapshots>,
}

/// Snapshots that were made in the measured time, and how slots fared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Snapshots {
    /// How many, in part or whole.
    pub made: usize,
    /// How long they took in the measured time.
    pub took_us: u64,
    /// Slots decided meanwhile.
    pub slots: u64,
    /// Of these, those whose work overran the next boundary.
    pub late: u64,
    /// From the slot's end until its loop had published it, of slots decided meanwhile.
    pub during: Option<Quantiles>,
    /// The same of all others.
    pub beside: Option<Quantiles>,
}

impl Snapshots {
    fn of(measured: &Measured, snapshots: &[(Time, Time)], slots: &[SlotReport]) -> Option<Self> {
        let (from, until) = (measured.from, measured.until);
        let clipped = snapshots.iter().map(|(begun, done)| (*begun.max(&from), *done.min(&until)));
        let made: Vec<(Time, Time)> = clipped.filter(|(begun, done)| begun < done).collect();
        let is_during = |report: &&SlotReport| {
            made.iter().any(|(begun, done)| report.published >= *begun && report.at < *done)
        };
        let whole = |report: &SlotReport| report.published.since(report.at);
        let during = || slots.iter().filter(is_during);
        let late = during().filter(|report| report.punctuality != Punctuality::OnTime).count() as u64;
        (!made.is_empty()).then(|| Snapshots {
            made: made.len(),
            took_us: made.iter().map(|(begun, done)| done.since(*begun).as_us()).sum(),
            slots: during().count() as u64,
            late,
            during: Quantiles::of(during().map(whole)),
            beside: Quantiles::of(slots.iter().filter(|report| !is_during(report)).map(whole)),
        })
    }
}

impl LogReport {
    /// Of what was measured, whose slots are `slots`; `None` where there was no log.
    pub(super) fn of(measured: &Measured, slots: &[SlotReport]) -> Option<Self> {
        let log = measured.log.as_ref()?;
        let reports: FixedMap<Slot, &SlotReport> = slots.iter().map(|report| (report.slot, report)).collect();
        let written = || log.written.iter().filter_map(|it| Some((it, *reports.get(&it.slot)?)));
        let (records, bytes) = (written().count() as u64, written().map(|(it, _)| it.bytes).sum::<u64>());
        let for_each = |count: u64| (count > 0).then(|| bytes as f64 / count as f64);
        let beside = &measured.beside;
        Some(LogReport {
            durability: match log.durability {
                Durability::Slot => "slot".to_owned(),
                Durability::Interval(most) => format!("interval ({})", show_duration(most)),
                Durability::None => "none".to_owned(),
            },
            directory: log.directory.display().to_string(),
            disk: log.disk.clone(),
            recovery_us: log.recovery.took.as_us(),
            recovered_grants: log.recovery.grants,
            recovered_records: log.recovery.records,
            records,
            bytes,
            segments: written().map(|(it, _)| it.segment).collect::<BTreeSet<_>>().len(),
            bytes_per_record: for_each(records),
            bytes_per_declaration: for_each(measured.declared),
            persist: Quantiles::of(written().map(|(_, report)| report.persisted.since(report.resolved))),
            fdatasync: Quantiles::of(beside.iter().map(|synced| synced.took)),
            bare_sync: Quantiles::of(beside.iter().map(|synced| synced.late.plus(synced.took))),
            snapshots: Snapshots::of(measured, &log.snapshots, slots),
        })
    }

    /// Rows of the table.
    pub(super) fn rows(&self) -> Vec<(&'static str, Option<Quantiles>)> {
        let mut rows = vec![
            ("persist, slots with a record", self.persist),
            ("  fdatasync of the same bytes", self.fdatasync),
            ("  a bare thread's sleep and it", self.bare_sync),
        ];
        if let Some(snapshots) = &self.snapshots {
            rows.push(("slot, during a snapshot", snapshots.during));
            rows.push(("slot, without a snapshot", snapshots.beside));
        }
        rows
    }

    /// By how much the p99 of making a record durable lies above that of one `fdatasync` of as many
    /// bytes, in µs.
    pub fn persist_over_fdatasync(&self) -> Option<u64> {
        Some(self.persist?.p99.saturating_sub(self.fdatasync?.p99))
    }
}

impl fmt::Display for LogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogReport { durability, directory, records, bytes, segments, .. } = self;
        let each = |of: Option<f64>| of.map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
        let disk = self.disk.as_ref().map_or(String::new(), |disk| format!(" ({disk})"));
        writeln!(f, "durability {durability}, in {directory}{disk}")?;
        if self.recovered_records > 0 || self.recovered_grants > 0 {
            writeln!(
                f,
                "gone on from {} grants after {:.2} s, {} records after the last snapshot",
                self.recovered_grants,
                self.recovery_us as f64 / 1e6,
                self.recovered_records
            )?;
        }
        if let Some(Snapshots { made, took_us, slots, late, .. }) = &self.snapshots {
            let seconds = *took_us as f64 / 1e6;
            writeln!(f, "snapshots: {made}, {seconds:.1} s; {slots} slots meanwhile, late {late}")?;
        }
        writeln!(
            f,
            "log: {records} records, {bytes} bytes in {segments} segments, {} bytes a record, {} a declaration",
            each(self.bytes_per_record),
            each(self.bytes_per_declaration)
        )
    }
}
