//! A checked [`Table`] as TOML.

use super::tree::{Node, Table, Value};

/// The sections of `whole`, each key on a line of its own.
pub(super) fn toml(whole: &Table) -> String {
    let mut out = String::new();
    for (key, node) in &whole.0 {
        match &node.value {
            Value::Table(section) => write_section(&mut out, &format!("[{}]", key.name), section),
            Value::List(items) => items.iter().for_each(|item| {
                if let Value::Table(section) = &item.value {
                    write_section(&mut out, &format!("[[{}]]", key.name), section);
                }
            }),
            _ => unreachable!("a checked configuration has sections alone at its root"),
        }
    }
    out
}

fn write_section(out: &mut String, head: &str, section: &Table) {
    let between = if out.is_empty() { "" } else { "\n" };
    out.push_str(&format!("{between}{head}\n"));
    for (key, node) in &section.0 {
        out.push_str(&format!("{} = {}\n", key.name, scalar(node)));
    }
}

/// A value that is no table, as it is written.
pub(super) fn scalar(node: &Node) -> String {
    match &node.value {
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => toml::Value::Float(*number).to_string(),
        Value::Text(text) => toml::Value::String(text.clone()).to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        Value::Table(_) | Value::Other => {
            unreachable!("a checked section has flags, numbers, texts and lists of them alone")
        }
    }
}
