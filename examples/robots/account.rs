//! What happened in the yard, in words and in numbers.

use std::io::{self, Write};

use preclaim::client::Conflict;
use preclaim::types::Time;

use super::agent::Carried;
use super::story::{Failure, Figures, Table};
use super::world::{Done, LIFT_KG, LIFT_PLACES, meetings, most_units};
use super::yard::{Round, Scene};

#[derive(Debug, Default)]
pub(crate) struct Account(Vec<Round>);

/// Prints one round, scene by scene.
pub(crate) fn tell(round: &Round, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "All orders are given at once. Times are seconds after that; a slot is 10 ms.")?;
    for scene in Scene::ALL {
        writeln!(out, "\n{}", scene.name())?;
        let mut lines: Vec<(Time, String)> = Vec::new();
        for (_, carried) in round.carried.iter().filter(|(of, _)| *of == scene) {
            lines.extend(lines_of(round.begin, carried));
        }
        if scene == Scene::Lane {
            lines.extend(lane_lines(round));
        }
        lines.sort_by_key(|(at, _)| *at);
        for (at, line) in lines {
            writeln!(out, "  {:>6}  {line}", clock(round.begin, at))?;
        }
    }
    writeln!(out)
}

fn lines_of(begin: Time, carried: &Carried) -> Vec<(Time, String)> {
    let who = &carried.done.who;
    let told = |conflict: &Conflict| {
        let by: std::collections::BTreeSet<_> =
            conflict.blockers().iter().map(|it| it.agent.as_str()).collect();
        let until = conflict.blockers().iter().map(|it| it.end).max().unwrap_or(conflict.decided_at());
        let offer = conflict.offer().map_or("nothing".to_owned(), |offer| clock(begin, offer));
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        let line = format!(
            "{who:<10}  told             {by} in the way until {}; could begin at {offer}",
            clock(begin, until)
        );
        (conflict.decided_at(), line)
    };
    let end = carried.done.start + carried.done.motion.duration();
    let how = if carried.elsewhere { "holds elsewhere" } else { "granted" };
    let line = format!("{who:<10}  {how:<15}  {} to {}", clock(begin, carried.done.start), clock(begin, end));
    carried.told.iter().map(told).chain([(carried.decided, line)]).collect()
}

fn lane_lines(round: &Round) -> Vec<(Time, String)> {
    let it = &round.yielded;
    let start = |who: &str| {
        let last = round.done.iter().rev().find(|(scene, done)| *scene == Scene::Lane && done.who == who);
        last.map_or(round.begin, |(_, done)| done.start)
    };
    let from = |who: &str| clock(round.begin, start(who));
    vec![
        (it.contested, format!("{:<10}  contested        {} wants the lane, and waits", "idler", it.to)),
        (
            it.way_out,
            format!(
                "{:<10}  granted          leaves the lane from {} on, and stands in the bay",
                "idler",
                from("idler")
            ),
        ),
        (it.lane, format!("{:<10}  granted          drives from {} on", "carrier", from("carrier"))),
    ]
}

fn clock(begin: Time, at: Time) -> String {
    let us = at.since(begin).as_us();
    format!("{}.{:02}", us / 1_000_000, us % 1_000_000 / 10_000)
}

/// How many pairs met in a scene, and how much too much was in the lift.
fn harm(all: &[(Scene, Done)], scene: Scene) -> (usize, bool) {
    let of: Vec<Done> = all.iter().filter(|(of, _)| *of == scene).map(|(_, done)| done.clone()).collect();
    let most = most_units(&of);
    let over = |name: &str, capacity: u64| most.get(name).is_some_and(|units| *units > capacity);
    (meetings(&of).len(), over("lift/places", LIFT_PLACES) || over("lift/kg", LIFT_KG))
}

impl Account {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, round: Round) {
        self.0.push(round);
    }

    fn met(&self, scene: Scene, of: impl Fn(&Round) -> &[(Scene, Done)]) -> (usize, usize) {
        let harms: Vec<_> = self.0.iter().map(|round| harm(of(round), scene)).collect();
        (harms.iter().map(|(met, _)| met).sum(), harms.iter().filter(|(_, over)| *over).count())
    }

    fn figures(&self, of: impl Fn(&Round) -> Vec<u64>) -> Figures {
        let mut figures = Figures::default();
        self.0.iter().flat_map(of).for_each(|slots| figures.add(slots as f64));
        figures
    }

    pub(crate) fn sum_up(&self, markdown: bool, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&[
            "scene",
            "harm without",
            "with",
            "declared",
            "slots until told, median",
            "worst",
            "until settled, median",
            "worst",
        ]);
        for scene in Scene::ALL {
            let (met, over) = self.met(scene, |round| &round.done);
            let (would_meet, would_be_over) = self.met(scene, |round| &round.uncoordinated);
            let (harm, would_be_harm) = (met + over, would_meet + would_be_over);
            let told = self.figures(|round| round.told_within(scene));
            let settled = match scene {
                Scene::Lane => self.figures(|round| vec![round.yielded_within().iter().sum()]),
                _ => self.figures(|round| round.settled_within(scene)),
            };
            table.row(&[
                &scene.name(),
                &would_be_harm,
                &harm,
                &told.count(),
                &told.median(),
                &told.worst(),
                &settled.median(),
                &settled.worst(),
            ]);
        }
        table.print(out, markdown)?;
        writeln!(
            out,
            "\n{} rounds. Harm: pairs in one place at one time, or a lift with too much in it.",
            self.0.len()
        )?;
        writeln!(
            out,
            "Told: from a declaration's arrival to its first answer. Settled: from the first arrival to the answer"
        )?;
        writeln!(
            out,
            "that says where the robot will be when; in the lane, from the contest to the grant of the lane."
        )
    }

    /// Whether each robot knew within two slots where it would be when, in at least one of the rounds. Where
    /// the machine stalls for a slot, some know it later.
    pub(crate) fn is_prompt(&self) -> bool {
        self.0.iter().any(|round| {
            let settled = Scene::ALL.iter().flat_map(|scene| round.settled_within(*scene));
            settled.chain([round.yielded_within().iter().sum()]).all(|slots| slots <= 2)
        })
    }

    /// Fails unless the yard showed what it is there to show.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let done = |round: &Round| Scene::ALL.map(|scene| harm(&round.done, scene));
        let harmed = self.0.iter().flat_map(done).any(|(met, over)| met > 0 || over);
        let without = |scene| self.met(scene, |round| &round.uncoordinated);
        let told = |scene| self.figures(|round| round.told_within(scene));
        let shown = [
            (!harmed, "two were in one place, or the lift was overloaded"),
            (without(Scene::Drones).0 == 6 * self.0.len(), "the drones would not have met"),
            (without(Scene::Bridge).0 == self.0.len(), "the robots would not have met on the bridge"),
            (without(Scene::Lane).0 == self.0.len(), "the idle robot was in nobody's way"),
            (without(Scene::Lift).1 == self.0.len(), "the lift would have taken all"),
            (self.0.iter().all(|round| round.yielded.to == "carrier"), "the idle robot yielded to nobody"),
            (
                Scene::ALL.iter().all(|scene| told(*scene).worst() <= 2.0),
                "an answer took more than two slots",
            ),
            (self.is_prompt(), "in no round was all settled within two slots"),
        ];
        match shown.into_iter().find(|(as_promised, _)| !as_promised) {
            Some((_, what)) => Err(what.into()),
            None => Ok(()),
        }
    }
}
