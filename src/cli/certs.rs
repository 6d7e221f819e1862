//! `preclaim certs`: a small certificate authority, and tokens, for a coordinator and its agents.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::ExitCode;
use super::complaint::Complaint;
use super::output::{self, Format, Output, harmless};
use super::table::Table;
use super::times;
use crate::pki::{self, Certificate, Folder, FolderError, Issued, Kind, Standing, Withdrawn};
use crate::types::{Agent, Time};

const EXAMPLE: &str = "\
Example:
  $ preclaim certs init                             # a certificate authority, in the directory `certs`
  $ preclaim certs server coordinator.local         # a certificate for the coordinator
  $ preclaim certs agent robot-1                    # and one for an agent: certs/agents/robot-1.crt and .key
  $ preclaim certs list                             # what was issued, and for how many days it is good
  $ preclaim certs rotate agent robot-1             # a new one; the old one stays good to its end
  $ preclaim certs revoke robot-1                   # none of it lets in any more, once serve got SIGHUP
  $ preclaim certs token robot-2 > robot-2.token    # for [auth] mode = \"token\"

Keep ca.key where the coordinator is not: it needs ca.crt and ca.crl alone. Nothing is written over without
--force.";

/// Make, rotate, revoke and list certificates and tokens
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// The directory with the certificate authority and all that it issues
    #[arg(long, value_name = "DIR", default_value = "certs", global = true)]
    dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a certificate authority and an empty revocation list
    #[command(after_help = "Example:\n  $ preclaim certs init")]
    Init {
        /// Days that it is good for
        #[arg(long, default_value_t = 3650, value_parser = days())]
        days: u32,
        /// Write over what is there
        #[arg(long)]
        force: bool,
    },
    /// Issue a certificate for a coordinator
    #[command(after_help = "Example:\n  $ preclaim certs server coordinator.local 10.0.0.7")]
    Server {
        /// The names and addresses that agents reach it by
        #[arg(value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
        hosts: Vec<String>,
        /// Days that it is good for, but not beyond its authority's
        #[arg(long, default_value_t = 365, value_parser = days())]
        days: u32,
        /// Write over what is there
        #[arg(long)]
        force: bool,
    },
    /// Issue a certificate for an agent; its name stands in it
    #[command(after_help = "Example:\n  $ preclaim certs agent robot-1 --days 30")]
    Agent {
        /// The agent's name
        #[arg(value_parser = agent)]
        name: Agent,
        /// Days that it is good for, but not beyond its authority's
        #[arg(long, default_value_t = 90, value_parser = days())]
        days: u32,
        /// Write over what is there
        #[arg(long)]
        force: bool,
    },
    /// Issue a certificate anew, with a new key; the old one stays good to its end
    #[command(after_help = "Example:\n  $ preclaim certs rotate agent robot-1")]
    Rotate {
        #[command(subcommand)]
        whose: Whose,
        /// Days that it is good for [default: as long as the old one]
        #[arg(long, value_parser = days(), global = true)]
        days: Option<u32>,
    },
    /// Revoke all certificates and tokens of an agent, or one of them
    #[command(after_help = "Example:\n  $ preclaim certs revoke robot-1")]
    Revoke {
        /// The agent's name
        #[arg(value_parser = agent, required_unless_present = "serial", conflicts_with = "serial")]
        name: Option<Agent>,
        /// The one certificate or token whose SERIAL in the list begins so
        #[arg(long, value_name = "DIGITS")]
        serial: Option<String>,
    },
    /// Make a token for an agent, and print it: this once
    #[command(after_help = "Example:\n  $ (umask 077; preclaim certs token robot-2 > robot-2.token)")]
    Token {
        /// The agent's name
        #[arg(value_parser = agent)]
        name: Agent,
    },
    /// List what was issued, and for how many days it is good
    #[command(after_help = "Example:\n  $ preclaim certs list")]
    List {
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, Subcommand)]
enum Whose {
    /// The coordinator's, for the same hosts
    Server,
    /// An agent's
    Agent {
        /// The agent's name
        #[arg(value_parser = agent)]
        name: Agent,
    },
}

/// A hundred years, which is longer than anything should be trusted.
const MOST_DAYS: i64 = 36_500;

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=MOST_DAYS)
}

fn agent(text: &str) -> Result<Agent, String> {
    Agent::new(text).ok_or_else(|| "a name is 1 to 128 bytes without control characters".to_owned())
}

pub(super) fn run(args: &Args) -> ExitCode {
    let folder = Folder::at(&args.dir);
    let done = match &args.command {
        Command::Init { days, force } => folder.init(*days, *force).map(|made| say_authority(&folder, &made)),
        Command::Server { hosts, days, force } => {
            folder.server(hosts, *days, *force).map(|made| say_server(&folder, &made))
        }
        Command::Agent { name, days, force } => {
            folder.agent(name, *days, *force).map(|made| say_agent(&folder, name, &made))
        }
        Command::Rotate { whose: Whose::Server, days } => {
            folder.rotate_server(*days).map(|made| say_server(&folder, &made))
        }
        Command::Rotate { whose: Whose::Agent { name }, days } => {
            folder.rotate_agent(name, *days).map(|made| say_agent(&folder, name, &made))
        }
        Command::Revoke { name, serial } => revoke(&folder, name.as_ref(), serial.as_deref()),
        Command::Token { name } => return token(&folder, name),
        Command::List { output } => return list(&folder, output.format()),
    };
    match done {
        Ok(()) => ExitCode::Done,
        Err(error) => complaint(&error, &args.dir).say(),
    }
}

fn complaint(error: &FolderError, dir: &Path) -> Complaint {
    let complaint = Complaint::new(ExitCode::Failure, error.to_string());
    let of = if dir == Path::new("certs") { String::new() } else { format!(" --dir {}", dir.display()) };
    match error {
        FolderError::There { .. } => complaint
            .todo(format!(
                "preclaim certs rotate{of} ...     issues one anew, and the old one stays good to its end"
            ))
            .todo("--force     writes over it"),
        FolderError::NoAuthority { .. } => {
            complaint.todo(format!("preclaim certs init{of}")).todo("name its directory with --dir")
        }
        FolderError::Nobody { .. } => complaint.todo(format!("preclaim certs list{of}")),
        _ => complaint,
    }
}

fn until(made: &Certificate) -> String {
    format!("until {}, for {} days", day(made.until), made.days_left(pki::now()))
}

fn day(seconds: i64) -> String {
    let text = times::rfc3339(time(seconds));
    text.split_once('T').map_or_else(|| text.clone(), |(day, _)| day.to_owned())
}

fn time(seconds: i64) -> Time {
    Time::from_us(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000))
}

fn say_authority(folder: &Folder, made: &Certificate) {
    output::talk(format_args!(
        "a certificate authority, {}: {} and its key beside it\n  \
         next  preclaim certs server HOST...      and preclaim certs agent NAME",
        until(made),
        folder.file("ca.crt").display()
    ));
}

fn say_server(folder: &Folder, made: &Certificate) {
    let [cert, key, ca, crl] = ["server.crt", "server.key", "ca.crt", "ca.crl"].map(|name| folder.file(name));
    output::talk(format_args!(
        "a certificate for a coordinator, {}\n  \
         in the configuration:\n  \
         [tls]\n  cert = {cert:?}\n  key = {key:?}\n  [auth]\n  client_ca = {ca:?}\n  crl = {crl:?}\n  \
         where it runs already, SIGHUP has it take the new one",
        until(made)
    ));
}

fn say_agent(folder: &Folder, name: &Agent, made: &Certificate) {
    let cert = folder.agent_file(name);
    let key = cert.with_extension("key");
    output::talk(format_args!(
        "a certificate for {name}, {}\n  next  preclaim ls --ca {} --cert {} --key {} --addr HOST:PORT",
        until(made),
        folder.file("ca.crt").display(),
        cert.display(),
        key.display()
    ));
}

fn revoke(folder: &Folder, name: Option<&Agent>, serial: Option<&str>) -> Result<(), FolderError> {
    let what = match (name, serial) {
        (Some(name), _) => {
            let (certificates, tokens) = folder.revoke_agent(name)?;
            format!("{name}: {certificates} certificates revoked, {tokens} tokens taken out")
        }
        (None, serial) => match folder.revoke_serial(serial.unwrap_or_default())? {
            Withdrawn::Certificate { serial } => format!("certificate {serial} revoked"),
            Withdrawn::Token { agent } => format!("a token of {agent} taken out"),
        },
    };
    output::talk(format_args!(
        "{what}\n  next  kill -HUP the coordinator, once it reads what is in {}: who is connected is let go then",
        folder.file("").display()
    ));
    Ok(())
}

/// The token is data: it goes to standard output, and nowhere else.
fn token(folder: &Folder, name: &Agent) -> ExitCode {
    match folder.token(name) {
        Ok(token) => {
            output::talk(format_args!(
                "a token for {name}, shown this once; {} has its SHA-256\n  next  kill -HUP the coordinator",
                folder.file("tokens").display()
            ));
            output::print(format_args!("{}\n", token.reveal()))
        }
        Err(error) => complaint(&error, &folder.file("")).say(),
    }
}

/// One line of the listing.
#[derive(Serialize)]
struct Line<'a> {
    kind: &'static str,
    name: &'a str,
    /// Of a token, the first digits of its SHA-256.
    serial: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    days_left: Option<i64>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
}

impl<'a> Line<'a> {
    fn of(issued: &'a Issued, now: i64) -> Self {
        let Issued { name, certificate, standing, file } = issued;
        Line {
            kind: match certificate.kind {
                Kind::Authority => "ca",
                Kind::Server => "server",
                Kind::Agent => "agent",
            },
            name,
            serial: &certificate.serial,
            from: Some(time(certificate.from)),
            until: Some(time(certificate.until)),
            days_left: Some(certificate.days_left(now)),
            state: match standing {
                Standing::Good => "good",
                Standing::Replaced => "replaced",
                Standing::Expired => "expired",
                Standing::Revoked => "revoked",
            },
            file: file.as_deref(),
        }
    }

    fn of_token((digits, agent): &'a (String, Agent)) -> Self {
        let (from, until, days_left, file) = (None, None, None, None);
        let (name, serial) = (agent.as_str(), digits.as_str());
        Line { kind: "token", name, serial, from, until, days_left, state: "good", file }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.kind.to_owned(),
            harmless(self.name),
            self.days_left.map(|days| days.to_string()).unwrap_or_default(),
            self.until
                .map(|until| day(i64::try_from(until.as_us() / 1_000_000).unwrap_or(0)))
                .unwrap_or_default(),
            self.state.to_owned(),
            self.serial.to_owned(),
            self.file.map(|file| file.display().to_string()).unwrap_or_default(),
        ]
    }
}

fn list(folder: &Folder, format: Format) -> ExitCode {
    let now = pki::now();
    // Who has tokens alone has no authority, and needs none.
    let found = folder.list_tokens().and_then(|tokens| match folder.list(now) {
        Err(FolderError::NoAuthority { .. }) if !tokens.is_empty() => Ok((Vec::new(), tokens)),
        listed => listed.map(|listed| (listed, tokens)),
    });
    let (issued, tokens) = match found {
        Ok(found) => found,
        Err(error) => return complaint(&error, &folder.file("")).say(),
    };
    let lines = issued.iter().map(|issued| Line::of(issued, now)).chain(tokens.iter().map(Line::of_token));
    match format {
        Format::Json => {
            let lines: String = lines.map(|line| output::json(&line) + "\n").collect();
            output::print(format_args!("{lines}"))
        }
        Format::Table => {
            let mut table = Table::headed(&["KIND", "NAME", "DAYS LEFT", "UNTIL", "STATE", "SERIAL", "FILE"]);
            lines.for_each(|line| table.row(line.cells()));
            output::print(format_args!("{table}"))
        }
    }
}
