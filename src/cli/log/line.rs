//! A line of the log, for people or for programs.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

use super::super::output;
use crate::limits;

/// What a field says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// A text that is quoted, for people.
    Text(String),
    /// Anything else, as it shows itself.
    Shown(String),
    Number(u64),
    Negative(i64),
    Ratio(f64),
    Flag(bool),
}

/// What an event or a span says.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    message: String,
    /// In the order in which they were said; each once.
    others: Vec<(&'static str, Said)>,
}

/// An event to be written.
pub(super) struct Line<'a> {
    pub(super) at: SystemTime,
    pub(super) of: &'a Metadata<'a>,
    pub(super) fields: &'a Fields,
    /// Those that it is in, the outermost first.
    pub(super) spans: &'a [(&'static str, Fields)],
}

impl Said {
    fn value(&self) -> Value {
        match self {
            Said::Text(text) | Said::Shown(text) => text.as_str().into(),
            Said::Number(number) => (*number).into(),
            Said::Negative(number) => (*number).into(),
            Said::Ratio(ratio) => (*ratio).into(),
            Said::Flag(flag) => (*flag).into(),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Text(text) => write!(f, "{text:?}"),
            Said::Shown(text) => f.write_str(text),
            Said::Number(number) => write!(f, "{number}"),
            Said::Negative(number) => write!(f, "{number}"),
            Said::Ratio(ratio) => write!(f, "{ratio}"),
            Said::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl Fields {
    pub(super) fn put(&mut self, name: &'static str, said: Said) {
        match self.others.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = said,
            None => self.others.push((name, said)),
        }
    }

    pub(super) fn say(&mut self, message: &str) {
        message.clone_into(&mut self.message);
    }

    fn object(&self) -> Map<String, Value> {
        self.others.iter().map(|(name, said)| ((*name).to_owned(), said.value())).collect()
    }

    fn take(&mut self, field: &Field, text: String, said: impl FnOnce(String) -> Said) {
        let text = bounded(text);
        if field.name() == "message" {
            self.message = text;
        } else {
            self.put(field.name(), said(text));
        }
    }
}

/// The beginning of a text that is too long.
fn bounded(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(limits::LOG_FIELD_CHARACTERS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"), Said::Shown);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned(), Said::Text);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), Said::Number(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Said::Negative(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Said::Ratio(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), Said::Flag(value));
    }
}

impl Line<'_> {
    /// For people: when, how bad, in which spans, where, what, and the fields.
    pub(super) fn pretty(&self, is_coloured: bool) -> String {
        let level = self.of.level().as_str();
        let level = match colour(*self.of.level()).filter(|_| is_coloured) {
            Some(code) => format!("\u{1b}[{code}m{level:>5}\u{1b}[0m"),
            None => format!("{level:>5}"),
        };
        let mut said = String::new();
        for (name, fields) in self.spans {
            let _ = write!(said, "{name}{{{}}}: ", listed(fields)); // a text takes all
        }
        let _ = write!(said, "{}: {}", self.of.target(), self.fields.message);
        if !self.fields.others.is_empty() {
            let _ = write!(said, " {}", listed(self.fields));
        }
        format!("{} {level} {}\n", self.time(), output::harmless(&said))
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        let mut line = json!({
            "at": self.time(),
            "level": self.of.level().as_str().to_ascii_lowercase(),
            "target": self.of.target(),
            "message": self.fields.message,
        });
        if !self.fields.others.is_empty() {
            line["fields"] = self.fields.object().into();
        }
        if !self.spans.is_empty() {
            let span = |(name, fields): &(&str, Fields)| json!({ "name": name, "fields": fields.object() });
            line["spans"] = self.spans.iter().map(span).collect();
        }
        format!("{line}\n")
    }

    fn time(&self) -> String {
        let at = Timestamp::try_from(self.at).unwrap_or_default();
        at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }
}

fn listed(fields: &Fields) -> String {
    let each = fields.others.iter().map(|(name, said)| format!("{name}={said}"));
    each.collect::<Vec<_>>().join(" ")
}

fn colour(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => Some(31),
        Level::WARN => Some(33),
        Level::INFO => Some(32),
        Level::DEBUG => Some(34),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, UNIX_EPOCH};

    use tracing::Event;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    /// Writes each event as it would be for people, and for programs.
    struct Both(Arc<Mutex<Vec<[String; 2]>>>);

    impl<S: tracing::Subscriber> Layer<S> for Both {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let mut of_span = Fields::default();
            of_span.put("slot", Said::Number(7));
            let at = UNIX_EPOCH + Duration::from_micros(1_795_948_258_350_000);
            let spans = [("slot", of_span)];
            let spans = if fields.message.is_empty() { &spans[..] } else { &[] };
            let line = Line { at, of: event.metadata(), fields: &fields, spans };
            self.0.lock().unwrap().push([line.pretty(false), line.json()]);
        }
    }

    fn written(say: impl FnOnce()) -> [String; 2] {
        let lines = Arc::default();
        tracing::subscriber::with_default(Registry::default().with(Both(Arc::clone(&lines))), say);
        lines.lock().unwrap().remove(0)
    }

    #[test]
    fn an_event_is_a_line_with_its_fields() {
        let agent = "a \"b\"";
        let [pretty, json] = written(|| {
            tracing::warn!(target: "here", peer = %"192.0.2.1", agent, left_out = 3_u64, good = true, "it is\nso");
        });
        assert_eq!(
            pretty,
            "2026-11-29T10:30:58.350000Z  WARN here: it is\\nso peer=192.0.2.1 agent=\"a \\\"b\\\"\" left_out=3 good=true\n"
        );
        let json: Value = serde_json::from_str(json.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(
            json,
            json!({
                "at": "2026-11-29T10:30:58.350000Z",
                "level": "warn",
                "target": "here",
                "message": "it is\nso",
                "fields": { "peer": "192.0.2.1", "agent": agent, "left_out": 3, "good": true },
            })
        );
    }

    #[test]
    fn the_spans_that_it_is_in_come_first() {
        let [pretty, json] = written(|| tracing::debug!(target: "here", token = 5_i64));
        assert_eq!(pretty, "2026-11-29T10:30:58.350000Z DEBUG slot{slot=7}: here:  token=5\n");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["spans"], json!([{ "name": "slot", "fields": { "slot": 7 } }]));
    }

    #[test]
    fn a_field_is_bounded_and_steers_no_terminal() {
        let long = "x".repeat(limits::LOG_FIELD_CHARACTERS + 9);
        let [pretty, json] = written(|| tracing::info!(target: "here", long, "\u{1b}[2J\u{202e}"));
        assert!(pretty.len() < limits::LOG_FIELD_CHARACTERS + 200);
        assert!(!pretty.contains('\u{1b}') && !pretty.contains('\u{202e}'), "{pretty}");
        assert!(!json.contains('\u{1b}') && json.lines().count() == 1, "{json}");
    }
}
