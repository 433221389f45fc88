//! Leases: who holds which keys, and until when.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::refusal::Refusal;

/// What etcd with its default election timeout raises shorter leases to.
pub(super) const LEASE_TTL_SECONDS_MIN: i64 = 2;
/// etcd's own bound, about 285 years.
pub(super) const LEASE_TTL_SECONDS_MAX: i64 = 9_000_000_000;

#[derive(Debug)]
pub(super) struct Lease {
    ttl_seconds: i64,
    expires: Instant,
    keys: BTreeSet<Bytes>,
}

impl Lease {
    pub(super) fn ttl_seconds(&self) -> i64 {
        self.ttl_seconds
    }

    /// Whole seconds left, rounded down as etcd rounds.
    pub(super) fn seconds_left(&self, now: Instant) -> i64 {
        let left = self.expires.saturating_duration_since(now).as_secs();
        i64::try_from(left).unwrap_or(i64::MAX)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.iter()
    }
}

/// `deadlines` holds exactly one entry per lease, the soonest first.
#[derive(Debug, Default)]
pub(super) struct LeaseTable {
    leases: HashMap<i64, Lease>,
    deadlines: BTreeSet<(Instant, i64)>,
}

impl LeaseTable {
    /// Answers the TTL granted.
    pub(super) fn grant(&mut self, id: i64, seconds: i64, now: Instant) -> Result<i64, Refusal> {
        if seconds > LEASE_TTL_SECONDS_MAX {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        if self.leases.contains_key(&id) {
            return Err(Refusal::LeaseExists);
        }
        let ttl_seconds = seconds.max(LEASE_TTL_SECONDS_MIN);
        let expires = now + span(ttl_seconds);
        self.deadlines.insert((expires, id));
        self.leases.insert(
            id,
            Lease {
                ttl_seconds,
                expires,
                keys: BTreeSet::new(),
            },
        );
        Ok(ttl_seconds)
    }

    /// Answers the TTL that runs from now on, or `None` if there is no such lease.
    pub(super) fn renew(&mut self, id: i64, now: Instant) -> Option<i64> {
        let lease = self.leases.get_mut(&id)?;
        self.deadlines.remove(&(lease.expires, id));
        lease.expires = now + span(lease.ttl_seconds);
        self.deadlines.insert((lease.expires, id));
        Some(lease.ttl_seconds)
    }

    pub(super) fn get(&self, id: i64) -> Option<&Lease> {
        self.leases.get(&id)
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// The keys that went with the lease, in byte order.
    pub(super) fn remove(&mut self, id: i64) -> Option<BTreeSet<Bytes>> {
        let lease = self.leases.remove(&id)?;
        self.deadlines.remove(&(lease.expires, id));
        Some(lease.keys)
    }

    pub(super) fn attach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(key.clone());
        }
    }

    pub(super) fn detach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// The lease that ends next, and when.
    pub(super) fn soonest(&self) -> Option<(Instant, i64)> {
        self.deadlines.first().copied()
    }

    /// All leases, the soonest to end first.
    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.deadlines.iter().map(|(_, id)| *id)
    }
}

fn span(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}
