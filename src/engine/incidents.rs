//! What operators ask about incidents.

use super::clock::wall_clock_ms;
use super::facade::{Caller, Engine, question_failed};
use super::fault::Fault;
use super::ticket::{Progress, UNKNOWN_RETRY, within};
use crate::domain::decision::IncidentId;
use crate::domain::ids::{Holder, Reason};
use crate::domain::incident::{Incident, IncidentFilter};
use crate::store::{IncidentPage, StoreError};

/// Whether an incident was closed before it was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedBefore(pub bool);

impl Engine {
    /// Incidents behind `after` in the order of their ids, at most `limit`.
    pub async fn incidents(
        &self,
        after: Option<IncidentId>,
        limit: usize,
        filter: &IncidentFilter,
        caller: Caller,
    ) -> Result<IncidentPage, Fault> {
        self.admit(caller)?;
        let listing = async {
            let found = self.shared.store.incidents(after.as_ref(), limit, filter);
            found.await.map_err(|error| question_failed(&error))
        };
        within(caller.deadline, &Progress::default(), listing).await
    }

    /// One incident, with its evidence behind the first `skip` pieces.
    pub async fn incident(
        &self,
        id: &IncidentId,
        skip: usize,
        caller: Caller,
    ) -> Result<Incident, Fault> {
        self.admit(caller)?;
        let asking = async {
            let found = self.shared.store.incident(id, skip).await;
            found
                .map_err(|error| question_failed(&error))?
                .ok_or(Fault::NoSuchIncident)
        };
        within(caller.deadline, &Progress::default(), asking).await
    }

    /// Closes an incident. One that is closed already stays as it was closed first; so the second part says whether it was.
    pub async fn close_incident(
        &self,
        id: IncidentId,
        by: Holder,
        reason: Reason,
        caller: Caller,
    ) -> Result<(Incident, ClosedBefore), Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let (store, sent) = (self.shared.store.clone(), progress.clone());
        let closing = async move {
            if !sent.send() {
                return Err(Fault::DeadlinePassed);
            }
            let time_ms = wall_clock_ms();
            let mut before = ClosedBefore(false);
            let changed = store.change_incident(&id, |mut incident| {
                before = ClosedBefore(!incident.is_open());
                incident.is_open().then(|| {
                    incident.close(by.clone(), reason.clone(), time_ms);
                    incident
                })
            });
            match changed.await {
                Ok(None) => Err(Fault::NoSuchIncident),
                // As it stands now, with its evidence; that it is closed holds also if this cannot be read.
                Ok(Some(changed)) => {
                    let shown = store.incident(&id, 0).await.ok().flatten();
                    Ok((shown.unwrap_or(changed), before))
                }
                Err(StoreError::Indeterminate { detail }) => {
                    tracing::warn!(detail, "whether an incident was closed is unknown");
                    Err(Fault::UnknownOutcome {
                        retry_after: UNKNOWN_RETRY,
                    })
                }
                Err(error) => Err(question_failed(&error)),
            }
        };
        self.finish(caller, &progress, closing).await
    }
}
