//! What is said of a drain, and the signal that asks for one.

use std::sync::Arc;

use super::super::output::{self, harmless};
use super::super::signal::DrainSignal;
use super::super::times::Wall;
use super::manager::Manager;
use crate::coordinator::{Coordinator, Drainer, Drains};
use crate::types::{Agent, Time};

/// The drain of a coordinator that runs here.
pub(super) struct Draining {
    drainer: Drainer,
    /// Whether what stands when it ends stands in its state.
    keeps: bool,
}

impl Draining {
    /// Has SIGUSR2 begin one, and people and the service manager told of any, for as long as the runtime lasts.
    pub(super) fn attend(
        coordinator: &Coordinator,
        mut signal: DrainSignal,
        manager: Arc<Manager>,
        keeps: bool,
    ) -> Self {
        let (drainer, view) = (coordinator.drainer(), coordinator.view());
        let by_signal = drainer.clone();
        tokio::spawn(async move {
            loop {
                signal.asked().await;
                by_signal.drain(None, "");
            }
        });
        let mut followed = drainer.follow();
        tokio::spawn(async move {
            let mut told = None;
            while followed.changed().await.is_ok() {
                let drains = followed.borrow_and_update().clone();
                let Some(drains) = drains.filter(|drains| told.as_ref() != Some(&order_of(drains))) else {
                    continue;
                };
                let words = begun(&drains, view.now());
                output::talk(&words);
                manager.drains(&words);
                told = Some(order_of(&drains));
            }
        });
        Draining { drainer, keeps }
    }

    /// Says what is left where the coordinator ended in a drain.
    pub(super) fn tell_end(&self) {
        if let Some(Drains { left, .. }) = self.drainer.stands() {
            let stands = if self.keeps { ": they stand in its state, and run on to their ends" } else { "" };
            match left {
                0 => output::talk("drained: no grant is in force"),
                1 => output::talk(format_args!("ended with 1 grant in force{stands}")),
                left => output::talk(format_args!("ended with {left} grants in force{stands}")),
            }
        }
    }
}

/// What an order says, whatever has become of it since.
fn order_of(drains: &Drains) -> (Option<Agent>, Arc<str>, Time) {
    (drains.by.clone(), Arc::clone(&drains.reason), drains.deadline)
}

fn begun(drains: &Drains, now: Time) -> String {
    let by = drains.by.as_ref().map_or("a signal", |by| by.as_str());
    let why =
        if drains.reason.is_empty() { String::new() } else { format!(": {}", harmless(&drains.reason)) };
    let until = Wall::at(now).ahead(drains.deadline);
    format!("draining until {until}, by {}{why}; grants in force: {}", harmless(by), drains.left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ordered_it_and_why_cannot_steer_a_terminal() {
        let by = Agent::new("boss").unwrap();
        let (deadline, reason) = (Time::from_us(30_000_000), Arc::from("up\u{1b}[2Jgrade"));
        let drains = Drains { by: Some(by), reason, deadline, left: 2, is_over: false };
        let said = begun(&drains, Time::ZERO);
        assert!(said.contains("in 30.0 s, by boss: up") && said.ends_with("grants in force: 2"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
        let said = begun(&Drains { by: None, reason: Arc::from(""), ..drains }, Time::ZERO);
        assert!(said.contains("by a signal; "), "{said}");
    }
}
