//! What holds while things go wrong, on real processes and real UDP: the table of docs/FAULTS.md.
//! `cargo bench --bench faults -- [--seconds 20] [--seed 1] [--only NAME] [--markdown]`; a row takes that
//! many seconds and up to a quarter of a minute more until its last lease has run out. Ends with code 1
//! where anything did not hold.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it reads its environment and a clock

#[path = "../tests/fault_rig/mod.rs"]
mod fault_rig;
#[path = "../tests/private/mod.rs"]
mod private;
#[path = "../tests/udp_proxy/mod.rs"]
mod udp_proxy;

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fault_rig::{Enough, Plan, Report, rows};
use udp_proxy::Proxy;

/// Round trips with which the proxy's own cost is measured.
const ROUND_TRIPS: usize = 5000;

struct Settings {
    seconds: u64,
    seed: u64,
    only: Option<String>,
    is_markdown: bool,
}

fn main() -> ExitCode {
    fault_rig::agent::entry();
    match settings().and_then(|settings| measure(&settings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Where benches are only tried out, one row for a moment.
fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let is_measured = std::env::args().any(|arg| arg == "--bench");
    let (seconds, only) = if is_measured { (20, None) } else { (1, Some("loss".to_owned())) };
    let mut settings = Settings { seconds, seed: 1, only, is_markdown: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seconds" => settings.seconds = value()?.parse()?,
            "--seed" => settings.seed = value()?.parse()?,
            "--only" => settings.only = Some(value()?),
            "--markdown" => settings.is_markdown = true,
            _ => {}
        }
    }
    Ok(settings)
}

/// Runs all rows; whether all held.
fn measure(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let is_wanted = |plan: &Plan| settings.only.as_ref().is_none_or(|only| only == plan.name);
    let rows: Vec<Plan> = rows().into_iter().filter(is_wanted).collect();
    if rows.is_empty() {
        return Err(format!("no row is named {:?}", settings.only).into());
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("seed {}, {} s a row, {cores} cores, load {load}", settings.seed, settings.seconds);
    println!("{}", cost_of_the_proxy()?);
    println!("\n{}", Report::headings());
    let (mut all_held, mut told) = (true, Vec::new());
    for plan in rows {
        match fault_rig::run(&plan, settings.seed, Enough::After(Duration::from_secs(settings.seconds))) {
            Ok(report) => {
                println!("{}", report.row());
                all_held &= report.held();
                told.push(format!("{}: {}\n{}", report.name, report.what, report.details));
                told.extend(report.wrong.iter().take(20).map(|wrong| format!("  WRONG: {wrong}")));
            }
            Err(why) => println!("| {} | did not run: {why} |", plan.name),
        }
    }
    if !settings.is_markdown {
        println!("\n{}", told.join("\n"));
    }
    Ok(all_held)
}

/// A round trip between two sockets, straight and through the proxy.
fn cost_of_the_proxy() -> Result<String, Box<dyn Error>> {
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = far.local_addr()?;
    // It ends with the program, or when something else is sent to it.
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((length, from)) = far.recv_from(&mut bytes) {
            if length == 0 || far.send_to(&bytes[..length], from).is_err() {
                return;
            }
        }
    });
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    near.set_read_timeout(Some(Duration::from_secs(5)))?;
    let straight = round_trips(&near, addr)?;
    let proxy = Proxy::start(addr, 1)?;
    let through = round_trips(&near, proxy.addr())?;
    near.send_to(&[], addr)?;
    let _ = echo.join();
    let [a, b, c, d] = [straight.0, straight.1, through.0, through.1].map(|span| span.as_secs_f64() * 1e6);
    Ok(format!(
        "a round trip of 1200 bytes: p50 {a:.0} µs, p99 {b:.0} µs; through the proxy: p50 {c:.0} µs, p99 {d:.0} µs"
    ))
}

/// Half and the 99th of a hundred of them.
fn round_trips(socket: &UdpSocket, to: std::net::SocketAddr) -> Result<(Duration, Duration), Box<dyn Error>> {
    let mut bytes = [7; 1200];
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        socket.send_to(&bytes, to)?;
        socket.recv_from(&mut bytes)?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    Ok((took[ROUND_TRIPS / 2], took[ROUND_TRIPS * 99 / 100]))
}
