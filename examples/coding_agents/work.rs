//! What the agents have to do: jobs on a tree of files, drawn from a seed.

use std::ops::Range;
use std::time::Duration;

use super::story::Dice;

pub(crate) const FILES: usize = 200;
const DIRECTORIES: usize = 20;
const FILES_EACH: usize = FILES / DIRECTORIES;
const DIRECTORIES_OF_A_CRATE: usize = 5;

/// One job: think about it, then have some places of the repository for a while and write there.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) think: Duration,
    /// How long reading, editing and trying it takes, once the places are the agent's own.
    pub(crate) hold: Duration,
    /// How long the agent says that it will take: never less.
    pub(crate) guess: Duration,
    pub(crate) spots: Vec<Spot>,
    /// What its agent has left to do from here on, as a share of the most that any agent has to do.
    pub(crate) left: f64,
}

/// A place of the repository, and whether it is written or only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    place: Place,
    pub(crate) writes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Directory(usize),
    File(usize),
}

impl Spot {
    /// Its name, from the root on.
    pub(crate) fn path(&self) -> String {
        let directory =
            |number: usize| format!("repo/crate-{}/dir-{number}", number / DIRECTORIES_OF_A_CRATE);
        match self.place {
            Place::Directory(number) => directory(number),
            Place::File(number) => format!("{}/file-{number}.rs", directory(number / FILES_EACH)),
        }
    }

    /// The files there, by number.
    pub(crate) fn files(&self) -> Range<usize> {
        match self.place {
            Place::Directory(number) => number * FILES_EACH..(number + 1) * FILES_EACH,
            Place::File(number) => number..number + 1,
        }
    }
}

/// The name of a file, from the root on.
pub(crate) fn file_path(number: usize) -> String {
    Spot { place: Place::File(number), writes: true }.path()
}

impl Job {
    /// The files that it writes, or that it only reads, in order, each once.
    pub(crate) fn files(&self, writes: bool) -> Vec<usize> {
        let of =
            |writes: bool| self.spots.iter().filter(move |spot| spot.writes == writes).flat_map(Spot::files);
        let mut files: Vec<usize> =
            of(writes).filter(|file| writes || of(true).all(|it| it != *file)).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) agents: usize,
    /// Jobs of each.
    pub(crate) jobs: usize,
    pub(crate) seed: u64,
    /// A second of the agents' time is a second divided by this.
    pub(crate) scale: u32,
    /// By how much a guess is too long, at most, in percent.
    pub(crate) loose: u64,
    /// Seconds of thought, and on the files, in the mean.
    pub(crate) think: u64,
    pub(crate) hold: u64,
    /// How uneven the use of the files is: 1 is even.
    pub(crate) hot: i32,
}

/// The jobs of each agent, in order.
pub(crate) fn plan(load: Load) -> Vec<Vec<Job>> {
    let (mut dice, mut guesses) = (Dice::new(load.seed), Dice::new(load.seed ^ 0xf00d));
    let time = |dice: &mut Dice, mean: u64| {
        let mean = Duration::from_secs(mean);
        dice.exponential(mean).clamp(mean / 2, mean * 3) / load.scale
    };
    let mut job = || {
        let (think, hold) = (time(&mut dice, load.think), time(&mut dice, load.hold));
        let too_long = load.loose as f64 / 100.0 * guesses.unit();
        Job { think, hold, guess: hold.mul_f64(1.0 + too_long), spots: spots(&mut dice, load.hot), left: 0.0 }
    };
    let mut plan: Vec<Vec<Job>> = (0..load.agents).map(|_| (0..load.jobs).map(|_| job()).collect()).collect();
    let all = |jobs: &[Job]| jobs.iter().map(|job| job.think + job.hold).sum::<Duration>();
    let most = plan.iter().map(|jobs| all(jobs)).max().unwrap_or_default();
    for jobs in &mut plan {
        for at in 0..jobs.len() {
            jobs[at].left = all(&jobs[at..]).div_duration_f64(most);
        }
    }
    plan
}

/// Mostly one file, or several of one directory; now and then a directory as a whole, or a file whose
/// writer reads another directory and relies on it.
fn spots(dice: &mut Dice, hot: i32) -> Vec<Spot> {
    let write = |place: Place| Spot { place, writes: true };
    let directory = popular(dice, DIRECTORIES, hot);
    let file = |dice: &mut Dice| write(Place::File(directory * FILES_EACH + popular(dice, FILES_EACH, hot)));
    let mut spots = match dice.below(100) {
        0..60 => vec![file(dice)],
        60..80 => (0..2 + dice.below(3)).map(|_| file(dice)).collect(),
        80..95 => {
            let read = Place::Directory(popular(dice, DIRECTORIES, hot));
            vec![file(dice), Spot { place: read, writes: false }]
        }
        _ => vec![write(Place::Directory(directory))],
    };
    spots.sort_unstable();
    spots.dedup();
    spots
}

/// One of `count`, the first ones more often: the power says how much.
fn popular(dice: &mut Dice, count: usize, power: i32) -> usize {
    ((dice.unit().powi(power) * count as f64) as usize).min(count - 1)
}
