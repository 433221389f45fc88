//! Start and stop of a sidecar.

mod admin_socket;
mod banner;
mod connections;
mod etcd_version;
mod health;
mod in_process;
mod listen;
mod machines;
mod open;
mod services;
mod signals;
mod stop;
mod unread;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tracing::{info, warn};

use self::admin_socket::{AdminListener, AdminSocketError};
use self::connections::Connections;
use self::health::Health;
use self::machines::MachinesError;
use self::open::OpenError;
use self::signals::{Signal, Signals};
use self::stop::Stopping;
use crate::config::{Backend, Config, LogFormat};
use crate::engine::{Engine, EngineOptions};
use crate::transport::{AdminDoor, Door, EngineSlot, Gate};

pub use self::in_process::{Running, start_dev, start_dev_under};

/// Why a sidecar did not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("cannot listen on {address}: {source}; give another with --listen or FENCEPOST_LISTEN")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The admin socket cannot be made.
    #[error(transparent)]
    AdminSocket(#[from] AdminSocketError),
    /// The store did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A machine file cannot be put in force.
    #[error(transparent)]
    Machines(#[from] MachinesError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
}

impl ServeError {
    /// Whether the configuration is wrong, as only the start could find out.
    pub fn is_misconfigured(&self) -> bool {
        matches!(self, Self::AdminSocket(error) if error.is_misplaced())
    }
}

/// Runs a sidecar until it is told to stop.
pub async fn run(config: Config) -> Result<(), ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let (listener, address) = bind(config.listen).await?;
    let admin = AdminListener::bind(&config.admin, address.port())?;
    let admin_path = admin.as_ref().map(|admin| admin.path().to_owned());

    // The port answers before etcd does: health says NOT_SERVING, calls say UNAVAILABLE.
    info!(%address, "listening; calls are answered once the store is open");
    let engine = EngineSlot::default();
    let gate = Gate::default();
    let health = Health::not_serving().await;
    let connections = Connections::default();
    let door = Door::new(engine.clone(), gate.clone(), services::beside(&health));
    connections.accept(listener, move |request, peer| {
        door.clone().answer(request, peer)
    });
    // Holds the socket's file until the end.
    let _admin_file = admin.map(|admin| {
        let door = AdminDoor::new(
            engine.clone(),
            gate.clone(),
            services::beside_admin(&health),
        );
        let (listener, file) = admin.into_parts();
        connections.accept(listener, move |request, peer| {
            door.clone().answer(request, peer)
        });
        file
    });

    let store = tokio::select! {
        opened = open::store(&config.backend) => opened?,
        signal = signals.next() => {
            info!(%signal, "stopping before the store was open");
            return Ok(());
        }
    };
    let etcd = match &config.backend {
        Backend::Etcd(_) => Some(etcd_version::tell(&store).await),
        Backend::Memory => None,
    };
    let options = EngineOptions {
        keeping: config.keeping,
        ..EngineOptions::default()
    };
    let running = Engine::start(store, options);
    tokio::select! {
        applied = machines::put_in_force(&running, &config.machines) => applied?,
        signal = signals.next() => {
            info!(%signal, "stopping before the machines were in force");
            return Ok(());
        }
    }
    engine.fill(running.clone());
    // It begins with what is known now, so that it is said before the ready line.
    let following = health.follow(running.health()).await;
    banner::ready(
        address,
        admin_path.as_deref(),
        etcd.as_deref(),
        match (&config.backend, config.log.format) {
            (Backend::Etcd(_), _) => banner::Welcome::None,
            (Backend::Memory, LogFormat::Text) => banner::Welcome::Text,
            (Backend::Memory, LogFormat::Json) => banner::Welcome::Line,
        },
    );

    let signal = signals.next().await;
    signals.exit_on_the_next();
    following.abort();
    stop(
        signal,
        config.drain_limit,
        Stopping {
            health: &health,
            gate: &gate,
            engine: &running,
            connections: &connections,
        },
    )
    .await;
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let refused = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

async fn stop(signal: Signal, limit: std::time::Duration, stopping: Stopping<'_>) {
    info!(%signal, limit = %humantime::format_duration(limit), "stopping");
    // Boxed, for it is large, and there is one.
    if Box::pin(stopping.within(limit)).await {
        info!("stopped; every call was answered");
    } else {
        warn!("stopped at the drain limit; callers of cut calls learn the truth by asking again");
    }
}
