//! The web page: what happens, as a picture that moves, for people. It is read-only, asks for nothing beyond where
//! it comes from, and works without a network. What agents have named goes to it as texts in JSON, and it shows texts.

mod feed;
mod news;
mod recording;
mod stream;
mod why;
mod words;

use std::sync::Arc;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use tokio::sync::Semaphore;

pub(crate) use self::feed::Feed;
pub use self::recording::Recording;
pub(crate) use self::stream::Events;
pub(crate) use self::why::{Kept, Known, place_of};
pub(super) use self::why::{RULE as WHY_RULE, Why, key_of};
use super::leave::Leave;
use crate::coordinator::View;
use crate::limits;
use crate::types::Micros;

/// Where the page is; its parts are below.
pub(super) const PLACE: &str = "/page";
/// Where its stream is.
const EVENTS: &str = "/page/events";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Each part by its path, with its type.
const PARTS: &[(&str, &str, &str)] = &[
    (PLACE, HTML, include_str!("assets/page.html")),
    ("/page/page.css", CSS, include_str!("assets/page.css")),
    ("/page/main.js", SCRIPT, include_str!("assets/main.js")),
    ("/page/stream.js", SCRIPT, include_str!("assets/stream.js")),
    ("/page/model.js", SCRIPT, include_str!("assets/model.js")),
    ("/page/words.js", SCRIPT, include_str!("assets/words.js")),
    ("/page/clock.js", SCRIPT, include_str!("assets/clock.js")),
    ("/page/canvas.js", SCRIPT, include_str!("assets/canvas.js")),
    ("/page/timeline.js", SCRIPT, include_str!("assets/timeline.js")),
    ("/page/map.js", SCRIPT, include_str!("assets/map.js")),
    ("/page/slots.js", SCRIPT, include_str!("assets/slots.js")),
    ("/page/lists.js", SCRIPT, include_str!("assets/lists.js")),
];

/// What the page may do: load its own parts and ask its own stream, and nothing that stands in it by accident.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer that ends, or a stream.
pub(super) type Answer = Response<Either<Full<Bytes>, Events>>;

/// What the page tells of.
#[derive(Clone, Debug)]
enum Source {
    Live { feed: Arc<Feed>, view: View, slot: Micros },
    Recorded(Arc<Recording>),
}

/// The page, and how many are streamed to at a time.
#[derive(Clone, Debug)]
pub(super) struct Web {
    source: Source,
    room: Arc<Semaphore>,
}

impl Web {
    pub(super) fn live(feed: Arc<Feed>, view: View, slot: Micros) -> Self {
        Web::of(Source::Live { feed, view, slot })
    }

    pub(super) fn recorded(recording: Recording) -> Self {
        Web::of(Source::Recorded(Arc::new(recording)))
    }

    fn of(source: Source) -> Self {
        Web { source, room: Arc::new(Semaphore::new(limits::PAGE_STREAMS)) }
    }

    /// What is at `path`; `None` where that is no part of the page.
    pub(super) fn answer(&self, method: &Method, path: &str, leave: &Leave) -> Option<Answer> {
        if path == EVENTS {
            return Some(self.events(method, leave));
        }
        let path = if path == "/" { PLACE } else { path };
        let (_, kind, text) = PARTS.iter().find(|(at, ..)| *at == path)?;
        Some(guarded(StatusCode::OK, kind, Either::Left(Full::from(*text))))
    }

    fn events(&self, method: &Method, leave: &Leave) -> Answer {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            let why = format!("{} pages are open already, which is the most\n", limits::PAGE_STREAMS);
            let body = Either::Left(Full::from(why));
            return guarded(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", body);
        };
        let body = match &self.source {
            _ if *method == Method::HEAD => Either::Left(Full::default()),
            Source::Live { feed, view, slot } => {
                let (feed, view) = (Arc::clone(feed), view.clone());
                Either::Right(stream::live(feed, view, *slot, leave.clone(), permit))
            }
            Source::Recorded(recording) => {
                Either::Right(stream::recorded(Arc::clone(recording), leave.clone(), permit))
            }
        };
        guarded(StatusCode::OK, stream::CONTENT_TYPE, body)
    }
}

/// An answer of the page's: nothing of it is kept, guessed at, framed, or told to others.
fn guarded(status: StatusCode, kind: &'static str, body: Either<Full<Bytes>, Events>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers: &mut HeaderMap = answer.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_TYPE, kind);
    set(CACHE_CONTROL, "no-store");
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that a text asks to be loaded, other than by `import … from "./…"`.
    fn foreign(text: &str) -> Vec<&str> {
        let marks = ["http://", "https://", "url(", "@import", "innerHTML", "outerHTML", "insertAdjacent"];
        let more =
            ["document.write", "eval(", "new Function", "style=", "<script>", "onclick=", "localStorage"];
        marks.into_iter().chain(more).filter(|mark| text.contains(mark)).collect()
    }

    #[test]
    fn the_page_names_no_other_place_and_makes_no_markup_of_texts() {
        for (path, _, text) in PARTS {
            assert_eq!(foreign(text), Vec::<&str>::new(), "{path}");
        }
    }

    #[test]
    fn each_part_that_the_page_names_is_served() {
        for (path, _, text) in PARTS {
            for (mark, after) in [("from \"./", "/page/"), ("src=\"", "/"), ("href=\"", "/")] {
                for named in text.split(mark).skip(1) {
                    let named = format!("{after}{}", named.split('"').next().unwrap_or_default());
                    let is_data = named.starts_with("/data:") || named.starts_with("/#");
                    assert!(is_data || PARTS.iter().any(|(at, ..)| *at == named), "{path} names {named}");
                }
            }
        }
    }
}
