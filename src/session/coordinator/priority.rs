//! What an intent says of its own priority, and how much of it counts.

use std::sync::Arc;

use crate::limits;
use crate::types::{Class, Intent};

/// What an intent says of its own priority: its class and the inputs of the priority model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Priority {
    /// 0 to 7; the highest goes first.
    pub class: Class,
    /// 0 to 1.
    pub urgency: f64,
    /// 0 to 1; a small margin is a reason to go first.
    pub safety_margin: f64,
    /// 0 to 1.
    pub social_value: f64,
}

impl Priority {
    /// What `intent` says.
    pub fn of(intent: &Intent) -> Self {
        let Intent { class, urgency, safety_margin, social_value, .. } = intent;
        Priority {
            class: *class,
            urgency: *urgency,
            safety_margin: *safety_margin,
            social_value: *social_value,
        }
    }

    /// The most that an intent can say.
    pub fn highest() -> Self {
        let class = Class::new(limits::CLASS_MAX.into()).unwrap_or_default();
        Priority { class, urgency: 1.0, safety_margin: 0.0, social_value: 1.0 }
    }

    /// Has `intent` say this instead.
    pub fn put(self, intent: &mut Intent) {
        let Priority { class, urgency, safety_margin, social_value } = self;
        intent.class = class;
        intent.urgency = urgency;
        intent.safety_margin = safety_margin;
        intent.social_value = social_value;
    }

    /// No more in any part than `most`: what says less stays as it is.
    #[must_use]
    pub fn lowered_to(self, most: Priority) -> Self {
        Priority {
            class: self.class.min(most.class),
            urgency: self.urgency.min(most.urgency),
            safety_margin: self.safety_margin.max(most.safety_margin),
            social_value: self.social_value.min(most.social_value),
        }
    }
}

/// How much of what an intent says of its priority counts by rules; what is `None` counts as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// The highest class.
    pub class: Option<Class>,
    /// The greatest urgency.
    pub urgency: Option<f64>,
    /// The least safety margin.
    pub safety_margin: Option<f64>,
    /// The greatest social value.
    pub social_value: Option<f64>,
    /// The rule that the latest of them came from.
    by: Option<Arc<str>>,
}

impl Caps {
    /// These caps, of no rule yet.
    pub fn new(
        class: Option<Class>,
        urgency: Option<f64>,
        safety_margin: Option<f64>,
        social_value: Option<f64>,
    ) -> Self {
        Caps { class, urgency, safety_margin, social_value, by: None }
    }

    /// The lower of each of these and of those of `rule`.
    pub(super) fn and(&mut self, other: &Caps, rule: &Arc<str>) {
        let most = self.most().lowered_to(other.most());
        if most != self.most() {
            let Priority { class, urgency, safety_margin, social_value } = most;
            *self = Caps {
                class: Some(class),
                urgency: Some(urgency),
                safety_margin: Some(safety_margin),
                social_value: Some(social_value),
                by: Some(Arc::clone(rule)),
            };
        }
    }

    /// The most that counts.
    pub fn most(&self) -> Priority {
        let all = Priority::highest();
        Priority {
            class: self.class.unwrap_or(all.class),
            urgency: self.urgency.unwrap_or(all.urgency),
            safety_margin: self.safety_margin.unwrap_or(all.safety_margin),
            social_value: self.social_value.unwrap_or(all.social_value),
        }
    }

    /// The caps that are set, for people: `class 3, urgency 0.5`.
    pub fn words(&self) -> String {
        let class = self.class.map(|class| format!("class {}", class.number()));
        let urgency = self.urgency.map(|most| format!("urgency {most}"));
        let margin = self.safety_margin.map(|least| format!("safety margin {least} or more"));
        let value = self.social_value.map(|most| format!("social value {most}"));
        [class, urgency, margin, value].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// What counts of `sent`, and the rule that lowered it, where one did.
    pub fn lower(&self, sent: Priority) -> (Priority, Option<Arc<str>>) {
        let lowered = sent.lowered_to(self.most());
        (lowered, if lowered == sent { None } else { self.by.clone() })
    }
}

/// What lowered an intent's priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoweredBy {
    /// This rule.
    pub rule: Option<Arc<str>>,
    /// Its agent's allowance, which could not pay for it.
    pub allowance: bool,
}

impl LoweredBy {
    /// Whether nothing did.
    pub fn is_nothing(&self) -> bool {
        self.rule.is_none() && !self.allowance
    }
}

/// What an intent said of its priority where something else counts, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// What was sent.
    pub priority: Priority,
    /// What lowered it.
    pub by: LoweredBy,
}
