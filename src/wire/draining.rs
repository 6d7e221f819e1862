//! The drain: how an administrator asks for it, and what of it is told.

use serde::{Deserialize, Serialize};

use super::codec;
use super::extension::{Extension, Extensions};
use super::message::{Draining, Release};
use crate::limits;
use crate::types::{IntentId, Micros, Time};

/// The extension of a [`Draining`] and of an [`Answer`](super::Answer) that tells how a drain stands.
const STANDS: u16 = 7;
/// The extension of a [`Release`] that asks for a drain. Who does not know it must not take the release for one of the
/// sender's own.
const DRAIN: u16 = 7 | Extension::REQUIRED;

/// What an administrator asks of a coordinator about its drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainAsk {
    /// To drain, or to drain by another deadline.
    Order(DrainOrder),
    /// How the drain stands, if it drains.
    How,
}

/// An order to drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainOrder {
    /// How long holders may go on, up to [`limits::DRAIN_MOST`]; `None` as long as the coordinator is configured to wait.
    pub within: Option<Micros>,
    /// Why, for people; up to [`limits::REASON_BYTES`] bytes without control characters; may be empty.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
enum AskText {
    Order { within_us: Option<u64>, reason: String },
    How,
}

/// How a drain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainStands {
    /// The end of the drain at the latest.
    pub deadline: Time,
    /// Whether it is over and the coordinator stops now.
    pub is_over: bool,
    /// Grants in force, all agents' together; told to who may administer.
    pub left: Option<u64>,
}

impl Release {
    /// The number of the extension that must be understood.
    pub(crate) const DRAIN: u16 = DRAIN;

    /// One that is none: it asks about a drain.
    pub fn about_drain(request: u64, ask: &DrainAsk) -> Self {
        let text = match ask {
            DrainAsk::How => AskText::How,
            DrainAsk::Order(DrainOrder { within, reason }) => {
                AskText::Order { within_us: within.map(Micros::as_us), reason: reason.clone() }
            }
        };
        let mut value = Vec::new();
        // A span and a reason fit.
        let written = codec::encode(&text, &mut value);
        debug_assert!(written.is_ok());
        let extensions = Extensions::new(vec![Extension { number: DRAIN, value }]).unwrap_or_default();
        Release { request, id: IntentId::new(0), extensions }
    }

    /// What it asks about a drain, where it does.
    ///
    /// # Errors
    /// Where it asks, and not rightly: the field at fault.
    pub fn asks_about_drain(&self) -> Result<Option<DrainAsk>, &'static str> {
        let Some(value) = self.extensions.value(DRAIN) else { return Ok(None) };
        let (within_us, reason) = match codec::decode(value).map_err(|_| "extensions")? {
            AskText::How => return Ok(Some(DrainAsk::How)),
            AskText::Order { within_us, reason } => (within_us, reason),
        };
        let within = within_us.map(Micros::from_us);
        if within.is_some_and(|within| within > limits::DRAIN_MOST) {
            return Err("deadline");
        }
        if reason.len() > limits::REASON_BYTES || reason.contains(char::is_control) {
            return Err("reason");
        }
        Ok(Some(DrainAsk::Order(DrainOrder { within, reason })))
    }
}

impl DrainStands {
    /// As the extensions of a message.
    pub fn extensions(&self) -> Extensions {
        let mut value = Vec::new();
        // Three numbers fit.
        let written = codec::encode(self, &mut value);
        debug_assert!(written.is_ok());
        Extensions::new(vec![Extension { number: STANDS, value }]).unwrap_or_default()
    }

    /// What the extensions of a message tell; a value of another form tells nothing.
    pub fn in_extensions(extensions: &Extensions) -> Option<Self> {
        codec::decode(extensions.value(STANDS)?).ok()
    }
}

impl Draining {
    /// How the drain stands, where there is one with a deadline.
    pub fn stands(&self) -> Option<DrainStands> {
        DrainStands::in_extensions(&self.extensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_and_a_question_come_back_as_they_were_asked_and_must_be_understood() {
        let order = DrainOrder { within: Some(Micros::from_secs(30)), reason: "upgrade".into() };
        for ask in [DrainAsk::Order(order), DrainAsk::Order(DrainOrder::default()), DrainAsk::How] {
            let release = Release::about_drain(4, &ask);
            assert_eq!(release.asks_about_drain(), Ok(Some(ask)));
            assert_eq!(release.extensions.first_not_understood(&[]), Some(DRAIN));
            assert_eq!(release.administers(), Ok(None));
        }
        assert_eq!(Release::default().asks_about_drain(), Ok(None));
    }

    #[test]
    fn an_order_that_is_none_names_its_field() {
        let longer = limits::DRAIN_MOST.plus(Micros::from_us(1));
        let asked = |within, reason: &str| {
            let ask = DrainAsk::Order(DrainOrder { within, reason: reason.into() });
            Release::about_drain(4, &ask).asks_about_drain()
        };
        assert!(asked(Some(limits::DRAIN_MOST), &"x".repeat(limits::REASON_BYTES)).is_ok());
        assert_eq!(asked(Some(longer), ""), Err("deadline"));
        assert_eq!(asked(None, &"x".repeat(limits::REASON_BYTES + 1)), Err("reason"));
        assert_eq!(asked(None, "a\nb"), Err("reason"));
        let broken = Extensions::new(vec![Extension { number: DRAIN, value: vec![9; 4] }]).unwrap();
        assert_eq!(
            Release { extensions: broken, ..Release::default() }.asks_about_drain(),
            Err("extensions")
        );
    }

    #[test]
    fn how_it_stands_is_told_and_need_not_be_understood() {
        let stands = DrainStands { deadline: Time::from_us(5), is_over: false, left: Some(3) };
        let told = stands.extensions();
        assert_eq!(DrainStands::in_extensions(&told), Some(stands));
        assert_eq!(told.first_not_understood(&[]), None);
        for value in [vec![], vec![9], vec![0; 200]] {
            let extensions = Extensions::new(vec![Extension { number: STANDS, value }]).unwrap();
            assert_eq!(Draining { extensions, ..Draining::default() }.stands(), None);
        }
    }
}
