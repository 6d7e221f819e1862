//! Robots that would meet do not, and know within two slots where they will be when.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/robots/main.rs"]
mod example;

use std::collections::BTreeSet;

use example::agent::Carried;
use example::world::{Done, LIFT_KG, LIFT_PLACES, meetings, most_units};
use example::yard::{self, Round, Scene};

/// A stall of the machine is no fault of what is tested here: in that case it is done again.
const TRIES: u64 = 4;

fn in_scene(all: &[(Scene, Done)], scene: Scene) -> Vec<Done> {
    all.iter().filter(|(of, _)| *of == scene).map(|(_, done)| done.clone()).collect()
}

fn carried(round: &Round, scene: Scene) -> Vec<&Carried> {
    round.carried.iter().filter(|(of, _)| *of == scene).map(|(_, carried)| carried).collect()
}

fn is_prompt(round: &Round) -> bool {
    let settled = Scene::ALL.iter().flat_map(|scene| round.settled_within(*scene));
    settled.chain([round.yielded_within().iter().sum()]).all(|slots| slots <= 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn robots_that_would_meet_do_not_and_all_is_settled_within_two_slots() {
    for seed in 1..=TRIES {
        let round = yard::round(seed).await.unwrap();
        nobody_meets_who_would_have(&round);
        one_drone_gets_the_point_and_the_others_know_why(&round);
        the_bridge_is_crossed_one_after_the_other(&round);
        the_lift_takes_no_more_than_it_can(&round);
        assert_eq!(round.yielded.to, "carrier");
        for scene in Scene::ALL {
            // Whatever the machine does: what arrived in a slot is answered at its end.
            assert!(
                round.told_within(scene).iter().all(|slots| *slots == 1),
                "{:?}",
                round.told_within(scene)
            );
        }
        if is_prompt(&round) {
            return;
        }
    }
    panic!("in none of {TRIES} tries did all robots know within two slots where they will be when");
}

fn nobody_meets_who_would_have(round: &Round) {
    for (scene, would_meet) in [(Scene::Drones, 6), (Scene::Bridge, 1), (Scene::Lane, 1)] {
        assert_eq!(meetings(&in_scene(&round.uncoordinated, scene)).len(), would_meet, "{scene:?}");
    }
    for scene in Scene::ALL {
        assert_eq!(meetings(&in_scene(&round.done, scene)), BTreeSet::new(), "{scene:?}: {:?}", round.done);
    }
}

fn one_drone_gets_the_point_and_the_others_know_why(round: &Round) {
    let drones = carried(round, Scene::Drones);
    let (first, others): (Vec<&Carried>, Vec<&Carried>) = drones.iter().partition(|it| it.told.is_empty());
    assert_eq!((first.len(), others.len()), (1, 3), "{drones:?}");
    for other in others {
        let told = &other.told[0];
        assert!(told.offer().is_some() && told.blockers().iter().all(|it| it.agent.starts_with("drone-")));
        assert!(other.elsewhere || other.done.start > first[0].done.start, "{other:?}");
    }
}

fn the_bridge_is_crossed_one_after_the_other(round: &Round) {
    let mut windows: Vec<_> = carried(round, Scene::Bridge).iter().map(|it| it.done.clone()).collect();
    windows.sort_by_key(|done| done.start);
    assert_eq!(windows.len(), 2);
    // The second may leave its side a little before the first has come to it, but not by half a crossing.
    let half = windows[0].motion.duration() / 2;
    assert!(windows[1].start > windows[0].start + half, "{windows:?}");
}

fn the_lift_takes_no_more_than_it_can(round: &Round) {
    let over = |all: &[(Scene, Done)]| {
        let most = most_units(&in_scene(all, Scene::Lift));
        most["lift/places"] > LIFT_PLACES || most["lift/kg"] > LIFT_KG
    };
    assert!(over(&round.uncoordinated) && !over(&round.done), "{:?}", round.done);
    assert_eq!(carried(round, Scene::Lift).len(), 6, "five carts and the lift itself");
}
