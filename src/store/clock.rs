//! The store's clock, and who looks through all keys.

use etcd_client::proto::PbKeyValue;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};

use super::codec::{self, corrupt};
use super::error::StoreError;
use super::keys::Key;
use super::link::Store;
use super::session::{Repeat, Session};
use super::txn::{as_etcd, get, malformed, one_value, put_if_absent, unchanged};
use crate::domain::ids::Nonce;
use crate::domain::record::LeaseId;
use crate::domain::token::{Revision, Timeline};

/// Most attempts to begin the clock when the outcome stays unknown.
const BEGIN_ATTEMPTS_MAX: usize = 3;

/// What is stored of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredClock {
    /// In milliseconds since 1970.
    pub now_ms: u64,
    /// When all keys were last looked through, in milliseconds of this clock; 0: never.
    pub swept_ms: u64,
}

/// The clock as it was read, and whether anybody looks through all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadClock {
    /// What is stored. `None`: there is no clock.
    pub clock: Option<(StoredClock, Revision)>,
    /// Whether a sweep is under way.
    pub sweeping: bool,
    /// The timeline that all this was read in.
    pub timeline: Timeline,
}

/// Finds the clock, or begins it at this time of day.
pub(super) async fn establish(
    session: &Session,
    key: &Key,
    began_ms: u64,
) -> Result<StoredClock, StoreError> {
    let first = StoredClock {
        now_ms: began_ms,
        swept_ms: 0,
    };
    let mut outcome = Err(malformed());
    for _ in 0..BEGIN_ATTEMPTS_MAX {
        let get = || Txn::new().and_then([TxnOp::get(key.bytes(), None)]);
        let reply = session.txn(Repeat::Safe, get).await?;
        if let Some(found) = one_value(&mut reply.responses.into_iter())? {
            return codec::decode_clock(key, &found.value);
        }
        let begin = || put_if_absent(key, codec::encode_clock(key, &first));
        // Whether it was ours or another's, or is not known: reading again tells.
        outcome = match session.txn(Repeat::Never, begin).await {
            Ok(reply) if reply.succeeded => return Ok(first),
            Ok(_) => Err(malformed()),
            Err(error @ StoreError::Indeterminate { .. }) => Err(error),
            Err(error) => return Err(error),
        };
    }
    outcome
}

impl Store {
    /// Reads the clock, linearizably. That of another timeline than the one known is not told: it may have gone back.
    pub async fn read_clock(&self) -> Result<ReadClock, StoreError> {
        let (clock, sweep) = (self.keys().clock(), self.keys().sweep());
        let known = self.known();
        let gets = || Txn::new().and_then([self.timeline_key(), &clock, &sweep].map(get));
        let reply = self.session().txn(Repeat::Safe, gets).await?;
        let mut responses = reply.responses.into_iter();
        self.still_in_force(known, one_value(&mut responses)?)?;
        let found = one_value(&mut responses)?;
        let sweeping = one_value(&mut responses)?.is_some();
        let read = |found: PbKeyValue| -> Result<_, StoreError> {
            let changed = Revision::from_etcd(found.mod_revision)
                .ok_or_else(|| corrupt(&clock, "etcd names no revision of it"))?;
            Ok((codec::decode_clock(&clock, &found.value)?, changed))
        };
        Ok(ReadClock {
            clock: found.map(read).transpose()?,
            sweeping,
            timeline: known.timeline(),
        })
    }

    /// Moves the clock, unless somebody else did since it was read, or another timeline is in force than the one known. `seen`:
    /// the revision it was read at; `None`: there was none. False: somebody else was first. A repeated try changes nothing
    /// more: the first has changed the revision.
    pub async fn move_clock(
        &self,
        seen: Option<Revision>,
        to: StoredClock,
    ) -> Result<bool, StoreError> {
        let key = self.keys().clock();
        let in_force = self.known().changed;
        let build = || {
            let untouched =
                Compare::mod_revision(key.bytes(), CompareOp::Equal, seen.map_or(0, as_etcd));
            let in_force = unchanged(self.timeline_key(), in_force);
            let put = TxnOp::put(key.bytes(), codec::encode_clock(&key, &to), None);
            Txn::new().when([untouched, in_force]).and_then([put])
        };
        let reply = self.session().txn(Repeat::Never, build).await?;
        Ok(reply.succeeded)
    }

    /// Takes it upon this sidecar to look through all keys, for as long as the lease lives. False: somebody does already.
    pub async fn begin_sweep(&self, sweeper: Nonce, lease: LeaseId) -> Result<bool, StoreError> {
        let key = self.keys().sweep();
        let build = || {
            let nobody = Compare::create_revision(key.bytes(), CompareOp::Equal, 0);
            let on_lease = Some(PutOptions::new().with_lease(lease.0));
            let put = TxnOp::put(key.bytes(), codec::encode_sweep(&key, sweeper), on_lease);
            Txn::new().when([nobody]).and_then([put])
        };
        let reply = self.session().txn(Repeat::Never, build).await?;
        Ok(reply.succeeded)
    }
}
