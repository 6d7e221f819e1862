//! What may be asked, and the answers.

use std::sync::Arc;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use serde::Serialize;

use super::claims::Picked;
use super::exposition::{self, Looked};
use super::hot::Hot;
use super::leave::Leave;
use super::metrics::Metrics;
use super::recent::Slots;
use super::web::{Answer, Recording, WHY_RULE, Web, Why, key_of};
use crate::coordinator::{Drains, Health, View};
use crate::limits;
use crate::resolver::Resolver;
use crate::types::Time;
use crate::wire;

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What there is, for those who ask for something else.
const INDEX: &str = "\
/metrics        counters for Prometheus
/livez          200 while the process lives
/readyz         200 while the coordinator decides and takes in, else 503 and why
/slots          the last slots: how late, and how long each phase took
/claims?top=20  the most contended paths, who holds longest, who waits longest
/hot?top=20     the same paths and the pairs of agents there, with what is advised
/why?intent=A/1 what was decided lately about one intent, and who was in its way, where there is a page
/version        what runs
/page           the web page, where it is asked for ([metrics] page, or --page)
";

/// For those who ask for what was decided where that is not shown.
const NOT_KEPT: &str = "what is decided is not kept to be shown: [metrics] page is not set, nor --page\n";

/// For those who ask beside the page of a recorded log for something else.
const RECORDED_INDEX: &str = "/page  what the log holds\n";

/// What is answered, and from what.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// None beside a recorded log.
    live: Option<Live>,
    web: Option<Web>,
}

/// About a coordinator at work.
#[derive(Clone, Debug)]
struct Live {
    metrics: Arc<Metrics>,
    view: View,
    /// None where nothing of what was decided is kept.
    why: Option<Why>,
}

/// `/version`.
#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
    protocol: &'static str,
}

impl Pages {
    pub(super) fn live(metrics: Arc<Metrics>, view: View) -> Self {
        if let Some(journal) = view.journal() {
            metrics.follow(journal);
        }
        let (feed, length) = (metrics.feed().cloned(), metrics.length());
        let page = feed.clone().filter(|_| metrics.has_page());
        let web = page.map(|feed| Web::live(feed, view.clone(), length));
        let why = feed.map(|feed| Why::new(feed, view.clone(), length));
        Pages { live: Some(Live { metrics, view, why }), web }
    }

    pub(super) fn recorded(recording: Recording) -> Self {
        Pages { live: None, web: Some(Web::recorded(recording)) }
    }

    /// The answer, with what puts off the end of its connection.
    pub(super) async fn answer(&self, method: &Method, uri: &Uri, leave: &Leave) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = of(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET or HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if let Some(answer) = self.web.as_ref().and_then(|web| web.answer(method, uri.path(), leave)) {
            return answer;
        }
        match &self.live {
            Some(live) => live.answer(uri).await,
            None => of(StatusCode::NOT_FOUND, PLAIN, RECORDED_INDEX),
        }
    }
}

impl Live {
    async fn answer(&self, uri: &Uri) -> Answer {
        match uri.path() {
            "/livez" => of(StatusCode::OK, PLAIN, "alive\n"),
            "/readyz" => ready(&self.view.health(), self.view.drains().as_ref(), self.view.now()),
            "/metrics" => match exposition::text(&self.metrics, &self.view, self.looked().await) {
                Ok(text) => of(StatusCode::OK, exposition::CONTENT_TYPE, text),
                Err(_) => of(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "the metrics cannot be written\n"),
            },
            "/slots" => json(&Slots::new(self.metrics.length(), &self.metrics.recent())),
            path @ ("/claims" | "/hot") => match top(uri.query()) {
                Some(top) if path == "/hot" => self.hot(top).await,
                Some(top) => self.claims(top).await,
                None => {
                    let most = limits::CLAIMS_SHOWN;
                    of(StatusCode::BAD_REQUEST, PLAIN, format!("top is a number from 1 to {most}\n"))
                }
            },
            "/why" => self.why(uri.query()).await,
            "/version" => json(&Version {
                name: "preclaim",
                version: env!("CARGO_PKG_VERSION"),
                protocol: std::str::from_utf8(wire::ALPN).unwrap_or_default(),
            }),
            _ => of(StatusCode::NOT_FOUND, PLAIN, INDEX),
        }
    }

    /// What is seen between two slots; `None` where the slot loop does not answer. Of more than [`limits::LIST_SCAN`] of
    /// either that many are looked at.
    async fn looked(&self) -> Option<Looked> {
        if self.view.health() != Health::Ready {
            return None; // it would be waited for in vain
        }
        let now = self.view.now();
        let look = move |resolver: &Resolver| Looked {
            oldest: resolver.undecided().take(limits::LIST_SCAN).map(|waiting| waiting.arrival).min(),
            capacities_over: resolver.capacities_over(limits::LIST_SCAN, now).count(),
        };
        self.view.look(look).await
    }

    async fn claims(&self, top: usize) -> Answer {
        let now = self.view.now();
        let contended = self.metrics.most_contended(top, now);
        match self.view.look(move |resolver| Picked::look(resolver, contended)).await {
            Some(picked) => json(&picked.words(top, now)),
            None => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the slot loop does not answer\n"),
        }
    }

    async fn why(&self, query: Option<&str>) -> Answer {
        let Some(why) = &self.why else { return of(StatusCode::FORBIDDEN, PLAIN, NOT_KEPT) };
        let Some(key) = key_of(query) else { return of(StatusCode::BAD_REQUEST, PLAIN, WHY_RULE) };
        match why.of(key).await {
            Ok(Some(known)) => json(&known),
            Ok(None) => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the slot loop does not answer\n"),
            Err(_) => of(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "it cannot be written\n"),
        }
    }

    async fn hot(&self, top: usize) -> Answer {
        let now = self.view.now();
        let contended = self.metrics.most_contended(top, now);
        let pairs = self.metrics.most_opposed(top, now);
        match self.view.look(move |resolver| Picked::look(resolver, contended)).await {
            Some(picked) => json(&Hot::new(&picked, &pairs, now)),
            None => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the slot loop does not answer\n"),
        }
    }
}

fn ready(health: &Health, drains: Option<&Drains>, now: Time) -> Answer {
    match health {
        Health::Ready => of(StatusCode::OK, PLAIN, "ready\n"),
        Health::Starting => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting\n"),
        Health::Draining => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, draining(drains, now)),
        Health::Halted(why) => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("halted: {why}\n")),
    }
}

fn draining(drains: Option<&Drains>, now: Time) -> String {
    drains.map_or_else(
        || "draining\n".to_owned(),
        |Drains { left, deadline, .. }| {
            let secs = deadline.since(now).as_us().div_ceil(1_000_000);
            format!("draining: grants in force {left}, up to {secs} s left\n")
        },
    )
}

/// How many entries are asked for; `None` where that cannot be.
fn top(query: Option<&str>) -> Option<usize> {
    let Some(query) = query.filter(|query| !query.is_empty()) else {
        return Some(limits::CLAIMS_SHOWN_DEFAULT);
    };
    let top = query.strip_prefix("top=")?.parse().ok()?;
    (1..=limits::CLAIMS_SHOWN).contains(&top).then_some(top)
}

fn json(of_what: &impl Serialize) -> Answer {
    match serde_json::to_string(of_what) {
        Ok(text) => of(StatusCode::OK, JSON, text + "\n"),
        Err(_) => of(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "it cannot be written\n"),
    }
}

fn of(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_who_decides_and_takes_in() {
        assert_eq!(ready(&Health::Ready, None, Time::ZERO).status(), StatusCode::OK);
        for health in [Health::Starting, Health::Draining, Health::Halted("the disk is full".into())] {
            assert_eq!(ready(&health, None, Time::ZERO).status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    #[test]
    fn a_drain_says_how_much_is_left() {
        let deadline = Time::from_us(30_000_001);
        let drains = Drains { by: None, reason: "".into(), deadline, left: 3, is_over: false };
        let said = draining(Some(&drains), Time::from_us(1_000_000));
        assert_eq!(said, "draining: grants in force 3, up to 30 s left\n");
        assert_eq!(draining(None, Time::ZERO), "draining\n");
    }

    #[test]
    fn how_many_entries_may_be_asked_for() {
        assert_eq!(top(None), Some(20));
        assert_eq!(top(Some("")), Some(20));
        assert_eq!(top(Some("top=1")), Some(1));
        assert_eq!(top(Some("top=100")), Some(100));
        for query in ["top=0", "top=101", "top=", "top=-1", "top=x", "bottom=3", "top=3&top=4"] {
            assert_eq!(top(Some(query)), None, "{query}");
        }
    }
}
