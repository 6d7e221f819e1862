//! Steps 5 and 6 of a slot: counter-offers, and the lines of those who have no place.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fit::Plan;
use super::run::{SlotRun, Unplaced};
use crate::types::{Conflict, Contested, Start, Time, Token, Verdict};

/// Tells every intent that ended as a conflict, was revoked, or waits, in the order of their last
/// turns. One that waits is told again only where its offer has changed.
pub(super) fn tell_unplaced(run: &mut SlotRun<'_>) {
    let mut unplaced = std::mem::take(&mut run.unplaced);
    // One whose revision was refused and whose grant was withdrawn after that had two turns, and what
    // is told of it stands at the second.
    unplaced.sort_by_key(|it| run.second_turns.get(&it.key).copied().unwrap_or(it.nth));
    // All offers first: one who ends here must look past the places that others still hold.
    let mut offers: Vec<Option<Time>> = Vec::with_capacity(unplaced.len());
    for it in &unplaced {
        offers.push(offer(run, it));
    }
    let mut contested = BTreeSet::new();
    for (it, offer) in unplaced.into_iter().zip(offers) {
        let is_news = !it.waits || it.undecided.told.as_deref().and_then(offered) != Some(offer);
        if !is_news {
            continue;
        }
        let line = line(run, &it, offer);
        if it.waits {
            if let Some(undecided) = run.state.book.undecided_mut(it.record) {
                undecided.told = Some(Arc::new(line.clone()));
                undecided.withdrawn_for = None;
            }
        } else if it.undecided.revises.is_none() {
            run.remember_ended(it.record, &it.undecided, line.clone());
        }
        tell_holders(run, &it, &mut contested);
        run.tell_placed(&it.turn, it.key, it.undecided.arrival, line);
    }
}

/// The earliest start that it could take in a later slot; it reserves nothing.
fn offer(run: &mut SlotRun<'_>, it: &Unplaced) -> Option<Time> {
    let plan = Plan::new(it.key.clone(), &it.undecided.intent.claims, &run.state.settings);
    let next = run.now.after(run.state.rules.length).after(run.state.rules.min_lead);
    let from = match it.undecided.intent.start {
        Start::Asap => next,
        Start::At(start) => start.max(next),
    };
    let aside = run.step_aside(it.record, &it.key);
    let offer = run.place_up_to_horizon(&plan, &it.undecided, from);
    run.step_back(&aside);
    offer
}

fn line(run: &SlotRun<'_>, it: &Unplaced, offer: Option<Time>) -> Verdict {
    if let Some(by) = it.undecided.withdrawn_for.clone() {
        return Verdict::Revoked { by, offer, waiting: it.waits };
    }
    Verdict::Conflict(Conflict {
        is_final: !it.waits,
        deadlock: it.deadlock,
        offer,
        blockers: it.blockers.clone(),
        kept: run.is_in_force(it.undecided.revises),
    })
}

/// The offer that a line told, where it told of one.
fn offered(line: &Verdict) -> Option<Option<Time>> {
    match line {
        Verdict::Conflict(conflict) => Some(conflict.offer),
        Verdict::Revoked { offer, .. } => Some(*offer),
        _ => None,
    }
}

/// Tells the holders of grants in the way, each grant once a slot.
fn tell_holders(run: &mut SlotRun<'_>, it: &Unplaced, contested: &mut BTreeSet<Token>) {
    let waits_until = it.undecided.waits_from.after(it.undecided.intent.wait);
    for blocker in &it.blockers {
        let Some(grant) = blocker.token.and_then(|token| run.state.book.grant(token)) else { continue };
        if contested.insert(grant.token) {
            run.contested.push(Contested {
                holder: grant.key.clone(),
                token: grant.token,
                by: it.key.agent.clone(),
                by_id: it.key.id,
                class: it.undecided.intent.class,
                wanted: blocker.window,
                waits: waits_until.since(run.now),
            });
        }
    }
}
