//! The coordinator's process, and what it tells of itself.

use std::env;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use preclaim::bench::Quantiles;
use preclaim::config::Limits;
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Observer, Punctuality, SlotReport};
use preclaim::limits;
use preclaim::resolver::Rules;
use preclaim::types::Micros;
use rustls::pki_types::CertificateDer;

use super::{Failed, keep_to_core};

/// The first argument of the coordinator's process.
const COORDINATOR: &str = "--as-coordinator";

/// How the coordinator is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Messages of a slot of 10 ms, and of one name in it.
    pub(crate) slot_inputs: usize,
    pub(crate) slot_inputs_per_agent: usize,
    pub(crate) connections: usize,
    /// How long an ended id is remembered.
    pub(crate) retention: Micros,
    /// The core that it is kept to.
    pub(crate) core: usize,
    /// Whether all peers are of this machine, so that what holds for one address holds for all together.
    pub(crate) on_one_machine: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slot_inputs: limits::SLOT_INPUTS,
            slot_inputs_per_agent: limits::SLOT_INPUTS_OF_A_NAME,
            connections: limits::CONNECTIONS,
            retention: Micros::from_secs(1),
            core: 0,
            on_one_machine: true,
        }
    }
}

impl Settings {
    fn args(self) -> [String; 6] {
        let Settings { slot_inputs, slot_inputs_per_agent, connections, retention, core, on_one_machine } =
            self;
        let (retention, one) = (retention.as_us() as usize, usize::from(on_one_machine));
        let numbers = [slot_inputs, slot_inputs_per_agent, connections, retention, core, one];
        numbers.map(|number| number.to_string())
    }

    fn of(args: &[String]) -> Option<Self> {
        let numbers: Vec<usize> = args.iter().map_while(|arg| arg.parse().ok()).collect();
        let [slot_inputs, slot_inputs_per_agent, connections, retention, core, one] = numbers[..] else {
            return None;
        };
        let (retention, on_one_machine) = (Micros::from_us(retention as u64), one == 1);
        Some(Settings { slot_inputs, slot_inputs_per_agent, connections, retention, core, on_one_machine })
    }
}

/// Where it is started as the coordinator's process, it is that and never returns.
pub(crate) fn entry() {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_none_or(|arg| arg != COORDINATOR) {
        return;
    }
    let ended = Settings::of(&args[1..]).ok_or_else(|| "its settings are numbers".into()).and_then(serve);
    if let Err(error) = &ended {
        eprintln!("the coordinator: {error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}

/// Serves, and tells how it is whenever a line comes, until there are no more.
fn serve(settings: Settings) -> Result<(), Failed> {
    keep_to_core(settings.core);
    let watch = Arc::new(Watch::default());
    let rules = Rules { retention: settings.retention, ..Rules::default() };
    let mut config = CoordinatorConfig::in_memory(rules)?;
    config.limits = Limits { slot_inputs: settings.slot_inputs, ..Limits::default() };
    config.limits.slot_inputs_per_agent = settings.slot_inputs_per_agent;
    config.limits.undecided_per_agent = limits::UNDECIDED_PER_AGENT.max(settings.slot_inputs_per_agent);
    config.limits.connections = settings.connections;
    if settings.on_one_machine {
        config.limits = config.limits.on_one_machine();
    }
    config.observer = Some(watch.clone());
    // As many threads as the daemon takes on one core.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let entered = runtime.enter();
    let coordinator = Coordinator::bind(config)?;
    let certificate = hex(coordinator.certificate());
    println!("{} {certificate}", coordinator.local_addr());
    drop(entered);
    runtime.spawn(async {
        if let Err(error) = coordinator.run(std::future::pending()).await {
            eprintln!("the coordinator: {error}");
        }
    });
    for line in std::io::stdin().lock().lines() {
        line?;
        println!("{}", watch.take());
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Bytes as an argument or a line has them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The other way round; `None` where it is none.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Notes what the slot loop does.
#[derive(Debug, Default)]
struct Watch(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    late: u64,
    decisions: u64,
    inputs_most: usize,
    wake: Vec<Micros>,
    resolve: Vec<Micros>,
    publish: Vec<Micros>,
}

impl Observer for Watch {
    fn slot_done(&self, report: &SlotReport) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.late += u64::from(report.punctuality != Punctuality::OnTime);
        noted.decisions += report.decisions as u64;
        noted.inputs_most = noted.inputs_most.max(report.inputs);
        noted.wake.push(report.closed.since(report.at));
        noted.resolve.push(report.resolved.since(report.closed));
        noted.publish.push(report.published.since(report.persisted));
    }
}

impl Watch {
    /// What there is since the last time, as a line of numbers.
    fn take(&self) -> String {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut numbers =
            vec![noted.wake.len() as u64, noted.late, noted.decisions, noted.inputs_most as u64];
        for spans in [noted.wake, noted.resolve, noted.publish] {
            let quantiles = Quantiles::of(spans);
            numbers
                .extend(quantiles.map_or([0; 3], |quantiles| [quantiles.p50, quantiles.p99, quantiles.max]));
        }
        numbers.extend([memory("VmRSS:"), memory("VmHWM:"), processor_us()]);
        numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// KiB, where the system says.
fn memory(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(of));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Processor time of all threads that there are, µs, where the system says.
pub(crate) fn processor_us() -> u64 {
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(of).sum::<u64>() / 1000
}

/// What the coordinator told of the time since it was asked before. Times are µs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Slots that were run, and those of them that ended after the next one's end.
    pub(crate) slots: u64,
    pub(crate) late: u64,
    pub(crate) decisions: u64,
    /// The most that one slot took in.
    pub(crate) inputs_most: u64,
    /// p50, p99 and the greatest: how late the slot loop woke, resolving, publishing.
    pub(crate) wake: [u64; 3],
    pub(crate) resolve: [u64; 3],
    pub(crate) publish: [u64; 3],
    /// KiB now, and the most there ever was.
    pub(crate) rss_kib: u64,
    pub(crate) rss_most_kib: u64,
    /// Processor time since it began.
    pub(crate) processor_us: u64,
}

/// The coordinator's process. It ends with this.
pub(crate) struct Served {
    child: Child,
    asks: Option<ChildStdin>,
    tells: BufReader<ChildStdout>,
    pub(crate) addr: SocketAddr,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Served {
    pub(crate) fn start(settings: Settings) -> Result<Self, Failed> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(COORDINATOR).args(settings.args()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (asks, tells) = (child.stdin.take(), child.stdout.take().ok_or("it has a standard output")?);
        let mut tells = BufReader::new(tells);
        let mut line = String::new();
        tells.read_line(&mut line)?;
        let (addr, certificate) = line.trim().split_once(' ').ok_or("the coordinator did not start")?;
        let certificate = CertificateDer::from(unhex(certificate).ok_or("it tells its certificate")?);
        Ok(Served { addr: addr.parse()?, certificate, child, asks, tells })
    }

    /// How it has been since it was asked before.
    pub(crate) fn look(&mut self) -> Result<Look, Failed> {
        writeln!(self.asks.as_mut().ok_or("it is asked while it runs")?)?;
        let mut line = String::new();
        self.tells.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let numbers: [u64; 16] = numbers.try_into().map_err(|_| "the coordinator has ended")?;
        let spans = |at: usize| [numbers[at], numbers[at + 1], numbers[at + 2]];
        Ok(Look {
            slots: numbers[0],
            late: numbers[1],
            decisions: numbers[2],
            inputs_most: numbers[3],
            wake: spans(4),
            resolve: spans(7),
            publish: spans(10),
            rss_kib: numbers[13],
            rss_most_kib: numbers[14],
            processor_us: numbers[15],
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Without anybody to ask it, it ends.
        drop(self.asks.take());
        let _ = self.child.wait();
    }
}
