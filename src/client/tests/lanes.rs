//! Intents on more lanes than one.

use super::degrade::up_with;
use super::*;

/// The coordinator's end of a further lane of `peer`'s connection, once the client says something on it.
async fn further(peer: &mut Peer) -> Peer {
    let lane = peer.lanes.recv().await.unwrap();
    let (_, lanes) = mpsc::unbounded_channel();
    let (clock, closed) = (peer.clock.clone(), peer.closed.clone());
    Peer { lanes, lane: Some(tokio::io::split(lane)), frames: FrameReader::new(), clock, closed, hello: None }
}

/// A client with a grant, of which all was said on a lane of its own.
async fn granted_beside() -> (Client, Grant, Peer, Peer) {
    let (client, mut peer, ..) = up_with(Client::builder().lanes(4)).await;
    let answering = async {
        let mut lane = further(&mut peer).await;
        lane.grant(9, Micros::from_secs(1)).await;
        lane
    };
    let (outcome, lane) = tokio::join!(client.declare(dock().id(6)), answering);
    let Ok(Outcome::Granted(grant)) = outcome else { panic!("granted, not {outcome:?}") };
    (client, grant, peer, lane)
}

#[tokio::test]
async fn goodbye_waits_until_what_is_on_other_lanes_is_answered() {
    let (client, grant, mut peer, mut lane) = granted_beside().await;
    drop((grant, client));
    let ToCoordinator::Release(release) = lane.receive().await else { panic!("where it was declared") };
    assert_eq!(peer.received_by_now().await, None, "it could overtake the release");
    lane.answer(release.request, 6, Verdict::Released { reason: None }).await;
    assert!(matches!(peer.receive().await, ToCoordinator::Bye(_)));
}

#[tokio::test]
async fn what_is_about_another_intent_goes_by_its_own_id() {
    let (client, _grant, mut peer, mut lane) = granted_beside().await;
    // The first lane is one of the four.
    let (outcome, _) = tokio::join!(client.declare(dock().id(8)), peer.grant(10, Micros::from_secs(1)));
    assert!(matches!(outcome, Ok(Outcome::Granted(_))));
    let (outcome, _) = tokio::join!(client.declare(dock().id(10)), lane.grant(11, Micros::from_secs(1)));
    assert!(matches!(outcome, Ok(Outcome::Granted(_))), "10 and 6 are the same lane of four");
}

#[tokio::test]
async fn against_the_protocol_on_any_lane_is_against_it() {
    let (client, _grant, _peer, mut lane) = granted_beside().await;
    let mut news = client.events();
    lane.lane.as_mut().unwrap().1.write_all(&[0xff; 4]).await.unwrap();
    match news.next().await {
        Some(Event::Disconnected { why }) => assert!(why.contains("broke the protocol"), "{why}"),
        other => panic!("disconnected, not {other:?}"),
    }
}
