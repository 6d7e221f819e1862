//! What of rights stands in messages: what counts of an intent's priority, and an administrator's release.

use serde::{Deserialize, Serialize};

use super::codec;
use super::extension::{Extension, Extensions};
use super::message::Release;
use crate::limits;
use crate::types::{Agent, Class, IntentId};

/// The extension of an [`Answer`](super::Answer) that tells what counts of its intent's priority.
const IN_FORCE: u16 = 4;
/// The extension of a [`Release`] that makes it one of another's intent. Who does not know it must not take the
/// release for one of the sender's own.
const ADMINISTER: u16 = 5 | Extension::REQUIRED;

/// What counts of an intent's priority, where that is less than was sent or was paid for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// The class that counts.
    pub class: Class,
    /// The urgency that counts.
    pub urgency: f64,
    /// The safety margin that counts.
    pub safety_margin: f64,
    /// The social value that counts.
    pub social_value: f64,
    /// The rule that lowered it, where one did.
    pub rule: Option<String>,
    /// Whether the agent's allowance could not pay for more.
    pub by_allowance: bool,
    /// What the agent had left of its allowance afterwards, where that was asked.
    pub allowance: Option<AllowanceLeft>,
}

/// What an agent has of its allowance, in credits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllowanceLeft {
    /// What is left; below 0 where it owes.
    pub left: f64,
    /// The most that it holds.
    pub size: f64,
    /// What it grows by in a second.
    pub refill: f64,
}

impl InForce {
    /// Whether less counts than was sent.
    pub fn is_lowered(&self) -> bool {
        self.rule.is_some() || self.by_allowance
    }

    /// As the extensions of an answer.
    pub fn extensions(&self) -> Extensions {
        let mut value = Vec::new();
        match codec::encode(self, &mut value) {
            Ok(()) => {
                Extensions::new(vec![Extension { number: IN_FORCE, value }]).unwrap_or(Extensions::NONE)
            }
            Err(_) => Extensions::NONE, // a rule's name fits
        }
    }

    /// What the extensions of an answer tell; a value of another form tells nothing.
    pub fn in_extensions(extensions: &Extensions) -> Option<Self> {
        codec::decode(extensions.value(IN_FORCE)?).ok()
    }
}

/// Whose intent an administrator's release is of, and why it is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Administer {
    /// Whose.
    pub agent: Agent,
    /// Why, for people; up to [`limits::REASON_BYTES`] bytes without control characters.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
struct AdministerText {
    agent: String,
    reason: String,
}

impl Release {
    /// The number of the extension that must be understood.
    pub(crate) const ADMINISTER: u16 = ADMINISTER;

    /// One of another's intent.
    pub fn of_another(request: u64, id: IntentId, whose: &Administer) -> Self {
        let text = AdministerText { agent: whose.agent.as_str().to_owned(), reason: whose.reason.clone() };
        let mut value = Vec::new();
        // A name and a reason fit.
        let written = codec::encode(&text, &mut value);
        debug_assert!(written.is_ok());
        let extensions = Extensions::new(vec![Extension { number: ADMINISTER, value }]).unwrap_or_default();
        Release { request, id, extensions }
    }

    /// Whose intent it is of, where it is not the sender's own.
    ///
    /// # Errors
    /// Where it says so, and not rightly: the field at fault.
    pub fn administers(&self) -> Result<Option<Administer>, &'static str> {
        let Some(value) = self.extensions.value(ADMINISTER) else { return Ok(None) };
        let AdministerText { agent, reason } = codec::decode(value).map_err(|_| "extensions")?;
        let agent = Agent::new(&agent).ok_or("agent")?;
        let fits = reason.len() <= limits::REASON_BYTES && !reason.contains(char::is_control);
        if fits { Ok(Some(Administer { agent, reason })) } else { Err("reason") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force() -> InForce {
        InForce {
            class: Class::new(3).unwrap(),
            urgency: 0.25,
            safety_margin: 0.5,
            social_value: 1.0,
            rule: Some("robots".into()),
            by_allowance: true,
            allowance: Some(AllowanceLeft { left: -1.5, size: 60.0, refill: 0.01 }),
        }
    }

    #[test]
    fn what_counts_comes_back_as_it_was_told_and_need_not_be_understood() {
        let told = in_force().extensions();
        assert_eq!(InForce::in_extensions(&told), Some(in_force()));
        assert_eq!(told.first_not_understood(&[]), None);
        assert_eq!(InForce::in_extensions(&Extensions::NONE), None);
        for value in [vec![], vec![9], vec![0; 200]] {
            let other = Extensions::new(vec![Extension { number: IN_FORCE, value }]).unwrap();
            assert_eq!(InForce::in_extensions(&other), None);
        }
    }

    #[test]
    fn a_release_of_anothers_says_whose_and_must_be_understood() {
        let whose = Administer { agent: Agent::new("car-7").unwrap(), reason: "stands on the rail".into() };
        let release = Release::of_another(4, IntentId::new(9), &whose);
        assert_eq!(release.administers(), Ok(Some(whose.clone())));
        assert_eq!(release.extensions.first_not_understood(&[]), Some(ADMINISTER));
        assert_eq!(Release::default().administers(), Ok(None));
        for (reason, field) in [("x".repeat(limits::REASON_BYTES + 1), "reason"), ("a\nb".into(), "reason")] {
            let release = Release::of_another(4, IntentId::new(9), &Administer { reason, ..whose.clone() });
            assert_eq!(release.administers(), Err(field));
        }
        let broken = Extensions::new(vec![Extension { number: ADMINISTER, value: vec![1] }]).unwrap();
        assert_eq!(Release { extensions: broken, ..Release::default() }.administers(), Err("extensions"));
    }
}
