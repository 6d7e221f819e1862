//! What a sync costs in a state directory.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::beat::on_the_beat;
use super::readings::StateReading;
use crate::bench::{Beside, DiskPlace, Quantiles};
use crate::store::RealDisk;
use crate::types::Micros;

/// What a slot's record of ten declarations has (docs/BENCH.md).
const RECORD_BYTES: u64 = 1_800;

/// Writes and syncs a record at each slot's end, as the log does, to a file of its own that is removed again.
pub(super) fn measure(directory: &Path, slot: Micros, span: Micros) -> StateReading {
    let place = DiskPlace::of(directory);
    match syncs(directory, slot, span) {
        Ok(took) => StateReading { place, sync: Quantiles::of(took), ..StateReading::default() },
        Err(error) => StateReading {
            place,
            sync: None,
            trouble: Some(error.to_string()),
            keeps_nothing: keeps_nothing(error.kind()),
        },
    }
}

fn syncs(directory: &Path, slot: Micros, span: Micros) -> io::Result<Vec<Micros>> {
    let mut beside = Beside::new(Arc::new(RealDisk::new(directory)))?;
    let (stop, mut failed) = (AtomicBool::new(false), None);
    let took = on_the_beat(slot, span, &stop, |_| match beside.write(RECORD_BYTES) {
        Ok(took) => Some(took),
        Err(error) => {
            stop.store(true, Ordering::Relaxed);
            failed = Some(error);
            None
        }
    });
    failed.map_or(Ok(took), Err)
}

/// Of others, such as a directory of another user's, a coordinator may have what this process has not.
fn keeps_nothing(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn syncs_are_measured_and_nothing_is_left_behind() {
        let directory = std::env::temp_dir().join(format!("preclaim-doctor-unit-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let reading = measure(&directory, Micros::from_ms(1), Micros::from_ms(20));
        let left = fs::read_dir(&directory).unwrap().count();
        fs::remove_dir_all(&directory).unwrap();
        assert!(reading.sync.is_some_and(|sync| sync.count > 0), "{reading:?}");
        assert_eq!((left, reading.trouble), (0, None));
    }

    #[test]
    fn a_directory_that_is_not_there_is_told_and_no_coordinators_fault() {
        let reading = measure(Path::new("/nowhere/at/all"), Micros::from_ms(1), Micros::from_ms(5));
        assert!(reading.trouble.is_some() && reading.sync.is_none() && !reading.keeps_nothing);
        assert!(keeps_nothing(io::ErrorKind::StorageFull) && !keeps_nothing(io::ErrorKind::PermissionDenied));
    }
}
