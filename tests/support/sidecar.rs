//! A sidecar in this process: a store and an engine, without the door.

use std::time::Duration;

use etcd_client::Channel;
use fencepost::domain::decision::{Decision, Grant, Snapshot, Verdict};
use fencepost::domain::ids::{Holder, Nonce, OperationId, Reason, ReservationId, ResourceId};
use fencepost::domain::incident::{Incident, IncidentFilter};
use fencepost::domain::request::{
    Complete, EndedRounds, Fence, Left, Purpose, Reserve, Resolve, Ride,
};
use fencepost::domain::together::ReserveTogether;
use fencepost::domain::token::{FencingToken, Timeline};
use fencepost::engine::{
    Applied, Boottime, Caller, Engine, EngineOptions, Fault, Known, NewTimeline, Reserved, StartAsk,
};
use fencepost::store::{Endpoint, Login, Prefix, Store, StoreError, StoreOptions};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::ask::{Ask, body, fresh_request};

/// How long a caller waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where the tests' first timelines begin, in seconds since 1970.
const FIRST_SECONDS: u64 = 1_700_000_000;
/// More incidents than any test raises on one prefix.
const INCIDENTS_MAX: usize = 1_000;

/// One sidecar. The methods that answer a decision fail the test on a fault; those that begin with `try` answer it.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) engine: Engine,
    store: Store,
    prefix: String,
}

impl Sidecar {
    pub(crate) async fn open(channel: Channel, prefix: &str, call_timeout: Duration) -> Self {
        let id = Nonce::from_bytes(*Uuid::new_v4().as_bytes());
        let first = Timeline::first(id, FIRST_SECONDS);
        Self::open_with(channel, prefix, call_timeout, first).await
    }

    /// One whose retention and clocks are the test's.
    pub(crate) async fn open_keeping(
        channel: Channel,
        prefix: &str,
        call_timeout: Duration,
        options: EngineOptions,
    ) -> Self {
        let id = Nonce::from_bytes(*Uuid::new_v4().as_bytes());
        let first = Timeline::first(id, FIRST_SECONDS);
        Self::start(channel, prefix, call_timeout, first, options).await
    }

    pub(crate) async fn open_with(
        channel: Channel,
        prefix: &str,
        call_timeout: Duration,
        first: Timeline,
    ) -> Self {
        let options = EngineOptions::default();
        Self::start(channel, prefix, call_timeout, first, options).await
    }

    /// One that knows several members, or logs in.
    pub(crate) async fn on(
        endpoints: Vec<Endpoint>,
        login: Option<Login>,
        prefix: &str,
        call_timeout: Duration,
    ) -> Self {
        let opened = Self::open_as(endpoints, login, prefix, call_timeout).await;
        opened.expect("the store opens")
    }

    /// One that may not be let in.
    pub(crate) async fn try_on(
        endpoints: Vec<Endpoint>,
        prefix: &str,
        call_timeout: Duration,
    ) -> Result<Self, StoreError> {
        Self::open_as(endpoints, None, prefix, call_timeout).await
    }

    async fn open_as(
        endpoints: Vec<Endpoint>,
        login: Option<Login>,
        prefix: &str,
        call_timeout: Duration,
    ) -> Result<Self, StoreError> {
        let id = Nonce::from_bytes(*Uuid::new_v4().as_bytes());
        let options = StoreOptions {
            prefix: Prefix::parse(prefix).expect("a prefix"),
            call_timeout,
        };
        let first = Timeline::first(id, FIRST_SECONDS);
        let store = Store::open_as(login, endpoints, options, first).await?;
        let engine = Engine::start(store.clone(), EngineOptions::default());
        Ok(Self {
            engine,
            store,
            prefix: prefix.to_owned(),
        })
    }

    async fn start(
        channel: Channel,
        prefix: &str,
        call_timeout: Duration,
        first: Timeline,
        engine: EngineOptions,
    ) -> Self {
        let endpoint = Endpoint {
            name: "test".to_owned(),
            channel,
        };
        let options = StoreOptions {
            prefix: Prefix::parse(prefix).expect("a prefix"),
            call_timeout,
        };
        let store = Store::open(vec![endpoint], options, first).await;
        let store = store.expect("the store opens");
        let engine = Engine::start(store.clone(), engine);
        Self {
            engine,
            store,
            prefix: prefix.to_owned(),
        }
    }

    /// What its keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn timeline(&self) -> Timeline {
        self.store.timeline()
    }

    /// What an operator does after a restore.
    pub(crate) async fn try_start_timeline(&self, reason: &str) -> Result<NewTimeline, Fault> {
        let ask = StartAsk {
            by: Holder::parse("ann").expect("a name"),
            reason: Reason::parse(reason).expect("a reason"),
            above: None,
        };
        self.engine.start_timeline(ask, caller()).await
    }

    pub(crate) async fn start_timeline(&self, reason: &str) -> NewTimeline {
        let started = self.try_start_timeline(reason).await;
        started.expect("a timeline is started")
    }

    pub(crate) fn key_of(&self, resource: &ResourceId) -> String {
        self.store.key_of(resource)
    }

    pub(crate) async fn try_reserve(&self, ask: &Reserve) -> Result<Reserved, Fault> {
        self.engine.reserve(ask.clone(), caller()).await
    }

    pub(crate) async fn reserve(&self, ask: &Reserve) -> Reserved {
        let reserved = self.try_reserve(ask).await.expect("Reserve is judged");
        let granted = reserved.decision.verdict == Verdict::Granted;
        assert_eq!(reserved.grant.is_some(), granted, "{reserved:?}");
        reserved
    }

    /// Reserves what must be free.
    pub(crate) async fn hold(&self, ask: &Reserve) -> Grant {
        let reserved = self.reserve(ask).await;
        let decision = reserved.decision;
        reserved
            .grant
            .unwrap_or_else(|| panic!("{decision:?} instead of a reservation"))
    }

    pub(crate) async fn try_reserve_together(
        &self,
        ask: &ReserveTogether,
    ) -> Result<Reserved, Fault> {
        self.engine.reserve_together(ask.clone(), caller()).await
    }

    pub(crate) async fn reserve_together(&self, ask: &ReserveTogether) -> Reserved {
        let reserved = self.try_reserve_together(ask).await;
        reserved.expect("Reserve is judged")
    }

    /// Reserves several that must be free.
    pub(crate) async fn hold_together(&self, ask: &ReserveTogether) -> Grant {
        let Reserved { decision, grant } = self.reserve_together(ask).await;
        grant.unwrap_or_else(|| panic!("{decision:?} instead of a reservation"))
    }

    pub(crate) async fn try_renew(&self, round: &ReservationId) -> Result<Reserved, Fault> {
        self.engine.renew(round.clone(), caller()).await
    }

    pub(crate) async fn renew(&self, round: &ReservationId) -> Reserved {
        self.try_renew(round).await.expect("Renew is judged")
    }

    pub(crate) async fn try_release(&self, round: &ReservationId) -> Result<Decision, Fault> {
        let left = Left::Unsaid;
        self.engine.release(round.clone(), left, caller()).await
    }

    /// Releases, saying that nothing was done.
    pub(crate) async fn give_back(&self, round: &ReservationId) -> Decision {
        let decision = self.try_give_back(round).await;
        decision.expect("Release is judged")
    }

    pub(crate) async fn try_give_back(&self, round: &ReservationId) -> Result<Decision, Fault> {
        let left = Left::NothingDone;
        self.engine.release(round.clone(), left, caller()).await
    }

    pub(crate) async fn try_ride(&self, ride: &Ride) -> Result<Reserved, Fault> {
        self.engine.ride(ride.clone(), caller()).await
    }

    /// Claims an operation on a reservation.
    pub(crate) async fn ride(&self, ask: &Ask, round: &ReservationId) -> Reserved {
        let ride = Ride {
            reservation: round.clone(),
            request: fresh_request(),
            intent: ask.build().intent,
        };
        let reserved = self.engine.ride(ride, caller()).await;
        reserved.expect("Reserve is judged")
    }

    pub(crate) async fn try_complete(
        &self,
        round: &ReservationId,
        result: &str,
    ) -> Result<Decision, Fault> {
        let ask = Complete {
            reservation: round.clone(),
            result: Some(body(result)),
            afterwards: None,
            outcome: None,
            sender: None,
            purpose: Purpose::Commit,
        };
        self.engine.complete(ask, caller()).await
    }

    /// Completes the operation that a round has claimed.
    pub(crate) async fn complete(&self, round: &ReservationId, result: &str) -> Decision {
        let decision = self.try_complete(round, result).await;
        decision.expect("Transition is judged")
    }

    pub(crate) async fn try_resolve(&self, ask: &Resolve) -> Result<Decision, Fault> {
        self.engine.resolve(ask.clone(), caller()).await
    }

    /// A person says what was found out.
    pub(crate) async fn resolve(&self, ask: &Resolve) -> Decision {
        let decision = self.try_resolve(ask).await;
        decision.expect("Resolve is judged")
    }

    pub(crate) async fn release(&self, round: &ReservationId) -> Decision {
        self.try_release(round).await.expect("Release is judged")
    }

    pub(crate) async fn try_transition(&self, ask: &Ask) -> Result<Decision, Fault> {
        self.engine.transition(ask.build(), caller()).await
    }

    pub(crate) async fn transition(&self, ask: &Ask) -> Decision {
        let decision = self.try_transition(ask).await;
        decision.expect("Transition is judged")
    }

    /// Offers a machine file.
    pub(crate) async fn apply(&self, text: &str) -> (Applied, Vec<String>) {
        let source = bytes::Bytes::copy_from_slice(text.as_bytes());
        let applied = self.engine.apply_machine(source, caller()).await;
        let (applied, findings) = applied.expect("ApplyMachine is answered");
        (applied, findings.iter().map(ToString::to_string).collect())
    }

    /// Puts a machine in force that must be put in force.
    pub(crate) async fn install(&self, text: &str) {
        let (applied, findings) = self.apply(text).await;
        let installed = matches!(applied, Applied::Installed(_));
        assert!(installed, "{applied:?}: {findings:#?}");
    }

    pub(crate) async fn fence(&self, resource: &ResourceId, token: FencingToken) -> Decision {
        self.fence_with(resource, token, EndedRounds::Refused).await
    }

    pub(crate) async fn fence_with(
        &self,
        resource: &ResourceId,
        token: FencingToken,
        ended: EndedRounds,
    ) -> Decision {
        let ask = Fence {
            resource: resource.clone(),
            token,
            ended,
        };
        let decision = self.engine.fence(ask, caller()).await;
        decision.expect("Fence is judged")
    }

    pub(crate) async fn lookup(&self, resource: &ResourceId, operation: &str) -> Known {
        let operation = OperationId::parse(operation).expect("an operation id");
        let known = self
            .engine
            .lookup(resource.clone(), operation.into(), caller());
        known.await.expect("Lookup is answered")
    }

    pub(crate) async fn inspect(&self, resource: &ResourceId) -> Snapshot {
        let snapshot = self.engine.inspect(resource.clone(), caller()).await;
        snapshot.expect("Inspect is answered")
    }

    /// The state of a resource; empty if it has none.
    pub(crate) async fn state(&self, resource: &ResourceId) -> String {
        let state = self.inspect(resource).await.state;
        state.map_or(String::new(), |state| state.to_string())
    }

    /// The token of the live reservation.
    pub(crate) async fn live(&self, resource: &ResourceId) -> Option<FencingToken> {
        let live = self.inspect(resource).await.live;
        live.map(|live| live.token)
    }

    /// All incidents of a resource.
    pub(crate) async fn incidents(&self, resource: &ResourceId) -> Vec<Incident> {
        let all = IncidentFilter::default();
        let page = self.engine.incidents(None, INCIDENTS_MAX, &all, caller());
        let mut page = page.await.expect("incidents are listed").incidents;
        page.retain(|incident| incident.resource == *resource);
        page
    }
}

/// What became of calls that may wait, each in a task of its own: who hangs up, drops it.
pub(crate) type Waiting<T> = JoinHandle<Result<T, Fault>>;

impl Sidecar {
    /// A Transition that waits.
    pub(crate) fn transition_waiting(&self, ask: &Ask, wait: Duration) -> Waiting<Decision> {
        let (engine, ask) = (self.engine.clone(), ask.build());
        tokio::spawn(async move { engine.transition_or_wait(ask, wait, caller()).await })
    }

    /// A Reserve that waits.
    pub(crate) fn reserve_waiting(&self, ask: &Reserve, wait: Duration) -> Waiting<Reserved> {
        let (engine, ask) = (self.engine.clone(), ask.clone());
        tokio::spawn(async move { engine.reserve_or_wait(ask, wait, caller()).await })
    }

    /// A Reserve of several resources that waits.
    pub(crate) fn together_waiting(
        &self,
        ask: &ReserveTogether,
        wait: Duration,
        patience: Duration,
    ) -> Waiting<Reserved> {
        let (engine, ask) = (self.engine.clone(), ask.clone());
        tokio::spawn(async move {
            let asked = engine.reserve_together_or_wait(ask, wait, caller_for(patience));
            asked.await
        })
    }

    /// A Lookup that waits.
    pub(crate) fn lookup_waiting(
        &self,
        resource: &ResourceId,
        operation: &str,
        wait: Duration,
    ) -> Waiting<Known> {
        let operation = OperationId::parse(operation).expect("an operation id");
        let (engine, resource) = (self.engine.clone(), resource.clone());
        tokio::spawn(async move {
            let asked = engine.lookup_or_wait(resource, operation.into(), wait, caller());
            asked.await
        })
    }
}

/// A caller who arrives now and waits long enough.
pub(crate) fn caller() -> Caller {
    caller_for(PATIENCE)
}

/// A caller who arrives now and waits so long.
pub(crate) fn caller_for(patience: Duration) -> Caller {
    let arrived = Boottime::now();
    Caller {
        arrived,
        deadline: arrived.plus(patience),
    }
}
