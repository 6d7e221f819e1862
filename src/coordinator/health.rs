//! How the coordinator is, for those who watch it.

use std::sync::Arc;

use tokio::sync::watch;

/// How a coordinator is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It is not ready yet: slots that it was away for are still to be decided.
    #[default]
    Starting,
    /// It decides.
    Ready,
    /// It grants nothing new, and ends soon: at once, or when a [drain](super::Drainer) is over.
    Draining,
    /// It decides nothing any more, and why. A restart recovers.
    Halted(Arc<str>),
}

/// Tells whoever follows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reporter(watch::Sender<Health>);

impl Reporter {
    /// What is worse stays: nobody is ready again after a drain or a halt.
    pub(crate) fn report(&self, health: Health) {
        self.0.send_if_modified(|present| {
            let is_worse = match (&present, &health) {
                (Health::Starting, _) => true,
                (Health::Ready, new) => *new != Health::Ready,
                (Health::Draining, new) => matches!(new, Health::Halted(_)),
                (Health::Halted(_), _) => false,
            };
            if is_worse {
                *present = health;
            }
            is_worse
        });
    }

    pub(crate) fn follow(&self) -> watch::Receiver<Health> {
        self.0.subscribe()
    }
}
