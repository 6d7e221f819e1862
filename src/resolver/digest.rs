//! The state digest: one number that two coordinators share exactly where their states are alike.
//!
//! It is the sum, modulo 2^128, of a hash of each item of the state, so that it is kept up item by
//! item: what changed in a slot is taken out and put in again, whatever else there is. Items are
//! written as numbers in little-endian order and texts with their length before them, and hashed by
//! SipHash-1-3 with 128 bits of output and fixed keys. It finds differences, not forgers: a record's
//! chain of hashes guards against those.

use std::fmt;

use siphasher::sip128::SipHasher13;

use super::book::{Ended, Grant, Undecided};
use crate::types::{
    Blocker, Claim, Conflict, Intent, IntentKey, Mode, Outline, Path, Reason, RenewDenial, Shape, Start,
    Target, Time, Verdict, Window,
};

/// A digest of the decision core's whole state after a slot.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StateDigest(u128);

impl StateDigest {
    /// The digest as a number.
    pub const fn to_number(self) -> u128 {
        self.0
    }

    /// The digest that [`StateDigest::to_number`] wrote down.
    pub const fn from_number(number: u128) -> Self {
        StateDigest(number)
    }

    /// Takes one item's hash out and puts another in its place; `None` for no item.
    pub(super) fn replace(&mut self, old: Option<u128>, new: Option<u128>) {
        self.0 = self.0.wrapping_sub(old.unwrap_or(0)).wrapping_add(new.unwrap_or(0));
    }
}

impl fmt::Display for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateDigest({self})")
    }
}

/// Kinds of items, so that equal contents of different kinds differ.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Record = 1,
    EndedWindows = 2,
    EndedGrants = 3,
    Counters = 4,
    Resource = 5,
}

/// Room for an item with a claim or two, so that most are written without growing.
const ITEM_BYTES_MOSTLY: usize = 512;

/// Writes one item after the other down and hashes it.
#[derive(Debug)]
pub(super) struct ItemHasher(Vec<u8>);

impl Default for ItemHasher {
    fn default() -> Self {
        ItemHasher(Vec::with_capacity(ITEM_BYTES_MOSTLY))
    }
}

impl ItemHasher {
    /// The hash of the item that `write` writes.
    pub(super) fn hash(&mut self, item: Item, write: impl FnOnce(&mut Self)) -> u128 {
        self.0.clear();
        self.tag(item as u8);
        write(self);
        SipHasher13::new().hash(&self.0).as_u128()
    }

    pub(super) fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Numbers one after the other, of which each is looked at for room together.
    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        self.0.extend_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.tag(u8::from(flag));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn time(&mut self, time: Time) {
        self.number(time.as_us());
    }

    pub(super) fn window(&mut self, window: Window) {
        self.numbers([window.start().as_us(), window.end().as_us()]);
    }

    pub(super) fn key(&mut self, key: &IntentKey) {
        self.text(key.agent.as_str());
        self.number(key.id.number());
    }

    /// Writes whether there is a value, and the value.
    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn path(&mut self, path: &Path) {
        self.text(path.as_str());
    }

    fn intent(&mut self, intent: &Intent) {
        self.number(intent.id.number());
        self.option(at(intent.start), Self::time);
        self.numbers([intent.slack.as_us(), intent.wait.as_us(), intent.task.number()]);
        self.flag(intent.hold);
        self.tag(intent.class.number());
        let inputs = [intent.urgency, intent.safety_margin, intent.social_value].map(f64::to_bits);
        self.numbers(inputs);
        self.number(intent.claims.len() as u64);
        intent.claims.iter().for_each(|claim| self.claim(claim));
        self.number(intent.expects.len() as u64);
        for expect in intent.expects.iter() {
            self.path(&expect.path);
            self.time(expect.as_of);
        }
    }

    fn claim(&mut self, claim: &Claim) {
        match &claim.target {
            Target::Path(path) => {
                self.tag(1);
                self.path(path);
            }
            Target::Region(region) => {
                self.tag(2);
                self.path(&region.frame);
                self.shape(&region.shape);
            }
        }
        match claim.mode {
            Mode::Shared => self.tag(1),
            Mode::Exclusive => self.tag(2),
            Mode::Units(units) => {
                self.tag(3);
                self.number(units);
            }
        }
        self.numbers([claim.offset.as_us(), claim.duration.as_us()]);
    }

    fn shape(&mut self, shape: &Shape) {
        let corners: &[_] = match shape.outline() {
            Outline::Box { min, max } => &[*min, *max],
            Outline::Polygon(corners) => corners,
        };
        self.number(corners.len() as u64);
        for corner in corners {
            self.number(corner.x_um.cast_unsigned());
            self.number(corner.y_um.cast_unsigned());
        }
        self.option(shape.height(), |hasher, height| {
            hasher.number(height.min_um.cast_unsigned());
            hasher.number(height.max_um.cast_unsigned());
        });
    }

    pub(super) fn undecided(&mut self, it: &Undecided) {
        let Undecided {
            intent,
            arrival,
            arrival_number,
            waits_from,
            revises,
            held_since,
            told,
            withdrawn_for: _, // lives within a slot only
        } = it;
        self.intent(intent);
        self.time(*arrival);
        self.number(*arrival_number);
        self.time(*waits_from);
        self.option(*revises, |hasher, token| hasher.number(token.number()));
        self.option(*held_since, Self::time);
        self.option(told.as_deref(), Self::verdict);
    }

    pub(super) fn grant(&mut self, it: &Grant, windows: &[Window]) {
        let Grant {
            key,
            token,
            intent,
            start,
            end,
            granted_at,
            arrival,
            arrival_number,
            held_since,
            was_moved,
            group: _, // numbers of this process
            record: _,
            nth_expiring: _,
        } = it;
        self.key(key);
        self.number(token.number());
        self.intent(intent);
        self.numbers([start.as_us(), end.as_us(), granted_at.as_us(), arrival.as_us(), *arrival_number]);
        self.option(*held_since, Self::time);
        self.flag(*was_moved);
        windows.iter().for_each(|window| self.window(*window));
    }

    pub(super) fn ended(&mut self, it: &Ended) {
        let Ended { intent, at, line } = it;
        self.intent(intent);
        self.time(*at);
        self.option(line.as_ref(), Self::verdict);
    }

    fn verdict(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Granted { start, end, token } => self.line(1, &[*start, *end], token.number()),
            Verdict::Moved { start, end, token } => self.line(2, &[*start, *end], token.number()),
            Verdict::Conflict(conflict) => self.conflict(conflict),
            Verdict::Stale { path, as_of, kept } => {
                self.line(4, &[*as_of], u64::from(*kept));
                self.path(path);
            }
            Verdict::Rejected { reason, field, kept } => {
                self.line(5, &[], u64::from(*kept));
                self.reason(*reason);
                self.text(field);
            }
            Verdict::Released { reason } => {
                self.tag(6);
                self.option(reason.as_deref(), Self::text);
            }
            Verdict::ReleasedUnknown => self.tag(7),
            Verdict::Renewed { end } => self.line(8, &[*end], 0),
            Verdict::RenewDenied(RenewDenial::Unknown) => self.tag(9),
            Verdict::RenewDenied(RenewDenial::Kept { end, blockers }) => {
                self.line(10, &[*end], blockers.len() as u64);
                blockers.iter().for_each(|blocker| self.blocker(blocker));
            }
            Verdict::Expired { token } => self.line(11, &[], token.number()),
            Verdict::Revoked { by, offer, waiting } => {
                self.line(12, &[], u64::from(*waiting));
                self.key(by);
                self.option(*offer, Self::time);
            }
        }
    }

    fn line(&mut self, tag: u8, times: &[Time], number: u64) {
        self.tag(tag);
        times.iter().for_each(|time| self.time(*time));
        self.number(number);
    }

    fn conflict(&mut self, it: &Conflict) {
        let Conflict { is_final, deadlock, offer, blockers, kept } = it;
        self.tag(3);
        [is_final, deadlock, kept].into_iter().for_each(|flag| self.flag(*flag));
        self.option(*offer, Self::time);
        self.number(blockers.len() as u64);
        blockers.iter().for_each(|blocker| self.blocker(blocker));
    }

    fn blocker(&mut self, it: &Blocker) {
        let Blocker { key, token, claim, their_claim, window, ratio } = it;
        self.key(key);
        self.option(*token, |hasher, token| hasher.number(token.number()));
        self.number(*claim as u64);
        self.number(*their_claim as u64);
        self.window(*window);
        self.option(*ratio, |hasher, ratio| hasher.number(ratio.to_bits()));
    }

    fn reason(&mut self, reason: Reason) {
        self.text(reason.as_str());
    }
}

fn at(start: Start) -> Option<Time> {
    match start {
        Start::Asap => None,
        Start::At(time) => Some(time),
    }
}
