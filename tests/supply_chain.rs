//! What preclaim is built of, held against deny.toml as `cargo deny` would, without it and without the network; and
//! no `unsafe` of our own.
#![cfg(feature = "daemon")]
#![allow(clippy::unwrap_used)] // what cannot be unwrapped here is a test that has failed

#[allow(dead_code)] // this test needs files and their tokens alone
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use proc_macro2::TokenTree;
use source::{is_ident, root, rust_files};

/// A crate that is built.
struct Crate {
    name: String,
    version: String,
    license: String,
    /// Where it is from, unless that is crates.io.
    source: Option<String>,
}

/// All that is built for this machine, tests and benches included.
fn crates() -> Vec<Crate> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--all-features", "-e", "normal,build,dev"])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"])
        .current_dir(root())
        .output()
        .expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeSet<&str> = listed.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.into_iter().map(read_line).collect()
}

/// As `ring v0.17.14 (proc-macro) (https://elsewhere#abc)`, and after a tab the licence.
fn read_line(line: &str) -> Crate {
    let (package, license) = line.split_once('\t').unwrap();
    let mut words = package.split_whitespace();
    let (name, version) = (words.next().unwrap(), words.next().unwrap());
    let rest = words.collect::<Vec<_>>().join(" ").replace("(proc-macro)", "");
    let source = Some(rest.trim().trim_matches(['(', ')']).to_owned()).filter(|source| !source.is_empty());
    let version = version.strip_prefix('v').unwrap().to_owned();
    Crate { name: name.to_owned(), version, license: license.trim().to_owned(), source }
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
fn crates_are_read_as_cargo_lists_them() {
    let own = read_line("preclaim v0.1.0 (/home/somebody/preclaim)\tMIT OR Apache-2.0");
    assert_eq!((own.name.as_str(), own.version.as_str()), ("preclaim", "0.1.0"));
    assert_eq!(
        (own.source.as_deref(), own.license.as_str()),
        (Some("/home/somebody/preclaim"), "MIT OR Apache-2.0")
    );
    assert_eq!(read_line("serde_derive v1.0.228 (proc-macro)\tMIT").source, None);
    let git = "x v0.1.0 (proc-macro) (https://example.org/x?rev=1#1f)\t";
    assert_eq!(read_line(git).source.as_deref(), Some("https://example.org/x?rev=1#1f"));
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
    let denied = list(&rules, "bans", "deny", "crate");
    let mut wrong = Vec::new();
    for it in &crates {
        if !is_licensed(&it.license, &allowed) {
            wrong.push(format!("{} {}: licence {:?}", it.name, it.version, it.license));
        }
        if it.source.as_ref().is_some_and(|source| Path::new(source) != root()) {
            wrong.push(format!("{} {}: from {:?}", it.name, it.version, it.source));
        }
        if denied.contains(it.name.as_str()) {
            wrong.push(format!("{} {}: banned", it.name, it.version));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let registries = list(&rules, "sources", "allow-registry", "");
    assert_eq!(
        registries,
        BTreeSet::from(["https://github.com/rust-lang/crates.io-index"]),
        "all are held against it"
    );
    let ours: Vec<&str> = crates.iter().filter(|it| it.source.is_some()).map(|it| it.name.as_str()).collect();
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
