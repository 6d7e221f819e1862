//! What is measured, alike for all ways to get along.

use super::road::{Track, collisions};
use super::story::Figures;

/// What came of the declarations of one vehicle, or of many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) conflicts: usize,
    /// Grants of another motion after a conflict.
    pub(crate) revised: usize,
    /// Answers that came too late for what they were about: the vehicle went on as before.
    pub(crate) late: usize,
    /// From declared to answered.
    pub(crate) answers_ms: Figures,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        let Tally { conflicts, revised, late, answers_ms } = other;
        self.conflicts += conflicts;
        self.revised += revised;
        self.late += late;
        self.answers_ms.extend(answers_ms);
    }
}

/// One way to get along at one density, over all seeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Emergency brakings of each seed.
    pub(crate) emergencies: Figures,
    /// Collisions of each seed.
    pub(crate) collisions: Figures,
    /// Mean delay of each seed, in seconds.
    pub(crate) delay_s: Figures,
    pub(crate) vehicles: usize,
}

impl Measured {
    /// Takes in what one seed gave.
    pub(crate) fn add(&mut self, tracks: &[Track]) {
        self.emergencies.add(tracks.iter().map(Track::emergencies).sum::<usize>() as f64);
        self.collisions.add(collisions(tracks) as f64);
        let mut delays = Figures::default();
        tracks.iter().for_each(|track| delays.add(track.delay_s()));
        self.delay_s.add(delays.mean());
        self.vehicles += tracks.len();
    }
}

/// All of these together.
pub(crate) fn total(figures: &Figures) -> f64 {
    figures.mean() * figures.count() as f64
}
