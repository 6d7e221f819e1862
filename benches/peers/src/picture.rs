//! The picture: p50 to p99 of the time to a grant, by system and workload, on a logarithmic scale.

use crate::report::Row;

pub(crate) fn svg(_rows: &[Row]) -> String {
    String::new()
}
