//! Leases kept alive, and when that counts.
//!
//! A bound is moved on only by a keepalive that counts: a leader of etcd that others have replaced answers keepalives, too. That shows
//! once something was read linearizably that was asked for after the answer.

use std::time::Duration;

use super::Leases;
use crate::domain::record::LeaseId;
use crate::engine::clock::Boottime;
use crate::store::{KeptAlive, LeaseUse, StoreError};

/// How often a keepalive is sent for one renewal: once more if the first one does not count, for an election may have come right
/// after it.
pub(in crate::engine) const KEEPALIVES_MAX: usize = 2;

/// A keepalive that was answered.
#[derive(Debug)]
#[must_use = "it counts only once it is confirmed"]
pub(in crate::engine) struct Renewed {
    lease: LeaseId,
    bound: Boottime,
    kept: KeptAlive,
}

impl Leases {
    /// Renews the lease of a reservation. `None`: it is gone.
    pub(in crate::engine) async fn renew(
        &self,
        lease: LeaseId,
    ) -> Result<Option<Renewed>, StoreError> {
        let of = if self.certainly_lives(lease) {
            let silence = Duration::MAX;
            LeaseUse::Held { silence }
        } else {
            LeaseUse::Unsure
        };
        self.renew_within(lease, of, Duration::MAX).await
    }

    fn certainly_lives(&self, lease: LeaseId) -> bool {
        let pool = self.lock();
        let known = pool.known.get(&lease);
        known.is_some_and(|known| !known.bound.left().is_zero())
    }

    /// Renews a lease for somebody who waits no longer than this. `None`: it is gone.
    pub(in crate::engine) async fn renew_within(
        &self,
        lease: LeaseId,
        of: LeaseUse,
        patience: Duration,
    ) -> Result<Option<Renewed>, StoreError> {
        let sent = Boottime::now();
        let Some(kept) = self.store.lease_renew(lease, of, patience).await? else {
            self.retire(lease);
            return Ok(None);
        };
        let bound = sent.plus(Duration::from_secs(kept.seconds.into()));
        Ok(Some(Renewed { lease, bound, kept }))
    }

    /// Until when a lease certainly lives, by a keepalive after whose answer something was read. `None`: it does not count.
    pub(in crate::engine) fn confirmed(&self, renewed: &Renewed) -> Option<Boottime> {
        let Renewed { lease, bound, kept } = renewed;
        if !self.store.counts(kept) {
            return None;
        }
        if let Some(known) = self.lock().known.get_mut(lease) {
            known.bound = known.bound.max(*bound);
        }
        Some(*bound)
    }

    /// Renews leases that are kept ready. False: not all could be. One whose keepalive does not count is left to age.
    pub(super) async fn renew_ready(&self, ageing: Vec<LeaseId>) -> bool {
        let mut all = true;
        let mut renewed = Vec::new();
        for lease in ageing {
            match self
                .renew_within(lease, LeaseUse::Ready, Duration::MAX)
                .await
            {
                Ok(Some(one)) => renewed.push(one),
                Ok(None) => {}
                Err(_) => all = false,
            }
        }
        if !renewed.is_empty() {
            all &= self.store.confirm().await.is_ok();
        }
        if all {
            all = renewed.iter().all(|one| self.confirmed(one).is_some());
        }
        all
    }
}
