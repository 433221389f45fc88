//! By hand on etcd, with etcd-client.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, KvClient, LeaseClient, PutOptions, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use crate::Outcome;
use crate::drive::Caller;
use crate::work::{self, DIGEST, Fresh, Walk};

/// How long a lock lives unless it is kept alive, in seconds.
const LOCK_SECONDS: i64 = 30;
/// The first and the longest bound of a pause between tries, in microseconds.
const BACKOFF_MICROS: u64 = 1_000;
const BACKOFF_MICROS_MAX: u64 = 128_000;

/// Connections of one application, shared by its callers.
#[derive(Clone)]
pub(crate) struct Connections {
    clients: Vec<Client>,
    prefix: String,
}

impl Connections {
    pub(crate) async fn open(url: &str, count: usize, prefix: &str) -> Outcome<Self> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Client::connect([url], None).await?);
        }
        Ok(Self {
            clients,
            prefix: prefix.to_owned(),
        })
    }

    pub(crate) fn kv(&self, caller: usize) -> KvClient {
        self.clients[caller % self.clients.len()].kv_client()
    }

    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// One transaction a call.
    pub(crate) fn movers(&self, callers: usize, fresh: &Fresh) -> Vec<Mover> {
        let mover = |caller| Mover {
            kv: self.kv(caller),
            prefix: self.prefix.clone(),
            walk: Walk::new(fresh),
            seen: 0,
        };
        (0..callers).map(mover).collect()
    }

    /// Compare-and-swap on one key, again until it goes through.
    pub(crate) async fn noters(
        &self,
        callers: usize,
        key: &str,
        fresh: &Fresh,
        retry: Retry,
    ) -> Outcome<Vec<Noter>> {
        let key = self.key(key);
        let found = self.kv(0).get(key.clone(), None).await?;
        let seen = found.kvs().first().map_or(0, |kv| kv.mod_revision());
        let noter = |caller| Noter {
            kv: self.kv(caller),
            key: key.clone(),
            prefix: self.prefix.clone(),
            fresh: fresh.clone(),
            seen,
            retry,
        };
        Ok((0..callers).map(noter).collect())
    }

    /// A linearizable get of a key that is there, each its own.
    pub(crate) async fn readers(&self, callers: usize, fresh: &Fresh) -> Outcome<Vec<Reader>> {
        let mut readers = Vec::new();
        for caller in 0..callers {
            let mut kv = self.kv(caller);
            let resource = fresh.next();
            let key = self.key(&format!("op/{resource}/create"));
            let value = work::result(&resource, "create");
            kv.put(key.clone(), value.clone(), None).await?;
            readers.push(Reader { kv, key, value });
        }
        Ok(readers)
    }

    /// One transaction of one compare and one put, each on a key of its own.
    pub(crate) fn putters(&self, callers: usize, fresh: &Fresh, bytes: usize) -> Vec<Putter> {
        let putter = |caller| Putter {
            kv: self.kv(caller),
            key: self.key(&format!("one/{}", fresh.next())),
            value: vec![b'x'; bytes],
            seen: 0,
        };
        (0..callers).map(putter).collect()
    }

    /// A lock: lease, put if absent, delete if still ours, revoke.
    pub(crate) fn lockers(&self, callers: usize, fresh: &Fresh) -> Vec<Locker> {
        let locker = |caller: usize| Locker {
            kv: self.kv(caller),
            leases: self.clients[caller % self.clients.len()].lease_client(),
            prefix: self.prefix.clone(),
            fresh: fresh.clone(),
        };
        (0..callers).map(locker).collect()
    }
}

/// A state key under a compare of its revision, and a key for the operation with the result, both in one transaction.
pub(crate) struct Mover {
    kv: KvClient,
    prefix: String,
    walk: Walk,
    /// Where the state key was last changed; 0: it is not there.
    seen: i64,
}

impl Caller for Mover {
    async fn call(&mut self) -> Outcome<()> {
        let (resource, step) = self.walk.next();
        if step.from.is_empty() {
            self.seen = 0;
        }
        let state = format!("{}state/{resource}", self.prefix);
        let operation = format!("{}op/{resource}/{}", self.prefix, step.operation);
        let stored = stored(&work::result(resource, step.operation));
        let txn = Txn::new()
            .when([
                Compare::mod_revision(state.clone(), CompareOp::Equal, self.seen),
                Compare::create_revision(operation.clone(), CompareOp::Equal, 0),
            ])
            .and_then([
                TxnOp::put(state.clone(), step.to, None),
                TxnOp::put(operation.clone(), stored, None),
            ])
            .or_else([TxnOp::get(state, None), TxnOp::get(operation, None)]);
        let reply = self.kv.txn(txn).await?;
        self.seen = written(&reply)?;
        Ok(())
    }
}

/// When a compare-and-swap that failed is tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retry {
    /// At once, as etcd's own transaction helper does.
    AtOnce,
    /// After a random pause whose bound doubles.
    Backoff,
}

impl Retry {
    async fn pause(self, failures: u32) {
        match self {
            Self::AtOnce => {}
            Self::Backoff => {
                let longest = (1 << failures.min(16)).min(BACKOFF_MICROS_MAX / BACKOFF_MICROS);
                let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
                let micros = random % (longest * BACKOFF_MICROS);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
    }
}

/// Adds an operation to the one key that all share. What the failure branch brings back is tried next.
pub(crate) struct Noter {
    kv: KvClient,
    key: String,
    prefix: String,
    fresh: Fresh,
    seen: i64,
    retry: Retry,
}

impl Caller for Noter {
    async fn call(&mut self) -> Outcome<()> {
        let id = self.fresh.next();
        let operation = format!("{}op/hot/{id}", self.prefix);
        let result = stored(&work::result(&id, "note"));
        let mut failures = 0;
        loop {
            let txn = Txn::new()
                .when([
                    Compare::mod_revision(self.key.clone(), CompareOp::Equal, self.seen),
                    Compare::create_revision(operation.clone(), CompareOp::Equal, 0),
                ])
                .and_then([
                    TxnOp::put(self.key.clone(), format!("pending {id}"), None),
                    TxnOp::put(operation.clone(), result.clone(), None),
                ])
                .or_else([
                    TxnOp::get(self.key.clone(), None),
                    TxnOp::get(operation.clone(), None),
                ]);
            let reply = self.kv.txn(txn).await?;
            if reply.succeeded() {
                self.seen = written(&reply)?;
                return Ok(());
            }
            let found = reply.op_responses();
            let [TxnOpResponse::Get(state), TxnOpResponse::Get(done)] = &found[..] else {
                return Err(format!("not two gets: {found:?}").into());
            };
            if !done.kvs().is_empty() {
                return Err("a new operation was there already".into());
            }
            self.seen = state.kvs().first().map_or(0, |kv| kv.mod_revision());
            failures += 1;
            self.retry.pause(failures).await;
        }
    }
}

/// One linearizable get.
pub(crate) struct Reader {
    kv: KvClient,
    key: String,
    value: String,
}

impl Caller for Reader {
    async fn call(&mut self) -> Outcome<()> {
        let found = self.kv.get(self.key.clone(), None).await?;
        match found.kvs() {
            [kv] if kv.value() == self.value.as_bytes() => Ok(()),
            other => Err(format!("another value than was put: {other:?}").into()),
        }
    }
}

/// One compare and one put.
pub(crate) struct Putter {
    kv: KvClient,
    key: String,
    value: Vec<u8>,
    seen: i64,
}

impl Caller for Putter {
    async fn call(&mut self) -> Outcome<()> {
        let untouched = Compare::mod_revision(self.key.clone(), CompareOp::Equal, self.seen);
        let txn = Txn::new()
            .when([untouched])
            .and_then([TxnOp::put(self.key.clone(), self.value.clone(), None)])
            .or_else([TxnOp::get(self.key.clone(), None)]);
        let reply = self.kv.txn(txn).await?;
        self.seen = written(&reply)?;
        Ok(())
    }
}

/// Takes and gives back a lock.
pub(crate) struct Locker {
    kv: KvClient,
    leases: LeaseClient,
    prefix: String,
    fresh: Fresh,
}

impl Caller for Locker {
    async fn call(&mut self) -> Outcome<()> {
        let key = format!("{}lock/{}", self.prefix, self.fresh.next());
        let lease = self.leases.grant(LOCK_SECONDS, None).await?.id();
        let on_lease = PutOptions::new().with_lease(lease);
        let free = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        let take = Txn::new()
            .when([free])
            .and_then([TxnOp::put(key.clone(), "bench", Some(on_lease))])
            .or_else([TxnOp::get(key.clone(), None)]);
        let token = written(&self.kv.txn(take).await?)?;
        let still_ours = Compare::create_revision(key.clone(), CompareOp::Equal, token);
        let give_back = Txn::new()
            .when([still_ours])
            .and_then([TxnOp::delete(key, None)]);
        written(&self.kv.txn(give_back).await?)?;
        self.leases.revoke(lease).await?;
        Ok(())
    }
}

/// A result with the digest of what it belongs to.
fn stored(result: &str) -> Vec<u8> {
    [&DIGEST[..], result.as_bytes()].concat()
}

/// The revision of a transaction that must have gone through.
pub(crate) fn written(reply: &TxnResponse) -> Outcome<i64> {
    if !reply.succeeded() {
        return Err(
            format!("a transaction failed that nothing was in the way of: {reply:?}").into(),
        );
    }
    let header = reply.header().ok_or("a reply without a header")?;
    Ok(header.revision())
}
