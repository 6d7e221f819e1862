//! The tasks behind a client: one that lives by the clock, and one that keeps it connected.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::ConnectError;
use super::connector::{Closed, Connector, Lane, Link};
use super::lanes::{self, Lanes};
use super::shared::{Shared, State};
use crate::limits;
use crate::session::agent::Breach;
use crate::wire::{CloseCode, DecodeError, FrameError, FrameReader, ToAgent, ToCoordinator};

/// How long a client that leaves waits for the coordinator to have had its last words.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long the reason of a connection's end may take to show, once a lane has broken.
const REASON: Duration = Duration::from_millis(200);
/// The most that is waited before the first try to connect again: a coordinator that was restarted is
/// not met by all its agents at once.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The most that is ever waited before another try: half of a usual lease is still left then.
const MOST_BACKOFF: Duration = Duration::from_secs(5);
/// A connection that stood for so long was a good one: the next loss starts from the first backoff.
const SETTLED: Duration = Duration::from_secs(10);

/// Lets time pass for the session: ends, renewals, pings. Nothing that a peer does or leaves undone
/// can hold it up.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let woken = shared.wake_timer.notified();
        let (next, over) = shared.look(|state, now| (state.session.next_timeout(now), state.is_over()));
        if over {
            return;
        }
        match next {
            None => woken.await,
            Some(at) => {
                let due = shared.clock.sleep_until(shared.instant(at));
                tokio::select! {
                    biased;
                    () = due => shared.with(|state, now| state.session.tick(now)),
                    () = woken => {}
                }
            }
        }
    }
}

/// Keeps the client connected until it is closed or replaced by a newer process. The first connection
/// is tried for once: whoever waits for it is told why there is none.
pub(super) async fn keep_connected(shared: Arc<Shared>, connector: Arc<dyn Connector>, timeout: Duration) {
    let mut backoff = Backoff::default();
    loop {
        let failed = one_connection(&shared, &*connector, timeout).await;
        let Some(stood) = shared.with(|state, now| state.connection_over(failed, now)) else { return };
        let pause = backoff.next(stood.to_std() >= SETTLED, connector.draw());
        tokio::select! {
            biased;
            () = shared.clock.sleep_until(shared.clock.now() + pause) => {}
            () = goodbye(&shared) => return shared.with(|state, _| state.give_up_connecting()),
        }
    }
}

/// How long to wait before the next try: up to twice as long each time, and anywhere below that, so that
/// the tries of many agents spread out.
#[derive(Debug, Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    fn next(&mut self, afresh: bool, drawn: u128) -> Duration {
        self.tries = if afresh { 0 } else { self.tries.saturating_add(1) };
        let most = FIRST_BACKOFF.saturating_mul(1 << self.tries.min(16)).min(MOST_BACKOFF);
        // 53 of the bits that were drawn, as a number from 0 to 1.
        most.mul_f64((drawn as u64 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Connects, and drives the connection to its end, whoever ends it. Says why it ended, or why there
/// was none.
async fn one_connection(shared: &Arc<Shared>, connector: &dyn Connector, timeout: Duration) -> ConnectError {
    let deadline = shared.clock.now() + timeout;
    let opened = async {
        let link = connector.connect().await?; // which keeps to the same time by itself, and says more
        let lane = tokio::select! {
            biased;
            lane = link.open_lane() => lane.map_err(ConnectError::before_welcome)?,
            () = shared.clock.sleep_until(deadline) => {
                return Err(ConnectError::NoWelcome { after: timeout });
            }
        };
        Ok((link, lane))
    };
    let (link, lane) = tokio::select! {
        biased;
        opened = opened => match opened {
            Ok(opened) => opened,
            Err(error) => return error,
        },
        () = goodbye(shared) => return ConnectError::Refused { why: "closed by the agent".into() },
    };
    let mut ended = std::pin::pin!(run(shared, Arc::clone(&link), lane));
    let ended_early = tokio::select! {
        biased;
        closed = &mut ended => Some(closed),
        () = shared.welcomed() => None,
        () = shared.clock.sleep_until(deadline) => {
            link.close(CloseCode::Done, "");
            return ConnectError::NoWelcome { after: timeout };
        }
    };
    match ended_early {
        Some(closed) => ConnectError::before_welcome(closed),
        None => ConnectError::after_welcome(ended.await),
    }
}

async fn run(shared: &Arc<Shared>, link: Arc<dyn Link>, lane: Lane) -> Closed {
    let Lane { reader, writer } = lane;
    let (breaks, mut broken) = mpsc::channel(1);
    let lanes = Lanes::new(Arc::clone(shared), Arc::clone(&link), writer, breaks);
    shared.with(|state, now| {
        state.link = Some(Arc::clone(&link));
        state.connected(now);
    });
    tokio::select! {
        biased;
        closed = link.closed() => closed,
        broken = read(shared, reader) => broken_off(shared, &*link, broken).await,
        Some(broken) = broken.recv() => broken_off(shared, &*link, broken).await,
        broken = write(shared, lanes) => broken_off(shared, &*link, broken).await,
        () = goodbye(shared) => {
            link.close(CloseCode::Done, "");
            Closed::because("closed by the agent")
        }
    }
}

/// Why a lane is of no more use.
pub(super) enum Broken {
    /// The peer ended it.
    Ended,
    /// The connection below it failed.
    Failed(String),
    /// What came over it is against the protocol.
    Against(CloseCode, String),
}

impl From<FrameError> for Broken {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::TooLong { .. } => CloseCode::FrameTooLong,
            FrameError::TooShort { .. } | FrameError::CutOff => CloseCode::FrameCutOff,
        };
        Broken::Against(code, error.to_string())
    }
}

impl From<DecodeError> for Broken {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::UnknownKind(_) => CloseCode::UnknownKind,
            DecodeError::Malformed { .. } => CloseCode::MalformedBody,
        };
        Broken::Against(code, error.to_string())
    }
}

impl From<Breach> for Broken {
    fn from(breach: Breach) -> Self {
        Broken::Against(breach.code, breach.to_string())
    }
}

async fn broken_off(shared: &Shared, link: &dyn Link, broken: Broken) -> Closed {
    let why = match broken {
        Broken::Against(code, why) => {
            link.close(code, &why);
            return Closed::breach(code, &why);
        }
        Broken::Ended => "the coordinator ended the lane".to_owned(),
        Broken::Failed(why) => why,
    };
    // The connection's own reason says more than its lane's, where there is one.
    let soon = shared.clock.sleep_until(shared.clock.now() + REASON);
    tokio::select! {
        biased;
        closed = link.closed() => closed,
        () = soon => {
            link.close(CloseCode::Done, "");
            Closed::because(why)
        }
    }
}

/// Takes in what comes on a lane, until that is of no more use.
pub(super) async fn read(shared: &Shared, reader: impl AsyncRead + Unpin) -> Broken {
    match read_on(shared, reader).await {
        Ok(()) => Broken::Ended,
        Err(broken) => broken,
    }
}

async fn read_on(shared: &Shared, mut reader: impl AsyncRead + Unpin) -> Result<(), Broken> {
    let (mut frames, mut chunk) = (FrameReader::new(), vec![0; limits::READ_CHUNK]);
    loop {
        let read = reader.read(&mut chunk).await.map_err(|error| Broken::Failed(error.to_string()))?;
        if read == 0 {
            return Ok(frames.finish()?);
        }
        frames.push(&chunk[..read]);
        // All that came at once under one lock, so that its events are dealt out together.
        shared.with(|state, now| {
            while let Some(frame) = frames.next_frame()? {
                state.session.receive(ToAgent::decode(frame)?, now)?;
            }
            Ok::<(), Broken>(())
        })?;
    }
}

/// Writes what the session has to say. When the client is closing and all is said, it ends the lanes
/// and waits for the peer.
async fn write(shared: &Shared, mut lanes: Lanes) -> Broken {
    let failed = |error: std::io::Error| Broken::Failed(error.to_string());
    let mut bye = None;
    loop {
        let woken = shared.wake_writer.notified();
        let all_said = shared.look(|state, _| fill(state, &mut lanes, shared.lanes, &mut bye));
        if lanes.waiting() > 0 {
            if let Err(error) = lanes.write().await {
                return failed(error);
            }
        } else if all_said {
            break;
        } else {
            woken.await;
        }
    }
    if let Err(error) = lanes.finish().await {
        return failed(error);
    }
    std::future::pending().await
}

/// Puts what the session has to say on its lanes. Whether all is said, where the client is closing.
fn fill(state: &mut State, lanes: &mut Lanes, wanted: usize, bye: &mut Option<ToCoordinator>) -> bool {
    let welcome = state.session.welcome();
    let spread = welcome.map_or(1, |welcome| lanes::spread(wanted, welcome.limits.lanes));
    while lanes.waiting() < limits::WRITE_CHUNK {
        match state.session.poll_send() {
            // On another lane a release before it may still be on its way.
            Some(message @ ToCoordinator::Bye(_)) if spread > 1 => *bye = Some(message),
            Some(message) => lanes.put(message, spread),
            None => break,
        }
    }
    if state.session.unanswered() == 0
        && let Some(bye) = bye.take()
    {
        lanes.put(bye, spread);
    }
    state.closing.is_some() && state.session.welcome().is_some() && bye.is_none()
}

/// Resolves a while after the client began to close.
async fn goodbye(shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    let since = loop {
        if let Some(since) = shared.look(|state, _| state.closing) {
            break since;
        }
        if phase.changed().await.is_err() {
            return;
        }
    };
    shared.clock.sleep_until(since + GOODBYE).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::builder::random;

    #[test]
    fn tries_spread_out_more_and_more_and_never_stay_away_for_long() {
        let mut backoff = Backoff::default();
        for tries in 1..100_u32 {
            let most = FIRST_BACKOFF.saturating_mul(1 << tries.min(16)).min(MOST_BACKOFF);
            assert!(backoff.next(false, random()) <= most);
        }
        assert!(
            (0..100).all(|_| backoff.next(true, random()) <= FIRST_BACKOFF),
            "a good connection starts anew"
        );
    }
}
