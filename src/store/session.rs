//! Calls to etcd over several endpoints: which one to use, how long to wait, and what a failure means for the caller.
//!
//! Calls go to one endpoint as long as it answers. One that fails is ejected: for a while others are tried first. A write
//! is sent once only, and only to an endpoint that has answered before; so a member that accepts connections and never
//! answers is found out by a read, and the write goes elsewhere with its outcome still known.

mod looks;
mod soon;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Channel, Client, ConnectOptions, Error, GetOptions, KvClient, LeaseClient, MaintenanceClient,
    Txn, WatchClient, proto::PbTxnResponse,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::endpoint::Endpoint;
use super::error::{NotApplied, StoreError};
use super::failure::{Meaning, detail_of, full, indeterminate, meaning_of, not_applied};
use super::keys::Key;
use super::login::{Credentials, Login};
use super::revisions::{Replied, Revisions};

/// How long others are tried before an endpoint that failed.
const EJECTED_FOR: Duration = Duration::from_secs(5);
/// How long an endpoint may take to prove that it answers, before it is trusted with a write.
const PROOF_LIMIT: Duration = Duration::from_secs(1);
/// Most attempts of one call, over all endpoints.
const ATTEMPTS_MAX: usize = 5;
/// The least attempts of a read, also if there is only one endpoint: one, and one after a lost connection or a change of
/// leaders.
const READ_ATTEMPTS_MIN: usize = 2;
/// Largest reply that is accepted, in bytes.
pub(super) const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whether a call may be sent again when its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or changes the same again.
    Safe,
    /// It must be sent once only.
    Never,
}

/// An endpoint and what is known of it.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kv: KvClient,
    pub(super) lease: LeaseClient,
    pub(super) watch: WatchClient,
    pub(super) maintenance: MaintenanceClient,
    /// Without the token of a login: a login is asked for on it.
    bare: Channel,
    /// It has answered since it last failed.
    proven: AtomicBool,
    /// In milliseconds since the session began; 0: not ejected.
    ejected_until: AtomicU64,
    proof: Mutex<()>,
    /// How many proofs have failed.
    proofs_failed: AtomicU64,
}

/// All endpoints.
pub(super) struct Session {
    members: Vec<Member>,
    current: AtomicUsize,
    began: Instant,
    call_limit: Duration,
    /// Read to see whether an endpoint answers.
    proof_key: Key,
    /// How far etcd is known to have come.
    pub(super) revisions: Revisions,
    access: Access,
}

/// As whom etcd is asked, and for what.
#[derive(Debug)]
pub(super) struct Access {
    credentials: Option<Credentials>,
    /// What every key begins with, printable.
    prefix: String,
}

impl Access {
    pub(super) fn new(login: Option<Login>, prefix: String) -> Self {
        Self {
            credentials: login.map(Credentials::new),
            prefix,
        }
    }

    /// What a person can do about a missing right.
    fn missing(&self) -> String {
        let who = match &self.credentials {
            Some(credentials) => format!("user {:?}", credentials.user()),
            None => "the user of the client certificate".to_owned(),
        };
        format!(
            "{who} needs a role that may read and write all keys that begin with {0}: \
             etcdctl role grant-permission ROLE --prefix=true readwrite {0}",
            self.prefix
        )
    }
}

impl Session {
    pub(super) async fn new(
        endpoints: Vec<Endpoint>,
        call_limit: Duration,
        proof_key: Key,
        access: Access,
    ) -> Result<Self, StoreError> {
        if endpoints.is_empty() {
            return Err(not_applied(
                NotApplied::Refused,
                "there is no endpoint of etcd; give at least one",
            ));
        }
        let mut members = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            // A member that has lost its leader must say so instead of staying silent.
            let options = ConnectOptions::new().with_require_leader(true);
            let bare = endpoint.channel;
            let channel = match &access.credentials {
                Some(credentials) => credentials.on(bare.clone()),
                None => bare.clone(),
            };
            // The client knows of no credentials, so this sends nothing.
            let client = Client::from_channel(channel, Some(options))
                .await
                .map_err(|error| {
                    not_applied(NotApplied::Unreachable, detail_of(&endpoint.name, &error))
                })?;
            members.push(Member {
                name: endpoint.name,
                kv: client
                    .kv_client()
                    .max_decoding_message_size(REPLY_BYTES_MAX),
                lease: client.lease_client(),
                watch: client
                    .watch_client()
                    .max_decoding_message_size(REPLY_BYTES_MAX),
                maintenance: client.maintenance_client(),
                bare,
                proven: AtomicBool::new(false),
                ejected_until: AtomicU64::new(0),
                proof: Mutex::new(()),
                proofs_failed: AtomicU64::new(0),
            });
        }
        Ok(Self {
            members,
            current: AtomicUsize::new(0),
            began: Instant::now(),
            call_limit,
            proof_key,
            revisions: Revisions::new(),
            access,
        })
    }

    /// Runs a transaction. It is built anew for each attempt.
    pub(super) async fn txn(
        &self,
        repeat: Repeat,
        build: impl Fn() -> Txn,
    ) -> Result<PbTxnResponse, StoreError> {
        let reply = self
            .call(repeat, |member| {
                let mut kv = member.kv.clone();
                let txn = build();
                async move { kv.txn(txn).await }
            })
            .await?;
        Ok(reply.0)
    }

    /// Makes a call, at most once on each endpoint, until one answers.
    pub(super) async fn call<'s, T, F>(
        &'s self,
        repeat: Repeat,
        call: impl Fn(&'s Member) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
        T: Replied,
    {
        self.call_within(repeat, self.call_limit, call).await
    }

    /// The same, where one endpoint may take so long.
    pub(super) async fn call_within<'s, T, F>(
        &'s self,
        repeat: Repeat,
        limit: Duration,
        call: impl Fn(&'s Member) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
        T: Replied,
    {
        let mut failures = Vec::new();
        for (index, member) in self.attempts(repeat) {
            if repeat == Repeat::Never
                && let Err(failure) = self.prove(member).await
            {
                self.eject(member);
                failures.push(failure);
                continue;
            }
            let asked = self.revisions.position();
            let (meaning, detail) = match self.ask(member, limit, &call).await {
                Ok(reply) => match self.revisions.heard(asked, &reply) {
                    Ok(()) => {
                        member.answered();
                        self.current.store(index, Ordering::Relaxed);
                        return Ok(reply);
                    }
                    // A write may have been done, in whatever that is.
                    Err(wrong) => (Meaning::Unknown, format!("{}: {wrong}", member.name)),
                },
                Err(failure) => failure,
            };
            match (meaning, repeat) {
                (Meaning::No(reason), _) => {
                    member.answered();
                    return Err(not_applied(reason, detail));
                }
                (Meaning::Full, _) => {
                    member.answered();
                    return Err(full(detail));
                }
                (Meaning::WhoAsks, _) => {
                    member.answered();
                    return Err(not_applied(NotApplied::Denied, detail));
                }
                (Meaning::RightsMoved, _) => {
                    member.answered();
                    return Err(not_applied(NotApplied::Refused, detail));
                }
                (Meaning::Unknown, Repeat::Never) => {
                    self.eject(member);
                    return Err(indeterminate(detail));
                }
                (Meaning::Unknown, Repeat::Safe) | (Meaning::TryAnother, _) => {
                    self.eject(member);
                    failures.push(detail);
                }
            }
        }
        failures.dedup();
        Err(not_applied(NotApplied::Unreachable, failures.join("; ")))
    }

    /// Endpoints in the order in which they are to be tried: from the current one on, the ejected ones last.
    pub(super) fn order(&self) -> Vec<(usize, &Member)> {
        let now = self.now();
        let current = self.current.load(Ordering::Relaxed);
        let from_current = self.members.iter().enumerate().skip(current);
        let before = self.members.iter().enumerate().take(current);
        let mut order: Vec<_> = from_current.chain(before).collect();
        // Stable: those that are not ejected keep their order.
        order.sort_by_key(|(_, member)| {
            let until = member.ejected_until.load(Ordering::Relaxed);
            if until > now { until } else { 0 }
        });
        order
    }

    pub(super) fn member(&self, index: usize) -> Option<&Member> {
        self.members.get(index)
    }

    fn attempts(&self, repeat: Repeat) -> Vec<(usize, &Member)> {
        let mut order = self.order();
        if repeat == Repeat::Safe && order.len() < READ_ATTEMPTS_MIN {
            order.extend(order.clone());
        }
        order.truncate(ATTEMPTS_MAX);
        order
    }

    /// Asks an endpoint that has not answered yet for something harmless. Of several callers only one asks, and all take its
    /// word: a silent endpoint is waited for once, not once for each.
    async fn prove(&self, member: &Member) -> Result<(), String> {
        if member.is_proven() {
            return Ok(());
        }
        let failed_before = member.proofs_failed.load(Ordering::Relaxed);
        let _one_at_a_time = member.proof.lock().await;
        if member.is_proven() {
            return Ok(());
        }
        if member.proofs_failed.load(Ordering::Relaxed) != failed_before {
            return Err(format!("{}: it failed another call just now", member.name));
        }
        let proof = self.ask_for_proof(member).await;
        match &proof {
            Ok(()) => member.answered(),
            Err(_) => {
                member.proofs_failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        proof
    }

    async fn ask_for_proof(&self, member: &Member) -> Result<(), String> {
        let limit = PROOF_LIMIT.min(self.call_limit);
        let ask = |member: &Member| {
            let mut kv = member.kv.clone();
            let key = self.proof_key.bytes();
            async move { kv.get(key, Some(GetOptions::new().with_count_only())).await }
        };
        match self.ask(member, limit, ask).await {
            Ok(_) => Ok(()),
            Err((meaning, detail)) => match meaning {
                // It answers; what it refuses is told by the call itself.
                Meaning::No(_) | Meaning::WhoAsks | Meaning::RightsMoved | Meaning::Full => Ok(()),
                Meaning::TryAnother | Meaning::Unknown => Err(detail),
            },
        }
    }

    /// Asks one member. If it does not know who asks, it is told, and asked once more: nothing was done the first time.
    pub(super) async fn ask<'s, T, F>(
        &'s self,
        member: &'s Member,
        limit: Duration,
        call: impl Fn(&'s Member) -> F,
    ) -> Result<T, (Meaning, String)>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let token = self.token();
        let once = async |member: &'s Member| match timeout(limit, call(member)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err((meaning_of(&error), detail_of(&member.name, &error))),
            Err(_) => Err((Meaning::Unknown, self.silent(member, limit))),
        };
        let mut answer = once(member).await;
        if let Err((meaning @ (Meaning::WhoAsks | Meaning::RightsMoved), _)) = answer {
            // Boxed, for it is rare.
            match Box::pin(self.be_known(member, token, meaning)).await {
                Ok(()) => answer = Box::pin(once(member)).await,
                Err(failure) => return Err(failure),
            }
        }
        answer.map_err(|(meaning, detail)| match meaning {
            Meaning::No(NotApplied::Denied) => {
                (meaning, format!("{detail}; {}", self.access.missing()))
            }
            Meaning::TryAnother
            | Meaning::No(_)
            | Meaning::Unknown
            | Meaning::Full
            | Meaning::WhoAsks
            | Meaning::RightsMoved => (meaning, detail),
        })
    }

    /// Which token is in use.
    pub(super) fn token(&self) -> u64 {
        let credentials = self.access.credentials.as_ref();
        credentials.map_or(0, Credentials::number)
    }

    /// Sees to it that a request that was refused for who asks can be made again.
    pub(super) async fn be_known(
        &self,
        member: &Member,
        refused: u64,
        why: Meaning,
    ) -> Result<(), (Meaning, String)> {
        // One who is known by a certificate only has to ask again.
        if why == Meaning::RightsMoved && self.access.credentials.is_none() {
            return Ok(());
        }
        self.log_in(member, refused).await
    }

    /// Sees to it that another token is in use than the one that a member refused.
    async fn log_in(&self, member: &Member, refused: u64) -> Result<(), (Meaning, String)> {
        let Some(credentials) = &self.access.credentials else {
            let detail = format!(
                "{}: etcd wants to know who asks; give --etcd-user and --etcd-password-file, or a client certificate",
                member.name
            );
            return Err((Meaning::No(NotApplied::Denied), detail));
        };
        let limit = self.call_limit;
        let renewed = credentials.renew(refused, &member.name, &member.bare, limit);
        renewed.await.map_err(|why| {
            let meaning = if why.refused {
                Meaning::No(NotApplied::Denied)
            } else {
                Meaning::TryAnother
            };
            (meaning, why.detail)
        })
    }

    /// Others are tried first for a while.
    pub(super) fn eject(&self, member: &Member) {
        let until = self.now().saturating_add(milliseconds(EJECTED_FOR));
        member.ejected_until.store(until, Ordering::Relaxed);
        self.revisions.doubt();
        if member.proven.swap(false, Ordering::Relaxed) {
            tracing::warn!(endpoint = %member.name, "this endpoint of etcd does not answer; others are tried first");
        }
    }

    pub(super) fn silent(&self, member: &Member, limit: Duration) -> String {
        format!("{}: no answer within {limit:?}", member.name)
    }

    fn now(&self) -> u64 {
        milliseconds(self.began.elapsed())
    }
}

impl Member {
    pub(super) fn answered(&self) {
        self.proven.store(true, Ordering::Relaxed);
        self.ejected_until.store(0, Ordering::Relaxed);
    }

    fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.members.iter().map(|member| &member.name);
        f.debug_list().entries(names).finish()
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
