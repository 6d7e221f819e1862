//! How commands reach the coordinator: where it is, under which name, and what it means when it
//! cannot be reached.
//!
//! Each command is a session of its own, with a fresh label, so that commands that run at the same
//! time under one name do not take over from each other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::complaint::Complaint;
use super::quote::{self, Words};
use super::{ExitCode, explain, output, times, traced};
use crate::client::{Client, ConnectError, DeclareError, RequestError, random};
use crate::limits;
use crate::types::IntentId;
use crate::wire::Refusal;

/// Ids that commands draw lie below this: up to here every reader of JSON keeps whole numbers exact.
const IDS_END: u64 = 1 << 53;

/// Where the coordinator is, and who asks
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connect {
    /// The coordinator's address; several, the first that answers [default: that of a `preclaim dev`
    /// of yours on this machine]
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "PRECLAIM_ADDR",
        hide_env_values = true,
        value_delimiter = ','
    )]
    addr: Vec<String>,
    /// The certificates to trust (PEM) [default: that of the same `preclaim dev`]
    #[arg(long, value_name = "FILE", env = "PRECLAIM_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    /// The certificate (PEM) that says who asks, for a coordinator that requires one
    #[arg(long, value_name = "FILE", env = "PRECLAIM_CERT", hide_env_values = true)]
    cert: Option<PathBuf>,
    /// The key of that certificate (PEM); none but its owner may read it
    #[arg(long, value_name = "FILE", env = "PRECLAIM_KEY", hide_env_values = true)]
    key: Option<PathBuf>,
    /// A file with the token that says who asks, for a coordinator that takes tokens
    #[arg(long, value_name = "FILE", env = "PRECLAIM_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// The agent's name: who holds, releases and renews [default: the certificate's or the token's, else
    /// USER@HOST]
    #[arg(long, value_name = "NAME", env = "PRECLAIM_NAME", hide_env_values = true)]
    name: Option<String>,
    /// How long connecting may take, and each answer beside the wait that is asked for [default: 5s to
    /// connect, 10s for an answer]
    #[arg(long, value_name = "DURATION", value_parser = times::lasting)]
    timeout: Option<Duration>,
}

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It declares, releases or renews.
    Agent,
    /// It only looks.
    Observer,
}

impl Connect {
    /// The name to ask for; none where a certificate or a token says it.
    fn name(&self) -> Option<String> {
        let name = self.name.clone().filter(|name| !name.is_empty());
        let is_shown = [&self.cert, &self.token_file].into_iter().any(|file| named(file).is_some());
        name.or_else(|| (!is_shown).then(|| default_name(user().as_deref(), host().as_deref())))
    }

    /// The certificate and its key, or neither.
    fn credentials(&self) -> Result<Option<(&Path, &Path)>, ConnectError> {
        match (named(&self.cert), named(&self.key)) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (None, None) => Ok(None),
            _ => Err(ConnectError::BadIdentity {
                why: "a certificate and its key are given together, and one of them is not".into(),
            }),
        }
    }

    fn addrs(&self) -> impl Iterator<Item = &String> {
        self.addr.iter().filter(|addr| !addr.is_empty())
    }

    /// Connects as `command`, does `work`, says goodbye.
    pub(super) fn run(
        &self,
        command: &str,
        role: Role,
        work: impl AsyncFnOnce(&Client) -> ExitCode,
    ) -> ExitCode {
        output::start_log();
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                return Complaint::new(ExitCode::Failure, format!("cannot start: {error}")).say();
            }
        };
        let exporting = traced::agent();
        let code = runtime.block_on(async {
            let client = match self.connect(command, role).await {
                Ok(client) => client,
                Err(error) => return self.unreachable(&error).say(),
            };
            let code = work(&client).await;
            client.close().await;
            code
        });
        // A look-up of a host's name may still be under way.
        runtime.shutdown_background();
        exporting.stop();
        code
    }

    async fn connect(&self, command: &str, role: Role) -> Result<Client, ConnectError> {
        let mut settings = Client::builder()
            .label(format!("{command}-{}-{:016x}", std::process::id(), random() as u64))
            .software(concat!("preclaim ", env!("CARGO_PKG_VERSION")));
        for addr in self.addrs() {
            settings = settings.addr(addr);
        }
        if let Some(name) = self.name() {
            settings = settings.name(name);
        }
        if let Some(ca) = named(&self.ca) {
            settings = settings.ca(ca);
        }
        if let Some((cert, key)) = self.credentials()? {
            settings = settings.identity_files(cert, key);
        }
        if let Some(token) = named(&self.token_file) {
            settings = settings.token_file(token);
        }
        if let Some(timeout) = self.timeout {
            settings = settings.timeout(timeout).answer_within(timeout);
        }
        if role == Role::Observer {
            settings = settings.observer();
        }
        settings.connect().await
    }

    fn unreachable(&self, error: &ConnectError) -> Complaint {
        let complaint = Complaint::new(code_of(error), error.to_string());
        match error {
            // Found by the file that it left behind.
            ConnectError::NobodyListens { .. } if self.addrs().next().is_none() => complaint
                .why("the `preclaim dev` that listened there has ended")
                .todo("preclaim dev     in another terminal, and then this again")
                .todo("name another coordinator with --addr or PRECLAIM_ADDR"),
            ConnectError::NoAddress { .. } => complaint
                .todo("preclaim dev     in another terminal, and then this again")
                .todo("name a coordinator with --addr or PRECLAIM_ADDR, and its certificate with --ca or PRECLAIM_CA"),
            _ => complaint.todo(error.hint()),
        }
    }

    /// The flags that lead to the same coordinator and name, for a command to paste. What stands in
    /// the environment is there for that command too.
    pub(super) fn flags(&self, words: &mut Words) {
        let from_env = |name: &str| std::env::var(name).unwrap_or_default();
        let addr = self.addrs().cloned().collect::<Vec<_>>().join(",");
        let shown =
            |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let name = self.name.clone().unwrap_or_default();
        for (flag, value, variable) in [
            ("--addr", addr, "PRECLAIM_ADDR"),
            ("--ca", shown(&self.ca), "PRECLAIM_CA"),
            ("--cert", shown(&self.cert), "PRECLAIM_CERT"),
            ("--key", shown(&self.key), "PRECLAIM_KEY"),
            ("--token-file", shown(&self.token_file), "PRECLAIM_TOKEN_FILE"),
            ("--name", name, "PRECLAIM_NAME"),
        ] {
            if !value.is_empty() && value != from_env(variable) {
                words.flag(flag, &value);
            }
        }
    }

    /// A command to paste about intent `id`, such as `preclaim release 41`.
    pub(super) fn command_on(&self, command: &str, id: IntentId) -> Words {
        let mut words = quote::Words::of(&["preclaim", command, &id.to_string()]);
        self.flags(&mut words);
        words
    }
}

/// The file that a flag names; an empty name is none.
fn named(file: &Option<PathBuf>) -> Option<&Path> {
    file.as_deref().filter(|file| !file.as_os_str().is_empty())
}

fn code_of(error: &ConnectError) -> ExitCode {
    match error.cause() {
        ConnectError::NoAddress { .. }
        | ConnectError::TooManyAddresses { .. }
        | ConnectError::BadAddress { .. }
        | ConnectError::Unresolved { .. }
        | ConnectError::NoRoute { .. }
        | ConnectError::NobodyListens { .. }
        | ConnectError::SpeaksTcp { .. }
        | ConnectError::TimedOut { .. }
        | ConnectError::Refused { .. }
        | ConnectError::NoWelcome { .. }
        | ConnectError::Lost { .. }
        | ConnectError::Nonsense { .. }
        | ConnectError::Local { .. } => ExitCode::Unreachable,
        ConnectError::BadCa { .. }
        | ConnectError::BadIdentity { .. }
        | ConnectError::NotTrusted { .. }
        | ConnectError::NameRefused { .. }
        | ConnectError::AnothersName { .. }
        | ConnectError::CertificateRefused { .. }
        | ConnectError::TokenRefused { .. }
        | ConnectError::Replaced { .. }
        | ConnectError::SessionLive => ExitCode::Refused,
        ConnectError::VersionMismatch { .. } => ExitCode::VersionMismatch,
        ConnectError::Busy { .. } => ExitCode::Overloaded,
        // A cause is never one of these; it cannot be reached all the same.
        ConnectError::NoneOf { .. } => ExitCode::Unreachable,
    }
}

/// Why a declaration came to no outcome. `again` is the command that asks for the same under the
/// same id.
pub(super) fn undecided(error: &DeclareError, again: String) -> Complaint {
    let code = match error {
        DeclareError::Unknown { .. } => ExitCode::Unknown,
        DeclareError::Disconnected => ExitCode::Unreachable,
        DeclareError::Draining { .. } | DeclareError::Full => ExitCode::Overloaded,
        DeclareError::Replaced => ExitCode::Refused,
        DeclareError::ClockUncertain { .. } => ExitCode::Failure,
        DeclareError::IdBusy { .. }
        | DeclareError::TooLarge
        | DeclareError::Ended { .. }
        | DeclareError::Withdrawn { .. } => ExitCode::Rejected,
    };
    let complaint = Complaint::new(code, error.to_string());
    match error {
        DeclareError::Ended { .. } | DeclareError::IdBusy { .. } => complaint.todo("declare it without --id"),
        DeclareError::TooLarge => complaint.todo("declare fewer claims at a time"),
        DeclareError::Draining { .. } => complaint.todo(format!("{again}      once /readyz is 200 again")),
        _ => complaint.todo(again),
    }
}

/// Why another request came to nothing.
pub(super) fn unanswered(error: &RequestError) -> Complaint {
    let code = match error {
        RequestError::Unknown => ExitCode::Unknown,
        RequestError::Disconnected => ExitCode::Unreachable,
        RequestError::Full => ExitCode::Overloaded,
        RequestError::Replaced => ExitCode::Refused,
        RequestError::ClockUncertain { .. } => ExitCode::Failure,
        RequestError::Rejected { reason, .. } => refusal_code(*reason),
        RequestError::Nonsense(_) => ExitCode::Failure,
    };
    if let RequestError::Rejected { reason: reason @ Refusal::Forbidden, field, hint } = error {
        return explain::rejected(explain::Refused { reason: *reason, field, hint, retry_after: None });
    }
    let complaint = Complaint::new(code, error.to_string());
    match error {
        RequestError::Nonsense(_) => complaint.todo("use the same release on both sides"),
        _ if error.is_retryable() => complaint.todo("the same again"),
        _ => complaint,
    }
}

/// With which code a refusal on arrival ends the command.
pub(super) fn refusal_code(reason: Refusal) -> ExitCode {
    match reason {
        Refusal::Forbidden => ExitCode::Refused,
        Refusal::Overloaded | Refusal::Draining => ExitCode::Overloaded,
        _ => ExitCode::Rejected,
    }
}

/// An id that no other command draws.
pub(super) fn fresh_id() -> u64 {
    (random() as u64) % (IDS_END - 1) + 1
}

/// `USER@HOST`, or as much of it as is known and fits a name.
fn default_name(user: Option<&str>, host: Option<&str>) -> String {
    let name = format!("{}@{}", user.unwrap_or("somebody"), host.unwrap_or("somewhere"));
    let mut fits = 0;
    let visible = name.chars().filter(|c| !c.is_control());
    visible
        .take_while(|c| {
            fits += c.len_utf8();
            fits <= limits::AGENT_BYTES
        })
        .collect()
}

fn user() -> Option<String> {
    let set = |name| std::env::var(name).ok().filter(|user: &String| !user.is_empty());
    set("USER")
        .or_else(|| set("LOGNAME"))
        .or_else(|| Some(format!("uid-{}", rustix::process::getuid().as_raw())))
}

fn host() -> Option<String> {
    let names = rustix::system::uname();
    names.nodename().to_str().ok().filter(|host| !host.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_is_a_name_whatever_the_machine_is_called() {
        assert_eq!(default_name(Some("ada"), Some("loom")), "ada@loom");
        assert_eq!(default_name(None, None), "somebody@somewhere");
        for host in ["\u{7}bell".to_owned(), "ü".repeat(200)] {
            let name = default_name(Some("ada"), Some(&host));
            assert!(crate::types::Agent::new(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn drawn_ids_are_above_zero_and_exact_in_json() {
        assert!((0..1_000).all(|_| (1..IDS_END).contains(&fresh_id())));
    }

    #[test]
    fn each_cause_of_no_connection_has_its_code() {
        let why = || "so".to_owned();
        for (error, code) in [
            (ConnectError::NoAddress { looked: why() }, 20),
            (ConnectError::NobodyListens { addr: ([127, 0, 0, 1], 1).into() }, 20),
            (ConnectError::BadCa { why: why() }, 21),
            (ConnectError::NameRefused { why: why() }, 21),
            (ConnectError::AnothersName { why: why() }, 21),
            (ConnectError::CertificateRefused { why: why() }, 21),
            (ConnectError::TokenRefused { why: why() }, 21),
            (ConnectError::BadIdentity { why: why() }, 21),
            (ConnectError::VersionMismatch { why: why() }, 22),
            (ConnectError::Busy { why: why() }, 23),
            (ConnectError::SpeaksTcp { addr: ([127, 0, 0, 1], 1).into() }, 20),
            (ConnectError::Nonsense { why: why() }, 20),
            (ConnectError::NoneOf { errors: vec![ConnectError::VersionMismatch { why: why() }] }, 22),
        ] {
            assert_eq!(code_of(&error) as u8, code, "{error}");
        }
        assert_eq!(refusal_code(Refusal::Forbidden) as u8, 21);
        assert_eq!(refusal_code(Refusal::Overloaded) as u8, 23);
        assert_eq!(refusal_code(Refusal::TooLate) as u8, 12);
    }

    #[test]
    fn an_answer_that_never_came_is_asked_for_again_by_the_same_id() {
        let error = DeclareError::Unknown { id: IntentId::new(4) };
        let complaint = undecided(&error, "preclaim declare a --for 1s --id 4".into());
        assert_eq!(complaint.code as u8, 15);
        assert_eq!(complaint.todo, ["preclaim declare a --for 1s --id 4"]);
        let ended = undecided(&DeclareError::Ended { id: IntentId::new(4) }, String::new());
        assert_eq!((ended.code as u8, &*ended.todo[0]), (12, "declare it without --id"));
    }
}
