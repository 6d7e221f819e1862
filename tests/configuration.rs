//! docs/CONFIGURATION.md says of each key what the program does with a change of it.
#![cfg(feature = "daemon")]

use preclaim::config::{TEMPLATE, keys};

const DOCUMENT: &str = include_str!("../docs/CONFIGURATION.md");

#[test]
fn the_document_says_of_each_key_when_a_change_of_it_counts() {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let told: Vec<String> =
        keys().map(|(key, effect)| format!("| `{key}` | {} |", effect.as_str())).collect();
    assert_eq!(rows.collect::<Vec<_>>(), told, "it should say:\n{}", told.join("\n"));
}

#[test]
fn the_template_says_where_that_stands_and_has_every_key() {
    assert!(TEMPLATE.contains("docs/CONFIGURATION.md"));
    for (key, _) in keys() {
        let name = key.split('.').nth(1).unwrap_or(&key);
        assert!(TEMPLATE.contains(&format!("{name} = ")), "{key}");
    }
}
