//! What traces cost the slot loop: `cargo bench --features otlp --bench traces -- [--seconds 20] [--rate 1000]`.
//!
//! A coordinator with slots of 10 ms in this process, and declarations at an even rate by the public client, each in a
//! trace that is recorded: with nobody who follows traces, with a collector that takes spans, and with one that never
//! answers. Told are the slot loop's work on a slot with decisions, what handing decisions on to whoever makes spans takes
//! it after that, the processor time of the whole process, and what became of the spans.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use preclaim::config::{Endpoint, OtlpConfig};
use preclaim::coordinator::{Coordinator, CoordinatorConfig, Decided, Observer, SlotReport};
use preclaim::otlp::{Exporter, Settings, Tracer};
use preclaim::resolver::Rules;
use preclaim::telemetry::SpanCounts;
use preclaim::types::{Micros, TraceContext};
use preclaim::{Client, Intent, millis, path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The daemon's; see main.rs.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

/// Who takes the spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collector {
    None,
    Taking,
    Silent,
}

/// Watches the slot loop, and a tracer at work in it.
#[derive(Debug)]
struct Watch {
    tracer: Option<Arc<Tracer>>,
    slots: Mutex<Vec<OfSlot>>,
}

/// Spans of one slot with decisions.
#[derive(Clone, Copy, Debug)]
struct OfSlot {
    work: Micros,
    /// After that, in nanoseconds.
    tracing_ns: u64,
}

impl Observer for Watch {
    fn slot_decided(&self, report: &SlotReport, decided: &Decided<'_>) {
        let began = Instant::now();
        if let Some(tracer) = &self.tracer {
            tracer.slot_decided(report, decided);
        }
        let tracing_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if report.decisions > 0 {
            let work = report.published.since(report.woken);
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.push(OfSlot { work, tracing_ns });
        }
    }

    fn follows_traces(&self) -> bool {
        self.tracer.is_some()
    }
}

fn main() -> Result<(), Failure> {
    let is_measured = std::env::args().any(|arg| arg == "--bench");
    let (mut seconds, mut rate) = if is_measured { (20, 1_000) } else { (1, 100) };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or("a number is missing");
        match arg.as_str() {
            "--seconds" => seconds = number()?,
            "--rate" => rate = number()?,
            _ => {} // cargo's own
        }
    }
    println!("{rate} declarations a second for {seconds} s, slots of 10 ms");
    println!(
        "| collector | work on a slot p50 | p99 | beside it for traces p50 | p99 | processor | sent | left out |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for collector in [Collector::None, Collector::Taking, Collector::Silent] {
        runtime.block_on(measure(collector, seconds, rate))?;
    }
    Ok(())
}

async fn measure(collector: Collector, seconds: u64, rate: u64) -> Result<(), Failure> {
    let mut config = CoordinatorConfig::in_memory(Rules::default())?;
    config.check_invariants = false;
    let counts = Arc::new(SpanCounts::default());
    let exporter = match collector {
        Collector::None => None,
        _ => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let settings = settings(&listener.local_addr()?.to_string())?;
            tokio::spawn(take(listener, collector == Collector::Taking));
            Some(Exporter::start(settings, Arc::clone(&config.clock), Arc::clone(&counts))?)
        }
    };
    let watch = Arc::new(Watch { tracer: exporter.as_ref().map(Exporter::tracer), slots: Mutex::default() });
    config.observer = Some(watch.clone());
    let running = Coordinator::bind(config)?.spawn();
    let client = running.client("an-agent").connect().await?;
    let before = processor_time();
    declare_all(&client, seconds, rate).await?;
    let used = processor_time().saturating_sub(before);
    client.close().await;
    running.stop().await?;
    if let Some(exporter) = exporter {
        tokio::task::spawn_blocking(|| exporter.stop()).await?;
    }
    tell(collector, &watch, used.as_secs_f64() / seconds as f64, &counts);
    Ok(())
}

fn settings(authority: &str) -> Result<Settings, Failure> {
    let endpoint = Endpoint::of_base(&format!("http://{authority}")).ok_or("an address")?;
    let config = OtlpConfig { endpoint, service: None, timeout: Micros::from_secs(1) };
    Settings::of(Some(&config), |_| None, "bench")?.ok_or_else(|| "nowhere".into())
}

/// Takes requests and says that it has, or says nothing.
async fn take(listener: TcpListener, answers: bool) {
    let mut silent = Vec::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        if !answers {
            silent.push(stream);
            continue;
        }
        tokio::spawn(async move {
            let (mut heard, mut part) = (Vec::new(), vec![0; 64 << 10]);
            while let Ok(length) = stream.read(&mut part).await
                && length > 0
            {
                heard.extend_from_slice(&part[..length]);
                if is_whole(&heard) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                    return;
                }
            }
        });
    }
}

/// Whether a request is there with its body.
fn is_whole(heard: &[u8]) -> bool {
    let Some(head) = heard.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&heard[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| heard.len() >= head + 4 + length)
}

/// Declares at an even rate, each intent in a trace of its own, on one of a thousand paths: some find it taken.
async fn declare_all(client: &Client, seconds: u64, rate: u64) -> Result<(), Failure> {
    let mut every = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate)?);
    let mut asked = tokio::task::JoinSet::new();
    for number in 1..=seconds * rate {
        every.tick().await;
        let at = path(&format!("aisle/{}", number % 1_000))?.exclusive();
        let context = TraceContext::new(number.into(), number, true).ok_or("a context")?;
        let intent = Intent::asap().claim(at, millis(200)).trace_context(context);
        let client = client.clone();
        asked.spawn(async move { client.declare(intent).await.map(drop) });
        while asked.try_join_next().is_some() {}
    }
    while let Some(answered) = asked.join_next().await {
        answered??;
    }
    Ok(())
}

fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

fn tell(collector: Collector, watch: &Watch, used: f64, counts: &SpanCounts) {
    let slots = watch.slots.lock().unwrap_or_else(PoisonError::into_inner);
    let mut work: Vec<u64> = slots.iter().map(|slot| slot.work.as_us()).collect();
    let mut tracing: Vec<u64> = slots.iter().map(|slot| slot.tracing_ns / 100).collect();
    let at = |sorted: &mut Vec<u64>, share: usize| {
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) * share / 100).copied().unwrap_or_default()
    };
    let (p50, p99) = (at(&mut work, 50), at(&mut work, 99));
    let tenths = |tenths: u64| format!("{}.{} µs", tenths / 10, tenths % 10);
    let (traces_p50, traces_p99) = (tenths(at(&mut tracing, 50)), tenths(at(&mut tracing, 99)));
    let became = |fate: &str| counts.iter().find(|(word, _)| *word == fate).map_or(0, |(_, count)| count);
    let who = match collector {
        Collector::None => "nobody follows",
        Collector::Taking => "takes spans",
        Collector::Silent => "never answers",
    };
    println!(
        "| {who} | {p50} µs | {p99} µs | {traces_p50} | {traces_p99} | {:.1} % of a core | {} | {} |",
        used * 100.0,
        became("sent"),
        became("left_out")
    );
}
