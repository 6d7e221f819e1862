//! `preclaim audit view`: a recorded log on the coordinator's web page.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use super::super::signal::Stop;
use super::super::times::{Moment, Wall, moment};
use super::{ExitCode, Place, Problem, Progress, note};
use crate::audit::Record;
use crate::clock::{Clock, SystemClock};
use crate::replay::{Base, Unfit};
use crate::resolver::Image;
use crate::store::Archive;
use crate::telemetry::{Recording, Telemetry};
use crate::types::Time;

const EXAMPLE: &str = "\
Examples:
  $ preclaim audit view /var/lib/preclaim
  $ preclaim audit view --from 2026-12-01T09:30:00Z --config preclaim.toml

Reads the log once and shows it on a web page, on this machine alone: the same as that of a coordinator at work,
with a time that can be moved. Of a long log it shows the last part, or what follows --from. It ends on Ctrl-C.";

/// Show the log on a web page, and move through its time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// From when on: RFC 3339 or microseconds since 1970 [default: the last part that fits]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Moment>,
    /// The port of 127.0.0.1 at which it is shown; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Problem> {
    let archive = args.place.open()?;
    let now = SystemClock::start(Time::ZERO).now();
    let from = match args.from {
        Some(from) => from.time(now),
        None => last_part(&archive)?,
    };
    let nothing = || Problem::Usage("there is no record in this log from that time on".to_owned());
    let recording = read(&archive, from)?.ok_or_else(nothing)?;
    let (first, last) = recording.span().ok_or_else(nothing)?;
    let wall = Wall::at(now);
    let (has_before, has_after) = recording.has_more();
    let more = match (has_before, has_after) {
        (false, false) => "",
        (true, false) => "; there is more before it: --from",
        (false, true) => "; there is more after it: --from",
        (true, true) => "; there is more before it and after it: --from",
    };
    note(format_args!("from {} to {}{more}", wall.clock(first), wall.clock(last)));
    show(recording, args.port)
}

/// A record, with the state before it or after it.
enum Seen<'a> {
    Before(&'a Record, &'a Image),
    After(&'a Record, &'a Image),
}

/// Each record, before it is applied to the state and after, for as long as `see` wants more.
fn each(archive: &Archive, mut see: impl FnMut(Seen<'_>) -> bool) -> Result<(), Problem> {
    let mut base = Base::oldest(archive)?;
    let (mut progress, mut goes_on) = (Progress::start(), true);
    archive.walk(base.segment + 1, Some(base.last)).read_on(&mut |found| {
        progress.tick();
        if !goes_on {
            return Ok(());
        }
        let unfit = |why: String| Unfit { file: found.file.to_owned(), offset: found.entry.offset, why };
        let (record, changes) = Record::decode(found.entry.body).map_err(|error| unfit(error.to_string()))?;
        goes_on = see(Seen::Before(&record, base.state.image()));
        base.state.apply_decoded(&record, changes).map_err(|error| unfit(error.to_string()))?;
        goes_on = goes_on && see(Seen::After(&record, base.state.image()));
        Ok(())
    })?;
    Ok(())
}

/// From when on all that follows fits into one recording.
fn last_part(archive: &Archive) -> Result<Time, Problem> {
    let (mut weights, mut all) = (VecDeque::new(), 0);
    each(archive, |seen| {
        let Seen::After(record, image) = seen else { return true };
        let weight = Recording::weigh(record, image);
        all += weight;
        weights.push_back((record.at, weight));
        while all > Recording::ROOM
            && let Some((_, gone)) = weights.pop_front()
        {
            all -= gone;
        }
        true
    })?;
    Ok(weights.front().map_or(Time::ZERO, |(at, _)| *at))
}

/// What is shown from `from` on; `None` where nothing was decided then.
fn read(archive: &Archive, from: Time) -> Result<Option<Recording>, Problem> {
    let first = archive.contents()?.segments.first().copied().unwrap_or(1);
    if first > 1 {
        note("the beginning of the log is gone");
    }
    let (mut recording, mut has_before) = (None::<Recording>, first > 1);
    each(archive, |seen| match seen {
        Seen::Before(record, image) => {
            if recording.is_none() && record.at >= from {
                recording = Some(Recording::after(image, has_before));
            }
            has_before = true;
            true
        }
        Seen::After(record, image) => recording.as_mut().is_none_or(|it| it.take(record, image)),
    })?;
    Ok(recording)
}

/// Until it is asked to stop.
fn show(recording: Recording, port: u16) -> Result<ExitCode, Problem> {
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Problem::Output)?;
    runtime.block_on(async {
        let mut stop = Stop::listen().map_err(Problem::Output)?;
        let telemetry = Telemetry::bind(addr).await.map_err(|error| {
            Problem::Usage(format!("cannot listen on {addr}: {error}\n  do      another --port, or none"))
        })?;
        note(format_args!("seen at http://{}/page; Ctrl-C ends it", telemetry.local_addr()));
        tokio::select! {
            biased;
            () = stop.asked() => {}
            () = telemetry.show(recording) => {}
        }
        Ok(ExitCode::Done)
    })
}
