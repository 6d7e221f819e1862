//! What a vehicle means to do, until it stands, and what it covers on the way. Nothing of preclaim is in here.

use super::road::{CLEAR, COMFORT, CRUISE, END, ENTRY, EXIT, GAP, LENGTH, State, Track};
use super::traffic::Arrival;

/// So far from its line a vehicle begins to plan how it crosses; before that it plans to stop there.
const ASKS: f64 = 40.0;
/// Where it stops that has not been granted the way across.
const STOPS_AT: f64 = -0.2;
/// Windows end at multiples of this: what a vehicle declares anew lies within what it declared before.
const WINDOW: usize = 25;
/// How many of these come first; later ones are twice as long.
const FINE: usize = 20;
/// What the claimed area is longer than the vehicle's way, at either end.
const BEYOND: f64 = 0.1;
/// Two branches of a plan that differ by less than this are claimed as one area.
const NEAR: f64 = 1.0;
/// How long it minds what it has learnt.
const MINDS: usize = 15;
/// What is declared anew begins with so many ticks as before: a busy machine is late.
pub(crate) const AHEAD: usize = 3;
/// One intent has no more claims.
const STRETCHES: usize = 64;
/// How long the last place is claimed for.
pub(crate) const STANDS: usize = 3_000;

/// What a vehicle has done and means to do. It ends in standstill, and stays there.
#[derive(Clone, Debug)]
pub(crate) struct Motion(Track);

/// What a vehicle has learnt about the way ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// It is not to cross its line before this tick.
    pub(crate) crosses_from: usize,
    /// It is to be able to stop here.
    pub(crate) stop: f64,
    /// When it learnt so.
    pub(crate) learnt: usize,
}

impl Wish {
    pub(crate) const FREE: Wish = Wish { crosses_from: 0, stop: END, learnt: 0 };

    /// What it has learnt is soon out of date.
    pub(crate) fn forgets(&mut self, now: usize) {
        if now > self.learnt + MINDS {
            *self = Wish::FREE;
        }
    }

    /// Somebody of the same lane stands there with its rear.
    pub(crate) fn stops_behind(&mut self, rear: f64) {
        self.stop = self.stop.min(rear - GAP);
    }

    /// What was tried would have been somewhere so many ticks before it was free.
    pub(crate) fn comes_later(&mut self, tried: &Motion, ticks: usize) {
        if tried.crosses() < usize::MAX {
            self.crosses_from = self.crosses_from.max(tried.crosses() + ticks);
        }
    }
}

/// A part of the lane that is covered for a while, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) from: usize,
    pub(crate) until: usize,
    pub(crate) rear: f64,
    pub(crate) front: f64,
}

impl Motion {
    /// It comes in sight at a tick, at speed, and means to stop at its line, or where it wishes to if it can.
    pub(crate) fn enters(arrival: &Arrival, tick: usize, wish: &Wish) -> Motion {
        let Arrival { lane, due } = *arrival;
        let entry = State { s: ENTRY, v: CRUISE };
        let motion = Motion(Track { lane, due, enters: tick, states: vec![entry] });
        let stop = if wish.stop > ENTRY + entry.stopping() { wish.stop.min(STOPS_AT) } else { STOPS_AT };
        motion.then(tick, |_, state| settle(state.towards(stop, COMFORT)))
    }

    /// Where it is, or will be.
    pub(crate) fn at(&self, tick: usize) -> State {
        let Track { enters, states, .. } = &self.0;
        let last = State { s: 0.0, v: 0.0 };
        states.get(tick.saturating_sub(*enters)).or(states.last()).copied().unwrap_or(last)
    }

    pub(crate) fn has_left(&self, tick: usize) -> bool {
        self.at(tick).s >= EXIT
    }

    /// What it did until it left.
    pub(crate) fn into_track(self) -> Track {
        let Motion(mut track) = self;
        let left = track.states.iter().position(|state| state.s >= EXIT).unwrap_or(track.states.len() - 1);
        track.states.truncate(left + 1);
        track
    }

    /// When it is at a place, from a tick on.
    fn passes(&self, place: f64) -> usize {
        let at = self.0.states.iter().position(|state| state.s >= place);
        at.map_or(usize::MAX, |at| self.0.enters + at)
    }

    /// The tick at which it crosses its line; the greatest where it does not.
    pub(crate) fn crosses(&self) -> usize {
        self.passes(0.0)
    }

    /// The last tick in which it moves.
    fn rests(&self) -> usize {
        self.0.enters + self.0.states.len() - 1
    }

    /// What it wishes for instead, if there is something better, and what it covers from a tick on whether it gets
    /// that or not. For [`AHEAD`] ticks both are the same: so long an answer may take.
    pub(crate) fn declares(&self, from: usize, wish: &Wish) -> (Option<Motion>, Vec<Stretch>) {
        let wished = self.revised(from + AHEAD, wish).map(|wished| (self.covers(&wished, from), wished));
        match wished {
            Some((stretches, wished)) if stretches.len() <= STRETCHES => (Some(wished), stretches),
            // One that is so far ahead can wait.
            _ => (None, self.covers(self, from)),
        }
    }

    /// The same up to a tick, and from there on as good as what it wishes for allows. `None` where that cannot
    /// be driven with comfort, or is no better than what it does already.
    fn revised(&self, from: usize, wish: &Wish) -> Option<Motion> {
        let state = self.at(from);
        let revised = if state.s >= 0.0 {
            self.stopping(from, wish.stop)
        } else if wish.stop < CLEAR || state.s < -ASKS {
            self.stopping(from, wish.stop.min(STOPS_AT))
        } else {
            self.crossing(from, wish)
        };
        revised.filter(|revised| revised.gains(self, from))
    }

    fn gains(&self, old: &Motion, from: usize) -> bool {
        const NOTHING: usize = 2;
        for place in [0.0, EXIT] {
            let (mine, its) = (self.passes(place), old.passes(place));
            if mine.abs_diff(its) > NOTHING {
                return mine < its;
            }
        }
        let (rests, soon) = (self.rests().max(old.rests()), from + 100);
        self.at(rests).s > old.at(rests).s + 0.5 || self.at(soon).s > old.at(soon).s + 0.1
    }

    /// The same up to `from`, and then `act` until it stands.
    fn then(&self, from: usize, mut act: impl FnMut(usize, State) -> State) -> Motion {
        let mut track = self.0.clone();
        let mut state = self.at(from);
        track.states.resize(from - track.enters, state);
        track.states.push(state);
        for after in 0.. {
            let next = act(after, state);
            if next == state {
                break;
            }
            track.states.push(next);
            state = next;
        }
        Motion(track)
    }

    fn stopping(&self, from: usize, stop: f64) -> Option<Motion> {
        let state = self.at(from);
        if state.s + state.stopping() > stop + 0.05 {
            return None;
        }
        Some(self.then(from, |_, state| settle(state.towards(stop, COMFORT))))
    }

    /// Across, and not before the time: as late as need be by braking first, and where that is not enough by
    /// standing for a while.
    fn crossing(&self, from: usize, wish: &Wish) -> Option<Motion> {
        let brakes_for = |ticks: usize| {
            let go = |after, state: State| match after < ticks {
                true => state.braked(COMFORT),
                false => settle(state.towards(wish.stop, COMFORT)),
            };
            self.going(from, ticks, go)
        };
        let in_time = |motion: &Motion| motion.crosses() >= wish.crosses_from;
        let first = brakes_for(0);
        if in_time(&first) {
            return Some(first).filter(Motion::is_across);
        }
        // It crosses the later the longer it brakes, and having come to a stop the longer it stands.
        let (mut less, mut enough) = (0, 1);
        while !in_time(&brakes_for(enough)) {
            if enough > 4_000 {
                return None;
            }
            (less, enough) = (enough, enough * 2);
        }
        while enough - less > 1 {
            let middle = less.midpoint(enough);
            if in_time(&brakes_for(middle)) { enough = middle } else { less = middle }
        }
        Some(brakes_for(enough)).filter(Motion::is_across)
    }

    /// As [`Motion::then`], but it may stand for some ticks at first.
    fn going(&self, from: usize, ticks: usize, act: impl Fn(usize, State) -> State) -> Motion {
        let mut held = self.clone();
        let mut state = self.at(from);
        held.0.states.resize(from - held.0.enters, state);
        held.0.states.push(state);
        for after in 0..ticks {
            state = act(after, state);
            held.0.states.push(state);
        }
        held.then(from + ticks, |after, state| act(ticks + after, state))
    }

    /// Whether it crosses, and stands nowhere in the middle.
    fn is_across(&self) -> bool {
        let rests = self.at(self.rests()).s;
        self.crosses() < usize::MAX && rests >= CLEAR
    }

    /// What this and `other` cover from a tick on, whichever of the two is driven: where both are near each
    /// other as one area, where they part as two.
    pub(crate) fn covers(&self, other: &Motion, from: usize) -> Vec<Stretch> {
        let rests = self.rests().max(other.rests()).max(from);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut at, mut windows) = (from, 0);
        while at <= rests {
            let long = windows >= FINE && at % (2 * WINDOW) == 0;
            let until = (at / WINDOW + if long { 2 } else { 1 }) * WINDOW;
            add(&mut stretches, self.sweeps(at, until), other.sweeps(at, until));
            (at, windows) = (until, windows + 1);
        }
        let end = at + STANDS;
        add(&mut stretches, self.sweeps(at, end), other.sweeps(at, end));
        stretches
    }

    fn sweeps(&self, from: usize, until: usize) -> Stretch {
        let (rear, front) = (self.at(from).s - LENGTH - BEYOND, self.at(until).s + BEYOND);
        Stretch { from, until, rear, front }
    }
}

/// Adds two stretches of one window, as one where they are near, and as a longer one of before where nothing moves.
fn add(stretches: &mut Vec<Stretch>, a: Stretch, b: Stretch) {
    let near = (a.rear - b.rear).abs() < NEAR && (a.front - b.front).abs() < NEAR;
    let both = Stretch { rear: a.rear.min(b.rear), front: a.front.max(b.front), ..a };
    for new in if near { vec![both] } else { vec![a, b] } {
        let same = |old: &&mut Stretch| (old.until, old.rear, old.front) == (new.from, new.rear, new.front);
        match stretches.iter_mut().find(same) {
            Some(old) => old.until = new.until,
            None => stretches.push(new),
        }
    }
}

/// What is all but standing stands.
fn settle(state: State) -> State {
    if state.v < 1e-3 { State { v: 0.0, ..state } } else { state }
}
