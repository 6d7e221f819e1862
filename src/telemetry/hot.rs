//! `/hot`: on which paths intents find no place, who is in whose way there, and what may be done about it.

use serde::Serialize;

use super::advice::{self, Advice};
use super::claims::{ContendedLine, Picked};
use super::contention::{Heat, OfPair, OnPath};
use crate::types::{Agent, Micros, Path, Time};

/// `/hot`. Times are µs since the epoch.
#[derive(Debug, Serialize)]
pub(super) struct Hot<'a> {
    now: Time,
    paths: Vec<PathLine<'a>>,
    pairs: Vec<PairLine<'a>>,
}

#[derive(Debug, Serialize)]
struct PathLine<'a> {
    #[serde(flatten)]
    contended: ContendedLine<'a>,
    /// Conflicts of two who claimed it alone.
    exclusive: u64,
    /// Conflicts with one who named something below it.
    below: u64,
    /// Conflicts with one who named something that it is a part of.
    above: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
    advice: Vec<Advice>,
}

/// How long it was held, as far as that was seen.
#[derive(Debug, Serialize)]
struct Held {
    seen: u64,
    typical_us: Micros,
    /// How long the last one was declared for.
    stated_us: Micros,
}

#[derive(Debug, Serialize)]
struct PairLine<'a> {
    /// Who found no place.
    asker: &'a str,
    /// Who was in the way.
    holder: &'a str,
    conflicts: u64,
    last_conflict: Time,
    /// Where the last one was.
    path: &'a str,
}

impl<'a> Hot<'a> {
    pub(super) fn new(picked: &'a Picked, pairs: &'a [((Agent, Agent), Heat<OfPair>)], now: Time) -> Self {
        let contended = picked.contended();
        let paths = contended.into_iter().zip(picked.heat()).map(PathLine::of).collect();
        Hot { now, paths, pairs: pairs.iter().map(PairLine::of).collect() }
    }
}

impl<'a> PathLine<'a> {
    fn of((contended, (path, heat)): (ContendedLine<'a>, (&Path, &Heat<OnPath>))) -> Self {
        let OnPath { exclusive, below, above, holds, .. } = &heat.of;
        let held = holds.as_ref().and_then(|holds| {
            let typical_us = holds.typical()?;
            Some(Held { seen: holds.count(), typical_us, stated_us: holds.stated })
        });
        let advice = advice::of(path, heat);
        PathLine { contended, exclusive: *exclusive, below: *below, above: *above, held, advice }
    }
}

impl<'a> PairLine<'a> {
    fn of(((asker, holder), heat): &'a ((Agent, Agent), Heat<OfPair>)) -> Self {
        PairLine {
            asker: asker.as_str(),
            holder: holder.as_str(),
            conflicts: heat.conflicts,
            last_conflict: heat.last,
            path: heat.of.path.as_str(),
        }
    }
}
