//! Counts how often incidents were found again, without a write for each delivery.
//!
//! The first finding of an incident is written by the commit that decides it. What is found again is answered at once, often
//! from memory, and counted here; a moment later the counts of all incidents are added to them in etcd. A sidecar that is
//! killed loses what it counted in that moment, and a lost reply may count a delivery twice or not at all: a count is for
//! people, no decision rests on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::warn;

use super::clock::wall_clock_ms;
use super::sparing::Sparing;
use super::tasks::Tasks;
use crate::domain::decision::IncidentId;
use crate::domain::digest::ContentDigest;
use crate::domain::incident::Sighting;
use crate::store::error::NotApplied;
use crate::store::{Store, StoreError};

/// How long deliveries are counted before the counts are written.
const WRITTEN_AFTER: Duration = Duration::from_secs(1);
/// Incidents that are counted at once. Deliveries of further ones are not counted, which is logged.
const INCIDENTS_COUNTED_MAX: usize = 4 * 1024;

/// The counts that are not written yet. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    store: Store,
    counts: Arc<Mutex<HashMap<IncidentId, Sighting>>>,
    bell: Arc<Notify>,
    full: Arc<Sparing>,
}

impl Tally {
    pub(super) fn start(store: Store, tasks: &Tasks) -> Self {
        let tally = Self {
            store,
            counts: Arc::default(),
            bell: Arc::default(),
            full: Arc::default(),
        };
        tasks.spawn_background(tally.clone().run());
        tally
    }

    /// Counts a delivery that found an incident again, and whether it brought a result that was not kept.
    pub(super) fn note(&self, id: &IncidentId, digest: Option<&ContentDigest>, unkept: bool) {
        let last_ms = wall_clock_ms();
        let sighting = Sighting {
            times: 1,
            last_ms,
            digest: digest.cloned(),
            unkept: u32::from(unkept),
        };
        self.add(id.clone(), sighting);
        self.bell.notify_one();
    }

    fn add(&self, id: IncidentId, sighting: Sighting) {
        let mut counts = self.lock();
        if let Some(known) = counts.get_mut(&id) {
            known.times = known.times.saturating_add(sighting.times);
            known.unkept = known.unkept.saturating_add(sighting.unkept);
            if known.last_ms <= sighting.last_ms {
                known.last_ms = sighting.last_ms;
                known.digest = sighting.digest.or(known.digest.take());
            }
            return;
        }
        if counts.len() < INCIDENTS_COUNTED_MAX {
            counts.insert(id, sighting);
            return;
        }
        drop(counts);
        if let Some(unsaid) = self.full.speak() {
            let incident = id.0.as_str();
            warn!(
                incident,
                unsaid, "too many incidents are found again at once; not all are counted"
            );
        }
    }

    async fn run(self) {
        loop {
            self.bell.notified().await;
            tokio::time::sleep(WRITTEN_AFTER).await;
            self.write().await;
        }
    }

    /// Adds to the incidents what was counted by now. One after the other is taken out: whoever is stopped in between loses no
    /// other than the one that is under way.
    pub(super) async fn write(&self) {
        let counted: Vec<IncidentId> = self.lock().keys().cloned().collect();
        for id in counted {
            let Some(sighting) = self.lock().remove(&id) else {
                continue;
            };
            let changed = self.store.change_incident(&id, |mut incident| {
                incident.count(&sighting);
                Some(incident)
            });
            match changed.await {
                // An incident that is gone needs no count.
                Ok(Some(_) | None) => {}
                Err(StoreError::Full { .. }) => {
                    self.add(id, sighting);
                    self.bell.notify_one();
                    return;
                }
                Err(StoreError::NotApplied { reason, .. }) => {
                    self.add(id, sighting);
                    self.bell.notify_one();
                    if reason == NotApplied::Unreachable {
                        // The others would only wait for the same, one after the other.
                        return;
                    }
                }
                Err(error @ (StoreError::Indeterminate { .. } | StoreError::Corrupt { .. })) => {
                    let incident = id.0.as_str();
                    warn!(incident, %error, "how often this incident was found may be a little off");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IncidentId, Sighting>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
