//! Where spans go to, for the coordinator and for commands that are agents; and where a command stands in a trace.
//! Without the feature `otlp` they go nowhere, and a command still says where it stands.

use std::sync::Arc;

use super::ExitCode;
#[cfg(feature = "otlp")]
use super::output;
use crate::client::Intent;
use crate::clock::Clock;
use crate::config::Config;
use crate::coordinator::{Observer, Observers};
#[cfg(feature = "otlp")]
use crate::otlp::{self, Exporter, Settings};
use crate::telemetry::Metrics;
use crate::types::TraceContext;

/// Where this command was told to stand in a trace, by the environment's TRACEPARENT and TRACESTATE.
fn context() -> Option<TraceContext> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    TraceContext::parse(&variable("TRACEPARENT"), &variable("TRACESTATE"))
}

/// The intent there, where it was told.
pub(super) fn in_context(intent: Intent) -> Intent {
    match context() {
        Some(context) => intent.trace_context(context),
        None => intent,
    }
}

/// Where a coordinator's spans are to go to.
#[derive(Debug, Default)]
pub(super) struct Traced {
    #[cfg(feature = "otlp")]
    settings: Option<Settings>,
}

/// What sends them, while the coordinator runs.
#[derive(Debug, Default)]
pub(super) struct Exporting {
    #[cfg(feature = "otlp")]
    exporter: Option<Exporter>,
}

#[cfg(feature = "otlp")]
impl Traced {
    /// As the configuration and the environment say.
    pub(super) fn of(config: &Config) -> Result<Self, ExitCode> {
        let settings = Settings::of(config.otlp.as_ref(), |name| std::env::var(name).ok(), "preclaim");
        let settings = settings.map_err(|why| {
            output::complain(why);
            ExitCode::Configuration
        })?;
        Ok(Traced { settings })
    }

    /// Starts what sends them; what becomes of them is counted where that is watched.
    pub(super) fn start(
        self,
        clock: &Arc<dyn Clock>,
        watched: Option<&Arc<Metrics>>,
    ) -> Result<Exporting, ExitCode> {
        let Some(settings) = self.settings else { return Ok(Exporting::default()) };
        let counts = watched.map(|metrics| Arc::clone(metrics.spans())).unwrap_or_default();
        let to = settings.endpoint().to_string();
        let exporter = Exporter::start(settings, Arc::clone(clock), counts).map_err(|error| {
            output::complain(format_args!("cannot start what sends spans: {error}"));
            ExitCode::Failure
        })?;
        output::talk(format_args!("traces go to {to}"));
        Ok(Exporting { exporter: Some(exporter) })
    }
}

#[cfg(not(feature = "otlp"))]
impl Traced {
    /// Nowhere.
    pub(super) fn of(_: &Config) -> Result<Self, ExitCode> {
        Ok(Traced::default())
    }

    /// Starts nothing.
    pub(super) fn start(self, _: &Arc<dyn Clock>, _: Option<&Arc<Metrics>>) -> Result<Exporting, ExitCode> {
        Ok(Exporting::default())
    }
}

impl Exporting {
    /// Whoever watches the coordinator's work: `metrics`, what sends spans, both or nobody.
    pub(super) fn observer_beside(&self, metrics: Option<&Arc<Metrics>>) -> Option<Arc<dyn Observer>> {
        let metrics = metrics.map(|metrics| Arc::clone(metrics) as Arc<dyn Observer>);
        let mut all: Vec<Arc<dyn Observer>> = metrics.into_iter().chain(self.tracer()).collect();
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Arc::new(Observers(all))),
        }
    }

    #[cfg(feature = "otlp")]
    fn tracer(&self) -> Option<Arc<dyn Observer>> {
        Some(self.exporter.as_ref()?.tracer())
    }

    #[cfg(not(feature = "otlp"))]
    fn tracer(&self) -> Option<Arc<dyn Observer>> {
        None
    }

    /// Sends what is left, for two seconds at most.
    pub(super) fn stop(self) {
        #[cfg(feature = "otlp")]
        self.exporter.into_iter().for_each(Exporter::stop);
    }
}

/// From here on, what this command does as an agent is traced, where the environment says where to.
#[cfg(feature = "otlp")]
pub(super) fn agent() -> Exporting {
    let settings = match Settings::of(None, |name| std::env::var(name).ok(), "preclaim") {
        Ok(Some(settings)) => settings,
        Ok(None) => return Exporting::default(),
        Err(why) => {
            output::talk(format_args!("warning: {why}\n  it goes on without traces"));
            return Exporting::default();
        }
    };
    let clock = Arc::new(crate::clock::SystemClock::start(crate::types::Time::ZERO));
    // Without that thread, the command does what it does all the same.
    let exporter = Exporter::start(settings, clock, Arc::default()).ok();
    exporter.iter().for_each(otlp::trace_by);
    Exporting { exporter }
}

/// Nothing of it is traced.
#[cfg(not(feature = "otlp"))]
pub(super) fn agent() -> Exporting {
    Exporting::default()
}
