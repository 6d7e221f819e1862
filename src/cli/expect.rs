//! Readings that an intent rests on, as `PATH@TIME`.

use std::fmt;

use super::times::{self, Moment};
use crate::client::{Place, path};
use crate::types::Time;

/// A path, and when it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    place: Place,
    at: Moment,
}

/// Reads `PATH@TIME`; the last `@` is the one that counts.
pub(super) fn reading(text: &str) -> Result<Reading, String> {
    let (place, at) = text.rsplit_once('@').ok_or("it is PATH@TIME, such as cfg/app@2027-01-31T09:30:00Z")?;
    Ok(Reading { place: path(place).map_err(|error| error.to_string())?, at: times::moment(at)? })
}

impl Reading {
    /// With its time by the coordinator's clock, where it is `now` at the latest at `now`.
    pub(super) fn dated(&self, now: Time) -> Dated<'_> {
        Dated { path: &self.place, as_of: self.at.time(now) }
    }
}

/// A reading whose time is fixed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dated<'a> {
    pub(super) path: &'a Place,
    pub(super) as_of: Time,
}

impl fmt::Display for Dated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.path.path(), times::rfc3339(self.as_of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_follows_the_last_at_sign_and_reads_back() {
        let now = Time::from_us(5_000_000);
        assert_eq!(reading("cfg/a@now").unwrap().dated(now).as_of, now);
        let dated = reading("user@host@1970-01-01T00:00:02.5Z").unwrap();
        assert_eq!(dated.dated(now).to_string(), "user@host@1970-01-01T00:00:02.5Z");
        for bad in ["", "cfg/a", "cfg/a@", "@now", "cfg//a@now", "cfg/a@soon"] {
            assert!(reading(bad).is_err(), "{bad:?}");
        }
    }
}
