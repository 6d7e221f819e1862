//! JSON text to a [`Node`] tree, with what serde_json's own value does not keep: the order of keys,
//! whether one stood there twice, and the field at which reading failed.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::config::{FieldPath, Key, Node, Step, Table, Value};

/// Fields of one object: more than any object of a trace has, and few enough that looking for a name
/// among those before it stays cheap, whatever the line holds.
pub(super) const OBJECT_FIELDS: usize = 64;

/// Text that is no JSON object of a trace.
#[derive(Debug)]
pub(super) struct JsonError {
    /// The field in which it is wrong.
    pub(super) field: FieldPath,
    pub(super) problem: Problem,
}

/// What is wrong with the text.
#[derive(Debug)]
pub(super) enum Problem {
    /// The field stands there a second time.
    Twice,
    /// The object has more than [`OBJECT_FIELDS`] fields.
    Crowded,
    /// It is no JSON, or has a number that binary64 does not hold.
    Syntax(serde_json::Error),
}

/// The tree that `text` spells.
pub(super) fn read(text: &str) -> Result<Node, JsonError> {
    let mut way = Way::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = NodeSeed { way: &mut way }.deserialize(&mut reader);
    read.and_then(|node| reader.end().map(|()| node)).map_err(|error| JsonError {
        field: FieldPath(way.steps),
        problem: way.problem.unwrap_or(Problem::Syntax(error)),
    })
}

/// What stands at `field`, letter by letter.
pub(super) fn raw_at<'t>(text: &'t str, field: &FieldPath) -> Option<&'t str> {
    let mut at: &'t RawValue = serde_json::from_str(text).ok()?;
    for step in &field.0 {
        at = match step {
            Step::Index(index) => serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(*index)?,
            Step::Key(key) => serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(at.get())
                .ok()?
                .get(key)?,
        };
    }
    Some(at.get())
}

struct NodeSeed<'w> {
    way: &'w mut Way,
}

/// The way down to the value that is being read. An error leaves it as it is: it tells where.
#[derive(Debug, Default)]
struct Way {
    steps: Vec<Step>,
    /// What is wrong where it is no matter of syntax.
    problem: Option<Problem>,
}

impl Way {
    /// Stops reading; the error itself only unwinds, [`read`] tells the problem instead.
    fn stop<E: de::Error>(&mut self, problem: Problem) -> E {
        self.problem = Some(problem);
        E::custom("")
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self).map(|value| Node { value, span: 0..0 })
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Value, E> {
        Ok(Value::Count(count))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64)) // negative, or visit_u64 had it: never a count
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.way.steps.push(Step::Index(list.len()));
            let Some(item) = items.next_element_seed(NodeSeed { way: &mut *self.way })? else { break };
            self.way.steps.pop();
            list.push(item);
        }
        self.way.steps.pop();
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Table::default();
        while let Some(name) = entries.next_key::<String>()? {
            let twice = table.get(&name).is_some();
            self.way.steps.push(Step::Key(name.clone()));
            if twice {
                return Err(self.way.stop(Problem::Twice));
            }
            if table.0.len() == OBJECT_FIELDS {
                return Err(self.way.stop(Problem::Crowded));
            }
            let node = entries.next_value_seed(NodeSeed { way: &mut *self.way })?;
            self.way.steps.pop();
            table.0.push((Key { name, span: 0..0 }, node));
        }
        Ok(Value::Table(table))
    }
}
