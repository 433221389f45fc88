//! Gathers what the story of a resource is told from. Only reads: nothing is created, and no lane is asked.

use tracing::error;

use super::facade::{Caller, Engine, question_failed};
use super::fault::Fault;
use super::laws::LawSince;
use crate::domain::decision::IncidentId;
use crate::domain::explain::{
    Gathered, INCIDENTS_TOLD_MAX, OPERATIONS_TOLD_MAX, Story, explain, incident_ids,
};
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::Incident;
use crate::domain::judge::Standing;
use crate::domain::record::Operation;
use crate::domain::token::Timeline;
use crate::domain::waiter::WhoWaits;
use crate::store::error::NotApplied;
use crate::store::{ReadAsk, Seen, StoreError};

/// Operations in keys of their own that are looked at for one story.
const APART_LOOKED_AT_MAX: usize = 256;
/// How often it is begun anew because the timeline or the machine was replaced meanwhile.
const TRIES_MAX: usize = 8;

impl Engine {
    /// Tells the story of a resource, and of one of its operations. The record, the reservation, that operation and the law
    /// are read as they stood at one moment after the question was asked; other operations that are kept apart, incidents, and
    /// who waits, after it.
    pub async fn explain(
        &self,
        resource: ResourceId,
        operation: Option<OperationId>,
        caller: Caller,
    ) -> Result<Story, Fault> {
        let gathering = async {
            // Boxed, for it is rare and large: every operator's call would be made to hold it.
            let gathered = Box::pin(self.gather(resource, operation)).await?;
            Ok(explain(&gathered))
        };
        self.question(caller, gathering).await
    }

    /// Tells who waits for a resource.
    pub async fn who_waits(
        &self,
        resource: &ResourceId,
        caller: Caller,
    ) -> Result<WhoWaits, Fault> {
        self.question(caller, self.waiting_now(resource)).await
    }

    async fn waiting_now(&self, resource: &ResourceId) -> Result<WhoWaits, Fault> {
        let waiting = self.shared.store.who_waits(resource).await;
        waiting.map_err(|error| question_failed(&error))
    }

    async fn gather(
        &self,
        resource: ResourceId,
        asked: Option<OperationId>,
    ) -> Result<Gathered, Fault> {
        let (timeline, seen, law) = self.seen_under_law(&resource, asked.as_ref()).await?;
        let reservation = seen.reservation.map(|reservation| reservation.granted);
        let standing = Standing::seen(seen.record, reservation).map_err(|inconsistent| {
            let key = self.shared.store.key_of(&resource);
            error!(%key, %inconsistent, "a record and its reservation key do not fit together");
            Fault::CorruptRecord
        })?;
        let standing = standing
            .with_operations(seen.operations)
            .with_absent(asked.clone());
        let (apart, apart_looked_at) = self.apart(&resource, &standing).await?;
        let mut gathered = Gathered {
            resource,
            timeline,
            when: self.shared.clock.when(),
            standing,
            law: law.law,
            apart,
            apart_looked_at,
            incidents: Vec::new(),
            more_incidents: 0,
            waiting: WhoWaits::default(),
            asked,
        };
        gathered.waiting = self.waiting_now(&gathered.resource).await?;
        (gathered.incidents, gathered.more_incidents) = self.incidents_told(&gathered).await?;
        Ok(gathered)
    }

    /// The resource and what it is judged by, both as they stood at one moment.
    async fn seen_under_law(
        &self,
        resource: &ResourceId,
        asked: Option<&OperationId>,
    ) -> Result<(Timeline, Seen, LawSince), Fault> {
        let shared = &self.shared;
        let mut failed = None;
        for _ in 0..TRIES_MAX {
            let timeline = shared.store.timeline();
            let ask = ReadAsk {
                resource: resource.clone(),
                operations: asked.cloned().into_iter().collect(),
                machine: true,
            };
            let seen = match shared.reader.read(ask).await {
                Ok(seen) => seen,
                // By now the new one is known.
                Err(
                    error @ StoreError::NotApplied {
                        reason: NotApplied::TimelineMoved,
                        ..
                    },
                ) => {
                    failed = Some(error);
                    continue;
                }
                Err(error) => return Err(question_failed(&error)),
            };
            let found = seen.machine.flatten();
            let law = shared.laws.of(resource.kind(), timeline);
            if law.since == found && shared.store.timeline() == timeline {
                return Ok((timeline, seen, law));
            }
            let learned = shared.laws.learn(resource.kind(), timeline, found).await;
            learned.map_err(|error| question_failed(&error))?;
        }
        let error = failed.unwrap_or_else(|| StoreError::Indeterminate {
            detail: "the machine in force changes all the time".to_owned(),
        });
        Err(question_failed(&error))
    }

    /// The newest of the operations in keys of their own, as far as they are looked at, and how many of them were.
    async fn apart(
        &self,
        resource: &ResourceId,
        standing: &Standing,
    ) -> Result<(Vec<Operation>, u64), Fault> {
        let mut newest: Vec<Operation> = Vec::new();
        let mut looked_at = 0;
        let mut at = None;
        while standing.spilled() > 0 && looked_at < APART_LOOKED_AT_MAX {
            let page = self
                .shared
                .store
                .operations_kept_apart(resource, at.as_ref());
            let page = page.await.map_err(|error| question_failed(&error))?;
            looked_at += page.found.len();
            newest.extend(page.found);
            newest.sort_by_key(|operation| operation.time_ms);
            // What is let go now may be large.
            newest.drain(..newest.len().saturating_sub(OPERATIONS_TOLD_MAX));
            match page.next {
                Some(next) => at = Some(next),
                None => break,
            }
        }
        Ok((newest, u64::try_from(looked_at).unwrap_or(u64::MAX)))
    }

    /// Incidents about the operations told of, in the order in which they were found first; of too many those found last.
    async fn incidents_told(&self, gathered: &Gathered) -> Result<(Vec<Incident>, usize), Fault> {
        let store = &self.shared.store;
        let told = gathered.told().0.into_iter().map(|one| one.id);
        let mut operations: Vec<OperationId> = told.collect();
        operations.reverse();
        let open = gathered.standing.open().iter();
        operations.splice(0..0, open.map(|open| open.intent.operation.clone()));
        // The one that is asked about comes first, so that its own are never among those left out.
        operations.retain(|id| Some(id) != gathered.asked.as_ref());
        let operations = gathered.asked.iter().chain(&operations).map(Some);
        let possible: Vec<IncidentId> = operations
            .chain([None])
            .flat_map(|operation| incident_ids(&gathered.resource, operation))
            .collect();
        let there = store.incidents_among(&possible).await;
        let there = there.map_err(|error| question_failed(&error))?;
        let mut incidents = Vec::new();
        for id in there.iter().take(INCIDENTS_TOLD_MAX) {
            let found = store.incident(id, 0).await;
            // One that was removed meanwhile is over.
            incidents.extend(found.map_err(|error| question_failed(&error))?);
        }
        incidents.sort_by_key(|incident| incident.time_ms);
        Ok((incidents, there.len().saturating_sub(INCIDENTS_TOLD_MAX)))
    }
}
