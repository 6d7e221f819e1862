//! Agents undo each other's work without control and never with it, whoever is killed; and which way is faster.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/shared_memory/main.rs"]
mod example;

use std::process::Command;
use std::time::Duration;

use example::agent;
use example::crash;
use example::memory::{Memory, Scratch, Task};
use example::team::{Control, Score, Work, run};
use preclaim::Client;
use preclaim::testing::World;
use preclaim::types::{Fence, Time, Token};

/// Half of the pairs of tasks want one document.
fn at_the_highest_rate(period: Duration) -> Work {
    Work { conflict_rate: 0.5, period, think: Duration::from_millis(60), seed: 1 }
}

async fn score(clients: &[Client], control: Control, work: Work) -> Score {
    let scratch = Scratch::new().unwrap();
    run(clients, control, work, &scratch.file("memory.sqlite")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_lost_without_control_and_none_is_with_it() {
    let coordinator = agent::coordinator().unwrap();
    let mut clients = Vec::new();
    for name in ["agent-1", "agent-2", "agent-3"] {
        clients.push(coordinator.client(name).connect().await.unwrap());
    }
    let work = at_the_highest_rate(Duration::from_millis(1200));
    let without = score(&clients, Control::Nothing, work).await;
    assert!(without.lost > 0, "{without:?}");
    for control in [Control::Memory, Control::Document, Control::Expects, Control::Version] {
        let score = score(&clients, control, work).await;
        assert_eq!((score.lost, score.misplaced), (0, 0), "{control:?}: {score:?}");
        assert!(score.acknowledged >= clients.len(), "{control:?}: {score:?}");
    }
    coordinator.stop().await.unwrap();
}

/// On virtual time, where the machine has no say.
async fn on_virtual_time(conflict_rate: f64) -> [Score; 3] {
    // A message takes its time. Did it take none, a grant could be released at the very instant at which it
    // begins, and would never have been.
    let world = World::builder().latency(Duration::from_millis(1)).build();
    let mut clients = Vec::new();
    for name in ["agent-1", "agent-2", "agent-3"] {
        clients.push(world.client(name).await);
    }
    let work = Work { conflict_rate, ..at_the_highest_rate(Duration::from_secs(30)) };
    let mut scores = [Score::default(), Score::default(), Score::default()];
    for (control, slot) in [Control::Memory, Control::Document, Control::Expects].into_iter().zip(&mut scores)
    {
        *slot = score(&clients, control, work).await;
        println!("{conflict_rate} {control:?} {slot:?}");
    }
    scores
}

#[tokio::test(start_paused = true)]
async fn at_the_highest_rate_expects_is_ahead_of_one_claim_and_thinks_twice_as_often_as_any() {
    let [memory, document, expects] = on_virtual_time(0.5).await;
    for score in [&memory, &document, &expects] {
        assert_eq!((score.lost, score.misplaced), (0, 0), "{score:?}");
    }
    for held in [&memory, &document] {
        assert_eq!(held.done.thoughts, held.acknowledged, "who holds it thinks once: {held:?}");
    }
    assert!(expects.per_second > 1.2 * memory.per_second, "{expects:?} {memory:?}");
    assert!(expects.done.thoughts * 10 > expects.acknowledged * 15, "{expects:?}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_wants_the_same_expects_and_a_claim_a_document_are_even_and_thrice_as_fast_as_one_claim()
{
    let [memory, document, expects] = on_virtual_time(0.0).await;
    // What it wrote itself makes it not stale; two topics may be similar by chance.
    assert!(expects.done.stale * 100 < expects.acknowledged, "{expects:?}");
    assert!((0.97..1.03).contains(&(expects.per_second / document.per_second)), "{expects:?} {document:?}");
    assert!(expects.per_second > 2.5 * memory.per_second, "{expects:?} {memory:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_takes_nothing_with_it_and_nobody_hangs() {
    let coordinator = agent::coordinator().unwrap();
    for control in [Control::Document, Control::Expects] {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        itself.args(["--exact", "shared_memory::is_the_agent_that_is_killed", "--ignored", "--nocapture"]);
        let crash = crash::crash(&coordinator, control, itself, 1).await.unwrap();
        crash.check().unwrap();
        assert_eq!(crash.done_by_it + crash.taken_over, crash.tasks / 3, "{crash:?}");
        assert!(crash.taken_over > 0, "it was killed before its end: {crash:?}");
    }
    coordinator.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "no test: a process that the one above starts and kills"]
async fn is_the_agent_that_is_killed() {
    crash::child().await.unwrap();
}

#[test]
fn a_holder_from_the_past_changes_no_row() {
    let scratch = Scratch::new().unwrap();
    let memory = Memory::open(&scratch.file("memory.sqlite")).unwrap();
    let fence = |start, token| Fence { start: Time::from_us(start), token: Token::new(token) };
    assert!(memory.write(fence(20, 1), "plan", "new").unwrap());
    assert!(!memory.write(fence(10, 9), "plan", "late").unwrap());
    let doc = memory.read("plan").unwrap();
    assert_eq!((doc.body.as_str(), doc.version), ("new", 1));
}

#[test]
fn a_document_is_found_by_what_it_is_about() {
    let scratch = Scratch::new().unwrap();
    let memory = Memory::open(&scratch.file("memory.sqlite")).unwrap();
    let task = |nth: u64, topic| Task::new(format!("agent-1/{nth}"), topic);
    for topic in 0..40 {
        let doc = memory.find(&task(topic, topic)).unwrap();
        assert_eq!(doc.version, 0, "topic {topic} is new");
        memory.write_blind(&doc.key, &format!("{}\n", task(topic, topic).fact())).unwrap();
    }
    for topic in 0..40 {
        let doc = memory.find(&task(99, topic)).unwrap();
        assert!(doc.has(&format!("agent-1/{topic}")), "{doc:?}");
    }
}
