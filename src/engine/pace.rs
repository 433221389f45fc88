//! How long to wait between tries.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The first wait. Most trouble is over at once: an election's last moments, one lost reply.
const FIRST: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits that grow, with jitter so that many lanes do not come back at the same moment, and never end.
#[derive(Debug)]
pub(super) struct Pace(ExponentialBackoff);

impl Pace {
    pub(super) fn new() -> Self {
        let waits = ExponentialBuilder::new()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST);
        Self(waits.with_jitter().without_max_times().build())
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0.next().unwrap_or(LONGEST)).await;
    }
}
