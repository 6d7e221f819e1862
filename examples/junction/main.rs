//! A junction, four vehicles, one coordinator: who may be where, and when.
//!
//! ```text
//! cargo run --release --example junction
//! ```
//!
//! What to copy is in this file: a coordinator inside the process, and agents that declare, are told
//! of conflicts, and revise. vehicle.rs is about motion and shapes, story.rs about printing.

mod story;
mod vehicle;

use std::error::Error;
use std::io::{self, Write};
use std::time::Instant;

use preclaim::client::{Events, Lost};
use preclaim::coordinator::{Coordinator, CoordinatorConfig};
use preclaim::resolver::Rules;
use preclaim::types::{Micros, Slot, Time};
use preclaim::wire::Refusal;
use preclaim::{Client, Event, Grant, Intent, Outcome, millis};
use tokio::task::JoinSet;

use story::{Journey, Story};
use vehicle::{Action, STEP, Vehicle};

type Failure = Box<dyn Error + Send + Sync>;

/// The bus and the car ask to cross in the same slot, the truck a step before the van.
const VEHICLES: [Vehicle; 4] = [
    Vehicle { name: "bus", heading: [1.0, 0.0], length: 8.0, urgency: 0.9, enters: millis(0) },
    Vehicle { name: "car", heading: [0.0, 1.0], length: 4.5, urgency: 0.2, enters: millis(0) },
    Vehicle { name: "truck", heading: [0.0, -1.0], length: 6.0, urgency: 0.2, enters: millis(600) },
    Vehicle { name: "van", heading: [-1.0, 0.0], length: 5.0, urgency: 0.9, enters: millis(700) },
];

/// How often an agent declares an action before it gives up: others may take an offered place first.
const ATTEMPTS: u32 = 10;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    run(&mut io::stdout()).await
}

/// Runs the junction and prints what happened; fails where that is not what it is to show.
pub(crate) async fn run(out: &mut (impl Write + Send)) -> Result<(), Failure> {
    story::introduce(out)?;

    // The coordinator: on a free port of this machine, with a certificate of its own making.
    let coordinator = Coordinator::bind(CoordinatorConfig::in_memory(Rules::default())?)?.spawn();

    // The agents: a task each, with a connection of its own.
    let mut clients = Vec::new();
    for vehicle in VEHICLES {
        clients.push(coordinator.client(vehicle.name).connect().await?);
    }
    let begin = beginning(&clients[0]);
    let mut driving = JoinSet::new();
    for (vehicle, client) in VEHICLES.into_iter().zip(clients) {
        driving.spawn(async move {
            let news = client.events();
            let (journey, alerts) = tokio::join!(drive(vehicle, client, begin), alerts(news));
            journey.map(|journey| (journey, alerts))
        });
    }
    let mut story = Story::new(begin);
    while let Some(ended) = driving.join_next().await {
        let (journey, alerts) = ended??;
        story.add(journey, alerts);
    }

    coordinator.stop().await?;
    story.tell(out)?;
    story.check()
}

/// An instant soon, in the middle of a slot: all that is declared then is decided together.
fn beginning(client: &Client) -> Time {
    let (now, slot) = (client.coordinator_time().0, Micros::from(client.slot_length()));
    Slot::of(now.after(Micros::from_ms(300)), slot).opens(slot).after(Micros::from_us(slot.as_us() / 2))
}

/// Drives a vehicle over the junction. Each action is declared while the one before it is done.
async fn drive(vehicle: Vehicle, client: Client, begin: Time) -> Result<Journey, Failure> {
    let mut journey = Journey::new(&vehicle, begin);
    let mut start = begin + vehicle.enters;
    let mut current: Option<Grant> = None;
    for action in vehicle.route() {
        let next = declare(&client, action, start, &mut journey).await?;
        start = next.end();
        if let Some(grant) = current.replace(next) {
            stop_at_its_end(grant).await?;
        }
    }
    if let Some(grant) = current {
        stop_at_its_end(grant).await?;
    }
    client.close().await;
    Ok(journey)
}

/// Declares an action until it is granted. Where somebody is in the way, it is revised to the offer: the
/// vehicle waits until then, and the place where it waits is part of what it declares.
async fn declare(
    client: &Client,
    mut action: Action,
    mut start: Time,
    journey: &mut Journey,
) -> Result<Grant, Failure> {
    let mut intent = action.intent(start)?;
    for _ in 0..ATTEMPTS {
        match ask(client, intent, journey).await? {
            Outcome::Granted(grant) => {
                journey.granted(&action, &grant);
                return Ok(grant);
            }
            Outcome::Conflict(conflict) => {
                let offer = conflict.offer().ok_or("there is no room at all")?;
                journey.refused(&action, &conflict, offer);
                action.waits += offer.since(start).to_std();
                intent = action.intent(start)?.revises(conflict.id());
            }
            Outcome::Rejected(why) if why.reason() == Refusal::TooLate => {
                // This machine stalled: the vehicle stands where it is, and goes on from now.
                start = client.coordinator_time().0 + STEP;
                intent = action.intent(start)?;
            }
            Outcome::Rejected(why) => return Err(why.to_string().into()),
            Outcome::Stale(_) => return Err("stale, though it rests on no reading".into()),
        }
    }
    Err(format!("no place in {ATTEMPTS} attempts").into())
}

async fn ask(client: &Client, intent: Intent, journey: &mut Journey) -> Result<Outcome, Failure> {
    let asked = Instant::now();
    let outcome = client.declare(intent).await?;
    journey.answered(asked.elapsed());
    Ok(outcome)
}

/// Where a real vehicle would drive. It knows that it may until the grant is lost, by its own clock.
async fn stop_at_its_end(grant: Grant) -> Result<(), Failure> {
    match grant.lost().await {
        Lost::Ended => Ok(()),
        why => Err(format!("stopped on its way: {why}").into()),
    }
}

/// Who wants what this agent holds, until its client has ended. It could yield; here it only listens.
async fn alerts(mut news: Events) -> Vec<Event> {
    let mut alerts = Vec::new();
    while let Some(event) = news.next().await {
        if matches!(event, Event::Contested { .. }) {
            alerts.push(event);
        }
    }
    alerts
}
