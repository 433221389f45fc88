//! What health says, of the sidecar as a whole ("") and of its service.
//!
//! SERVING: the store is open, etcd answers, and nothing is halted. All else is NOT_SERVING; the log and the answers to calls
//! say why.

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::services::SERVICE;
use crate::engine;

/// It.
#[derive(Clone)]
pub(super) struct Health(HealthReporter);

impl Health {
    /// Before the store has proved itself. The library would begin with SERVING.
    pub(super) async fn not_serving() -> Self {
        let health = Self(HealthReporter::new());
        health.say(ServingStatus::NotServing).await;
        health
    }

    /// Says now what the engine finds, and from now on whenever that changes, until the task is aborted.
    pub(super) async fn follow(
        &self,
        mut found: watch::Receiver<engine::Health>,
    ) -> JoinHandle<()> {
        let now = *found.borrow_and_update();
        self.say(status_of(now)).await;
        let health = self.clone();
        tokio::spawn(async move {
            while found.changed().await.is_ok() {
                let now = *found.borrow_and_update();
                health.say(status_of(now)).await;
            }
        })
    }

    pub(super) async fn serving(&self) {
        self.say(ServingStatus::Serving).await;
    }

    pub(super) async fn stopping(&self) {
        self.say(ServingStatus::NotServing).await;
    }

    pub(super) fn reporter(&self) -> HealthReporter {
        self.0.clone()
    }

    async fn say(&self, status: ServingStatus) {
        for name in ["", SERVICE] {
            self.0.set_service_status(name, status).await;
        }
    }
}

fn status_of(found: engine::Health) -> ServingStatus {
    match found {
        engine::Health::Serving => ServingStatus::Serving,
        engine::Health::Unreachable | engine::Health::Halted(_) | engine::Health::Untrusted => {
            ServingStatus::NotServing
        }
    }
}
