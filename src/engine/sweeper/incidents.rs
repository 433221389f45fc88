//! Which incidents have an end, and when.
//!
//! That of a claim that died has none at first: the operation holds up its resource until it is settled, and the incident has
//! to stay as long. Nothing is written to it when it is settled, for whoever settles it (a person, a later attempt) need not
//! know of it; the sweep finds that out, and only then begins its retention.

use std::collections::HashMap;

use super::Sweeper;
use crate::domain::ids::ResourceId;
use crate::domain::incident::Incident;
use crate::domain::record::Record;
use crate::domain::retention::{StoreTime, When};
use crate::store::{FoundIncident, FoundRecord, ReadAsk, StoreError};

impl Sweeper {
    /// Those whose time is over, and those that are to get their end now. `pending`: whether any has one.
    pub(super) async fn over_or_settled(
        &self,
        found: Vec<FoundIncident>,
        pending: &mut bool,
    ) -> Result<(Vec<FoundIncident>, Vec<(FoundIncident, StoreTime)>), StoreError> {
        let when = self.shared.clock.when();
        let (mut over, mut settled) = (Vec::new(), Vec::new());
        // Several of a page may be about one resource.
        let mut ends = HashMap::new();
        for found in found {
            let incident = &found.incident;
            if let Some(end) = incident.expiry {
                *pending = true;
                if end.is_over(when.now) {
                    over.push(found);
                }
                continue;
            }
            if !ends.contains_key(&incident.resource) {
                let read = self.record_and_end(&incident.resource, when).await?;
                ends.insert(incident.resource.clone(), read);
            }
            let known = ends.get(&incident.resource).and_then(Option::as_ref);
            if let Some((record, end)) = known
                && is_settled(incident, record)
            {
                *pending = true;
                settled.push((found, *end));
            }
        }
        Ok((over, settled))
    }

    /// A resource's record, and until when its incidents are kept if they get their end now. `None`: it cannot be trusted, and
    /// its incidents stay.
    async fn record_and_end(
        &self,
        resource: &ResourceId,
        when: When,
    ) -> Result<Option<(Record, StoreTime)>, StoreError> {
        let ask = ReadAsk {
            resource: resource.clone(),
            operations: Vec::new(),
            machine: false,
        };
        let seen = match self.shared.reader.read(ask).await {
            Ok(seen) => seen,
            Err(StoreError::Corrupt { .. }) => return Ok(None),
            Err(
                error @ (StoreError::NotApplied { .. }
                | StoreError::Full { .. }
                | StoreError::Indeterminate { .. }),
            ) => {
                return Err(error);
            }
        };
        let found = FoundRecord {
            resource: resource.clone(),
            record: seen.record.map(|(record, _)| record).unwrap_or_default(),
        };
        let keeping = self.keeping(&found);
        let end = When { keeping, ..when }.incident_expiry();
        Ok(Some((found.record, end)))
    }
}

/// Whether the claims that an incident is about hold up their resource no longer.
fn is_settled(incident: &Incident, record: &Record) -> bool {
    let open = incident.operation.as_ref().and_then(|id| record.open(id));
    open.is_none_or(|open| open.claim.returned)
}
