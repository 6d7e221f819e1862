//! The log: what this program says of its own work, on standard error. Lines for people, or an object of JSON each;
//! its level may change while it runs, and no place of the program repeats itself without bound.

mod line;
mod repeats;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use tracing::callsite::Identifier;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Registry, reload};

use self::line::{Fields, Line, Said};
use self::repeats::Repeats;
use super::output;
use crate::config::{LEVEL_RULE, LogConfig, LogFormat, is_level};
use crate::types::Time;

/// What says more, or less, than the configuration does, for as long as the program runs.
const VARIABLE: &str = "PRECLAIM_LOG";

/// The log of this process, once it is started.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    level: reload::Handle<EnvFilter, Registry>,
    /// Whether the level is the environment's, which no configuration changes.
    is_level_fixed: bool,
    shared: Arc<Shared>,
}

struct Shared {
    is_json: AtomicBool,
    is_coloured: bool,
    repeats: Mutex<Repeats<Identifier, &'static Metadata<'static>>>,
    started: Instant,
}

/// Starts it: warnings for people, unless the environment asks for more. Where one is started already, that one stays.
pub(super) fn start() {
    let (log, subscriber) = Log::new(EnvFilter::try_from_env(VARIABLE).ok());
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let _ = LOG.set(log);
    }
}

/// From here on it is as `config` says.
pub(super) fn configure(config: &LogConfig) {
    // It was checked with the configuration.
    let _ = set_level(&config.level);
    if let Some(log) = LOG.get() {
        let is_json = match config.format {
            LogFormat::Auto => !io::stderr().is_terminal(),
            LogFormat::Pretty => false,
            LogFormat::Json => true,
        };
        log.shared.is_json.store(is_json, Ordering::Relaxed);
    }
}

/// From here on it has this level, as `[log] level` spells it. Says whether it has: not where the environment says
/// another, nor where no log was started.
///
/// # Errors
/// What a level may be, where this is none.
pub(super) fn set_level(level: &str) -> Result<bool, String> {
    if !is_level(level) {
        return Err(format!("{:?} is no level of the log: it is {LEVEL_RULE}", output::harmless(level)));
    }
    LOG.get().map_or(Ok(false), |log| log.set_level(level))
}

/// Says what was left out, and has not been said since, as far as there is room for it.
pub(super) fn tell_left_out() {
    let Some(Log { shared, .. }) = LOG.get() else { return };
    let owed = shared.repeats().owed(shared.now());
    shared.write_left_out(owed);
}

/// Says all of that, when nothing more will be said.
pub(super) fn tell_rest() {
    let Some(Log { shared, .. }) = LOG.get() else { return };
    let rest = shared.repeats().rest();
    shared.write_left_out(rest);
}

impl Log {
    /// A log whose level the environment `asked` for, and what brings events to it.
    fn new(asked: Option<EnvFilter>) -> (Self, impl Subscriber + Send + Sync) {
        let is_level_fixed = asked.is_some();
        let asked = asked.unwrap_or_else(|| EnvFilter::new(LogConfig::default().level));
        let (filter, level) = reload::Layer::new(asked);
        let shared = Arc::new(Shared {
            is_json: AtomicBool::new(false),
            is_coloured: io::stderr().is_terminal(),
            repeats: Mutex::default(),
            started: Instant::now(),
        });
        let subscriber = Registry::default().with(filter).with(Lines(Arc::clone(&shared)));
        (Log { level, is_level_fixed, shared }, subscriber)
    }

    /// Says whether it has that level from here on.
    fn set_level(&self, level: &str) -> Result<bool, String> {
        if !self.is_level_fixed {
            self.level.reload(EnvFilter::new(level)).map_err(|error| error.to_string())?;
        }
        Ok(!self.is_level_fixed)
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time::from_us(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats<Identifier, &'static Metadata<'static>>> {
        // Plain values, whole at any instant.
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_left_out(&self, left_out: Vec<(&'static Metadata<'static>, u64)>) {
        for (place, left_out) in left_out {
            let mut fields = Fields::default();
            fields.put("left_out", Said::Number(left_out));
            fields.say("lines from here were left out");
            self.write(place, &fields, &[]);
        }
    }

    fn write(&self, of: &Metadata<'_>, fields: &Fields, spans: &[(&'static str, Fields)]) {
        let line = Line { at: SystemTime::now(), of, fields, spans };
        let text = if self.is_json.load(Ordering::Relaxed) {
            line.json()
        } else {
            line.pretty(self.is_coloured && output::is_colour_wanted())
        };
        // What cannot be written is lost.
        let _ = output::Speech.write_all(text.as_bytes());
    }
}

/// Where `tracing` brings events.
struct Lines(Arc<Shared>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Lines(shared) = self;
        let of = event.metadata();
        let admitted = shared.repeats().admit(of.callsite(), of, shared.now());
        let Some(left_out) = admitted else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if left_out > 0 {
            fields.put("left_out", Said::Number(left_out));
        }
        let scope = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans: Vec<(&'static str, Fields)> = scope
            .map(|span| (span.name(), span.extensions().get::<Fields>().cloned().unwrap_or_default()))
            .collect();
        shared.write(of, &fields, &spans);
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_level_changes_live_unless_the_environment_says_one() {
        let (log, subscriber) = Log::new(None);
        tracing::subscriber::with_default(subscriber, || {
            assert!(tracing::enabled!(target: "preclaim", Level::WARN));
            assert!(!tracing::enabled!(target: "preclaim", Level::DEBUG));
            assert_eq!(log.set_level("info,preclaim=debug"), Ok(true));
            assert!(tracing::enabled!(target: "preclaim", Level::DEBUG));
            assert!(!tracing::enabled!(target: "quinn", Level::DEBUG));
            assert_eq!(log.set_level("off"), Ok(true));
            assert!(!tracing::enabled!(target: "preclaim", Level::ERROR));
        });
        let (log, subscriber) = Log::new(Some(EnvFilter::new("error")));
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(log.set_level("trace"), Ok(false));
            assert!(!tracing::enabled!(target: "preclaim", Level::WARN));
        });
    }

    #[test]
    fn what_is_no_level_is_refused_with_what_it_may_be() {
        let why = set_level("wran").unwrap_err();
        assert!(why.contains("\"wran\"") && why.contains("warn"), "{why}");
        assert!(set_level("preclaim=debug").is_ok());
    }
}
