//! docs/PROTOCOL.md and the code say the same numbers.
#![allow(clippy::unwrap_used)] // a helper of a test may fail it

use preclaim::limits;
use preclaim::wire::{CloseCode, Refusal, ToAgent, ToCoordinator};

const DOCUMENT: &str = include_str!("../docs/PROTOCOL.md");

/// The rows of tables whose first cell is `first`.
fn rows(first: &str) -> impl Iterator<Item = &str> {
    let start = format!("| {first} | ");
    DOCUMENT.lines().filter_map(move |line| line.strip_prefix(&start))
}

#[test]
fn each_kind_of_message_has_its_row() {
    for kind in ToCoordinator::KINDS.iter().chain(ToAgent::KINDS) {
        assert_eq!(rows(&format!("{kind:#06x}")).count(), 1, "kind {kind:#06x}");
    }
    let written = DOCUMENT.lines().filter(|line| line.starts_with("| 0x")).count();
    assert_eq!(written, ToCoordinator::KINDS.len() + ToAgent::KINDS.len(), "and no other has one");
}

#[test]
fn each_reason_and_close_code_has_its_row() {
    for reason in Refusal::ALL {
        let name = format!("`{}`", reason.as_str());
        assert!(rows(&reason.number().to_string()).any(|row| row.starts_with(&name)), "{name}");
    }
    for code in CloseCode::ALL {
        let name = format!("{} |", code.as_str());
        assert!(rows(&code.number().to_string()).any(|row| row.starts_with(&name)), "{name}");
    }
}

#[test]
fn the_limits_are_those_of_the_code() {
    let limit = |what: &str| {
        let row = rows(what).next().unwrap_or_else(|| panic!("no row for {what}"));
        let digits = row.chars().filter(|it| *it != ' ').skip_while(|it| !it.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().unwrap()
    };
    assert_eq!(limit("frame"), limits::FRAME_BYTES);
    assert_eq!(limit("declarations in a batch"), limits::BATCH);
    assert_eq!(limit("extensions of a message"), limits::EXTENSIONS);
    assert_eq!(limit("note"), limits::NOTE_BYTES);
    assert_eq!(limit("lanes open at a time"), limits::LANES);
    assert_eq!(limit("undecided intents of a name"), limits::UNDECIDED_PER_AGENT);
    assert_eq!(limit("messages of a name in one slot"), limits::SLOT_INPUTS_OF_A_NAME);
    assert_eq!(limit("watches"), limits::WATCHES_OF_A_CONNECTION);
    assert_eq!(limit("entries of a page"), limits::LIST_PAGE);
    assert_eq!(limit("connections"), limits::CONNECTIONS);
    for written in
        [format!("1 to {} bytes", limits::AGENT_BYTES), format!("1 to {} bytes", limits::LABEL_BYTES)]
    {
        assert!(DOCUMENT.contains(&written), "{written}");
    }
    let bytes =
        format!("each up to {} bytes, {} together", limits::EXTENSION_BYTES, limits::EXTENSIONS_BYTES);
    assert!(DOCUMENT.contains(&bytes));
}
