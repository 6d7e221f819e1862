//! A process beside the load: one that attacks, or a harmless one that computes for as much of a core.

use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;

use crate::attacks::{self, Target};
use crate::rig::served::{hex, processor_us, unhex};
use crate::rig::{Failed, keep_to_core};

/// The first argument of the process that attacks, and of the harmless one.
const ATTACKER: &str = "--as-attacker";
const HARMLESS: &str = "--as-harmless";
/// The core of the load: whoever attacks from elsewhere takes none from the coordinator by itself.
const CORE: usize = 1;
/// In each of these the harmless process computes for its share.
const PERIOD: Duration = Duration::from_millis(5);

/// What it did and used since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// How often it did what it does.
    pub(crate) did: u64,
    /// Processor time, µs.
    pub(crate) processor_us: u64,
}

/// See the module's documentation. It ends with this.
pub(crate) struct Beside {
    child: Child,
    asks: Option<ChildStdin>,
    tells: BufReader<ChildStdout>,
}

impl Beside {
    pub(crate) fn attacker(attack: &str, target: &Target) -> Result<Self, Failed> {
        let Target { addr, certificate, packets } = target;
        let args = [attack, &addr.to_string(), &hex(certificate), &packets.to_string()];
        Beside::start(ATTACKER, &args)
    }

    /// One that computes for this share of a core.
    pub(crate) fn harmless(share: f64) -> Result<Self, Failed> {
        Beside::start(HARMLESS, &[&share.to_string()])
    }

    fn start(what: &str, args: &[&str]) -> Result<Self, Failed> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(what).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (asks, tells) = (child.stdin.take(), child.stdout.take().ok_or("it has a standard output")?);
        Ok(Beside { child, asks, tells: BufReader::new(tells) })
    }

    pub(crate) fn look(&mut self) -> Result<Used, Failed> {
        writeln!(self.asks.as_mut().ok_or("it is asked while it runs")?)?;
        let mut line = String::new();
        self.tells.read_line(&mut line)?;
        let (did, processor) = line.trim().split_once(' ').ok_or("the process beside the load has ended")?;
        Ok(Used { did: did.parse()?, processor_us: processor.parse()? })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Without anybody to ask it, it ends.
        drop(self.asks.take());
        let _ = self.child.wait();
    }
}

/// Where it is started as one of these processes, it is that and never returns.
pub(crate) fn entry() {
    let args: Vec<String> = env::args().skip(1).collect();
    let ended = match args.first().map(String::as_str) {
        Some(ATTACKER) => attack(&args[1..]),
        Some(HARMLESS) => compute(&args[1..]),
        _ => return,
    };
    if let Err(error) = &ended {
        eprintln!("beside the load: {error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}

fn attack(args: &[String]) -> Result<(), Failed> {
    let [attack, addr, certificate, packets] = args else { return Err("four arguments".into()) };
    let certificate = CertificateDer::from(unhex(certificate).ok_or("a certificate in hex")?);
    let target = Target { addr: addr.parse()?, certificate, packets: packets.parse()? };
    keep_to_core(CORE);
    let did = answer_whoever_asks();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(attacks::run(attack, target, did))
}

fn compute(args: &[String]) -> Result<(), Failed> {
    let share: f64 = args.first().ok_or("its share")?.parse()?;
    let share = share.clamp(0.0, 1.0);
    keep_to_core(CORE);
    let (did, never) = (answer_whoever_asks(), AtomicBool::new(false));
    loop {
        let begun = Instant::now();
        preclaim::bench::burn(begun + PERIOD.mul_f64(share), &never);
        did.fetch_add(1, Relaxed);
        std::thread::sleep((begun + PERIOD).saturating_duration_since(Instant::now()));
    }
}

/// Tells how it is whenever a line comes, and ends the process when there are no more.
fn answer_whoever_asks() -> Arc<AtomicU64> {
    let did = Arc::<AtomicU64>::default();
    std::thread::spawn({
        let did = Arc::clone(&did);
        move || {
            for _ in std::io::stdin().lock().lines() {
                println!("{} {}", did.load(Relaxed), processor_us());
                let _ = std::io::stdout().flush();
            }
            std::process::exit(0);
        }
    });
    did
}
