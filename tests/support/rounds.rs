//! What etcd saw of reservation keys, revision by revision.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::{EventType, WatchOptions};
use fencepost::domain::ids::ResourceId;

use super::backend::Backend;

/// The revision from which a test looks.
const FIRST: i64 = 1;

type Keys = BTreeSet<String>;

/// Fails unless each set of reservation keys that hang on one lease began at one revision, was one of these sets as a whole, and
/// ended at one revision. Answers how many sets began.
pub(crate) async fn whole_at_every_revision(backend: &Backend, sets: &[&[ResourceId]]) -> usize {
    let family = format!("{}h/", backend.prefix());
    let asked = sets
        .iter()
        .map(|set| set.iter().map(|one| key(&family, one)).collect());
    let asked: Vec<Keys> = asked.collect();
    let mut raw = backend.raw().await;
    let end = format!("{family}~");
    raw.put(end.clone(), "the end", None).await.unwrap();
    let options = WatchOptions::new().with_prefix().with_start_revision(FIRST);
    let mut news = raw.watch(family, Some(options)).await.unwrap();
    let mut by_revision: BTreeMap<i64, Vec<(EventType, String, i64)>> = BTreeMap::new();
    'all: loop {
        let told = news.message().await.unwrap().expect("the watch goes on");
        for event in told.events() {
            let entry = event.kv().unwrap();
            if entry.key_str().unwrap() == end {
                break 'all;
            }
            let at = by_revision.entry(entry.mod_revision()).or_default();
            let key = entry.key_str().unwrap().to_owned();
            at.push((event.event_type(), key, entry.lease()));
        }
    }
    // Sets by lease, as they stand.
    let mut live: BTreeMap<i64, Keys> = BTreeMap::new();
    let mut began = 0;
    for (revision, events) in by_revision {
        let mut puts: BTreeMap<i64, Keys> = BTreeMap::new();
        let mut gone = Keys::new();
        for (kind, key, lease) in events {
            match kind {
                EventType::Put => assert!(puts.entry(lease).or_default().insert(key)),
                EventType::Delete => assert!(gone.insert(key)),
            }
        }
        live.retain(|_, keys| {
            let ends = keys.iter().any(|key| gone.contains(key));
            let all = keys.iter().all(|key| gone.contains(key));
            assert!(
                !ends || all,
                "at revision {revision} {gone:?} of {keys:?} ended"
            );
            gone.retain(|key| !keys.contains(key));
            !ends
        });
        assert_eq!(
            gone,
            Keys::new(),
            "at revision {revision} ended what never began"
        );
        for (lease, keys) in puts {
            assert!(
                asked.contains(&keys),
                "at revision {revision} began {keys:?}"
            );
            let before = live.insert(lease, keys);
            assert_eq!(before, None, "at revision {revision}: one lease, two sets");
            began += 1;
        }
    }
    began
}

fn key(family: &str, resource: &ResourceId) -> String {
    format!("{family}{}/{}", resource.kind(), resource.id())
}
