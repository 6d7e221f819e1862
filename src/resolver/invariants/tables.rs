//! All tables of the state agree with each other: nothing is held or left over after a slot, each index
//! holds what it indexes and nothing else, and the digest that was kept up item by item is the one that
//! the whole state gives.

use super::{Breach, holds};
use crate::resolver::Resolver;
use crate::resolver::digest::StateDigest;

/// Compares all tables of a resolver between two slots. The cost is that of the whole state, squared:
/// for tests on small states.
///
/// # Errors
/// The first breach that is found.
pub fn tables_agree(resolver: &Resolver) -> Result<(), Breach> {
    resolver.book.agrees(&resolver.ledger)?;
    resolver.ledger.agrees(&resolver.book, &resolver.settings)?;
    resolver.ended_windows.agrees()?;
    let afresh = digest_afresh(resolver);
    holds(afresh == resolver.digest, "the digest is that of the state", (afresh, resolver.digest))
}

fn digest_afresh(resolver: &Resolver) -> StateDigest {
    let mut digest = StateDigest::default();
    let parts = resolver.book.hashes(&resolver.ledger).chain(resolver.ended_windows.hashes());
    let parts = parts.chain(resolver.ended_grants.hashes()).chain(resolver.settings.hashes());
    parts.for_each(|hash| digest.replace(None, Some(hash)));
    digest.replace(
        None,
        resolver.last_slot.map(|_| {
            super::super::hash_of_counters(
                resolver.next_token,
                resolver.arrivals,
                resolver.ended_windows.forgotten(),
            )
        }),
    );
    digest
}
