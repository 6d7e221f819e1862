//! What preclaim is built of, held against deny.toml as `cargo deny` would, without it and without the network; and
//! no `unsafe` of our own.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // what cannot be unwrapped here is a test that has failed

#[allow(dead_code)] // this test needs files and their tokens alone
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use proc_macro2::TokenTree;
use serde_json::Value;
use source::{is_ident, root, rust_files};

/// A crate in the graph.
struct Crate {
    name: String,
    version: String,
    license: String,
    /// Where it is from; `None` for our own.
    source: Option<String>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// All that is built for this machine, tests and benches included.
fn crates() -> Vec<Crate> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Without the filter it would ask for crates of other platforms, which nobody has fetched.
    let host = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--all-features", "--format-version", "1"])
        .arg("--filter-platform")
        .arg(format!("{}-{host}", std::env::consts::ARCH))
        .current_dir(root())
        .output()
        .expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed: BTreeMap<&str, &Value> =
        graph["packages"].as_array().unwrap().iter().map(|package| (text(package, "id"), package)).collect();
    let nodes = graph["resolve"]["nodes"].as_array().unwrap();
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    // More is listed than is built: what an optional feature would bring.
    let (mut reached, mut open) = (BTreeSet::new(), vec![graph["resolve"]["root"].as_str().unwrap()]);
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let dependencies = nodes[id]["dependencies"].as_array().unwrap();
            open.extend(dependencies.iter().map(|id| id.as_str().unwrap()));
        }
    }
    let of = |id: &str| Crate {
        name: text(listed[id], "name").to_owned(),
        version: text(listed[id], "version").to_owned(),
        license: text(listed[id], "license").to_owned(),
        source: listed[id]["source"].as_str().map(str::to_owned),
    };
    reached.into_iter().map(of).collect()
}

fn rules() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// The texts of a list: its own, or those under `key` of its tables.
fn list<'a>(rules: &'a toml::Table, section: &str, name: &str, key: &str) -> BTreeSet<&'a str> {
    let items = rules[section][name].as_array().unwrap();
    items.iter().map(|item| item.as_str().unwrap_or_else(|| item[key].as_str().unwrap())).collect()
}

/// Whether what a crate says of its licence is met by some of `allowed`.
fn is_licensed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    !words.is_empty() && either(&words, &mut at, allowed) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_met |= all(words, at, allowed);
    }
    is_met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_met &= one(words, at, allowed);
    }
    is_met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let is_met = either(words, at, allowed);
        *at += 1;
        return is_met;
    }
    // An exception makes it another licence than the plain one.
    let is_plain = words.get(*at) != Some(&"WITH");
    *at += if is_plain { 0 } else { 2 };
    is_plain && allowed.contains(word)
}

#[test]
fn licences_are_met_as_their_expressions_say() {
    let allowed = BTreeSet::from(["MIT", "ISC"]);
    for met in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC"] {
        assert!(is_licensed(met, &allowed), "{met}");
    }
    for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "MIT WITH x", "MIT ISC"] {
        assert!(!is_licensed(unmet, &allowed), "{unmet}");
    }
}

#[test]
fn licences_sources_and_names_are_those_of_deny_toml() {
    let (rules, crates) = (rules(), crates());
    assert!(crates.len() > 100, "{} crates are not the whole graph", crates.len());
    let allowed = list(&rules, "licenses", "allow", "");
    let registries = list(&rules, "sources", "allow-registry", "");
    let denied = list(&rules, "bans", "deny", "crate");
    let mut wrong = Vec::new();
    for it in &crates {
        if !is_licensed(&it.license, &allowed) {
            wrong.push(format!("{} {}: licence {:?}", it.name, it.version, it.license));
        }
        let is_known =
            |source: &String| source.strip_prefix("registry+").is_some_and(|it| registries.contains(it));
        if !it.source.as_ref().is_none_or(is_known) {
            wrong.push(format!("{} {}: from {:?}", it.name, it.version, it.source));
        }
        if denied.contains(it.name.as_str()) {
            wrong.push(format!("{} {}: banned", it.name, it.version));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let ours: Vec<&str> = crates.iter().filter(|it| it.source.is_none()).map(|it| it.name.as_str()).collect();
    assert_eq!(ours, ["preclaim"]);
}

#[test]
fn each_crate_is_there_once_but_for_those_of_deny_toml() {
    let (rules, crates) = (rules(), crates());
    let skipped = list(&rules, "bans", "skip", "crate");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for it in &crates {
        versions.entry(&it.name).or_default().insert(&it.version);
    }
    let is_skipped = |name: &str, version: &str| {
        skipped.iter().any(|skip| {
            let (crate_name, of) = skip.split_once('@').expect("a crate and its version");
            crate_name == name
                && version.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let left = |(name, versions): (&&str, &BTreeSet<&str>)| {
        let left = versions.iter().filter(|version| !is_skipped(name, version)).count();
        (versions.len() > 1 && left > 1).then(|| format!("{name}: {versions:?}"))
    };
    let twice: Vec<String> = versions.iter().filter_map(left).collect();
    assert!(twice.is_empty(), "{}", twice.join("\n"));
    let is_needed = |skip: &&&str| {
        let name = skip.split('@').next().unwrap_or_default();
        versions.get(name).is_some_and(|versions| versions.len() > 1)
    };
    let needed: BTreeSet<&str> = skipped.iter().filter(is_needed).copied().collect();
    assert_eq!(needed, skipped, "what is no longer there twice needs no exception");
}

/// Every package of this repository forbids it, and nothing in it says it.
#[test]
fn there_is_no_unsafe_of_our_own() {
    for package in ["Cargo.toml", "benches/peers/Cargo.toml", "fuzz/Cargo.toml"] {
        let manifest: toml::Table = fs::read_to_string(root().join(package)).unwrap().parse().unwrap();
        assert_eq!(manifest["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"), "{package}");
    }
    let mut found = Vec::new();
    for file in ["src", "benches", "examples", "tests", "fuzz/src", "fuzz/fuzz_targets"]
        .into_iter()
        .flat_map(rust_files)
    {
        if says_unsafe(&file.tokens()) {
            found.push(file.to_string());
        }
    }
    assert!(found.is_empty(), "{found:?}");
    let stream: proc_macro2::TokenStream = "fn f() { g(|| { unsafe { h() } }) }".parse().unwrap();
    assert!(says_unsafe(&stream.into_iter().collect::<Vec<_>>()), "it would be found");
}

fn says_unsafe(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|token| match token {
        TokenTree::Group(group) => says_unsafe(&group.stream().into_iter().collect::<Vec<_>>()),
        other => is_ident(Some(other), "unsafe"),
    })
}
