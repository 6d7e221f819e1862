//! Listings: the slot loop's thread only picks a bounded number of entries out of the resolver; they
//! are put into words here, on the asker's own task.

use tokio::sync::oneshot;

use super::connection::Server;
use crate::resolver::Resolver;
use crate::session::coordinator::{ConnectionId, Query};
use crate::wire::{List, Refusal, ToAgent};

/// The answer to `list`, which came over `asker`: a page, or why there is none.
pub(super) async fn answer(server: &Server, asker: ConnectionId, list: &List) -> ToAgent {
    let hub = &server.hub;
    let refuse = |reason, field| {
        let now = hub.clock.now();
        hub.with_sessions(|sessions, _| sessions.refuse_look(list.request, reason, field, now))
    };
    let query = match Query::of(list) {
        Ok(query) => query,
        Err(field) => return refuse(Refusal::Invalid, field),
    };
    let reader = match hub.may_look(asker, &query.scope()) {
        Ok(reader) => reader,
        Err(denial) => {
            let now = hub.clock.now();
            return hub.with_sessions(|sessions, _| sessions.refuse(list.request, denial, now));
        }
    };
    // The semaphore is never closed.
    let _permit = server.looks.acquire().await;
    let (tell, told) = oneshot::channel();
    let look = Box::new(move |resolver: &Resolver| {
        let _ = tell.send(query.page(resolver));
    });
    if hub.intake.look(look).is_err() {
        return refuse(Refusal::Draining, "");
    }
    match told.await {
        Ok(page) => {
            let page = page.read_by(&reader);
            hub.with_sessions(|sessions, decided| page.words(sessions, decided)).fit_in_frame()
        }
        Err(_) => refuse(Refusal::Draining, ""),
    }
}
