//! The machines in force, as this sidecar knows them.
//!
//! A watch keeps the table fresh, but nothing rests on that: whatever is judged by a machine is committed or confirmed under
//! the guard that it is still in force. A kind that is not in the table is judged as one without a machine; if it has one
//! after all, the guard fails, and the machine is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{error, info};

use super::tasks::Tasks;
use crate::domain::ids::{EventName, Kind};
use crate::domain::judge::Law;
use crate::domain::machine::{DigestRule, Filed};
use crate::domain::token::{Revision, Timeline};
use crate::store::{MachineGuard, MachineNews, Store, StoreError};

/// Most kinds that have a machine in force; all of them are in the table.
pub(super) const MACHINES_MAX: usize = 1024;

/// A law, and since when it is in force; `None`: there is no machine.
#[derive(Clone, Debug, Default)]
pub(super) struct LawSince {
    pub(super) law: Law,
    pub(super) since: Option<Revision>,
}

impl LawSince {
    /// What must hold as long as it is in force.
    pub(super) fn guard(&self) -> MachineGuard {
        self.since
            .map_or(MachineGuard::Absent, MachineGuard::InForceSince)
    }
}

/// What of a message's content counts, as far as is known before it is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The rule of the event.
    pub rule: DigestRule,
    /// Whether it may turn out otherwise, so that the content must be kept.
    pub may_change: bool,
    /// How long a claim of the event lasts unless the request says so.
    pub claim: Option<Duration>,
}

/// The table. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Laws {
    store: Store,
    known: Arc<Mutex<Known>>,
    /// Of several who find a machine changed, one reads it for all.
    reading: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The store that the table belongs to. In another one the same revision may mean another machine.
    timeline: Option<Timeline>,
    by_kind: HashMap<Kind, LawSince>,
}

impl Laws {
    pub(super) fn start(store: Store, tasks: &Tasks) -> Self {
        let laws = Self {
            store,
            known: Arc::default(),
            reading: Arc::default(),
        };
        let following = laws.clone();
        tasks.spawn_background(async move { following.follow().await });
        laws
    }

    /// What a kind is judged by, as far as is known.
    pub(super) fn of(&self, kind: &Kind, timeline: Timeline) -> LawSince {
        let known = self.lock();
        if known.timeline != Some(timeline) {
            return LawSince::default();
        }
        known.by_kind.get(kind).cloned().unwrap_or_default()
    }

    /// What of a message's content counts, as far as is known.
    pub(super) fn counted(
        &self,
        kind: &Kind,
        event: Option<&EventName>,
        timeline: Timeline,
    ) -> Counted {
        let law = self.of(kind, timeline).law;
        let said = match (&law, event) {
            (Law::Machine(machine), Some(name)) => machine.event(name).map(|event| event.event),
            (Law::Machine(_) | Law::NoFile | Law::Unreadable(_), _) => None,
        };
        Counted {
            rule: said.map(|event| event.digest.clone()).unwrap_or_default(),
            claim: said.and_then(|event| event.claim),
            may_change: event.is_some() || law.version().is_some(),
        }
    }

    /// Reads what a kind is judged by, if the table does not show what was just found.
    pub(super) async fn learn(
        &self,
        kind: &Kind,
        timeline: Timeline,
        found: Option<Revision>,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.reading.lock().await;
        if self.of(kind, timeline).since == found {
            return Ok(());
        }
        let read = match self.store.machine(kind).await {
            Ok(None) => None,
            Ok(Some((filed, since))) => Some((since, Ok(filed))),
            Err(StoreError::Corrupt { key, reason }) => {
                let since = self.store.machine_revision(kind).await?;
                since.map(|since| (since, Err(StoreError::Corrupt { key, reason })))
            }
            Err(error) => return Err(error),
        };
        let law = read.map(|(since, filed)| opened(kind, since, filed));
        let mut known = self.lock_for(timeline);
        match law {
            // What the watch has brought meanwhile is no older than what is known of it.
            Some(law) => known.put(kind, law),
            None => drop(known.by_kind.remove(kind)),
        }
        Ok(())
    }

    async fn follow(self) {
        let mut watch = self.store.watch_machines();
        loop {
            // Read before what is to be told belongs to it: a later store is never taken for this one.
            let timeline = self.store.timeline();
            loop {
                let news = tokio::select! {
                    biased;
                    () = self.store.another_timeline(timeline) => break,
                    news = watch.next() => news,
                };
                self.take(news, timeline);
            }
            watch.restart();
        }
    }

    fn take(&self, news: MachineNews, timeline: Timeline) {
        match news {
            MachineNews::All(found) => {
                let all = found.into_iter().map(|(kind, found)| {
                    let (since, filed) = match found {
                        Ok((filed, since)) => (since, Ok(filed)),
                        Err((error, since)) => (since, Err(error)),
                    };
                    (self.unless_known(&kind, since, filed, timeline), kind)
                });
                let all: Vec<_> = all.collect();
                let mut known = self.lock_for(timeline);
                known
                    .by_kind
                    .retain(|kind, _| all.iter().any(|(_, other)| other == kind));
                for (law, kind) in all {
                    if let Some(law) = law {
                        known.put(&kind, law);
                    }
                }
            }
            MachineNews::One(kind, revision, Some(filed)) => {
                if let Some(law) = self.unless_known(&kind, revision, filed, timeline) {
                    self.lock_for(timeline).put(&kind, law);
                }
            }
            MachineNews::One(kind, revision, None) => {
                let mut known = self.lock_for(timeline);
                let law = known.by_kind.get(&kind);
                if law.is_some_and(|law| law.since < Some(revision)) {
                    known.by_kind.remove(&kind);
                    error!(%kind, "the machine of this kind was deleted from etcd");
                }
            }
        }
    }

    /// Makes a machine ready, unless it is in the table already.
    fn unless_known(
        &self,
        kind: &Kind,
        since: Revision,
        filed: Result<Filed, StoreError>,
        timeline: Timeline,
    ) -> Option<LawSince> {
        let known = self.of(kind, timeline).since;
        known
            .is_none_or(|known| known < since)
            .then(|| opened(kind, since, filed))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of a timeline; that of another one is forgotten.
    fn lock_for(&self, timeline: Timeline) -> MutexGuard<'_, Known> {
        let mut known = self.lock();
        if known.timeline != Some(timeline) {
            known.timeline = Some(timeline);
            known.by_kind.clear();
        }
        known
    }
}

impl Known {
    fn put(&mut self, kind: &Kind, law: LawSince) {
        let older = self
            .by_kind
            .get(kind)
            .is_some_and(|known| known.since > law.since);
        // The limit of kinds is kept where machines are applied.
        if !older {
            self.by_kind.insert(kind.clone(), law);
        }
    }
}

fn opened(kind: &Kind, since: Revision, filed: Result<Filed, StoreError>) -> LawSince {
    let opened = filed
        .map_err(|error| error.to_string())
        .and_then(|filed| filed.open());
    let law = match opened {
        Ok(machine) => {
            info!(%kind, version = %machine.version(), hash = %machine.machine().hash(), "a machine is in force");
            Law::Machine(Arc::new(machine))
        }
        Err(why) => {
            error!(%kind, why, "the machine in force cannot be read; nothing of its kind is judged here");
            Law::Unreadable(why.into())
        }
    };
    LawSince {
        law,
        since: Some(since),
    }
}
