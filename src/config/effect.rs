//! When a change of a key counts, and what differs between two configurations: what a reload looks at.

use std::collections::BTreeMap;
use std::fmt;

use super::tree::{Table, Value, printable};
use super::{Auth, Config, rights, show, state};
use crate::resolver::{Rules, RulesChange};

/// When a change of a key counts for a coordinator that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// From a reload on.
    Live,
    /// From a reload on, for connections that come from then on; others keep what they came in by.
    LiveForNewConnections,
    /// From a start on. A reload that would change it is refused.
    Restart,
}

impl Effect {
    /// How docs/CONFIGURATION.md says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Effect::Live => "live",
            Effect::LiveForNewConnections => "live, for new connections",
            Effect::Restart => "restart",
        }
    }
}

/// Every key of every section, and when a change of it counts.
const KEYS: &[(&str, Effect, &[&str])] = &[
    // The digest of each slot and all that is recorded go by it: it is a coordinator's for life.
    ("slot", Effect::Restart, &["length"]),
    ("slot", Effect::Live, &["min_lead", "horizon", "history", "retention"]),
    ("preemption", Effect::Live, &["enabled", "freeze"]),
    (
        "priority",
        Effect::Live,
        &[
            "model",
            "expression",
            "urgency",
            "safety_margin",
            "social_value",
            "aging",
            "fair_window",
            "patience",
        ],
    ),
    ("resource", Effect::Live, &["path", "capacity", "time_tolerance", "overlap_ratio", "max_hold"]),
    ("frame", Effect::Live, &["path", "max_speed", "max_acceleration", "tolerance"]),
    ("rule", Effect::Live, rights::RULE),
    ("allowance", Effect::Live, rights::ALLOWANCE),
    // Sockets that agents and those who watch know.
    ("listen", Effect::Restart, &["addr"]),
    ("metrics", Effect::Restart, &["addr", "page"]),
    ("tls", Effect::Live, &["cert", "key"]),
    // Who came in without a name that is proved could not be looked at again.
    ("auth", Effect::Restart, &["mode"]),
    ("auth", Effect::Live, &["client_ca", "crl", "name", "tokens"]),
    // The directory is locked and read at the start, and its log is one from then on.
    ("state", Effect::Restart, state::STATE),
    (
        "limits",
        Effect::Live,
        &[
            "connections",
            "connections_per_address",
            "handshakes_per_second",
            "handshakes_per_second_per_address",
            "handshakes_unproven",
        ],
    ),
    (
        "limits",
        Effect::LiveForNewConnections,
        &["hello_timeout", "idle_timeout", "lanes", "unread_bytes", "unread_timeout"],
    ),
    (
        "limits",
        Effect::Live,
        &[
            "messages_per_second",
            "bytes_per_second",
            "names",
            "sessions_per_agent",
            "sessions_kept",
            "session_kept_for",
            "slot_inputs",
            "slot_inputs_per_agent",
            "undecided",
            "undecided_per_agent",
            "live",
            "live_per_agent",
            "windows_per_agent",
            "windows_per_agent_and_path",
            "windows_per_path",
            "regions_per_frame",
            "search_per_agent",
            "search",
        ],
    ),
    // Threads ask for it as they begin.
    ("host", Effect::Restart, &["realtime", "lock_memory", "cores", "network_cores"]),
    ("drain", Effect::Live, &["deadline"]),
    ("log", Effect::Live, &["level"]),
    // What is under way to a collector, and lines in another form, are begun with at the start.
    ("log", Effect::Restart, &["format"]),
    ("otlp", Effect::Restart, &["endpoint", "service", "timeout"]),
];

/// Every key, as in `slot.length`, and when a change of it counts.
pub fn keys() -> impl Iterator<Item = (String, Effect)> {
    let of = |(section, effect, names): &'static (&str, Effect, &[&str])| {
        names.iter().map(move |name| (format!("{section}.{name}"), *effect))
    };
    KEYS.iter().flat_map(of)
}

fn effect_of(section: &str, key: &str) -> Effect {
    let of = |(of, _, names): &&(&str, Effect, &[&str])| *of == section && names.contains(&key);
    // A test holds the table to what is read; what it lacks is not changed in silence.
    KEYS.iter().find(of).map_or(Effect::Restart, |(_, effect, _)| *effect)
}

/// A key that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which, as in `priority.model` or `resource[pool].capacity`.
    pub key: String,
    /// What stood there before; `None` where nothing did.
    pub from: Option<String>,
    /// What stands there now.
    pub to: Option<String>,
    /// When that counts.
    pub effect: Effect,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { key, from, to, effect: _ } = self;
        let of = |value: &Option<String>| value.as_deref().map_or("left out".to_owned(), printable);
        write!(f, "{} {} -> {}", printable(key), of(from), of(to))
    }
}

impl Config {
    /// What differs in `after`, section by section. Keys that count from a start on are left out where they mean the
    /// same.
    pub fn changes_to(&self, after: &Config) -> Vec<Change> {
        let (old, new) = (self.whole(), after.whole());
        let mut changes = Vec::new();
        for section in super::SECTIONS.iter().copied() {
            let values = [&old, &new].map(|whole| whole.get(section).map(|node| &node.value));
            match values {
                [old @ (Some(Value::List(_)) | None), new @ (Some(Value::List(_)) | None)] => {
                    lists(section, &items(section, old), &items(section, new), &mut changes);
                }
                [old, new] => {
                    let place = Place { section, shown: section.to_owned() };
                    tables(&place, table(old), table(new), &mut changes);
                }
            }
        }
        changes.retain(|change| change.effect != Effect::Restart || !self.means_the_same(after, &change.key));
        changes
    }

    /// Whether a key that counts from a start on, or what is beside it, means the same in both.
    fn means_the_same(&self, after: &Config, key: &str) -> bool {
        let mode = |config: &Config| match config.auth {
            Auth::Open => 0,
            Auth::Token { .. } => 1,
            Auth::Certificate { .. } => 2,
        };
        match key.split('.').next() {
            Some("slot") => self.rules.length == after.rules.length,
            Some("listen") => self.listen == after.listen,
            Some("metrics") => (self.metrics, self.page) == (after.metrics, after.page),
            Some("auth") => mode(self) == mode(after),
            Some("state") => self.state == after.state,
            Some("host") => self.host == after.host,
            Some("log") => self.log.format == after.log.format,
            Some("otlp") => self.otlp == after.otlp,
            _ => false,
        }
    }

    /// What brings these rules to a core that goes by those of `before`, a text and what it means; `None` where that is
    /// the same text. A table of resources that is the same leaves the capacities alone that were set at run time.
    pub fn change_of_rules(&self, before: Option<(&str, &Rules)>) -> Option<RulesChange> {
        let document = self.rules_document();
        if before.is_some_and(|(text, _)| text == document) {
            return None;
        }
        let rules = self.rules.clone();
        let is_same_table = before.is_some_and(|(_, before)| before.resources == rules.resources);
        let resources = (!is_same_table).then(|| rules.resources.clone());
        Some(RulesChange { rules, resources, document: document.into() })
    }
}

/// Where keys stand, and how that is shown.
struct Place<'a> {
    section: &'a str,
    shown: String,
}

fn table(value: Option<&Value>) -> Option<&Table> {
    match value {
        Some(Value::Table(table)) => Some(table),
        _ => None,
    }
}

fn tables(place: &Place<'_>, old: Option<&Table>, new: Option<&Table>, changes: &mut Vec<Change>) {
    let value = |table: Option<&Table>, name: &str| table.and_then(|it| it.get(name)).map(show::scalar);
    let names = [old, new].into_iter().flatten().flat_map(|it| &it.0).map(|(key, _)| key.name.as_str());
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let (from, to) = (value(old, name), value(new, name));
        if from != to {
            let (key, effect) = (format!("{}.{name}", place.shown), effect_of(place.section, name));
            changes.push(Change { key, from, to, effect });
        }
    }
}

/// A table of a list, and what it is called.
type Item<'a> = (String, &'a Table);

fn items<'a>(section: &str, value: Option<&'a Value>) -> Vec<Item<'a>> {
    let Some(Value::List(list)) = value else { return Vec::new() };
    // Several rules may be about one path.
    let named_by = if section == "rule" { "name" } else { "path" };
    let named = list.iter().enumerate().filter_map(|(at, node)| {
        let table = table(Some(&node.value))?;
        let name = match table.get(named_by).map(|node| &node.value) {
            Some(Value::Text(name)) => name.clone(),
            _ => (at + 1).to_string(),
        };
        Some((name, table))
    });
    named.collect()
}

fn lists<'a>(section: &str, old: &[Item<'a>], new: &[Item<'a>], changes: &mut Vec<Change>) {
    let by_name = |items: &[Item<'a>]| items.iter().cloned().collect::<BTreeMap<String, &'a Table>>();
    let (old_names, new_names) = (by_name(old), by_name(new));
    let before = changes.len();
    let gone = old.iter().filter(|(name, _)| !new_names.contains_key(name));
    for (name, _) in gone.chain(new) {
        let place = Place { section, shown: format!("{section}[{name}]") };
        tables(&place, old_names.get(name).copied(), new_names.get(name).copied(), changes);
    }
    let order = |items: &[Item<'a>]| items.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let [from, to] = [old, new].map(order);
    if changes.len() == before && from != to {
        let [from, to] = [from, to].map(|names| Some(format!("[{}]", names.join(", "))));
        changes.push(Change { key: section.to_owned(), from, to, effect: Effect::Live });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{TEMPLATE, read};

    fn config(text: &str) -> Config {
        Config::parse("c.toml", text).unwrap()
    }

    fn changes(before: &str, after: &str) -> Vec<String> {
        config(before).changes_to(&config(after)).iter().map(Change::to_string).collect()
    }

    #[test]
    fn every_key_that_is_read_says_when_its_change_counts_and_no_other() {
        use super::super::{daemon, frames, host, limits, log, otlp, rules};
        let read: [(&str, &[&str]); 17] = [
            ("slot", rules::SLOT),
            ("preemption", rules::PREEMPTION),
            ("priority", rules::PRIORITY),
            ("resource", rules::RESOURCE),
            ("frame", frames::FRAME),
            ("rule", rights::RULE),
            ("allowance", rights::ALLOWANCE),
            ("listen", daemon::LISTEN_KEYS),
            ("metrics", daemon::METRICS),
            ("tls", daemon::TLS),
            ("auth", daemon::AUTH),
            ("state", state::STATE),
            ("limits", limits::KEYS),
            ("host", host::HOST),
            ("drain", daemon::DRAIN),
            ("log", log::LOG),
            ("otlp", otlp::OTLP),
        ];
        assert_eq!(read.map(|(section, _)| section)[..], *super::super::SECTIONS);
        let mut known: Vec<String> = read
            .iter()
            .flat_map(|(section, keys)| keys.iter().map(move |key| format!("{section}.{key}")))
            .collect();
        let mut told: Vec<String> = keys().map(|(key, _)| key).collect();
        known.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, known);
    }

    #[test]
    fn nothing_differs_from_itself_nor_from_its_defaults_spelled_out() {
        assert!(changes("", "").is_empty());
        assert!(changes("", TEMPLATE).is_empty(), "{:?}", changes("", TEMPLATE));
        assert!(read::read(TEMPLATE).is_ok());
    }

    #[test]
    fn what_differs_is_told_with_its_key_and_both_values() {
        let before = "[priority]\nmodel = \"weighted\"\n[[resource]]\npath = \"pool\"\ncapacity = 5\n[[resource]]\npath = \"yard\"\ncapacity = 1\n";
        let after = "[priority]\nmodel = \"fifo\"\npatience = \"5s\"\n[[resource]]\npath = \"pool\"\ncapacity = 3\n[[resource]]\npath = \"shed\"\nmax_hold = \"1s\"\n[limits]\nlanes = 8\n";
        assert_eq!(
            changes(before, after),
            [
                "priority.model \"weighted\" -> \"fifo\"",
                "priority.patience left out -> \"5s\"",
                "resource[yard].path \"yard\" -> left out",
                "resource[yard].capacity 1 -> left out",
                "resource[pool].capacity 5 -> 3",
                "resource[shed].path left out -> \"shed\"",
                "resource[shed].max_hold left out -> \"1s\"",
                "limits.lanes 256 -> 8",
            ]
        );
        let rules = |first: &str, second: &str| {
            format!("[[rule]]\nname = \"{first}\"\n[[rule]]\nname = \"{second}\"\nread = true\n")
        };
        let turned = "[[rule]]\nname = \"b\"\nread = true\n[[rule]]\nname = \"a\"\n";
        assert_eq!(
            changes(&rules("a", "b"), turned),
            ["rule [a, b] -> [b, a]"],
            "the first that fits decides"
        );
        assert_eq!(
            changes("[[rule]]\nwho = \"a\"\n", "[[rule]]\nwho = \"b\"\n"),
            ["rule[1].who \"a\" -> \"b\""]
        );
        assert_eq!(changes("", "[allowance]\nsize = 5\n"), ["allowance.size left out -> 5"]);
    }

    #[test]
    fn a_key_that_counts_from_a_start_on_counts_as_changed_where_it_means_something_else() {
        let of = |before: &str, after: &str| -> Vec<(String, Effect)> {
            let changes = config(before).changes_to(&config(after));
            changes.into_iter().map(|change| (change.key, change.effect)).collect()
        };
        for (before, after, key) in [
            ("", "[slot]\nlength = \"20ms\"\n", "slot.length"),
            ("", "[listen]\naddr = \"127.0.0.1:1\"\n", "listen.addr"),
            ("", "[metrics]\naddr = \"127.0.0.1:1\"\n", "metrics.addr"),
            ("[state]\ndir = \"a\"\n", "[state]\ndir = \"b\"\n", "state.dir"),
            ("[state]\ndir = \"a\"\n", "[state]\ndir = \"a\"\ndurability = \"none\"\n", "state.durability"),
            ("", "[auth]\nmode = \"open\"\n", "auth.mode"),
            ("", "[host]\nlock_memory = true\n", "host.lock_memory"),
        ] {
            assert_eq!(of(before, after), [(key.to_owned(), Effect::Restart)], "{after}");
            assert_eq!(of(after, before), [(key.to_owned(), Effect::Restart)], "{after}");
        }
        for (before, after) in [
            ("", "[slot]\nlength = \"10000us\"\n"),
            ("[state]\ndir = \"a\"\n", "[state]\ndir = \"a\"\nsegment_size = \"64MiB\"\ncompress = true\n"),
        ] {
            assert!(of(before, after).is_empty(), "{after}");
        }
    }

    #[test]
    fn rules_change_by_their_text_and_the_table_of_resources_only_where_it_is_another() {
        let before = config("[[resource]]\npath = \"pool\"\ncapacity = 5\n");
        let text = before.rules_document();
        let to = |after: &str| config(after).change_of_rules(Some((&text, &before.rules)));
        assert!(to("[[resource]]\npath = \"pool\"\ncapacity = 5\n[limits]\nlanes = 8\n").is_none());
        let model =
            to("[priority]\nmodel = \"fifo\"\n[[resource]]\npath = \"pool\"\ncapacity = 5\n").unwrap();
        assert!(model.resources.is_none() && model.document.contains("fifo"));
        let table = to("[[resource]]\npath = \"pool\"\ncapacity = 6\n").unwrap();
        assert_eq!(table.resources.unwrap()[0].capacity, Some(6));
        assert!(config("").change_of_rules(None).unwrap().resources.is_some(), "nothing was known before");
    }
}
