//! Which addresses are tried, in which order and when: one after the other begins and none waits for
//! another to end, as in RFC 8305.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::ConnectError;
use crate::limits;

/// After how long without an answer the next address is tried beside: what RFC 8305 recommends.
const STAGGER: Duration = Duration::from_millis(250);

/// An address as the user gave it: `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Without the brackets of an IPv6 address.
    host: Arc<str>,
    port: u16,
}

impl Given {
    /// Reads `text`; names are not looked up.
    pub(super) fn read(text: &str) -> Result<Self, ConnectError> {
        let bad = |why: &str| ConnectError::BadAddress { addr: text.to_owned(), why: why.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if inner.is_none() && host.contains(':') {
            return Err(bad("an IPv6 address stands in brackets"));
        }
        let host = inner.unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("its port is none"))?;
        if host.is_empty() { Err(bad("it has no host")) } else { Ok(Given { host: host.into(), port }) }
    }

    /// Where it is no name.
    fn literal(&self) -> Option<SocketAddr> {
        self.host.parse().ok().map(|ip| SocketAddr::new(ip, self.port))
    }

    /// The addresses of a name.
    async fn look_up(self, deadline: Instant) -> Result<Vec<SocketAddr>, ConnectError> {
        let host = self.host.to_string();
        let unresolved = |why: String| ConnectError::Unresolved { host: host.clone(), why };
        let found = timeout_at(deadline, tokio::net::lookup_host((&*self.host, self.port))).await;
        let found = found.map_err(|_| unresolved("no answer in time".into()))?;
        let found: Vec<_> = found.map_err(|error| unresolved(error.to_string()))?.collect();
        if found.is_empty() { Err(unresolved("it has no address".into())) } else { Ok(interleaved(found)) }
    }
}

/// The first, then one of the other family, and so on in turn: where one family does not work here,
/// every second one does.
fn interleaved(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let starts_with_v4 = found.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|addr| addr.is_ipv4() == starts_with_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut turns = Vec::new();
    loop {
        let turn = [first.next(), second.next()];
        if turn == [None, None] {
            return turns;
        }
        turns.extend(turn.into_iter().flatten());
    }
}

/// An address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The host, as it was given.
    pub(super) host: Arc<str>,
    pub(super) addr: SocketAddr,
}

/// What earlier connections taught about addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    /// It answered last: it is tried first.
    pub(super) answered: Option<Candidate>,
    /// It sent us away last: it is tried last.
    pub(super) turned_away: Option<Candidate>,
}

impl Learnt {
    pub(super) fn answers(&mut self, candidate: &Candidate) {
        self.turned_away = self.turned_away.take().filter(|it| it != candidate);
        self.answered = Some(candidate.clone());
    }

    pub(super) fn turns_away(&mut self, candidate: &Candidate) {
        self.answered = self.answered.take().filter(|it| it != candidate);
        self.turned_away = Some(candidate.clone());
    }
}

/// Candidates that have not been tried, in their order: each name's first address, then each name's
/// second, and so on.
#[derive(Debug, Default)]
struct Line {
    waiting: Vec<(Rank, Candidate)>,
    seen: Vec<Candidate>,
    avoided: Option<Candidate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    First,
    Of { place: usize, given: usize },
    Last,
}

impl Line {
    /// Adds `candidate`, unless it was added before.
    fn add(&mut self, rank: Rank, candidate: Candidate) {
        if self.seen.contains(&candidate) {
            return;
        }
        let rank = if self.avoided.as_ref() == Some(&candidate) { Rank::Last } else { rank };
        self.seen.push(candidate.clone());
        self.waiting.push((rank, candidate));
        self.waiting.sort_by_key(|(rank, _)| *rank);
    }

    fn next(&mut self) -> Option<Candidate> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0).1)
    }
}

/// Tries all that `given` stand for until one attempt succeeds; the others are dropped then. Each
/// attempt, and the look-up of each name, ends by `deadline`.
pub(super) async fn race<T, F>(
    given: &[Given],
    learnt: &Learnt,
    deadline: Instant,
    attempt: impl Fn(Candidate) -> F,
) -> Result<T, ConnectError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ConnectError>> + Send + 'static,
{
    let begun = Instant::now();
    // So that each has its turn within the time.
    let shares = u32::try_from(given.len()).unwrap_or(u32::MAX).saturating_add(1);
    let stagger = STAGGER.min((deadline - begun) / shares);
    let (mut line, mut lookups) = begin(given, learnt, deadline);
    let (mut attempts, mut errors) = (JoinSet::new(), Vec::new());
    // A name that comes first and is being looked up has its turn before those after it.
    let mut turn = if first_is_known(given, &line) { begun } else { begun + stagger };
    loop {
        let now = Instant::now();
        if now >= deadline {
            line.waiting.clear();
        }
        if now >= turn
            && let Some(candidate) = line.next()
        {
            turn = now + stagger;
            attempts.spawn(attempt(candidate));
            continue;
        }
        tokio::select! {
            biased;
            Some(ended) = attempts.join_next() => {
                match ended.unwrap_or_else(|died| Err(ConnectError::Local { why: died.to_string() })) {
                    Ok(won) => return Ok(won),
                    Err(error) => errors.push(error),
                }
                turn = Instant::now();
            }
            Some(ended) = lookups.join_next() => {
                match ended {
                    Ok((at, Ok(found))) => join_in(&mut line, given, at, found),
                    Ok((_, Err(error))) => errors.push(error),
                    Err(died) => errors.push(ConnectError::Local { why: died.to_string() }),
                }
                if attempts.is_empty() {
                    turn = Instant::now();
                }
            }
            () = sleep_until(turn), if !line.waiting.is_empty() => {}
            else => return Err(ConnectError::all(errors)),
        }
    }
}

type LookUps = JoinSet<(usize, Result<Vec<SocketAddr>, ConnectError>)>;

/// Puts what is known in line, and looks the rest up.
fn begin(all: &[Given], learnt: &Learnt, deadline: Instant) -> (Line, LookUps) {
    let mut line = Line { avoided: learnt.turned_away.clone(), ..Line::default() };
    let mut lookups = JoinSet::new();
    if let Some(answered) = &learnt.answered {
        line.add(Rank::First, answered.clone());
    }
    for (at, given) in all.iter().enumerate() {
        match given.literal() {
            Some(addr) => join_in(&mut line, all, at, vec![addr]),
            None => {
                let given = given.clone();
                lookups.spawn(async move { (at, given.look_up(deadline).await) });
            }
        }
    }
    (line, lookups)
}

/// Puts in line what number `at` of `given` stands for: of a name its share of [`limits::ADDRESSES`], so
/// that one with many leaves room for the others.
fn join_in(line: &mut Line, given: &[Given], at: usize, found: Vec<SocketAddr>) {
    let share = (limits::ADDRESSES / given.len()).max(1);
    for (place, addr) in found.into_iter().take(share).enumerate() {
        line.add(Rank::Of { place, given: at }, Candidate { host: Arc::clone(&given[at].host), addr });
    }
}

fn first_is_known(given: &[Given], line: &Line) -> bool {
    let has_answered = line.waiting.first().is_some_and(|(rank, _)| *rank == Rank::First);
    has_answered || given.first().is_none_or(|first| first.literal().is_some())
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::sync::Mutex;

    use super::*;

    /// Longer than any test.
    const FOREVER: Duration = Duration::from_secs(24 * 3600);

    fn given(text: &str) -> Given {
        Given::read(text).unwrap()
    }

    fn candidate(text: &str) -> Candidate {
        let given = given(text);
        Candidate { addr: given.literal().unwrap(), host: given.host }
    }

    fn refused(addr: SocketAddr) -> ConnectError {
        ConnectError::NobodyListens { addr }
    }

    /// The ports that are tried, in turn, where `outcome` says what an attempt at a port comes to: no
    /// answer, or one.
    async fn tried(
        given: &[Given],
        learnt: &Learnt,
        within: Duration,
        outcome: impl Fn(u16) -> Option<bool> + Copy + Send + 'static,
    ) -> (Vec<u16>, Result<u16, ConnectError>) {
        let ports = Arc::new(Mutex::new(Vec::new()));
        let attempt = |candidate: Candidate| {
            ports.lock().unwrap().push(candidate.addr.port());
            async move {
                match outcome(candidate.addr.port()) {
                    None => future::pending().await,
                    Some(true) => Ok(candidate.addr.port()),
                    Some(false) => Err(refused(candidate.addr)),
                }
            }
        };
        let won = race(given, learnt, Instant::now() + within, attempt).await;
        let ports = ports.lock().unwrap().clone();
        (ports, won)
    }

    fn three() -> [Given; 3] {
        ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(given)
    }

    #[tokio::test]
    async fn the_next_is_tried_at_once_when_one_failed_and_after_a_while_when_one_is_silent() {
        let (tried_then, won) = tried(&three(), &Learnt::default(), FOREVER, |port| Some(port == 3)).await;
        assert_eq!((tried_then, won), (vec![1, 2, 3], Ok(3)));
        let silent = |port| (port == 3).then_some(true);
        let (tried_then, won) = tried(&three(), &Learnt::default(), FOREVER, silent).await;
        assert_eq!((tried_then, won), (vec![1, 2, 3], Ok(3)));
    }

    #[tokio::test]
    async fn an_answer_ends_the_search() {
        let (tried, won) = tried(&three(), &Learnt::default(), FOREVER, |_| Some(true)).await;
        assert_eq!((tried, won), (vec![1], Ok(1)));
    }

    #[tokio::test]
    async fn where_all_fail_each_is_named_once() {
        let (tried, won) = tried(&three(), &Learnt::default(), FOREVER, |_| Some(false)).await;
        assert_eq!(tried, [1, 2, 3]);
        let errors = [1, 2, 3].map(|port| refused(([127, 0, 0, 1], port).into())).to_vec();
        assert_eq!(won, Err(ConnectError::NoneOf { errors }));
    }

    #[tokio::test]
    async fn who_answered_last_comes_first_and_who_sent_us_away_last() {
        let (first, last) = (candidate("127.0.0.1:1"), candidate("127.0.0.1:3"));
        let order = async |learnt: &Learnt| tried(&three(), learnt, FOREVER, |_| Some(false)).await.0;
        let mut learnt = Learnt::default();
        learnt.answers(&last);
        assert_eq!(order(&learnt).await, [3, 1, 2]);
        learnt.turns_away(&first);
        assert_eq!(order(&learnt).await, [3, 2, 1]);
        learnt.turns_away(&last);
        assert_eq!(order(&learnt).await, [1, 2, 3]);
        learnt.answers(&last);
        assert_eq!(order(&learnt).await, [3, 1, 2]);
    }

    #[tokio::test]
    async fn nothing_is_begun_after_the_time() {
        let (tried, won) = tried(&three(), &Learnt::default(), Duration::ZERO, |_| Some(true)).await;
        assert!(tried.is_empty() && won.is_err());
    }

    #[test]
    fn families_take_turns_and_the_first_stays_first() {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let turns = of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(interleaved(found), turns);
        let only = of(&["1.1.1.1:1", "2.2.2.2:1"]);
        assert_eq!(interleaved(only.clone()), only);
    }

    #[test]
    fn each_name_has_its_first_address_tried_before_any_has_its_second_and_the_line_is_bounded() {
        let mut line = Line::default();
        let found = |net: u8, count: u8| (1..=count).map(|host| ([net, 0, 0, host], 1).into()).collect();
        let names = ["a:1", "b:1"].map(given);
        join_in(&mut line, &names, 1, found(2, 200));
        join_in(&mut line, &names, 0, found(1, 2));
        let order: Vec<_> = std::iter::from_fn(|| line.next()).map(|it| it.addr.to_string()).collect();
        assert_eq!(order[..4], ["1.0.0.1:1", "2.0.0.1:1", "1.0.0.2:1", "2.0.0.2:1"]);
        assert_eq!(order.len(), 2 + limits::ADDRESSES / 2);
    }

    #[test]
    fn an_ipv6_address_loses_its_brackets() {
        assert_eq!(given("[::1]:7431"), Given { host: "::1".into(), port: 7431 });
        assert_eq!(given("localhost:7431"), Given { host: "localhost".into(), port: 7431 });
    }
}
