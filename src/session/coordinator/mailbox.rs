//! News for those who are not there: kept, within bounds, until they come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits;
use crate::types::{Agent, FixedMap, Slot};
use crate::wire::ToAgent;

/// Kept news, in the order in which it was decided. Past the bounds the oldest falls out: an agent
/// that comes back asks again with the same id, which says what has become of it.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    kept: BTreeMap<(Agent, u64), Kept>,
    /// Whose each piece of news is, oldest first, for the bound over all names.
    order: BTreeMap<u64, Agent>,
    of_a_name: FixedMap<Agent, usize>,
    next: u64,
}

#[derive(Debug)]
struct Kept {
    label: Arc<str>,
    slot: Slot,
    message: ToAgent,
}

impl Mailbox {
    /// Keeps it, and says how many fell out for it.
    pub(super) fn keep(&mut self, agent: &Agent, label: &Arc<str>, slot: Slot, message: ToAgent) -> usize {
        let before = self.order.len();
        let count = self.of_a_name.entry(agent.clone()).or_default();
        *count += 1;
        let name_is_full = *count > limits::NEWS_OF_A_NAME;
        self.order.insert(self.next, agent.clone());
        self.kept.insert((agent.clone(), self.next), Kept { label: Arc::clone(label), slot, message });
        self.next += 1;
        if name_is_full {
            let oldest = self.numbers_of(agent).next();
            oldest.into_iter().for_each(|number| self.drop_one(agent, number));
        }
        if self.order.len() > limits::NEWS_KEPT
            && let Some((number, agent)) = self.order.pop_first()
        {
            self.drop_one(&agent, number);
        }
        before + 1 - self.order.len()
    }

    /// Takes out what was kept for session `label` of `agent` from after slot `seen`, and for
    /// sessions of that name that are gone (not `known`) for good.
    pub(super) fn take(
        &mut self,
        agent: &Agent,
        label: &Arc<str>,
        seen: Option<Slot>,
        known: impl Fn(&Arc<str>) -> bool,
    ) -> Vec<ToAgent> {
        let numbers: Vec<u64> = self.numbers_of(agent).collect();
        let mut taken = Vec::new();
        for number in numbers {
            let Some(kept) = self.kept.get(&(agent.clone(), number)) else { continue };
            let mine = kept.label == *label;
            if !mine && known(&kept.label) {
                continue;
            }
            if !mine || seen.is_none_or(|seen| kept.slot > seen) {
                taken.push(kept.message.clone());
            }
            self.drop_one(agent, number);
        }
        taken
    }

    fn numbers_of(&self, agent: &Agent) -> impl Iterator<Item = u64> + use<'_> {
        let all = (agent.clone(), 0)..=(agent.clone(), u64::MAX);
        self.kept.range(all).map(|((_, number), _)| *number)
    }

    fn drop_one(&mut self, agent: &Agent, number: u64) {
        self.order.remove(&number);
        self.kept.remove(&(agent.clone(), number));
        if let Some(count) = self.of_a_name.get_mut(agent) {
            *count -= 1;
            if *count == 0 {
                self.of_a_name.remove(agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Draining;

    fn agent(name: &str) -> Agent {
        Agent::new(name).unwrap()
    }

    fn news(text: &str) -> ToAgent {
        Draining { reason: text.into(), ..Draining::default() }.into()
    }

    #[test]
    fn a_session_takes_its_own_news_and_that_of_the_gone_in_order_and_once() {
        let mut mailbox = Mailbox::default();
        let labels: [Arc<str>; 3] = ["main", "gone", "other"].map(Arc::from);
        for (slot, (label, text)) in
            [(&labels[0], "1"), (&labels[1], "2"), (&labels[2], "3"), (&labels[0], "4")]
                .into_iter()
                .enumerate()
        {
            mailbox.keep(&agent("a"), label, Slot::new(slot as u64), news(text));
        }
        mailbox.keep(&agent("b"), &labels[0], Slot::new(9), news("b's"));
        let known = |label: &Arc<str>| **label != *"gone";
        let taken = mailbox.take(&agent("a"), &labels[0], Some(Slot::new(0)), known);
        assert_eq!(taken, [news("2"), news("4")], "what it has seen is not repeated");
        assert!(mailbox.take(&agent("a"), &labels[0], None, known).is_empty());
        assert_eq!(mailbox.take(&agent("a"), &labels[2], None, known), [news("3")]);
        assert_eq!(mailbox.take(&agent("b"), &labels[0], None, known), [news("b's")]);
        assert!(mailbox.of_a_name.is_empty() && mailbox.order.is_empty());
    }

    #[test]
    fn the_oldest_news_of_a_name_falls_out() {
        let mut mailbox = Mailbox::default();
        let label: Arc<str> = "main".into();
        for number in 0..=limits::NEWS_OF_A_NAME {
            mailbox.keep(&agent("a"), &label, Slot::new(number as u64), news(&number.to_string()));
        }
        let taken = mailbox.take(&agent("a"), &label, None, |_| true);
        assert_eq!(taken.len(), limits::NEWS_OF_A_NAME);
        assert_eq!(taken.first(), Some(&news("1")));
    }
}
