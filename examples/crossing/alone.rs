//! The same junction without preclaim, on simulated time: each vehicle brakes on sight, or all take turns at one
//! lock on the junction, first come first served.

use std::collections::VecDeque;

use super::road::{CLEAR, CRUISE, ENTRY, EXIT, GAP, HARDEST, LANES, LENGTH, SPEED_UP, State, Track};
use super::traffic::Arrival;

/// How the vehicles get along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Nobody asks. Corners hide who comes from the side until both are within so many metres of their lines.
    Sight(f64),
    /// One lock. A vehicle asks where it could just stop with comfort, and has it until it has left the middle.
    Lock,
}

/// From seeing somebody to acting on it.
const REACTION: usize = 30;
/// Two that would be in one place within so many seconds of each other mind each other.
const MARGIN_S: f64 = 0.5;
/// Where those wait who have to.
const WAITING_AT: f64 = -0.2;
/// What a driver keeps behind another, beside [`GAP`].
const FOLLOWS_S: f64 = 0.5;
/// Longer than any run takes: a jam that never ends would be seen by what did not leave.
const TICKS_MOST: usize = 60_000;

#[derive(Clone, Debug)]
struct Vehicle {
    track: Track,
    state: State,
    /// Since when it sees somebody to brake for.
    alarmed: Option<usize>,
    /// Since when it stands and waits at its line.
    waits: Option<usize>,
}

/// Drives all who arrive until all have left.
pub(crate) fn drive(rule: Rule, arrivals: &[Arrival]) -> Vec<Track> {
    let mut pending: VecDeque<Arrival> = arrivals.iter().cloned().collect();
    let mut driving: Vec<Vehicle> = Vec::new();
    let mut lock: VecDeque<(usize, usize)> = VecDeque::new();
    let mut done = Vec::new();
    for tick in 0..TICKS_MOST {
        enter(&mut pending, &mut driving, tick);
        if driving.is_empty() && pending.is_empty() {
            break;
        }
        if rule == Rule::Lock {
            queue(&mut lock, &driving);
        }
        let seen = driving.clone();
        for vehicle in &mut driving {
            let stop = match rule {
                Rule::Sight(sight) => yields(vehicle, &seen, sight, tick),
                Rule::Lock => {
                    let holds = lock.front() == Some(&name(&vehicle.track));
                    vehicle.state.s < 0.0 && !holds
                }
            };
            let junction = if stop { WAITING_AT } else { f64::INFINITY };
            let ahead = behind(vehicle, &seen);
            vehicle.state = vehicle.state.towards(junction.min(ahead), HARDEST);
            vehicle.track.states.push(vehicle.state);
        }
        let (left, stay) = driving.into_iter().partition(|vehicle| vehicle.state.s >= EXIT);
        driving = stay;
        done.extend(left.into_iter().map(|vehicle: Vehicle| vehicle.track));
    }
    done.sort_by_key(|track| track.due);
    done
}

fn name(track: &Track) -> (usize, usize) {
    (track.due, track.lane)
}

/// Lets in who is due, in order on each lane, where it could stop behind the one ahead.
fn enter(pending: &mut VecDeque<Arrival>, driving: &mut Vec<Vehicle>, tick: usize) {
    let mut full = [false; LANES.len()];
    let mut later = VecDeque::new();
    while let Some(arrival) = pending.pop_front() {
        let state = State { s: ENTRY, v: CRUISE };
        let Arrival { lane, due } = arrival;
        let track = Track { lane, due, enters: tick, states: vec![state] };
        let vehicle = Vehicle { track, state, alarmed: None, waits: None };
        if due > tick || full[lane] || behind(&vehicle, driving) < ENTRY + state.stopping() {
            later.push_back(arrival);
        } else {
            driving.push(vehicle);
        }
        // One at a time, in order.
        full[lane] = true;
    }
    *pending = later;
}

/// Where it has to be able to stop for the one ahead of it.
fn behind(vehicle: &Vehicle, all: &[Vehicle]) -> f64 {
    let own = vehicle.state;
    let ahead = all.iter().filter(|it| it.track.lane == vehicle.track.lane && it.state.s > own.s);
    let rear = |it: &Vehicle| it.state.s - LENGTH + it.state.stopping() - GAP - FOLLOWS_S * own.v;
    ahead.map(rear).fold(f64::INFINITY, f64::min)
}

fn queue(lock: &mut VecDeque<(usize, usize)>, driving: &[Vehicle]) {
    lock.retain(|held| driving.iter().any(|it| name(&it.track) == *held && it.state.s < CLEAR));
    let mut asking: Vec<&Vehicle> = driving
        .iter()
        .filter(|it| it.state.s < 0.0 && -it.state.s <= it.state.stopping().max(1.0) + 1.0)
        .filter(|it| !lock.contains(&name(&it.track)))
        .collect();
    asking.sort_by_key(|it| name(&it.track));
    lock.extend(asking.iter().map(|it| name(&it.track)));
}

/// Whether it has to stop before its line for somebody whom it sees.
fn yields(vehicle: &mut Vehicle, seen: &[Vehicle], sight: f64, tick: usize) -> bool {
    let State { s, v } = vehicle.state;
    if s >= 0.0 || -s > sight {
        return false;
    }
    let mut in_sight = seen.iter().filter(|it| it.state.s >= -sight && it.state.s < CLEAR);
    let alarmed = in_sight.any(|it| is_first(it, seen) && goes_first(it, vehicle));
    vehicle.alarmed = if alarmed { vehicle.alarmed.or(Some(tick)) } else { None };
    vehicle.waits = if alarmed && v < 1.0 { vehicle.waits.or(Some(tick)) } else { vehicle.waits };
    // Who cannot stop before the line any more goes on.
    let can_stop = v * v / (2.0 * HARDEST) <= WAITING_AT - s;
    vehicle.alarmed.is_some_and(|since| tick >= since + REACTION || v < 1.0) && can_stop
}

/// Whether nobody is between it and its line: who stands behind another cannot come.
fn is_first(vehicle: &Vehicle, all: &[Vehicle]) -> bool {
    let between = |it: &&Vehicle| it.track.lane == vehicle.track.lane && it.state.s < 0.0;
    all.iter().filter(between).all(|it| it.state.s <= vehicle.state.s)
}

/// Whether the other is in the way of this vehicle and goes first.
fn goes_first(other: &Vehicle, own: &Vehicle) -> bool {
    let (mine, theirs) = (&LANES[own.track.lane], &LANES[other.track.lane]);
    let (Some(here), Some(there)) = (mine.crossing(theirs), theirs.crossing(mine)) else { return false };
    let (from, until) = occupies(own.state, here);
    let (other_from, other_until) = occupies(other.state, there);
    if from > other_until + MARGIN_S || other_from > until + MARGIN_S || other_until <= 0.0 {
        return false;
    }
    let waits = |it: &Vehicle| it.state.s < 0.0 && it.state.v < 1.0;
    if other.state.s >= 0.0 {
        return true;
    }
    match (waits(other), waits(own)) {
        (false, true) => true,
        (true, false) => false,
        (true, true) => (other.waits, name(&other.track)) < (own.waits, name(&own.track)),
        (false, false) => {
            let at_line = |it: &Vehicle| (-it.state.s / it.state.v, it.track.lane);
            at_line(other) < at_line(own)
        }
    }
}

/// From when to when it is where another lane crosses its own, in seconds from now, if it drives on.
fn occupies(state: State, (first, last): (f64, f64)) -> (f64, f64) {
    let time_to = |place: f64| {
        let way = place - state.s;
        if way <= 0.0 {
            return 0.0;
        }
        // Up to cruising speed, and on.
        let rise = (CRUISE * CRUISE - state.v * state.v) / (2.0 * SPEED_UP);
        if way <= rise {
            ((state.v * state.v + 2.0 * SPEED_UP * way).sqrt() - state.v) / SPEED_UP
        } else {
            (CRUISE - state.v) / SPEED_UP + (way - rise) / CRUISE
        }
    };
    (time_to(first), time_to(last))
}
