//! `preclaim dev`: a coordinator for this machine, with nothing to set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::serve::{Watched, Watching, coordinator_config, run_coordinator};
use super::{ExitCode, output};
use crate::client::discovery::{self, Announcement, DevFile};
use crate::config::{Config, show_duration};
use crate::coordinator::{Coordinator, Identity};

const EXAMPLE: &str = "\
Example:
  $ preclaim dev
  $ preclaim declare file/README.md --for 30s     # in another terminal: needs no flags
  $ preclaim dev --page                           # and a web page: http://127.0.0.1:7412/page";

/// Run a coordinator on this machine, in memory, with nothing to set up
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Where to listen; port 0 takes a free one [default: the configuration's, 127.0.0.1:7411]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Listen beyond this machine too: whoever reaches it is let in, as whoever it says it is
    #[arg(long)]
    insecure: bool,
    /// A configuration for everything but certificates
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Hold every slot against the decision core's invariants before anything of it is sent; a breach
    /// ends the coordinator
    #[arg(long)]
    check_invariants: bool,
    #[command(flatten)]
    watching: Watching,
}

pub(super) fn run(args: Args) -> ExitCode {
    let mut config = match args.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            output::complain(error);
            return ExitCode::Configuration;
        }
    };
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if !config.listen.ip().is_loopback() && !args.insecure {
        output::complain(format_args!(
            "dev lets everybody in, and {} is reached from other machines\n  \
             do      preclaim dev                 on 127.0.0.1\n  \
             or      preclaim serve               which knows agents by their certificates\n  \
             or      --insecure                   where everybody who reaches it may do everything",
            config.listen
        ));
        return ExitCode::Usage;
    }
    let own = config.listen.ip().to_string();
    let identity = match Identity::self_made(["localhost".into(), "127.0.0.1".into(), "::1".into(), own]) {
        Ok(identity) => identity,
        Err(error) => {
            output::complain(error);
            return ExitCode::Failure;
        }
    };
    let length = show_duration(config.rules.length);
    // Anywhere that is free: `preclaim top` finds it, as clients do.
    let watched = args.watching.of(&config).unwrap_or(Watched::ANYWHERE);
    // Whoever reaches it is on this machine, or may do everything.
    config.rights = config.rights.everybody_administers();
    let config = coordinator_config(config, identity, args.check_invariants);
    run_coordinator(config, Some(watched), None, |coordinator, at| announce(coordinator, at, &length))
}

/// Says where it listens, to people and to the clients of this user on this machine.
fn announce(coordinator: &Coordinator, watching: Option<SocketAddr>, length: &str) -> Option<Announcement> {
    let addr = coordinator.local_addr();
    let found_at = if addr.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, addr.port()).into() } else { addr };
    let dev = DevFile {
        addr: found_at,
        pid: std::process::id(),
        certificate: discovery::pem(coordinator.certificate()),
        watching,
    };
    let announced = discovery::announce(&dev);
    output::talk(format_args!(
        "listening on {addr} (QUIC), slots of {length}\n\
         for trying out: no authentication, and nothing is kept when it stops"
    ));
    match &announced {
        Ok(announcement) => {
            let file = announcement.path().display();
            output::talk(format_args!("your own clients on this machine find it with no flags, by {file}"));
        }
        Err(why) => output::talk(format_args!("clients will not find it by themselves: {why}")),
    }
    output::talk("\ntry, in another terminal:\n  preclaim declare file/README.md --for 30s");
    announced.ok()
}
