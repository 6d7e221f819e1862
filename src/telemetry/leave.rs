//! When a connection is let go: some time after it last took something.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::limits;

/// Shared between a connection and what it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Leave(Arc<watch::Sender<Instant>>);

impl Leave {
    /// [`limits::WATCHING_TIMEOUT`] from now.
    pub(crate) fn soon() -> Self {
        Leave(Arc::new(watch::Sender::new(Leave::then())))
    }

    /// It took something: so much time from now.
    pub(crate) fn put_off(&self) {
        self.0.send_replace(Leave::then());
    }

    fn then() -> Instant {
        Instant::now() + limits::WATCHING_TIMEOUT.to_std()
    }

    /// Resolves once it is time. Cancel safe.
    pub(crate) async fn time(&self) {
        loop {
            let then = *self.0.borrow();
            sleep_until(then).await;
            if *self.0.borrow() == then {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_frame_that_is_taken_gives_more_time() {
        let most = limits::WATCHING_TIMEOUT.to_std();
        let (leave, began) = (Leave::soon(), Instant::now());
        let taking = leave.clone();
        let takes = async move {
            for _ in 0..3 {
                tokio::time::sleep(most / 2).await;
                taking.put_off();
            }
        };
        tokio::join!(takes, leave.time());
        assert!(began.elapsed() >= most * 5 / 2 && began.elapsed() < most * 3);
    }
}
