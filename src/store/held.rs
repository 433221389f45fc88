//! Whether reservations still stand, asked for many at once: of each only its key, and of that no value.

use std::time::Duration;

use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::link::Store;
use super::txn::{READ_OPERATIONS_MAX, are_there_under, one_value};
use crate::domain::ids::ResourceId;
use crate::domain::token::Revision;

/// Most reservations that are asked about in one request.
pub const STANDING_ASKED_MAX: usize = READ_OPERATIONS_MAX;

/// A reservation as it was when it was last seen.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Of which resource.
    pub resource: ResourceId,
    /// When its key was created.
    pub at: Revision,
}

impl Store {
    /// Which of these reservations stand, at some moment after this call began: in one linearizable request, without reading
    /// a record. At most `STANDING_ASKED_MAX`. Where an endpoint is silent, another one is asked in time for somebody who waits no
    /// longer than `patience`; who waits longer is served by whichever answers first.
    pub async fn still_standing(
        &self,
        asked: &[Granted],
        patience: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        if asked.len() > STANDING_ASKED_MAX {
            let detail = format!("{} keys; the limit is {STANDING_ASKED_MAX}", asked.len());
            return Err(not_applied(NotApplied::TooLarge, detail));
        }
        let (known, timeline_key) = (self.known(), self.timeline_key());
        let of = |granted: &Granted| self.keys().reservation(&granted.resource);
        let keys: Vec<_> = asked.iter().map(of).collect();
        let build = || are_there_under(timeline_key, &keys);
        let reply = self.session().read_soon(patience, build).await?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        asked
            .iter()
            .map(|granted| {
                let found = one_value(&mut responses)?;
                // Whoever writes the key again, as on another lease, changes its revision. The lease itself is not told from
                // etcd 3.7 on where no value is asked for.
                Ok(found.is_some_and(|kv| {
                    let of = [kv.create_revision, kv.mod_revision].map(Revision::from_etcd);
                    of == [Some(granted.at); 2]
                }))
            })
            .collect()
    }
}
