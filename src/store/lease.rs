//! Leases.

use std::time::Duration;

use etcd_client::{GetOptions, LeaseGrantOptions};

use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::keepers::LeaseUse;
use super::link::Store;
use super::session::{Member, Repeat};
use super::term::KeptAlive;
use super::txn::malformed;
use crate::domain::record::LeaseId;

impl Store {
    /// Grants a lease; answers its TTL in seconds, which may be longer than asked.
    ///
    /// An id that exists already is refused, also if an earlier grant of our own made it whose reply was lost: nobody
    /// knows since when it runs. The caller draws another.
    pub async fn lease_grant(&self, lease: LeaseId, ttl_seconds: u32) -> Result<u32, StoreError> {
        if lease.0 <= 0 {
            return Err(not_applied(
                NotApplied::Refused,
                format!("{} is no id of a lease; it must be above 0", lease.0),
            ));
        }
        let reply = self
            .session()
            .call(Repeat::Never, |member| {
                let mut client = member.lease.clone();
                let options = LeaseGrantOptions::new().with_id(lease.0);
                async move { client.grant(ttl_seconds.into(), Some(options)).await }
            })
            .await?;
        if reply.id() != lease.0 {
            return Err(malformed());
        }
        u32::try_from(reply.ttl()).map_err(|_| malformed())
    }

    /// Keeps a lease alive; answers its TTL in seconds, `None` if it is gone. The TTL counts at the earliest from the
    /// moment of the call.
    pub async fn lease_keep_alive(&self, lease: LeaseId) -> Result<Option<u32>, StoreError> {
        let silence = Duration::MAX;
        self.lease_keep_alive_within(lease, LeaseUse::Held { silence }, silence)
            .await
    }

    /// The same, for somebody who waits no longer than this. What is kept ready for a later use does not hold up what somebody
    /// holds, nor does what may have run out.
    pub async fn lease_keep_alive_within(
        &self,
        lease: LeaseId,
        of: LeaseUse,
        patience: Duration,
    ) -> Result<Option<u32>, StoreError> {
        let kept = self.lease_renew(lease, of, patience).await?;
        Ok(kept.map(|kept| kept.seconds))
    }

    /// The same, for somebody who promises anything by it: that is to wait for a linearizable reply that is asked for after this
    /// answer, and then to ask whether it counts.
    pub async fn lease_renew(
        &self,
        lease: LeaseId,
        of: LeaseUse,
        patience: Duration,
    ) -> Result<Option<KeptAlive>, StoreError> {
        self.keepers().keep_alive(lease, of, patience).await
    }

    /// Whether a keepalive counts, by the replies that have come until now: the leader of etcd that answered it was not one that
    /// others had replaced.
    pub fn counts(&self, kept: &KeptAlive) -> bool {
        self.session().revisions.count(kept)
    }

    /// Reads something linearizably, so that keepalives which were answered before it can be told to count.
    pub async fn confirm(&self) -> Result<(), StoreError> {
        let look = |member: &Member| {
            let mut kv = member.kv.clone();
            let key = self.timeline_key().bytes();
            async move { kv.get(key, Some(GetOptions::new().with_count_only())).await }
        };
        self.session().call(Repeat::Safe, look).await.map(drop)
    }

    /// How long a lease still lives, in seconds; `None` if it is gone. Advisory.
    pub async fn lease_time_to_live(&self, lease: LeaseId) -> Result<Option<u32>, StoreError> {
        let reply = self
            .session()
            .call(Repeat::Safe, |member| {
                let mut client = member.lease.clone();
                async move { client.time_to_live(lease.0, None).await }
            })
            .await?;
        // etcd says -1 for a lease that it does not know.
        Ok(u32::try_from(reply.ttl()).ok())
    }

    /// Ends a lease. One that is gone already has ended.
    pub async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let revoked = self
            .session()
            .call(Repeat::Never, |member| {
                let mut client = member.lease.clone();
                async move { client.revoke(lease.0).await }
            })
            .await;
        match revoked {
            Ok(_)
            | Err(StoreError::NotApplied {
                reason: NotApplied::LeaseGone,
                ..
            }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
