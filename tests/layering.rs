//! The layers of docs/ARCHITECTURE.md as a test: a room uses its own layer and those below, pure
//! rooms deny what is not pure, and the agent's half stays small.

mod source;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use proc_macro2::{Delimiter, Group, TokenTree};
use source::{Source, is_ident, is_punct, root, rust_files};

/// The rooms, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["types", "limits"],
    &["space", "priority", "resolver"],
    &["wire", "slot", "session", "audit"],
    &[
        "clock",
        "transport",
        "store",
        "client",
        "coordinator",
        "telemetry",
        "config",
        "trace",
        "replay",
        "fence",
        "host",
        "pki",
        "otlp",
    ],
    // Beside them: it drives the protocol's rooms from a seed, and what recovers a coordinator.
    &["sim"],
    // A load and its measurement: it drives a coordinator by its clients' wire. And what users test
    // their agents with: a client, and the coordinator that is one value. And whether a host keeps the beat.
    &["bench", "testing", "doctor"],
    &["cli"],
    &["main"],
];

/// How many of [`LAYERS`], from the lowest, hold rooms that decide and do no IO.
const PURE_LAYERS: usize = 3;

/// Rooms above those that do no IO either.
const PURE_ABOVE: &[&str] = &["sim"];

fn is_pure(room: &str) -> bool {
    layer(room).is_some_and(|layer| layer < PURE_LAYERS) || PURE_ABOVE.contains(&room)
}

const PURE: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// Crates that a program which declares intents has to build.
const CLIENT_CRATES: usize = 60;

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|rooms| rooms.contains(&room))
}

/// The room that a file belongs to: the directory or file just below src. `None` for lib.rs, which
/// only lists the rooms.
fn room(file: &Source) -> Option<String> {
    let below = file.path.strip_prefix("src").expect("only src is read");
    let first = below.components().next().expect("a file has a name").as_os_str().to_string_lossy();
    let room = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
    (room != "lib").then_some(room)
}

#[test]
fn each_room_is_in_the_table_and_uses_no_room_above_it() {
    let mut wrong = Vec::new();
    for file in rust_files("src") {
        let Some(room) = room(&file) else { continue };
        let Some(own) = layer(&room) else {
            wrong.push(format!("{file}: the room `{room}` is not in the table of tests/layering.rs"));
            continue;
        };
        for used in uses(&file.tokens()) {
            let permitted = match layer(&used) {
                Some(below) => below <= own,
                None => false,
            };
            if !permitted {
                wrong.push(format!("{file}: `{room}` may not use `{used}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The rooms named after `crate::` (or, in the binary, `preclaim::`), in groups too.
fn uses(tokens: &[TokenTree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            found.extend(uses(&inside(group)));
        }
        // `pub(crate)` is followed by no path, and `a::preclaim::b` starts elsewhere.
        let is_root = is_ident(Some(token), "crate") || is_ident(Some(token), "preclaim");
        let leads = is_punct(tokens.get(at + 1), ':') && is_punct(tokens.get(at + 2), ':');
        if is_root && leads {
            found.extend(heads(tokens.get(at + 3)));
        }
    }
    found
}

/// The first names of what follows a `crate::`: one, or one for each item of a group.
fn heads(token: Option<&TokenTree>) -> Vec<String> {
    match token {
        Some(TokenTree::Ident(name)) => vec![name.to_string()],
        Some(TokenTree::Group(group)) => {
            let items = inside(group);
            items.split(|token| is_punct(Some(token), ',')).flat_map(|item| heads(item.first())).collect()
        }
        _ => Vec::new(),
    }
}

fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

#[test]
fn uses_are_found_in_groups_macros_and_bodies() {
    let text = "use crate::{a::{x, y}, b, c as d}; fn f() { m!(crate::e::g()); } pub(crate) use crate::h; // crate::i";
    let tokens: proc_macro2::TokenStream = text.parse().expect("it is Rust");
    let found = uses(&tokens.into_iter().collect::<Vec<_>>());
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c", "e", "h"]);
}

#[test]
fn each_pure_room_opens_with_the_fence() {
    for room in LAYERS.iter().copied().flatten().filter(|room| is_pure(room)) {
        let files = [format!("src/{room}/mod.rs"), format!("src/{room}.rs")];
        let Some(text) = files.iter().find_map(|file| fs::read_to_string(root().join(file)).ok()) else {
            continue; // the room has no code yet
        };
        let first = text.lines().find(|line| !line.starts_with("//") && !line.trim().is_empty());
        assert_eq!(first, Some(PURE), "the room `{room}` must open with the fence, after its docs");
    }
}

#[test]
fn pure_rooms_name_no_clock_thread_file_socket_or_environment() {
    let shells = ["fs", "net", "thread", "process", "env", "io"];
    for file in rust_files("src") {
        if room(&file).is_some_and(|room| is_pure(&room)) {
            let found = std_modules(&file.tokens());
            let shell = shells.iter().find(|shell| found.contains(**shell));
            assert!(shell.is_none(), "{file} uses std::{}", shell.unwrap_or(&""));
        }
    }
}

/// The modules named after `std::`, outside of tests.
fn std_modules(tokens: &[TokenTree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_test = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                in_test |= is_punct(at.checked_sub(1).and_then(|at| tokens.get(at)), '#')
                    && group.stream().to_string().replace(' ', "") == "cfg(test)";
            }
            TokenTree::Group(_) if in_test => in_test = false,
            TokenTree::Group(group) => found.extend(std_modules(&inside(group))),
            _ if is_ident(Some(token), "std") && is_punct(tokens.get(at + 1), ':') => {
                found.extend(heads(tokens.get(at + 3)));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_client_stays_within_its_crates() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "-e", "normal", "--prefix", "none", "--no-dedupe"])
        .args(["-p", "preclaim", "--no-default-features", "--features", "client"])
        .current_dir(root())
        .output()
        .expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8_lossy(&output.stdout);
    let crates: BTreeSet<&str> = listed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(crates.iter().any(|line| line.starts_with("quinn ")), "this is no client's tree:\n{listed}");
    assert!(crates.len() <= CLIENT_CRATES, "{} crates:\n{listed}", crates.len());
}
