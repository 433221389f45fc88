//! Tells which etcd the sidecar is on, and what is known to be wrong with it.

use std::collections::BTreeMap;

use tracing::{info, warn};

use crate::store::{Store, Version};

/// Asks all members, tells of each, and answers what they run, for the line that says that the sidecar is ready.
pub(super) async fn tell(store: &Store) -> String {
    let mut running: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for runs in store.versions().await {
        match runs.version {
            Ok(version) => running.entry(version).or_default().push(runs.endpoint),
            Err(reason) => {
                warn!(endpoint = %runs.endpoint, reason, "this endpoint of etcd does not say what it runs")
            }
        }
    }
    for (version, endpoints) in &running {
        let endpoints = endpoints.join(", ");
        info!(%version, endpoints, "etcd");
        let Some(parsed) = Version::parse(version) else {
            continue;
        };
        for what in parsed.defects() {
            warn!(%version, endpoints, upgrade_to = %parsed.sound(), "this etcd {what}");
        }
    }
    let versions: Vec<_> = running.into_keys().collect();
    if versions.is_empty() {
        "unknown".to_owned()
    } else {
        versions.join(", ")
    }
}
