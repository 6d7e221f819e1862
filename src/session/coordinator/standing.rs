//! How a returning session's intents stand.

use crate::resolver::Resolver;
use crate::types::{self, Agent, IntentId, IntentKey};
use crate::wire::{Standing, Verdict};

/// How the intents `ids` of `agent` stand after the resolver's last slot. Each is looked up by its key.
pub(super) fn standings(resolver: &Resolver, agent: &Agent, ids: &[IntentId]) -> Vec<Standing> {
    let (_, at) = resolver.last_decided();
    let of = |id: &IntentId| {
        let verdict = resolver.standing(&IntentKey { agent: agent.clone(), id: *id }, at);
        Standing { id: *id, verdict: verdict.map(short) }
    };
    ids.iter().map(of).collect()
}

/// Without those in the way: whoever wants to know them asks by a repeat.
fn short(mut verdict: types::Verdict) -> Verdict {
    if let types::Verdict::Conflict(conflict) = &mut verdict {
        conflict.blockers.clear();
    }
    Verdict::of(&verdict, &|_| None)
}
