//! TOML text to a [`Node`] tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::tree::{Key, Node, Table, Value};

/// The tree that `text` spells.
pub(super) fn read(text: &str) -> Result<Node, toml::de::Error> {
    let root = DeTable::parse(text)?;
    let span = root.span();
    Ok(Node { value: Value::Table(table(root.get_ref())), span })
}

fn table(table: &DeTable<'_>) -> Table {
    let mut entries: Vec<(Key, Node)> =
        table.iter().map(|(key, value)| entry(key.get_ref(), key.span(), value)).collect();
    // The parser sorts by name; people expect the first fault in their file to be the first told.
    entries.sort_by_key(|(key, _)| key.span.start);
    Table(entries)
}

fn entry(name: &str, span: std::ops::Range<usize>, value: &Spanned<DeValue<'_>>) -> (Key, Node) {
    (Key { name: name.to_owned(), span }, node(value))
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    Node { value: read_value(value.get_ref()), span: value.span() }
}

fn read_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(whole) => u64::try_from(whole).map_or(Value::Number(whole as f64), Value::Count),
            Err(_) => Value::Other,
        },
        DeValue::Float(float) => float.as_str().parse().map_or(Value::Other, Value::Number),
        DeValue::Datetime(_) => Value::Other,
        DeValue::Array(items) => Value::List(items.iter().map(node).collect()),
        DeValue::Table(inner) => Value::Table(table(inner)),
    }
}
