//! Listings: the slot loop's thread only picks a bounded number of entries out of the resolver; they
//! are put into words here, on the asker's own task.

use tokio::sync::oneshot;

use super::connection::Server;
use crate::resolver::Resolver;
use crate::session::coordinator::{CapacityQuery, ConnectionId, Query};
use crate::wire::{List, Refusal, ToAgent};

/// The answer to `list`, which came over `asker`: a page, or why there is none.
pub(super) async fn answer(server: &Server, asker: ConnectionId, list: &List) -> ToAgent {
    let hub = &server.hub;
    match CapacityQuery::of(list) {
        Ok(Some(query)) => return capacities(server, asker, list.request, query).await,
        Ok(None) => {}
        Err(field) => return refuse(server, list.request, Refusal::Invalid, field),
    }
    let refuse = |reason, field| refuse(server, list.request, reason, field);
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
    match look(server, move |resolver| query.page(resolver)).await {
        Some(page) => {
            let page = page.read_by(&reader);
            hub.with_sessions(|sessions, decided| page.words(sessions, decided)).fit_in_frame()
        }
        None => refuse(Refusal::Draining, ""),
    }
}

/// How capacities stand, or why that is not told.
async fn capacities(server: &Server, asker: ConnectionId, request: u64, query: CapacityQuery) -> ToAgent {
    let hub = &server.hub;
    if let Err(denial) = hub.may_see_capacities(asker, query.under()) {
        let now = hub.clock.now();
        return hub.with_sessions(|sessions, _| sessions.refuse(request, denial, now));
    }
    let now = hub.clock.now();
    match look(server, move |resolver| (query.page(resolver, now), resolver.last_decided())).await {
        Some((page, decided)) => page.reply(request, decided).into(),
        None => refuse(server, request, Refusal::Draining, ""),
    }
}

fn refuse(server: &Server, request: u64, reason: Refusal, field: &str) -> ToAgent {
    let now = server.hub.clock.now();
    server.hub.with_sessions(|sessions, _| sessions.refuse_look(request, reason, field, now))
}

/// What `pick` finds between two slots; `None` where no slot is decided any more.
async fn look<T: Send + 'static>(
    server: &Server,
    pick: impl FnOnce(&Resolver) -> T + Send + 'static,
) -> Option<T> {
    // The semaphore is never closed.
    let _permit = server.looks.acquire().await;
    let (tell, told) = oneshot::channel();
    let look = Box::new(move |resolver: &Resolver| {
        let _ = tell.send(pick(resolver));
    });
    server.hub.intake.look(look).ok()?;
    told.await.ok()
}
