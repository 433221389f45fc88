//! The stop of a sidecar: in order, and with an end.

use std::time::Duration;

use super::connections::Connections;
use super::health::Health;
use crate::engine::Engine;
use crate::transport::Gate;

/// How long connections may take to close once no call is under way: an answer must still be written.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// What is stopped.
pub(super) struct Stopping<'s> {
    pub(super) health: &'s Health,
    pub(super) gate: &'s Gate,
    pub(super) engine: &'s Engine,
    pub(super) connections: &'s Connections,
}

impl Stopping<'_> {
    /// Stops it. Calls under way may take so long; what is left after that takes the engine's last second and the grace of
    /// connections. Reservations are left alone: they belong to the callers, and a sidecar that comes back keeps them.
    /// False: the limit came first.
    pub(super) async fn within(self, limit: Duration) -> bool {
        // First, so that whoever is refused finds the reason.
        self.health.stopping().await;
        self.gate.close();
        // Whoever calls meanwhile, on a connection old or new, is told that the sidecar is stopping, and when to ask again.
        // Streams, and calls that wait, are ended by the engine.
        let calls = tokio::time::timeout(limit, self.gate.empty());
        let (engine_done, calls) = tokio::join!(self.engine.stop(limit), calls);
        // Idle callers and half-sent requests have no answer to wait for; what was answered last is still written.
        self.connections.close();
        let _ = tokio::time::timeout(CLOSE_GRACE, self.connections.closed()).await;
        self.connections.cut();
        engine_done && calls.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Backend;
    use crate::engine::EngineOptions;
    use crate::server::open;

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_though_a_call_under_way_does_not() {
        const LIMIT: Duration = Duration::from_secs(5);
        /// The engine's last second is part of it.
        const LATEST: Duration = Duration::from_secs(7);
        let store = open::store(&Backend::Memory).await.unwrap();
        let engine = Engine::start(store, EngineOptions::default());
        let (health, gate) = (Health::not_serving().await, Gate::default());
        let connections = Connections::default();
        let stopping = || Stopping {
            health: &health,
            gate: &gate,
            engine: &engine,
            connections: &connections,
        };
        let call = gate.call_under_way();
        let begun = tokio::time::Instant::now();
        let stopped = tokio::time::timeout(LATEST, stopping().within(LIMIT)).await;
        assert_eq!(stopped, Ok(false), "{:?}", begun.elapsed());
        assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
        drop(call);
        assert!(stopping().within(LIMIT).await, "nothing is under way");
    }
}
