//! What may be asked, and the answers.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use serde::Serialize;

use super::claims::Picked;
use super::exposition;
use super::hot::Hot;
use super::metrics::Metrics;
use super::recent::Slots;
use crate::coordinator::{Health, View};
use crate::limits;
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
/version        what runs
";

/// What is answered, and from what.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    metrics: Arc<Metrics>,
    view: View,
}

type Answer = Response<Full<Bytes>>;

/// `/version`.
#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
    protocol: &'static str,
}

impl Pages {
    pub(super) fn new(metrics: Arc<Metrics>, view: View) -> Self {
        if let Some(journal) = view.journal() {
            metrics.follow(journal);
        }
        Pages { metrics, view }
    }

    pub(super) async fn answer(&self, method: &Method, uri: &Uri) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = of(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET or HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match uri.path() {
            "/livez" => of(StatusCode::OK, PLAIN, "alive\n"),
            "/readyz" => ready(&self.view.health()),
            "/metrics" => match exposition::text(&self.metrics, &self.view) {
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
            "/version" => json(&Version {
                name: "preclaim",
                version: env!("CARGO_PKG_VERSION"),
                protocol: std::str::from_utf8(wire::ALPN).unwrap_or_default(),
            }),
            _ => of(StatusCode::NOT_FOUND, PLAIN, INDEX),
        }
    }

    async fn claims(&self, top: usize) -> Answer {
        let now = self.view.now();
        let contended = self.metrics.most_contended(top, now);
        match self.view.look(move |resolver| Picked::look(resolver, contended)).await {
            Some(picked) => json(&picked.words(top, now)),
            None => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "the slot loop does not answer\n"),
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

fn ready(health: &Health) -> Answer {
    match health {
        Health::Ready => of(StatusCode::OK, PLAIN, "ready\n"),
        Health::Starting => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting\n"),
        Health::Draining => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "draining\n"),
        Health::Halted(why) => of(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("halted: {why}\n")),
    }
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
    let mut answer = Response::new(Full::new(body.into()));
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
        assert_eq!(ready(&Health::Ready).status(), StatusCode::OK);
        for health in [Health::Starting, Health::Draining, Health::Halted("the disk is full".into())] {
            assert_eq!(ready(&health).status(), StatusCode::SERVICE_UNAVAILABLE);
        }
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
