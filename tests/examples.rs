//! The examples print what their README says.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/custom_priority.rs"]
mod custom_priority;
#[cfg(feature = "daemon")]
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/embedded.rs"]
mod embedded; // its tests run here too
#[cfg(feature = "daemon")]
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/fencing.rs"]
mod fencing;
#[cfg(feature = "daemon")]
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/junction/main.rs"]
mod junction;
#[cfg(feature = "testing")]
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/testing.rs"]
mod testing; // its tests run here too

/// What the README says that the example prints.
fn expected(command: &str) -> &'static str {
    let readme = include_str!("../examples/README.md");
    let block = readme.split("```").find(|block| block.contains(command)).unwrap();
    let (_command, expected) = block.split_once(command).unwrap();
    expected.strip_prefix('\n').unwrap()
}

#[test]
fn custom_priority_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    custom_priority::show(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(printed, expected("cargo run --example custom_priority --no-default-features"));
}

#[cfg(feature = "daemon")]
#[tokio::test]
async fn embedded_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    embedded::show(&mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(printed, expected("cargo run --example embedded"));
}

#[cfg(feature = "daemon")]
#[tokio::test(flavor = "multi_thread")]
async fn fencing_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    let ended = fencing::show(&mut printed).await;
    let printed = String::from_utf8(printed).unwrap();
    assert!(ended.is_ok(), "{ended:?}\n{printed}");
    assert_eq!(printed, expected("cargo run --example fencing"));
}

#[cfg(feature = "testing")]
#[tokio::test(start_paused = true)]
async fn testing_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    testing::show(&mut printed).await.unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(printed, expected("cargo run --example testing"));
}

/// Times, counts and who is first differ from run to run: what kinds of lines there are does not.
#[cfg(feature = "daemon")]
#[tokio::test(flavor = "multi_thread")]
async fn junction_shows_what_it_is_there_to_show_and_prints_what_its_readme_says() {
    let mut printed = Vec::new();
    let ended = junction::run(&mut printed).await;
    let printed = String::from_utf8(printed).unwrap();
    assert!(ended.is_ok(), "{ended:?}\n{printed}");
    let expected = expected("cargo run --release --example junction");
    let kinds = |text: &str| text.lines().map(kind).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(kinds(&printed), kinds(expected), "{printed}");
    let of = |text: &str| text.lines().find(|line| line.starts_with("collisions")).map(str::to_owned);
    assert_eq!(of(&printed), of(expected));
}

/// A line without what differs: numbers, names, spaces, and what is drawn in a row.
#[cfg(feature = "daemon")]
fn kind(line: &str) -> String {
    let words = line.split_whitespace().map(|word| match word {
        "bus" | "car" | "truck" | "van" => "VEHICLE".to_owned(),
        word => word.replace(|letter: char| letter.is_ascii_digit(), "0"),
    });
    let mut kind = words.collect::<Vec<_>>().join(" ");
    while kind.contains("00") {
        kind = kind.replace("00", "0");
    }
    match kind.strip_prefix("VEHICLE ") {
        // Where the machine stalls for a while, a row has gaps.
        Some(row) if row.chars().all(|mark| "-.# ".contains(mark)) => "VEHICLE ROW".to_owned(),
        _ => kind,
    }
}
