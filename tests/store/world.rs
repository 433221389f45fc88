//! A store on a real etcd under a prefix of its own, and things to put into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::domain::decision::{IncidentId, Rule, Verdict};
use fencepost::domain::digest::{ContentDigest, FieldHashes};
use fencepost::domain::ids::{Kind, Mark, Nonce, OperationId, RequestId, ResourceId, StateName};
use fencepost::domain::incident::{Incident, IncidentFilter};
use fencepost::domain::judge::Gone;
use fencepost::domain::outcome::StoredResult;
use fencepost::domain::record::{Deliveries, LeaseId, Operation, Raised, Record, Round};
use fencepost::domain::request::Ttl;
use fencepost::domain::together::Company;
use fencepost::domain::token::{Revision, Timeline};
use fencepost::store::{
    BatchOutcome, Commit, Endpoint, MachineGuard, MemberOutcome, NotApplied, Prefix, QueueGuard,
    ReadAsk, ReservationGuard, ReservationWrite, Seen, Store, StoreError, StoreOptions,
};

use crate::etcd::Etcd;

/// How long a call may take in tests that do not wait for its end.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) raw: etcd_client::Client,
    pub(crate) prefix: String,
    pub(crate) etcd: Arc<Etcd>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(Etcd::shared().await).await
    }

    /// On an etcd of its own, for what others would notice.
    pub(crate) async fn alone() -> Self {
        Self::on(Arc::new(Etcd::start().await)).await
    }

    async fn on(etcd: Arc<Etcd>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("/test-{}/", NEXT.fetch_add(1, Ordering::Relaxed));
        let raw = etcd_client::Client::connect([&etcd.url], None)
            .await
            .unwrap();
        let store = open(&[&etcd.url], &prefix, CALL_TIMEOUT).await.unwrap();
        Self {
            store,
            raw,
            prefix,
            etcd,
        }
    }

    /// Another sidecar on the same store.
    pub(crate) async fn another(&self) -> Store {
        open(&[&self.etcd.url], &self.prefix, CALL_TIMEOUT)
            .await
            .unwrap()
    }

    /// What etcd has at a key under the prefix.
    pub(crate) async fn value(&mut self, key: &str) -> Option<Vec<u8>> {
        let key = format!("{}{key}", self.prefix);
        let found = self.raw.get(key, None).await.unwrap();
        found.kvs().first().map(|kv| kv.value().to_vec())
    }

    /// Deletes a key by hand.
    pub(crate) async fn delete(&mut self, key: &str) {
        let key = format!("{}{key}", self.prefix);
        self.raw.delete(key, None).await.unwrap();
    }

    /// Puts a value by hand.
    pub(crate) async fn put(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        let key = format!("{}{key}", self.prefix);
        self.raw.put(key, value, None).await.unwrap();
    }
}

pub(crate) async fn open(
    urls: &[&str],
    prefix: &str,
    call_timeout: Duration,
) -> Result<Store, StoreError> {
    let endpoints = urls.iter().map(|url| Endpoint::connect(url).unwrap());
    let options = StoreOptions {
        prefix: Prefix::parse(prefix).unwrap(),
        call_timeout,
    };
    Store::open(endpoints.collect(), options, timeline(1)).await
}

pub(crate) fn timeline(id: u8) -> Timeline {
    Timeline::first(Nonce::from_bytes([id; 16]), 1_790_000_000 + u64::from(id))
}

pub(crate) fn resource(id: &str) -> ResourceId {
    ResourceId::new(Kind::parse("order").unwrap(), id).unwrap()
}

pub(crate) fn record(moves: u64) -> Record {
    Record {
        moves,
        state: Some(StateName::parse("paid").unwrap()),
        ..Record::default()
    }
}

pub(crate) fn round(nonce: u8, lease: LeaseId) -> Round {
    Round {
        nonce: Nonce::from_bytes([nonce; 16]),
        request: RequestId::from_bytes([nonce; 16]),
        holder: None,
        ttl: Ttl::from_seconds(30).unwrap(),
        lease,
        base: 0,
        granted: None,
        over: None,
        claimed: None,
        claims: 0,
        company: Company::Alone,
    }
}

pub(crate) fn operation_id(id: impl std::fmt::Display) -> OperationId {
    OperationId::parse(&format!("op-{id}")).unwrap()
}

pub(crate) fn operation(id: impl std::fmt::Display) -> Operation {
    Operation {
        id: operation_id(id),
        digest: ContentDigest::of_raw(b"content").unwrap(),
        verdict: Verdict::Applied,
        rule: Rule::RanOnce,
        result: StoredResult {
            body: "done".into(),
            ..StoredResult::default()
        },
        time_ms: 1_790_000_000_000,
        mark: Mark::from_bytes([9; 6]),
        round: None,
        state: None,
        expected: Vec::new(),
        raised: Raised::default(),
        resolved: None,
        fields: FieldHashes::default(),
        expiry: None,
        deliveries: Deliveries::default(),
        event: None,
        machine: None,
        keeps_retrying: false,
        outcome: None,
    }
}

pub(crate) fn incident(id: &str, explanation: &str) -> Incident {
    Incident {
        id: IncidentId(id.to_owned()),
        resource: resource("1"),
        operation: Some(operation_id(1)),
        verdict: Verdict::Conflict,
        rule: Rule::OtherContent,
        explanation: explanation.to_owned(),
        time_ms: 1,
        first_digest: None,
        digest: Some(ContentDigest::of_raw(b"other").unwrap()),
        evidence: Vec::new(),
        more_evidence: 0,
        unkept: 0,
        state: None,
        sender: None,
        fields: Vec::new(),
        again: 0,
        last_ms: 1,
        last_digest: None,
        closing: None,
        expiry: None,
    }
}

/// Writes a record for a resource that has none.
pub(crate) fn create(id: &str) -> Commit {
    Commit {
        resource: resource(id),
        seen: None,
        reservation: ReservationGuard::Absent,
        machine: MachineGuard::None,
        queue: QueueGuard::None,
        leaves: None,
        absent_operations: Vec::new(),
        record: Some(record(1)),
        reservation_write: ReservationWrite::Keep,
        operations: Vec::new(),
        incidents: Vec::new(),
        gone: Gone::default(),
    }
}

/// Reserves a resource that has no record.
pub(crate) fn grant(id: &str, nonce: u8, lease: LeaseId) -> Commit {
    let mut commit = create(id);
    commit.record.as_mut().unwrap().round = Some(round(nonce, lease));
    commit.reservation_write = ReservationWrite::Grant(lease);
    commit
}

pub(crate) async fn commit_all(
    store: &Store,
    commits: impl IntoIterator<Item = Commit>,
) -> Result<BatchOutcome, StoreError> {
    let members: Vec<_> = commits.into_iter().map(|c| store.prepare(&c)).collect();
    store.commit(&members).await
}

/// Commits one, which must succeed; answers the revision.
pub(crate) async fn committed(store: &Store, commit: Commit) -> Revision {
    let outcome = commit_all(store, [commit]).await.unwrap();
    match &outcome.members[..] {
        [Ok(MemberOutcome::Committed { .. })] => outcome.revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// Commits one, which must be overtaken; answers how the resource stands.
pub(crate) async fn overtaken(store: &Store, commit: Commit) -> Seen {
    let mut outcome = commit_all(store, [commit]).await.unwrap();
    match outcome.members.pop() {
        Some(Ok(MemberOutcome::Overtaken(seen, _))) => *seen,
        other => panic!("not overtaken: {other:?}"),
    }
}

pub(crate) fn ask(id: &str) -> ReadAsk {
    ReadAsk {
        resource: resource(id),
        operations: Vec::new(),
        machine: false,
    }
}

pub(crate) async fn read(store: &Store, id: &str) -> Result<Seen, StoreError> {
    store.read(&[ask(id)]).await.unwrap().remove(0)
}

pub(crate) fn fresh_lease() -> LeaseId {
    static NEXT: AtomicI64 = AtomicI64::new(1_000);
    LeaseId(NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn granted_lease(store: &Store) -> LeaseId {
    let lease = fresh_lease();
    assert_eq!(store.lease_grant(lease, 60).await.unwrap(), 60);
    lease
}

pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T, StoreError>) -> NotApplied {
    match result {
        Err(StoreError::NotApplied { reason, .. }) => reason,
        other => panic!("{other:?} is not `NotApplied`"),
    }
}

pub(crate) fn corruption<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (String, String) {
    match result {
        Err(StoreError::Corrupt { key, reason }) => (key, reason),
        other => panic!("{other:?} is not `Corrupt`"),
    }
}

/// The incidents behind one, whatever they are about.
pub(crate) async fn listed(
    store: &Store,
    after: Option<&IncidentId>,
    limit: usize,
) -> Vec<Incident> {
    let all = IncidentFilter::default();
    store.incidents(after, limit, &all).await.unwrap().incidents
}
