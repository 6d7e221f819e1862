//! What people write, as a tree that remembers its places: the common ground of TOML files and JSON
//! lines. Reading a tree wrongly typed gives a [`Fault`] that knows the field, what may stand there
//! and the nearest word that would have been right.

use std::fmt;
use std::ops::Range;

/// A value and where it stands in its text (an empty range where the reader knows no places).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    /// A whole number without sign, fraction or exponent.
    Count(u64),
    /// Any other number.
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Table(Table),
    /// What no field takes: null, a date.
    Other,
}

/// Keys and values in the order in which they were written, each key once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table(pub(crate) Vec<(Key, Node)>);

/// A key and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    /// Takes out the key `name` of the table `section`, where they are.
    pub(crate) fn remove(&mut self, section: &str, name: &str) {
        if let Some((_, node)) = self.0.iter_mut().find(|(key, _)| key.name == section)
            && let Value::Table(section) = &mut node.value
        {
            section.0.retain(|(key, _)| key.name != name);
        }
    }

    /// Puts in the key `name` at the end.
    pub(crate) fn push(&mut self, name: &str, value: Value) {
        self.0.push((Key { name: name.to_owned(), span: 0..0 }, Node { value, span: 0..0 }));
    }

    /// Puts the key `name` into the table `section`, where there is that table and not the key.
    pub(crate) fn set_missing(&mut self, section: &str, name: &str, value: &Value) {
        if let Some((_, node)) = self.0.iter_mut().find(|(key, _)| key.name == section)
            && let Value::Table(section) = &mut node.value
            && section.get(name).is_none()
        {
            section.push(name, value.clone());
        }
    }

    /// The keys of `over` replace or join this table's; tables in tables are merged likewise, and
    /// lists are replaced whole.
    pub(crate) fn overlay(&mut self, over: &Table) {
        for (key, node) in &over.0 {
            match self.0.iter_mut().find(|(mine, _)| mine.name == key.name) {
                None => self.0.push((key.clone(), node.clone())),
                Some((_, mine)) => match (&mut mine.value, &node.value) {
                    (Value::Table(mine), Value::Table(over)) => mine.overlay(over),
                    _ => *mine = node.clone(),
                },
            }
        }
    }
}

/// One step from a value down to one within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The way from the root to a field, spelled as in `claims[0].duration`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldPath(pub(crate) Vec<Step>);

impl FieldPath {
    /// Whether this is the root itself.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if at == 0 => write!(f, "{}", printable(key))?,
                Step::Key(key) => write!(f, ".{}", printable(key))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) field: FieldPath,
    pub(crate) span: Range<usize>,
    pub(crate) kind: FaultKind,
    /// What may stand there.
    pub(crate) expected: String,
}

/// How a field is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultKind {
    /// The value that stands there may not.
    Value,
    /// Nothing of that name may stand there; the nearest name that may, where one is near.
    Unknown { nearest: Option<String> },
    /// The text that stands there has a language of its own and is wrong in it; `why` says where.
    Inside { why: String, nearest: Option<String> },
    /// Something must stand there and nothing does.
    Missing,
    /// None of several stands there.
    NoneOf,
    /// Two stand there that exclude each other.
    Beside { first: &'static str, second: &'static str },
}

/// The way down to the field that is being read; it lives on the stack, so that reading a field
/// that is right costs nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    pub(crate) fn path(&self) -> FieldPath {
        let mut steps = Vec::new();
        let mut place = self;
        loop {
            place = match place {
                Place::Root => break,
                Place::Key(above, key) => {
                    steps.push(Step::Key((*key).to_owned()));
                    above
                }
                Place::Index(above, index) => {
                    steps.push(Step::Index(*index));
                    above
                }
            };
        }
        steps.reverse();
        FieldPath(steps)
    }
}

/// A value to be read, and the way to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    node: &'a Node,
    place: Place<'a>,
}

impl<'a> Field<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Field { node, place: Place::Root }
    }

    pub(crate) fn value(&self) -> &'a Value {
        &self.node.value
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    /// The value that stands here may not; `expected` says what may.
    pub(crate) fn wrong(&self, expected: impl Into<String>) -> Fault {
        let (field, span) = (self.place.path(), self.node.span.clone());
        Fault { field, span, kind: FaultKind::Value, expected: expected.into() }
    }

    /// The text that stands here is wrong in its own language: `why` says what, and where in it.
    pub(crate) fn wrong_inside(
        &self,
        why: String,
        nearest: Option<String>,
        expected: impl Into<String>,
    ) -> Fault {
        Fault { kind: FaultKind::Inside { why, nearest }, ..self.wrong(expected) }
    }

    pub(crate) fn count(self, expected: &str) -> Result<u64, Fault> {
        match self.node.value {
            Value::Count(count) => Ok(count),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(crate) fn number(self, expected: &str) -> Result<f64, Fault> {
        match self.node.value {
            Value::Count(count) => Ok(count as f64), // to the nearest, as the decimal would be
            Value::Number(number) => Ok(number),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(crate) fn flag(self) -> Result<bool, Fault> {
        match self.node.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(self.wrong("true or false")),
        }
    }

    pub(crate) fn text(self, expected: &str) -> Result<&'a str, Fault> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    /// One of `words`, by its index.
    pub(crate) fn word(self, words: &[&str]) -> Result<usize, Fault> {
        let found = match &self.node.value {
            Value::Text(text) => words.iter().position(|word| word == text),
            _ => None,
        };
        found.ok_or_else(|| self.wrong(one_of(words)))
    }

    /// A list, each item by `read`.
    pub(crate) fn list<T>(
        self,
        expected: &str,
        mut read: impl FnMut(Field<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let Value::List(items) = &self.node.value else { return Err(self.wrong(expected)) };
        let item = |(index, node)| read(Field { node, place: Place::Index(&self.place, index) });
        items.iter().enumerate().map(item).collect()
    }

    /// A table with none but the keys of `known`.
    pub(crate) fn table(self, known: &'static [&'static str]) -> Result<Fields<'a>, Fault> {
        let Value::Table(table) = &self.node.value else {
            return Err(self.wrong(format!("a table (in JSON, an object) of {}", any_of(known))));
        };
        for (key, _) in &table.0 {
            if !known.contains(&key.name.as_str()) {
                let field = Place::Key(&self.place, &key.name).path();
                let kind = FaultKind::Unknown { nearest: nearest(&key.name, known) };
                return Err(Fault { field, span: key.span.clone(), kind, expected: any_of(known) });
            }
        }
        Ok(Fields { table, place: self.place, span: self.node.span.clone() })
    }
}

/// The fields of a table that has none but known keys.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    table: &'a Table,
    place: Place<'a>,
    span: Range<usize>,
}

impl<'a> Fields<'a> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// The field `name` by `read`, or `None` where it is left out.
    pub(crate) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(Field<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(node) = self.table.get(name) else { return Ok(None) };
        read(Field { node, place: Place::Key(&self.place, name) }).map(Some)
    }

    /// The field `name` by `read`.
    pub(crate) fn required<T>(
        &self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(Field<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.optional(name, read)?.ok_or_else(|| {
            let field = Place::Key(&self.place, name).path();
            Fault { field, span: self.span.clone(), kind: FaultKind::Missing, expected: expected.into() }
        })
    }

    /// Which of `names` stands here; exactly one must.
    pub(crate) fn exactly_one(&self, names: &'static [&'static str]) -> Result<&'static str, Fault> {
        let mut found = names.iter().copied().filter(|name| self.has(name));
        let kind = match (found.next(), found.next()) {
            (Some(name), None) => return Ok(name),
            (None, _) => FaultKind::NoneOf,
            (Some(first), Some(second)) => FaultKind::Beside { first, second },
        };
        Err(self.misfit(kind, names))
    }

    /// None of `others` may stand beside `name`.
    pub(crate) fn none_beside(
        &self,
        name: &'static str,
        others: &'static [&'static str],
    ) -> Result<(), Fault> {
        match others.iter().find(|other| self.has(other)) {
            None => Ok(()),
            Some(second) => Err(self.misfit(FaultKind::Beside { first: name, second }, &[name, second])),
        }
    }

    fn misfit(&self, kind: FaultKind, names: &[&str]) -> Fault {
        let expected = format!("exactly one of {}", names.join(", "));
        Fault { field: self.place.path(), span: self.span.clone(), kind, expected }
    }
}

impl Fault {
    /// The fault of a value read on its own, as a fault of the `field` that it stands in.
    pub(crate) fn below(mut self, field: &Field<'_>) -> Self {
        let inner = std::mem::replace(&mut self.field, field.place.path());
        self.field.0.extend(inner.0);
        self
    }

    /// The fault in words, below a line that says where: `found` is what stands at the field, as it
    /// was written.
    pub(crate) fn explain(&self, found: &str) -> String {
        let (field, found) = (&self.field, printable(found));
        let of = if self.field.is_root() { String::new() } else { format!("field `{field}`: ") };
        let what = match &self.kind {
            FaultKind::Value => format!("{of}found {found}"),
            FaultKind::Unknown { .. } => format!("field `{field}` is not known"),
            FaultKind::Inside { why, .. } => format!("{of}{why}"),
            FaultKind::Missing => format!("field `{field}` is missing"),
            FaultKind::NoneOf => format!("{of}a field is missing"),
            FaultKind::Beside { first, second } => format!("{of}found `{first}` beside `{second}`"),
        };
        let near = match &self.kind {
            FaultKind::Unknown { nearest: Some(near) } | FaultKind::Inside { nearest: Some(near), .. } => {
                format!("\n  nearest {near}")
            }
            _ => String::new(),
        };
        format!("{what}\n  may be  {}{near}", self.expected)
    }
}

/// The known word nearest to `word`, where one is near enough to be meant.
pub(crate) fn nearest(word: &str, known: &[&str]) -> Option<String> {
    if word.len() > 64 {
        return None; // no known word is that long, and the distance costs the product of the lengths
    }
    let scored = known.iter().map(|known| (strsim::jaro_winkler(word, known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 > 0.75).then(|| (*best.1).to_owned())
}

fn one_of(words: &[&str]) -> String {
    any_of(&words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>())
}

fn any_of<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => words.concat(),
    }
}

/// Text from a file as it may be shown on a terminal: what cannot be seen is escaped, and the long cut
/// off.
pub(crate) fn printable(text: &str) -> String {
    printable_within(text, 80) // enough to recognise it, and an error stays one line
}

/// The first `most` characters of `text`, with escapes for those that are not seen or do something to a terminal.
pub(crate) fn printable_within(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).flat_map(show).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

fn show(c: char) -> impl Iterator<Item = char> {
    let (escaped, plain) = if is_unseen(c) { (Some(c.escape_default()), None) } else { (None, Some(c)) };
    escaped.into_iter().flatten().chain(plain)
}

/// All of `text`, with those escapes.
pub(crate) fn all_printable(text: &str) -> String {
    text.chars().flat_map(show).collect()
}

/// Whether a terminal shows nothing for it, or shows what stands beside it in another order.
fn is_unseen(c: char) -> bool {
    let is_blank = c.is_whitespace() && c != ' ';
    let is_mark = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() || is_blank || is_mark
}
