//! How many declarations a second come through QUIC on loopback and are decided, beside a bare echo of the
//! same bytes over the same connections in the same run: the table of docs/BENCHMARKS.md.
//! `cargo bench --bench throughput -- [--seconds 3] [--rounds 3] [--agents 1000] [--only WORD] [--markdown]`;
//! takes about two minutes. Echo and coordinator take turns, so that what else the machine does meets both
//! alike; a ratio is of the two runs beside each other, and the middle of them is told.

use std::error::Error;
use std::time::Duration;

use preclaim::bench::{Answers, Asked, BenchError, Carried, FanOuts, Flow, Parts, burst, carry, parts};
use preclaim::types::Micros;

/// The daemon's; see main.rs.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Settings {
    seconds: f64,
    rounds: usize,
    agents: usize,
    only: Option<String>,
    is_markdown: bool,
}

/// One row: the same flow, by an echo and by a coordinator.
struct Row {
    what: &'static str,
    connections: usize,
    messages: usize,
    batch: usize,
    slot: Micros,
}

const QUARTER: Micros = Micros::from_us(250);
const ONE: Micros = Micros::from_ms(1);
const TEN: Micros = Micros::from_ms(10);

/// What is under way fills a slot of a coordinator that keeps up with the echo, but for the rows with one message on
/// each connection: there each message travels alone, and waits for its slot's end.
const ROWS: [Row; 7] = [
    Row { what: "one by one, 250 µs slots", connections: 100, messages: 1, batch: 1, slot: QUARTER },
    Row { what: "one by one, 1 ms slots", connections: 100, messages: 1, batch: 1, slot: ONE },
    Row { what: "one by one, 1 ms slots", connections: 100, messages: 4, batch: 1, slot: ONE },
    Row { what: "one by one, 10 ms slots", connections: 100, messages: 20, batch: 1, slot: TEN },
    Row { what: "batches, 1 ms slots", connections: 100, messages: 1, batch: 64, slot: ONE },
    Row { what: "batches, 10 ms slots", connections: 100, messages: 2, batch: 64, slot: TEN },
    Row { what: "large batches, 10 ms slots", connections: 50, messages: 1, batch: 256, slot: TEN },
];

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    let wanted = |what: &str| settings.only.as_ref().is_none_or(|only| what.contains(only.as_str()));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{} s a run, {} rounds, {cores} cores\n", settings.seconds, settings.rounds);
    heading(&settings);
    for row in ROWS.iter().filter(|row| wanted(row.what)) {
        compare(row, &settings)?;
    }
    for (what, asked, batch) in
        [("public client", Asked::Client, 1), ("public client, at once", Asked::ClientAtOnce, 64)]
    {
        if wanted(what) {
            by_client(what, asked, batch, &settings)?;
        }
    }
    if wanted("burst") {
        println!();
        bursts(&settings)?;
    }
    Ok(())
}

/// Where benches are only tried out, each once for a moment.
fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let is_measured = std::env::args().any(|arg| arg == "--bench");
    // What large batches bring at once takes half a second where nothing is optimised, and something is to be answered.
    let (seconds, rounds, agents) = if is_measured { (3.0, 3, 1000) } else { (1.0, 1, 20) };
    let mut settings = Settings { seconds, rounds, agents, only: None, is_markdown: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seconds" => settings.seconds = value()?.parse()?,
            "--rounds" => settings.rounds = value()?.parse()?,
            "--agents" => settings.agents = value()?.parse()?,
            "--only" => settings.only = Some(value()?),
            "--markdown" => settings.is_markdown = true,
            _ => {}
        }
    }
    Ok(settings)
}

fn flow(row: &Row, settings: &Settings) -> Flow {
    let span = Duration::from_secs_f64(settings.seconds);
    let Row { connections, messages, batch, .. } = *row;
    Flow { connections, messages, batch, warmup: span / 3, span }
}

fn heading(settings: &Settings) {
    let cells = [
        "what",
        "connections x messages x declarations",
        "echo/s",
        "decided/s",
        "ratio",
        "echo: server µs each",
        "coordinator: µs each",
        "of it slot loop",
        "resolving, publishing",
        "generator µs each",
        "refused",
    ];
    line(settings, &cells.map(String::from));
    if settings.is_markdown {
        println!("|---|---|{}", "---:|".repeat(cells.len() - 2));
    }
}

fn line(settings: &Settings, cells: &[String]) {
    if settings.is_markdown {
        println!("| {} |", cells.join(" | "));
    } else {
        println!("{}", cells.join("; "));
    }
}

fn compare(row: &Row, settings: &Settings) -> Result<(), BenchError> {
    let flow = flow(row, settings);
    let (mut echoes, mut decided, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let echo = carried(Answers::Echo, Asked::Bytes, &flow)?;
        let coordinator = carried(Answers::Coordinator(row.slot), Asked::Bytes, &flow)?;
        ratios.push(coordinator.rate() / echo.rate());
        echoes.push(echo);
        decided.push(coordinator);
    }
    let refused: u64 = decided.iter().map(|it| it.refused).sum();
    let Parts { resolving_us, publishing_us, .. } = parts(row.slot, &flow)?;
    line(
        settings,
        &[
            row.what.to_owned(),
            format!("{} x {} x {}", row.connections, row.messages, row.batch),
            format!("{:.0}", middle(echoes.iter().map(Carried::rate))),
            format!("{:.0}", middle(decided.iter().map(Carried::rate))),
            spread(&ratios),
            each(&echoes, |used| used.server),
            each(&decided, |used| used.server),
            each(&decided, |used| used.slots),
            format!("{resolving_us:.2}, {publishing_us:.2}"),
            each(&decided, |used| used.load),
            refused.to_string(),
        ],
    );
    Ok(())
}

/// The client beside it, which has no echo of its own.
fn by_client(what: &str, asked: Asked, batch: usize, settings: &Settings) -> Result<(), BenchError> {
    let row = Row { what: "", connections: 100, messages: if batch == 1 { 8 } else { 1 }, batch, slot: TEN };
    let flow = flow(&row, settings);
    let mut all = Vec::new();
    for _ in 0..settings.rounds {
        all.push(carried(Answers::Coordinator(row.slot), asked, &flow)?);
    }
    let refused: u64 = all.iter().map(|it| it.refused).sum();
    line(
        settings,
        &[
            format!("{what}, 10 ms slots"),
            format!("{} x {} x {}", row.connections, row.messages, row.batch),
            String::new(),
            format!("{:.0}", middle(all.iter().map(Carried::rate))),
            String::new(),
            String::new(),
            each(&all, |used| used.server),
            each(&all, |used| used.slots),
            String::new(),
            each(&all, |used| used.load),
            refused.to_string(),
        ],
    );
    Ok(())
}

fn carried(answers: Answers, asked: Asked, flow: &Flow) -> Result<Carried, BenchError> {
    let carried = carry(answers, asked, flow)?;
    assert!(carried.granted > 0, "nothing was answered: {answers:?} {asked:?} {flow:?}");
    Ok(carried)
}

fn bursts(settings: &Settings) -> Result<(), BenchError> {
    // Longer than all need to be heard: what arrives in one slot is answered at its end.
    let slot = Micros::from_ms(200);
    let rounds = if settings.rounds > 1 { 20 } else { 2 };
    let mut ratios = Vec::new();
    println!(
        "burst of {} agents, {rounds} in each run, from the slot's end to the last answer:",
        settings.agents
    );
    for _ in 0..settings.rounds {
        let [echo, coordinator] = [true, false].map(|is_echo| burst(is_echo, slot, settings.agents, rounds));
        let (echo, coordinator) = (echo?, coordinator?);
        tell_bursts("echo", &echo);
        tell_bursts("coordinator", &coordinator);
        ratios.push(median(&coordinator) / median(&echo));
    }
    println!("ratio of the medians: {}", spread(&ratios));
    Ok(())
}

fn tell_bursts(who: &str, bursts: &FanOuts) {
    let mut spans = bursts.fan_outs.clone();
    spans.sort_unstable();
    let (least, most) = (spans.first().copied(), spans.last().copied());
    let ms = |span: Option<Micros>| span.map_or(f64::NAN, |span| span.as_us() as f64 / 1e3);
    println!(
        "  {who}: median {:.1} ms, least {:.1}, most {:.1}; {} not within one slot; datagrams dropped: {}",
        median(bursts) / 1e3,
        ms(least),
        ms(most),
        bursts.spread,
        bursts.dropped.map_or("unknown".to_owned(), |count| count.to_string())
    );
}

/// In µs.
fn median(bursts: &FanOuts) -> f64 {
    middle(bursts.fan_outs.iter().map(|span| span.as_us() as f64))
}

/// The processor time of a part for each grant, in µs: the middle of all runs.
fn each(all: &[Carried], part: impl Fn(preclaim::bench::Used) -> Duration) -> String {
    let one = |it: &Carried| it.used.map(|used| part(used).as_secs_f64() * 1e6 / it.granted as f64);
    let known: Vec<f64> = all.iter().filter_map(one).collect();
    if known.is_empty() { String::new() } else { format!("{:.2}", middle(known.into_iter())) }
}

fn spread(ratios: &[f64]) -> String {
    let percent = |ratio: f64| format!("{:.0}", ratio * 100.0);
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{} % ({} to {})", percent(middle(ratios.iter().copied())), percent(least), percent(most))
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
