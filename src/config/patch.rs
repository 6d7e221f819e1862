//! The rules as a patch in JSON: what a `config` line of a trace takes to make the same rules,
//! whatever was in force before.

use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use super::Config;
use super::duration::show_duration;
use super::error::ConfigError;
use super::tree::{Node, Table, Value};
use crate::types::Micros;

impl Config {
    /// The rules that [`Config::rules_document`] told, as the JSON object of a `config` line: every key
    /// but the slot's length, which is the coordinator's for life; and the table of resources where
    /// `resources` says so.
    ///
    /// # Errors
    /// Where `document` is no configuration.
    pub fn patch_of_rules(document: &str, resources: bool) -> Result<String, ConfigError> {
        let mut whole = Config::parse("the rules", document)?.rules_sections();
        whole.remove("slot", "length");
        whole.set_missing("priority", "patience", &never());
        whole.0.retain(|(key, _)| key.name != "resource" || resources);
        if resources && whole.get("resource").is_none() {
            whole.push("resource", Value::List(Vec::new()));
        }
        let text = serde_json::to_string(&Json(&Value::Table(whole)));
        Ok(text.unwrap_or_else(|error| unreachable!("a checked configuration has a form in JSON: {error}")))
    }
}

/// The patience of those whose turn never comes first: it cannot be taken out again, but nobody waits
/// for half a million years.
fn never() -> Value {
    Value::Text(show_duration(Micros::MAX))
}

struct Json<'a>(&'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Count(count) => serializer.serialize_u64(*count),
            Value::Number(number) if number.is_finite() => serializer.serialize_f64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(items) => serializer.collect_seq(items.iter().map(|Node { value, .. }| Json(value))),
            Value::Table(Table(entries)) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, node) in entries {
                    map.serialize_entry(&key.name, &Json(&node.value))?;
                }
                map.end()
            }
            Value::Number(_) | Value::Other => Err(S::Error::custom("a value that no field takes")),
        }
    }
}
