//! What a robot says to the coordinator: orders that others may be in the way of, and a place that it
//! gives up where somebody needs it. What to copy is here.

use std::time::Duration;

use preclaim::client::{Conflict, Events, Revision};
use preclaim::types::Time;
use preclaim::wire::Refusal;
use preclaim::{Client, Event, Grant, Intent, Outcome, millis, path, secs};

use super::story::Failure;
use super::world::{Done, Motion, STEP, What};

/// How often a robot declares an order before it gives up.
const ATTEMPTS: usize = 10;

/// To do this from a start on.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) motion: Motion,
    pub(crate) start: Time,
    /// How long after that it could still begin.
    pub(crate) patience: Duration,
    /// What it does instead, where that is too short.
    pub(crate) elsewhere: Option<Motion>,
    /// What the coordinator orders the intents of one slot by.
    pub(crate) urgency: f64,
}

/// How an order was carried out.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) done: Done,
    /// When that was decided.
    pub(crate) decided: Time,
    /// Who was in the way, if anybody was.
    pub(crate) told: Vec<Conflict>,
    /// Whether it does something else instead.
    pub(crate) elsewhere: bool,
}

/// A motion as an intent: all of its steps at one time, or none of them.
fn intent(motion: &Motion, mut intent: Intent) -> Result<Intent, Failure> {
    for step in &motion.0 {
        let used = match &step.what {
            What::Area { frame, corners, heights: None } => path(frame)?.polygon(*corners).exclusive(),
            What::Area { frame, corners, heights: Some([least, most]) } => {
                path(frame)?.polygon(*corners).between(*least, *most).exclusive()
            }
            What::Alone(name) => path(name)?.exclusive(),
            What::Beside(name) => path(name)?.shared(),
            What::Units(name, units) => path(name)?.units(*units),
        };
        intent = intent.claim_after(step.offset, used, step.duration);
    }
    Ok(intent)
}

/// Carries out an order. Where somebody is in the way, the robot is told who and until when, and decides
/// itself: it takes the next window that is free within its patience, or does something else.
pub(crate) async fn carry_out(client: &Client, order: Order) -> Result<Carried, Failure> {
    let (mut motion, mut elsewhere, mut told) = (&order.motion, false, Vec::new());
    let mut next = intent(motion, Intent::at(order.start))?;
    for _ in 0..ATTEMPTS {
        match client.declare(next.urgency(order.urgency)).await? {
            Outcome::Granted(grant) => {
                let done =
                    Done { who: client.name().to_owned(), start: grant.start(), motion: motion.clone() };
                let decided = grant.decided_at();
                // Here it would move. Its windows run out as planned, which `lost` waits for by its own clock.
                grant.lost().await;
                return Ok(Carried { done, decided, told, elsewhere });
            }
            Outcome::Conflict(conflict) => {
                let offer = conflict.offer().ok_or("there is no room at all")?;
                let left = order.patience.checked_sub(offer.since(order.start).to_std());
                next = match (left, &order.elsewhere) {
                    // Others may take the offer: from there on, whatever is free.
                    (Some(left), _) => intent(motion, Intent::at(offer).slack(left))?,
                    (None, Some(other)) => {
                        (motion, elsewhere) = (other, true);
                        intent(motion, Intent::at(order.start))?
                    }
                    (None, None) => return Err(conflict.to_string().into()),
                };
                next = next.revises(conflict.id()); // under the same id, in the place of what was refused
                told.push(conflict);
            }
            Outcome::Rejected(why) if why.reason() == Refusal::TooLate => {
                // This machine stalled: it begins from now on.
                let soon = client.coordinator_time().0 + STEP;
                next = intent(motion, Intent::at(soon).slack(order.patience))?;
            }
            other => return Err(format!("neither granted nor in conflict: {other:?}").into()),
        }
    }
    Err(format!("no place in {ATTEMPTS} attempts").into())
}

/// Stands somewhere for as long as it likes: under a lease, which renews itself.
pub(crate) async fn stand(client: &Client, place: &Motion) -> Result<(Grant, Events), Failure> {
    let news = client.events();
    match client.declare(intent(place, Intent::asap())?.lease().note("idle")).await? {
        Outcome::Granted(grant) => Ok((grant, news)),
        other => Err(format!("the place is not free: {other:?}").into()),
    }
}

/// Yields to the first who wants its place: leaves it by `way`, and stands at its end. One revision does
/// both: the old place is free from the time at which the robot has left it, and no sooner. Returns when it
/// was contested, when the way out was decided, and by whom.
pub(crate) async fn yield_when_asked(
    grant: &Grant,
    mut news: Events,
    way: &Motion,
) -> Result<(Time, Time, String), Failure> {
    while let Some(event) = news.next().await {
        match event {
            Event::Contested { id, at, by, .. } if id == grant.id() => {
                match grant.revise(intent(way, Intent::asap())?.lease().note("makes room")).await? {
                    Revision::Granted => return Ok((at, grant.decided_at(), by)),
                    refused => return Err(format!("there is no way out: {refused:?}").into()),
                }
            }
            _ => {}
        }
    }
    Err("nobody wanted it".into())
}

/// Drives as soon as the way is free, and waits for that: whoever stands there is told.
pub(crate) async fn drive_when_free(client: &Client, motion: &Motion) -> Result<(Done, Time), Failure> {
    let soon = Intent::asap().slack(millis(500)).wait(secs(3)).note("goods for dock 3");
    match client.declare(intent(motion, soon)?).await? {
        Outcome::Granted(grant) => {
            let done = Done { who: client.name().to_owned(), start: grant.start(), motion: motion.clone() };
            let decided = grant.decided_at();
            grant.lost().await; // its windows have run out
            Ok((done, decided))
        }
        other => Err(format!("the way was never free: {other:?}").into()),
    }
}
