//! The task that ends leases on time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;

/// The longest sleep; a lease may outlast what a timer can hold.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs until `ended`. Between two looks it holds no handle, or no engine would ever end.
pub(super) async fn run(
    shared: Weak<Shared>,
    lease_granted: Arc<Notify>,
    ended: CancellationToken,
) {
    loop {
        let Some(engine) = shared.upgrade() else {
            return;
        };
        let latest = Instant::now() + SLEEP_MAX;
        let wake = engine
            .expire()
            .map_or(latest, |expires| expires.min(latest));
        drop(engine);
        tokio::select! {
            () = ended.cancelled() => return,
            () = lease_granted.notified() => {}
            () = sleep_until(wake) => {}
        }
    }
}
