//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;
use crate::drive::Spans;
use crate::roster::System;
use crate::work::{self, Workload};

const USAGE: &str = "\
--preclaim FILE      the preclaim program
--dir DIR            an empty directory for the servers' data, on a disk
--picture FILE       where to write the picture (SVG)
--seconds N          measured for each system and workload [default: 1.5]
--only WORD          only systems whose name has these words, with _ for a space; may be given several times
--workload NAME      only this workload; may be given several times
--horizon SPAN       of the coordinators but for windows [default: 50s]
--check              everything once, for a fraction of a second";

/// With a horizon that has no room for two leases, those in line are told no offers, which would be others at
/// every turn: telling them costs the coordinator more than the turns do.
const STANDS_IN_LINE: &str = "50s";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) preclaim: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) picture: Option<PathBuf>,
    pub(crate) check: bool,
    pub(crate) spans: Spans,
    /// How far ahead a claim may end at the coordinators, but where windows are booked.
    pub(crate) horizon: String,
    only: Vec<String>,
    workloads: Vec<Workload>,
}

impl Options {
    pub(crate) fn from_args() -> Result<Self, Failure> {
        Options::read(std::env::args().skip(1)).map_err(|why| format!("{why}\n{USAGE}").into())
    }

    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (mut preclaim, mut dir, mut seconds) = (None, None, 1.5);
        let (mut picture, mut check, mut only, mut workloads) = (None, false, Vec::new(), Vec::new());
        let mut horizon = STANDS_IN_LINE.to_owned();
        while let Some(word) = words.next() {
            if word == "--check" {
                check = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
            match word.as_str() {
                "--preclaim" => preclaim = Some(value.into()),
                "--dir" => dir = Some(value.into()),
                "--picture" => picture = Some(value.into()),
                "--seconds" => seconds = value.parse().map_err(|_| "--seconds takes a number")?,
                "--only" => only.push(value.to_lowercase().replace('_', " ")),
                "--horizon" => horizon = value,
                "--workload" => workloads.push(named(&value)?),
                _ => return Err(format!("{word}: no such option").into()),
            }
        }
        let spans = match check {
            true => Spans { warmup: Duration::ZERO, measured: Duration::from_millis(150) },
            false => {
                let measured = Duration::try_from_secs_f64(seconds)?;
                Spans { warmup: Duration::from_millis(300), measured }
            }
        };
        let preclaim = preclaim.ok_or("--preclaim is needed")?;
        let dir = dir.ok_or("--dir is needed")?;
        Ok(Options { preclaim, dir, picture, check, spans, horizon, only, workloads })
    }

    pub(crate) fn takes(&self, system: System) -> bool {
        let title = system.title().to_lowercase();
        self.only.is_empty() || self.only.iter().any(|word| title.contains(word))
    }

    pub(crate) fn does(&self, workload: Workload) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&workload)
    }
}

fn named(name: &str) -> Result<Workload, Failure> {
    let names = || work::ALL.map(Workload::name).join(", ");
    let found = work::ALL.into_iter().find(|workload| workload.name() == name);
    found.ok_or_else(|| format!("{name}: there are {}", names()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Failure> {
        Options::read(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn what_is_named_is_taken_and_what_is_not_known_is_an_error() {
        let options = read("--preclaim p --dir d --only redis --workload tree").unwrap();
        assert!(options.takes(System::Redis { synced: true }) && !options.takes(System::EtcdTxn));
        assert!(options.does(Workload::Tree) && !options.does(Workload::Own));
        assert!(read("--preclaim p --dir d --workload trees").is_err());
        assert!(read("--preclaim p").is_err());
    }
}
