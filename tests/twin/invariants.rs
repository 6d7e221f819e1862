//! What must hold of the twin's state after every slot, whatever the rules it followed to get there.

use std::collections::BTreeSet;

use preclaim::types::{Decision, IntentKey, Mode, Time, Token, Verdict, Window};

use super::fitting::{Standing, fits};
use super::reference::{Grant, Twin};

/// The state before a slot, as far as the checks need it.
#[derive(Debug)]
pub(crate) struct Before {
    grants: Vec<Grant>,
    next_token: Token,
}

impl Before {
    pub(crate) fn of(twin: &Twin) -> Self {
        Before { grants: twin.grants.clone(), next_token: twin.next_token }
    }

    /// # Errors
    /// The invariant that the slot broke, in words.
    pub(crate) fn check(&self, twin: &Twin, decided: &[Decision], d: Time) -> Result<(), String> {
        tokens_rise_by_one(self, twin, decided)?;
        an_id_stands_for_one_thing(twin)?;
        nothing_waits_beyond_its_wait(twin, d)?;
        old_grants_stand_as_they_were(self, twin, decided)?;
        for grant in twin.grants.iter().filter(|grant| grant.granted_at == d && !grant.shrunk) {
            a_new_grant_fits_beside_all_others(twin, grant)?;
            no_writer_came_between(twin, grant)?;
        }
        Ok(())
    }
}

fn tokens_rise_by_one(before: &Before, twin: &Twin, decided: &[Decision]) -> Result<(), String> {
    let fresh = |decision: &Decision| match decision.verdict {
        Verdict::Granted { token, .. } | Verdict::Moved { token, .. } if token >= before.next_token => {
            Some(token)
        }
        _ => None,
    };
    let tokens: BTreeSet<u64> = decided.iter().filter_map(fresh).map(Token::number).collect();
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return Ok(()) };
    // A restart leaves room, so only the end is sure.
    let whole = twin.restarted || last - first + 1 == tokens.len() as u64;
    if whole && *last < twin.next_token.number() {
        Ok(())
    } else {
        Err(format!("tokens {tokens:?} do not rise by one"))
    }
}

fn an_id_stands_for_one_thing(twin: &Twin) -> Result<(), String> {
    let mut keys: Vec<&IntentKey> = twin.grants.iter().map(Grant::key).collect();
    keys.extend(twin.undecided.iter().map(|one| &one.key));
    let distinct: BTreeSet<&IntentKey> = keys.iter().copied().collect();
    if distinct.len() == keys.len() { Ok(()) } else { Err("an id stands for two things".to_owned()) }
}

fn nothing_waits_beyond_its_wait(twin: &Twin, d: Time) -> Result<(), String> {
    match twin.undecided.iter().find(|one| one.wait_ends() <= d) {
        Some(one) => Err(format!("{:?} waits beyond its wait", one.key)),
        None => Ok(()),
    }
}

/// A refused revision or renewal changed nothing.
fn old_grants_stand_as_they_were(before: &Before, twin: &Twin, decided: &[Decision]) -> Result<(), String> {
    for old in &before.grants {
        let renewed = |decision: &Decision| {
            matches!(decision.verdict, Verdict::Renewed { .. }) && &decision.key == old.key()
        };
        let Some(now) = twin.grants.iter().find(|grant| grant.token == old.token) else { continue };
        if now.standing.windows != old.standing.windows && !decided.iter().any(renewed) {
            return Err(format!("the grant {} changed without a renewal", old.token));
        }
    }
    let kept =
        |decision: &&Decision| matches!(&decision.verdict, Verdict::Conflict(conflict) if conflict.kept);
    let stands = |decision: &&Decision| twin.grants.iter().any(|grant| grant.key() == &decision.key);
    match decided.iter().filter(kept).find(|decision| decision.answers.is_none() && !stands(decision)) {
        Some(lost) => Err(format!("{:?} was kept and is gone", lost.key)),
        None => Ok(()),
    }
}

fn a_new_grant_fits_beside_all_others(twin: &Twin, grant: &Grant) -> Result<(), String> {
    let others = twin.grants.iter().filter(|other| other.token != grant.token);
    let view: Vec<&Standing> = others.map(|other| &other.standing).collect();
    // The table of resources of the next slot is already in force, where one was configured.
    if twin.reconfigured || fits(&twin.rules, &grant.standing.claims, &grant.standing.windows, &view) {
        Ok(())
    } else {
        Err(format!("the grant {} does not fit beside the others", grant.token))
    }
}

/// No writer has, or had, a window between the reading and the start of a grant that rests on it.
fn no_writer_came_between(twin: &Twin, grant: &Grant) -> Result<(), String> {
    let writer = twin.grants.iter().find(|other| {
        other.token != grant.token
            && grant.intent.expects.iter().any(|expect| {
                other.standing.parts().any(|(_, claim, window)| {
                    let target = preclaim::types::Target::Path(expect.path.clone());
                    claim.mode != Mode::Shared
                        && other.key() != grant.key()
                        && super::fitting::related(&twin.rules, &target, &claim.target)
                        && Window::new(expect.as_of, grant.start)
                            .is_some_and(|span| span.overlap(window).is_some())
                })
            })
    });
    match writer {
        Some(writer) => Err(format!("{} came between the reading and {}", writer.token, grant.token)),
        None => Ok(()),
    }
}
