//! Looks whether etcd is there, which somebody waits for with little patience.

use std::time::Duration;

use etcd_client::GetOptions;

use super::{ATTEMPTS_MAX, Member, Repeat, Session};

impl Session {
    /// How long one call may take.
    pub(in crate::store) fn call_limit(&self) -> Duration {
        self.call_limit
    }

    /// How long one endpoint may take, for all that a call tries to have been asked in time.
    pub(in crate::store) fn share_of(&self, limit: Duration) -> Duration {
        let asked = self.members.len().clamp(1, ATTEMPTS_MAX);
        let share = limit / u32::try_from(asked).unwrap_or(u32::MAX);
        share.min(self.call_limit)
    }

    /// Looks whether etcd answers at all: whoever's stream was refused learns so whether the token is to blame.
    pub(in crate::store) async fn look(&self) {
        let look = |member: &Member| {
            let mut kv = member.kv.clone();
            let key = self.proof_key.bytes();
            async move { kv.get(key, Some(GetOptions::new().with_count_only())).await }
        };
        // Whatever is wrong shows in what is tried next.
        let _ = self.call(Repeat::Safe, look).await;
    }
}
