//! The configuration: `preclaim.toml`, checked as a whole before anything starts.
//!
//! One file serves the daemon and `preclaim resolve`; the latter checks the daemon's sections and
//! leaves them alone. This room turns text into [`Config`] and says exactly what is wrong where it
//! cannot; it opens no socket, starts nothing, and reads no file but the one it is told to.

mod daemon;
mod duration;
mod effect;
mod error;
mod expression;
mod frames;
mod host;
mod limits;
mod log;
mod otlp;
mod patch;
mod read;
mod rights;
mod rules;
mod show;
mod size;
mod state;
mod tree;

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

pub use daemon::{Auth, TlsFiles};
pub use duration::{DURATION_RULE, parse_duration, show_duration};
pub use effect::{Change, Effect, keys};
pub use error::ConfigError;
pub use expression::{Expression, ExpressionError, VARIABLES};
pub use limits::{LimitRow, Limits};
pub use log::{LEVEL_RULE, LogConfig, LogFormat, is_level};
pub use otlp::{ENDPOINT_RULE, Endpoint, IS_BUILT as EXPORTS_TRACES, OtlpConfig, is_service};
pub use size::{SIZE_RULE, parse_size, show_size};
pub use state::{StateConfig, TextConfig};
pub(crate) use tree::{
    Fault, FaultKind, Field, FieldPath, Fields, Key, Node, Step, Table, Value, all_printable, printable,
    printable_within,
};

use crate::host::HostConfig;
use crate::limits as bounds;
use crate::resolver::{Rules, RulesChange};
use crate::session::coordinator::Rights;
use crate::space::motion::MotionLimits;
pub use crate::store::Durability;
use crate::types::{self, Micros};

/// The file that `preclaim config init` prints: every key, with its default and what it means.
pub const TEMPLATE: &str = include_str!("template.toml");

/// The sections that tell the decision core its rules.
const RULES_SECTIONS: &[&str] = &["slot", "preemption", "priority", "resource"];
const SECTIONS: &[&str] = &[
    "slot",
    "preemption",
    "priority",
    "resource",
    "frame",
    "rule",
    "allowance",
    "listen",
    "metrics",
    "tls",
    "auth",
    "state",
    "limits",
    "host",
    "drain",
    "log",
    "otlp",
];

/// A configuration in which every value has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the decision core is told.
    pub rules: Rules,
    /// What can be driven in which coordinate frame: an intent that needs more is refused before the core
    /// sees it. [`crate::coordinator::Feasibility`] takes it.
    pub frames: Vec<(types::Path, MotionLimits)>,
    /// Who may claim, read and administer what, and what claiming urgency costs.
    pub rights: Rights,
    /// Where the daemon listens.
    pub listen: SocketAddr,
    /// Where those who watch the daemon ask by HTTP; nowhere, unless it is set.
    pub metrics: Option<SocketAddr>,
    /// Whether the web page is there too.
    pub page: bool,
    /// The daemon's certificate and key, where they come from files.
    pub tls: Option<TlsFiles>,
    /// Who may connect.
    pub auth: Auth,
    /// Where and how the daemon keeps its state.
    pub state: Option<StateConfig>,
    /// The daemon's bounds.
    pub limits: Limits,
    /// What the daemon's threads ask of the machine.
    pub host: HostConfig,
    /// How long a drain waits for holders, unless its order says otherwise.
    pub drain_within: Micros,
    /// What the daemon's log says, and how.
    pub log: LogConfig,
    /// Where the daemon's traces are sent to; nowhere, unless it is set.
    pub otlp: Option<OtlpConfig>,
    /// What the values were read from, so that a later change builds on it.
    document: Table,
}

impl Default for Config {
    /// What an empty file means.
    fn default() -> Self {
        Config {
            rules: Rules::default(),
            frames: Vec::new(),
            rights: Rights::default(),
            listen: daemon::LISTEN,
            metrics: None,
            page: false,
            tls: None,
            auth: Auth::default(),
            state: None,
            limits: Limits::default(),
            host: HostConfig::default(),
            drain_within: bounds::DRAIN_WITHIN,
            log: LogConfig::default(),
            otlp: None,
            document: Table::default(),
        }
    }
}

impl Config {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// Where it cannot be read, is longer than [`crate::limits::CONFIG_BYTES`], or is not right.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let mut text = String::new();
        let file = File::open(path).map_err(|error| ConfigError::unreadable(&name, error))?;
        let read = file.take(bounds::CONFIG_BYTES as u64 + 1).read_to_string(&mut text);
        read.map_err(|error| ConfigError::unreadable(&name, error))?;
        if text.len() > bounds::CONFIG_BYTES {
            return Err(ConfigError::unreadable(
                &name,
                format!("longer than {} bytes", bounds::CONFIG_BYTES),
            ));
        }
        Config::parse(&name, &text)
    }

    /// Reads a configuration from `text`; errors call it `name`.
    ///
    /// # Errors
    /// The first thing in it that is not right.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let root = read::read(text).map_err(|error| ConfigError::syntax(name, text, &error))?;
        check(&root).map_err(|fault| ConfigError::fault(name, text, &fault))
    }

    /// The whole configuration as TOML: what was written, over the defaults.
    pub fn to_toml(&self) -> String {
        show::toml(&self.whole())
    }

    /// Replaces the keys that `change` names, and tells what that means to a running core. On an
    /// error nothing has changed.
    /// A fault's field counts from the configuration's root.
    pub(crate) fn patch(&mut self, named: &Table) -> Result<RulesChange, Fault> {
        let mut document = self.document.clone();
        document.overlay(named);
        rules::forget_expression(&mut document, named);
        let patched = check(&Node { value: Value::Table(document), span: 0..0 })?;
        if patched.rules.length != self.rules.length {
            let length = show_duration(self.rules.length);
            let expected = format!("{length}, as it is: the slot length is the coordinator's for life");
            return Err(slot_length_fault(expected));
        }
        *self = patched;
        let resources = named.get("resource").map(|_| self.rules.resources.clone());
        Ok(RulesChange { rules: self.rules.clone(), resources, document: self.rules_document().into() })
    }

    /// The rules as TOML, complete: what [`Config::parse`] makes the same rules of.
    pub fn rules_document(&self) -> String {
        show::toml(&self.rules_sections())
    }

    /// The sections of the decision core, what was written over the defaults.
    fn rules_sections(&self) -> Table {
        let mut whole = self.whole();
        whole.0.retain(|(key, _)| RULES_SECTIONS.contains(&key.name.as_str()));
        whole
    }

    fn whole(&self) -> Table {
        let template = read::read(TEMPLATE).map(|root| root.value);
        let Ok(Value::Table(mut whole)) = template else { unreachable!("a test reads the template") };
        whole.overlay(&self.document);
        whole
    }
}

fn slot_length_fault(expected: String) -> Fault {
    let field = FieldPath(["slot", "length"].map(|key| Step::Key(key.to_owned())).to_vec());
    Fault { field, span: 0..0, kind: FaultKind::Value, expected }
}

/// Checks a whole document.
fn check(root: &Node) -> Result<Config, Fault> {
    let sections = Field::root(root).table(SECTIONS)?;
    let document = match &root.value {
        Value::Table(table) => table.clone(),
        _ => Table::default(),
    };
    let default = Config::default();
    let (metrics, page) = sections.optional("metrics", daemon::metrics)?.unwrap_or_default();
    Ok(Config {
        rules: rules::rules(&sections)?,
        frames: sections.optional("frame", frames::frames)?.unwrap_or_default(),
        rights: rights::rights(&sections)?,
        listen: sections.optional("listen", daemon::listen)?.unwrap_or(default.listen),
        metrics,
        page,
        tls: sections.optional("tls", daemon::tls)?,
        auth: sections.optional("auth", daemon::auth)?.unwrap_or(default.auth),
        state: sections.optional("state", state::state)?,
        limits: sections.optional("limits", limits::limits)?.unwrap_or(default.limits),
        host: sections.optional("host", host::host)?.unwrap_or(default.host),
        drain_within: sections.optional("drain", daemon::drain)?.unwrap_or(default.drain_within),
        log: sections.optional("log", log::log)?.unwrap_or(default.log),
        otlp: sections.optional("otlp", otlp::otlp)?,
        document,
    })
}

#[cfg(test)]
mod tests;
