//! Four scenes at one coordinator: who is ordered to do what, and what came of it.

use std::time::Duration;

use preclaim::coordinator::{Coordinator, CoordinatorConfig, Running};
use preclaim::resolver::{Resource, Rules};
use preclaim::types::{Micros, Path, Slot, Time};
use preclaim::{Client, millis, secs};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::agent::{self, Carried, Order};
use super::measure::{Declared, Ledger, slots};
use super::story::{Dice, Failure};
use super::world::{
    self, CART, Done, LIFT_ROUND, Motion, bridge_crossing, drone_flights, lift_ride, lift_rounds,
};

/// An order is to be begun so long after it was given.
const LEAD: Duration = millis(100);
const LANE: [[f64; 2]; 2] = [[0.0, 20.5], [6.0, 20.5]];
/// Where the idle robot stands in it, and where it can go.
const WAY_OUT: [[f64; 2]; 2] = [[3.0, 20.5], [3.0, 22.5]];
/// How long its lease is; it renews itself.
const LEASE: Duration = secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scene {
    Drones,
    Bridge,
    Lane,
    Lift,
}

/// What came of all orders.
#[derive(Debug)]
pub(crate) struct Round {
    /// When the orders were given.
    pub(crate) begin: Time,
    pub(crate) carried: Vec<(Scene, Carried)>,
    pub(crate) yielded: Yielded,
    /// What was done, by whom, when, in each scene; and what would have been, had nobody asked.
    pub(crate) done: Vec<(Scene, Done)>,
    pub(crate) uncoordinated: Vec<(Scene, Done)>,
    declared: Vec<Declared>,
    length: Micros,
}

/// How the idle robot made room.
#[derive(Clone, Debug)]
pub(crate) struct Yielded {
    pub(crate) to: String,
    pub(crate) contested: Time,
    pub(crate) way_out: Time,
    pub(crate) lane: Time,
}

impl Scene {
    pub(crate) const ALL: [Scene; 4] = [Scene::Drones, Scene::Bridge, Scene::Lane, Scene::Lift];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scene::Drones => "four drones, one point",
            Scene::Bridge => "one-lane bridge",
            Scene::Lane => "idle robot in a lane",
            Scene::Lift => "lift",
        }
    }
}

impl Round {
    /// For each declaration in a scene, how many slots it took until it was answered.
    pub(crate) fn told_within(&self, scene: Scene) -> Vec<u64> {
        let of = |it: &&Declared| scene_of(it.key.agent.as_str()) == scene;
        let told = |it: &Declared| it.told.map_or(u64::MAX, |told| slots(it.arrived, told, self.length));
        self.declared.iter().filter(of).map(told).collect()
    }

    /// For each order in a scene, how many slots it took from its first declaration until its robot knew
    /// where it would be when.
    pub(crate) fn settled_within(&self, scene: Scene) -> Vec<u64> {
        let first = |who: &str| self.declared.iter().find(|it| it.key.agent.as_str() == who);
        let decided = |it: &Carried| slots(first(&it.done.who)?.arrived, it.decided, self.length).into();
        let of = self.carried.iter().filter(|(of, _)| *of == scene);
        of.filter_map(|(_, carried)| decided(carried)).collect()
    }

    /// Slots from the contest to the way out, and from there to the lane.
    pub(crate) fn yielded_within(&self) -> [u64; 2] {
        let Yielded { contested, way_out, lane, .. } = &self.yielded;
        let between = |from: &Time, to: &Time| to.since(*from).as_us() / self.length.as_us();
        [between(contested, way_out), between(way_out, lane)]
    }
}

fn scene_of(agent: &str) -> Scene {
    match agent.split('-').next() {
        Some("drone") => Scene::Drones,
        Some("robot") => Scene::Bridge,
        Some("cart" | "lift") => Scene::Lift,
        _ => Scene::Lane,
    }
}

/// The lift takes three, or so many kilograms.
fn rules() -> Result<Rules, Failure> {
    let capacity = |path: &str, capacity: u64| {
        let path = Path::new(path).ok_or("no path")?;
        Ok::<_, Failure>(Resource { capacity: Some(capacity), ..Resource::new(path) })
    };
    let places = capacity("lift/places", world::LIFT_PLACES)?;
    Ok(Rules { resources: vec![places, capacity("lift/kg", world::LIFT_KG)?], ..Rules::default() })
}

/// Has all orders given at once, and carried out.
pub(crate) async fn round(seed: u64) -> Result<Round, Failure> {
    let ledger = Ledger::default();
    let config =
        CoordinatorConfig { journal: Box::new(ledger.clone()), ..CoordinatorConfig::in_memory(rules()?)? };
    let coordinator = Coordinator::bind(config)?.spawn();
    let [idler, carrier, lift] = connect(&coordinator, &["idler", "carrier", "lift"]).await?;
    let (begin, length) = beginning(&lift);
    let orders = orders(seed, begin + LEAD);
    let uncoordinated = orders.iter().map(|(scene, who, order)| {
        let done = Done { who: who.clone(), start: order.start, motion: order.motion.clone() };
        (*scene, done)
    });
    let mut uncoordinated: Vec<(Scene, Done)> = uncoordinated.collect();

    let mut working = JoinSet::new();
    let timetable = order(lift_rounds(4), begin + LEAD, Duration::ZERO, 1.0);
    working.spawn(async move { agent::carry_out(&lift, timetable).await.map(|it| (Scene::Lift, it)) });
    for (scene, who, order) in orders {
        let client = coordinator.client(who).connect().await?;
        working.spawn(async move {
            sleep_until(client.instant(begin).into()).await;
            agent::carry_out(&client, order).await.map(|it| (scene, it))
        });
    }
    let (yielded, lane, blocked) = lane(&idler, carrier, begin).await?;
    let mut carried = Vec::new();
    while let Some(ended) = working.join_next().await {
        carried.push(ended??);
    }
    coordinator.stop().await?;
    carried.sort_by(|a, b| (a.0, &a.1.done.who).cmp(&(b.0, &b.1.done.who)));
    uncoordinated.extend(blocked.map(|done| (Scene::Lane, done)));
    let mut done: Vec<_> = carried.iter().map(|(scene, it)| (*scene, it.done.clone())).collect();
    done.extend(lane.into_iter().map(|done| (Scene::Lane, done)));
    Ok(Round { begin, carried, yielded, done, uncoordinated, declared: ledger.all(), length })
}

async fn connect<const N: usize>(coordinator: &Running, names: &[&str; N]) -> Result<[Client; N], Failure> {
    let mut clients = Vec::new();
    for name in names {
        clients.push(coordinator.client(*name).connect().await?);
    }
    clients.try_into().map_err(|_| "as many clients as names".into())
}

/// A time soon, early in a slot: what is declared then is decided together.
fn beginning(client: &Client) -> (Time, Micros) {
    let (now, length) = (client.coordinator_time().0, Micros::from(client.slot_length()));
    let slot = Slot::of(now.after(Micros::from_ms(300)), length);
    (slot.opens(length).after(Micros::from_us(length.as_us() / 5)), length)
}

fn order(motion: Motion, start: Time, patience: Duration, urgency: f64) -> Order {
    Order { motion, start, patience, elsewhere: None, urgency }
}

/// What is ordered at once: all drones to one point, both robots over the bridge, five carts up the lift.
fn orders(seed: u64, start: Time) -> Vec<(Scene, String, Order)> {
    let mut dice = Dice::new(seed);
    let mut orders = Vec::new();
    for number in 0..4 {
        let [flight, elsewhere] = drone_flights(&mut dice, number);
        // The last one's battery is low.
        let patience = if number == 3 { millis(100) } else { secs(3) };
        let order = order(flight, start, patience, 0.8 - 0.2 * number as f64);
        let order = Order { elsewhere: Some(elsewhere), ..order };
        orders.push((Scene::Drones, format!("drone-{}", number + 1), order));
    }
    for (name, eastward) in [("robot-west", true), ("robot-east", false)] {
        orders.push((Scene::Bridge, name.to_owned(), order(bridge_crossing(eastward), start, secs(4), 0.5)));
    }
    for number in 1..=5 {
        // Three heavy ones are too heavy together; two of them and the light ones are too many.
        let (kg, urgency) =
            if number <= 3 { (350 + dice.below(31), 0.6) } else { (60 + dice.below(11), 0.5) };
        let order = order(lift_ride(kg), start, 3 * LIFT_ROUND, urgency);
        orders.push((Scene::Lift, format!("cart-{number}"), order));
    }
    orders
}

/// An idle robot stands in a lane that another needs. Returns how it yielded, what both did, and what they
/// would have done.
async fn lane(
    idler: &Client,
    carrier: Client,
    begin: Time,
) -> Result<(Yielded, Vec<Done>, [Done; 2]), Failure> {
    let drive = CART.along(&LANE);
    let (grant, news) = agent::stand(idler, &CART.stays(WAY_OUT[0], LEASE)).await?;
    let stood = grant.start();
    let way = CART.along(&WAY_OUT).then(CART.stays(WAY_OUT[1], LEASE));
    let carrying = {
        let drive = drive.clone();
        async move {
            sleep_until(carrier.instant(begin).into()).await;
            agent::drive_when_free(&carrier, &drive).await
        }
    };
    let mut carrying = tokio::spawn(carrying);
    let (contested, way_out, to) = tokio::select! {
        biased;
        yielded = agent::yield_when_asked(&grant, news, &way) => yielded?,
        ended = &mut carrying => return Err(ended?.err().unwrap_or("nobody was asked to make room".into())),
    };
    let left = grant.start();
    let (carried, lane) = carrying.await??;
    let who = || "idler".to_owned();
    let idled = |until: Time| CART.stays(WAY_OUT[0], until.since(stood).to_std());
    let moved = Done { who: who(), start: left, motion: way };
    let done = vec![Done { who: who(), start: stood, motion: idled(left) }, moved, carried];
    let blocked = [
        Done { who: who(), start: stood, motion: idled(begin + LEASE) },
        Done { who: "carrier".to_owned(), start: begin + LEAD, motion: drive },
    ];
    Ok((Yielded { to, contested, way_out, lane }, done, blocked))
}
