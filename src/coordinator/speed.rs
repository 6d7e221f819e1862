//! How fast a name's messages are taken in, over all of its connections: what is too fast is read later.

use std::sync::{Arc, Mutex, PoisonError};

use super::pace::{Pace, Rate};
use crate::config::Limits;
use crate::limits::{self, Limit};
use crate::types::{FixedMap, Micros, Time};
use crate::wire::ToCoordinator;

/// How much a message counts, by what it costs the coordinator: a batch as many as it has declarations.
pub(super) fn weight(message: &ToCoordinator) -> u64 {
    match message {
        ToCoordinator::Declare(declare) => declare.batch.len().max(1) as u64,
        ToCoordinator::List(_) => limits::LIST_WEIGHT,
        _ => 1,
    }
}

/// Of one name.
#[derive(Debug)]
pub(super) struct Speed {
    messages: Rate,
    bytes: Rate,
    paces: Mutex<[Pace; 2]>,
}

impl Speed {
    fn new(limits: &Limits) -> Self {
        Speed {
            messages: Rate::a_second(limits.messages_per_second as u64),
            bytes: Rate::a_second(limits.bytes_per_second),
            paces: Mutex::default(),
        }
    }

    /// For how long nothing more is to be read, after so much has been, and by which limit.
    pub(super) fn charge(&self, now: Time, messages: u64, bytes: u64) -> (Micros, Limit) {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let by_messages = paces[0].charge(now, self.messages, messages);
        let by_bytes = paces[1].charge(now, self.bytes, bytes);
        if by_bytes > by_messages { (by_bytes, Limit::Bytes) } else { (by_messages, Limit::Messages) }
    }

    fn is_at_rest(&self, now: Time) -> bool {
        let paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        paces.iter().all(|pace| pace.is_at_rest(now))
    }
}

/// Of all names that are connected, and of those that have left before what they sent would have come at their rate:
/// else a connection made anew would be let through a second's worth again.
#[derive(Debug)]
pub(super) struct Speeds {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    of: FixedMap<String, Arc<Speed>>,
    /// With how many it is looked through next. Twice what was left the last time, so that a name costs a constant.
    sweep_at: usize,
}

impl Speeds {
    pub(super) fn new(limits: &Limits) -> Self {
        Speeds { limits: limits.clone(), state: Mutex::default() }
    }

    /// The one that all connections of `name` share; one without a name has its own.
    pub(super) fn of(&self, name: Option<&str>, now: Time) -> Arc<Speed> {
        let Some(name) = name else { return Arc::new(Speed::new(&self.limits)) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(speed) = state.of.get(name) {
            return Arc::clone(speed);
        }
        if state.of.len() >= state.sweep_at {
            state.of.retain(|_, speed| Arc::strong_count(speed) > 1 || !speed.is_at_rest(now));
            state.sweep_at = (2 * state.of.len()).max(limits::SPEEDS_SWEPT_FROM);
        }
        let speed = Arc::new(Speed::new(&self.limits));
        state.of.insert(name.to_owned(), Arc::clone(&speed));
        speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Declaration, Declare, List};

    fn at(ms: u64) -> Time {
        Time::from_us(ms * 1_000)
    }

    fn speeds() -> Speeds {
        Speeds::new(&Limits { messages_per_second: 1_000, ..Limits::default() })
    }

    #[test]
    fn connections_of_one_name_share_a_rate_and_other_names_have_their_own() {
        let speeds = speeds();
        let of = |name| speeds.of(name, at(0));
        assert_eq!(of(Some("a")).charge(at(0), 1_000, 1).0, Micros::ZERO);
        assert_eq!(of(Some("a")).charge(at(0), 5, 1), (Micros::from_ms(5), Limit::Messages));
        assert_eq!(of(Some("b")).charge(at(0), 1_000, 1).0, Micros::ZERO);
        assert_eq!(of(None).charge(at(0), 1_000, 1).0, Micros::ZERO);
        assert_eq!(of(None).charge(at(0), 1_000, 1).0, Micros::ZERO);
    }

    #[test]
    fn who_leaves_and_comes_again_goes_on_at_its_rate() {
        let speeds = speeds();
        speeds.of(Some("a"), at(0)).charge(at(0), 2_000, 0);
        // Swept often, and of no other name is anything kept.
        for count in 0..10 * limits::SPEEDS_SWEPT_FROM {
            speeds.of(Some(&format!("other {count}")), at(1));
        }
        assert!(speeds.state.lock().unwrap().of.len() <= limits::SPEEDS_SWEPT_FROM);
        assert_eq!(speeds.of(Some("a"), at(1)).charge(at(1), 1, 0).0, Micros::from_ms(1_000));
        for count in 0..limits::SPEEDS_SWEPT_FROM {
            speeds.of(Some(&format!("later {count}")), at(5_000));
        }
        assert!(!speeds.state.lock().unwrap().of.contains_key("a"), "long at rest, and not connected");
    }

    #[test]
    fn who_is_connected_is_kept_however_long_it_has_been_silent() {
        let speeds = speeds();
        let a = speeds.of(Some("a"), at(0));
        for count in 0..2 * limits::SPEEDS_SWEPT_FROM {
            speeds.of(Some(&format!("other {count}")), at(9_000));
        }
        assert!(Arc::ptr_eq(&a, &speeds.of(Some("a"), at(9_000))));
    }

    #[test]
    fn a_message_counts_by_what_it_costs() {
        assert_eq!(weight(&Declare { batch: Vec::new() }.into()), 1);
        assert_eq!(weight(&Declare { batch: vec![Declaration::default(); 7] }.into()), 7);
        assert_eq!(weight(&List::default().into()), limits::LIST_WEIGHT);
    }
}
