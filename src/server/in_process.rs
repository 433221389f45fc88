//! A sidecar on a store in memory, inside another process: for `demo` and for tests. It has no admin socket, takes no
//! signals and says nothing.

use std::net::SocketAddr;
use std::time::Duration;

use super::connections::Connections;
use super::health::Health;
use super::services;
use super::stop::Stopping;
use super::{ServeError, bind, machines, open};
use crate::config::{Backend, MachineFile};
use crate::engine::{Engine, EngineOptions};
use crate::transport::{Door, EngineSlot, Gate};

/// How long the stop waits for calls under way. Who stops it has no more questions.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// A running sidecar. Dropped without [`Running::stop`], it runs until the runtime ends.
pub struct Running {
    address: SocketAddr,
    engine: Engine,
    gate: Gate,
    health: Health,
    connections: Connections,
}

impl Running {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops it as a signal stops a process: calls under way are answered, and streams are told why they end. What it knew is
    /// gone.
    pub async fn stop(self) {
        let stopping = Stopping {
            health: &self.health,
            gate: &self.gate,
            engine: &self.engine,
            connections: &self.connections,
        };
        // What is still under way after the limit is cut; nothing that it could lose outlives this call.
        let _drained = Box::pin(stopping.within(DRAIN_LIMIT)).await;
    }
}

/// Starts one without machines; port 0 takes a free one.
pub async fn start_dev(listen: SocketAddr) -> Result<Running, ServeError> {
    start_dev_under(listen, &[]).await
}

/// Starts one under these machine files.
pub async fn start_dev_under(
    listen: SocketAddr,
    files: &[MachineFile],
) -> Result<Running, ServeError> {
    let (listener, address) = bind(listen).await?;
    let engine = Engine::start(
        open::store(&Backend::Memory).await?,
        EngineOptions::default(),
    );
    machines::put_in_force(&engine, files).await?;
    let slot = EngineSlot::default();
    slot.fill(engine.clone());
    let gate = Gate::default();
    let health = Health::not_serving().await;
    health.serving().await;
    let connections = Connections::default();
    let door = Door::new(slot, gate.clone(), services::beside(&health));
    connections.accept(listener, move |request, peer| {
        door.clone().answer(request, peer)
    });
    Ok(Running {
        address,
        engine,
        gate,
        health,
        connections,
    })
}
