//! What an operator does by a client beside ending intents ([`Client::release_of`]).

use super::shared::Asked;
use super::{Client, Place, RequestError, not_done};
use crate::session::agent::Reply;
use crate::wire::{CapacityEntry, SetCapacity};

impl Client {
    /// Sets how many units may be out at `at` and below it from now on, as after a provider's 429; returns how that stands
    /// after the slot in which it holds. A rule of the coordinator's must let this agent administer `at`; the record says who did it, and `reason` where
    /// that is not empty (up to [`limits::REASON_BYTES`](crate::limits::REASON_BYTES) bytes without control characters). Lowered below what is granted it takes nothing
    /// back: nothing more fits until [`CapacityEntry::room_from`], or later where leases are renewed. Whoever waits is
    /// granted what fits now, or has another offer. It holds until it is set again, over restarts too, or until a
    /// configuration with another table of resources is read.
    ///
    /// Cancel safe: it may or may not be done. Without an answer it is asked again over the next connection, so another's later word
    /// may be overruled by it within the time that a call may take.
    ///
    /// ```no_run
    /// # async fn slow_down(client: &preclaim::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let stands = client.set_capacity(preclaim::path("llm/acct1")?, 4, "429 from the provider").await?;
    /// if stands.over() > 0 {
    ///     println!("{} of {} are out; room from {:?} on", stands.in_use, stands.capacity, stands.room_from);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Where no answer can be had in time, or it is [forbidden](crate::wire::Refusal::Forbidden).
    pub async fn set_capacity(
        &self,
        at: Place,
        capacity: u64,
        reason: impl Into<String>,
    ) -> Result<CapacityEntry, RequestError> {
        let what = SetCapacity { path: at.path().clone(), capacity, reason: reason.into() };
        let asked = self.shared().with(|state, _| {
            let request = state.session.set_capacity(what)?;
            Ok((request, state.wait_for(request, Asked::Other)))
        });
        match self.answer_to(asked).await? {
            Reply::CapacitySet(Some(stands)) => Ok(stands),
            Reply::CapacitySet(None) => {
                Err(RequestError::Nonsense("a capacity in a form that is not known".to_owned()))
            }
            other => Err(not_done(other)),
        }
    }
}
