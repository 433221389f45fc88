//! The seam where faults are put in: between a sidecar and etcd's API, real or embedded.
//!
//! A wrapped channel counts the requests of each RPC and does to chosen ones what networks do: it loses the reply, delivers
//! the request after the caller has given up, cuts the line before or after sending, or is slow. A cut of the whole line breaks
//! what is open on it too: watches, keepalives, calls under way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use etcd_client::Channel;
use etcd_client::proto::{
    PbRangeRequest, PbRangeResponse, PbTxnOpRequest, PbTxnRequest, PbTxnResponse,
};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use tokio::sync::watch;
use tonic::Code;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _};

use super::fault_body;
use super::reset::{HangingUp, Refusing};

/// How long an injected fault may take to be met.
const MET_WITHIN: Duration = Duration::from_secs(20);
/// By this a call says that a member without a leader must refuse it instead of staying silent.
const REQUIRE_LEADER: (&str, &str) = ("hasleader", "true");
/// Length and compression flag before each message.
pub(super) const MESSAGE_HEAD_BYTES: usize = 5;

/// Which of etcd's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rpc {
    Txn,
    Range,
    Put,
    DeleteRange,
    LeaseGrant,
    LeaseRevoke,
    /// Counted and matched by message, not by stream.
    LeaseKeepAlive,
    LeaseTimeToLive,
    /// Counted by stream.
    Watch,
    Other,
}

impl Rpc {
    pub(crate) const ALL: [Self; 10] = [
        Self::Txn,
        Self::Range,
        Self::Put,
        Self::DeleteRange,
        Self::LeaseGrant,
        Self::LeaseRevoke,
        Self::LeaseKeepAlive,
        Self::LeaseTimeToLive,
        Self::Watch,
        Self::Other,
    ];

    fn of(path: &str) -> Self {
        match path {
            "/etcdserverpb.KV/Txn" => Self::Txn,
            "/etcdserverpb.KV/Range" => Self::Range,
            "/etcdserverpb.KV/Put" => Self::Put,
            "/etcdserverpb.KV/DeleteRange" => Self::DeleteRange,
            "/etcdserverpb.Lease/LeaseGrant" => Self::LeaseGrant,
            "/etcdserverpb.Lease/LeaseRevoke" => Self::LeaseRevoke,
            "/etcdserverpb.Lease/LeaseKeepAlive" => Self::LeaseKeepAlive,
            "/etcdserverpb.Lease/LeaseTimeToLive" => Self::LeaseTimeToLive,
            "/etcdserverpb.Watch/Watch" => Self::Watch,
            _ => Self::Other,
        }
    }
}

/// What the caller of a lost request sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing, until it gives up.
    Silence,
    /// The line breaks.
    Reset,
}

impl Ending {
    pub(crate) const BOTH: [Self; 2] = [Self::Silence, Self::Reset];
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// It reaches etcd; the reply is thrown away.
    LoseReply(Ending),
    /// The caller sees the ending at once; etcd gets the request when `deliver` is called.
    DeliverLate(Ending),
    /// It waits for `deliver`, then goes on as if nothing had been; the caller may have left by then.
    Hold,
    /// Nobody listens: the connection is refused, nothing is sent.
    Cut,
    /// It is sent and the line breaks; etcd never gets it, which the caller cannot know.
    Lose,
    /// It waits before it reaches etcd.
    SlowRequest(Duration),
    /// It reaches etcd; the reply waits.
    SlowReply(Duration),
    /// etcd says this and does nothing.
    Refuse(Code, &'static str),
    /// etcd does it, and says this.
    DoAndSay(Code, &'static str),
    /// etcd does it, and says that it was in this term of its leaders.
    InTerm(u64),
    /// Of a keepalive: a leader that was replaced, of this term, says that the lease lives for so many seconds from now on. It does not.
    KeptByReplaced(u64, i64),
    /// etcd has no space left: what puts something is refused, as by an etcd that counts nested transactions.
    NoSpace,
}

/// What etcd says when it has no space left.
pub(crate) const NO_SPACE: (Code, &str) = (
    Code::ResourceExhausted,
    "etcdserver: mvcc: database space exceeded",
);

/// The wrapper.
#[derive(Debug)]
pub(crate) struct FaultyLink;

impl FaultyLink {
    /// Puts the seam into a channel.
    pub(crate) fn wrap(channel: Channel) -> (Channel, FaultPlan) {
        let plan = FaultPlan {
            shared: Arc::new(Shared {
                etcd: channel,
                refusing: Refusing::new(),
                hanging_up: HangingUp::new(),
                rules: Mutex::default(),
                counts: Mutex::default(),
                leaderless: Mutex::default(),
                cuts: watch::Sender::new(0),
            }),
        };
        let wrapped = Channel::Custom(BoxCloneSyncService::new(Line { plan: plan.clone() }));
        (wrapped, plan)
    }
}

/// What is to go wrong on one wrapped channel, and what went over it.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    etcd: Channel,
    refusing: Refusing,
    hanging_up: HangingUp,
    rules: Mutex<Vec<Arc<Rule>>>,
    counts: Mutex<BTreeMap<Rpc, usize>>,
    leaderless: Mutex<BTreeSet<Rpc>>,
    /// How often the whole line was cut.
    cuts: watch::Sender<usize>,
}

impl FaultPlan {
    /// Begins to say what is to happen to calls of this RPC.
    pub(crate) fn when(&self, rpc: Rpc) -> When {
        When {
            plan: self.clone(),
            rpc,
            containing: None,
            times: 1,
        }
    }

    /// Refuses every call until the answer is lifted, and breaks all that is open: streams, and calls under way that meet no
    /// other fault.
    pub(crate) fn cut_all(&self) -> Vec<Injected> {
        let cut = |rpc| self.when(rpc).always().then(Action::Cut);
        let all = Rpc::ALL.into_iter().map(cut).collect();
        // After the rules, so that nothing that breaks now comes back meanwhile.
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
        all
    }

    /// Ends with the next cut of the whole line.
    pub(super) fn next_cut(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut cuts = self.shared.cuts.subscribe();
        async move {
            if cuts.changed().await.is_err() {
                // Whoever could cut it is gone.
                std::future::pending().await
            }
        }
    }

    /// How many requests were made of each RPC so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts(self.shared.counts.lock().unwrap().clone())
    }

    /// Of which RPCs a request did not ask for a member that has a leader.
    pub(crate) fn leaderless(&self) -> BTreeSet<Rpc> {
        self.shared.leaderless.lock().unwrap().clone()
    }

    pub(super) fn count(&self, rpc: Rpc) {
        *self.shared.counts.lock().unwrap().entry(rpc).or_default() += 1;
    }

    /// The rule for a request, used up by one.
    pub(super) fn take(&self, rpc: Rpc, message: &[u8]) -> Option<Arc<Rule>> {
        let mut rules = self.shared.rules.lock().unwrap();
        let at = rules.iter().position(|rule| rule.takes(rpc, message))?;
        let rule = Arc::clone(&rules[at]);
        let mut left = rule.left.lock().unwrap();
        *left -= 1;
        if *left == 0 {
            rules.remove(at);
        }
        drop(left);
        Some(rule)
    }

    /// Carries a request to etcd.
    pub(super) async fn to_etcd(&self, request: Request<Body>) -> Answer {
        self.shared.etcd.clone().oneshot(request).await
    }

    /// Carries a request there, waits for the whole answer and throws it away.
    pub(super) async fn to_etcd_and_forget(&self, request: Request<Body>) {
        if let Ok(answer) = self.to_etcd(request).await {
            let _ = answer.into_body().collect().await;
        }
    }

    async fn refused(&self, request: Request<Body>) -> Answer {
        let channel = Channel::Tonic(self.shared.refusing.channel());
        channel.oneshot(request).await
    }

    async fn hung_up_on(&self, request: Request<Body>) -> Answer {
        let channel = Channel::Tonic(self.shared.hanging_up.channel());
        let answer = channel.oneshot(request).await;
        assert!(answer.is_err(), "nobody answers there");
        answer
    }

    async fn ends(&self, ending: Ending, request: Request<Body>) -> Answer {
        match ending {
            Ending::Silence => std::future::pending().await,
            Ending::Reset => self.hung_up_on(request).await,
        }
    }

    async fn carry(self, request: Request<Body>) -> Answer {
        let rpc = Rpc::of(request.uri().path());
        let (name, asked) = REQUIRE_LEADER;
        if request.headers().get(name).is_none_or(|is| is != asked) {
            self.shared.leaderless.lock().unwrap().insert(rpc);
        }
        // From before the rules are looked at, so that no cut slips through between.
        let cut = self.next_cut();
        match rpc {
            Rpc::LeaseKeepAlive => {
                return fault_body::breaking(cut, request, async |request| {
                    fault_body::carry_keep_alive(self, request).await
                })
                .await;
            }
            Rpc::Watch => {
                self.count(rpc);
                let (request, first) = fault_body::begun(request).await?;
                let message = first.get(MESSAGE_HEAD_BYTES..).unwrap_or_default();
                if let Some(rule) = self.take(rpc, message) {
                    rule.meet();
                    let Action::SlowRequest(delay) = rule.action else {
                        return self.refused(request).await;
                    };
                    tokio::time::sleep(delay).await;
                }
                let carried = async |request| self.to_etcd(request).await;
                return fault_body::breaking(cut, request, carried).await;
            }
            _ => {}
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let again = || {
            let whole = http_body_util::Full::new(body.clone());
            Request::from_parts(head.clone(), Body::new(whole))
        };
        self.count(rpc);
        let message = body.get(MESSAGE_HEAD_BYTES..).unwrap_or_default();
        assert!(!reads_the_past(rpc, message), "a serializable read");
        let Some(rule) = self.take(rpc, message) else {
            return tokio::select! {
                answer = self.to_etcd(again()) => answer,
                // It may have arrived, which the caller cannot know.
                () = cut => self.hung_up_on(again()).await,
            };
        };
        let (plan, copy) = (self.clone(), again());
        match rule.action {
            Action::LoseReply(ending) => {
                let met = Arc::clone(&rule);
                let carried = tokio::spawn(async move {
                    plan.to_etcd_and_forget(copy).await;
                    met.meet();
                    met.arrive();
                });
                if ending == Ending::Reset {
                    carried.await?;
                }
                self.ends(ending, again()).await
            }
            Action::DeliverLate(ending) => {
                let held = Arc::clone(&rule);
                tokio::spawn(async move {
                    held.wait_for_delivery().await;
                    plan.to_etcd_and_forget(copy).await;
                    held.arrive();
                });
                rule.meet();
                self.ends(ending, again()).await
            }
            Action::Hold => {
                rule.meet();
                // A task, because a request that was sent arrives even if its sender has left.
                let carried = tokio::spawn(async move {
                    rule.wait_for_delivery().await;
                    let answer = plan.to_etcd(copy).await;
                    let answer = whole(answer).await;
                    rule.arrive();
                    answer
                });
                carried.await?
            }
            Action::Cut => {
                rule.meet();
                self.refused(again()).await
            }
            Action::Lose => {
                rule.meet();
                self.hung_up_on(again()).await
            }
            Action::SlowRequest(delay) => {
                rule.meet();
                let carried = tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    whole(plan.to_etcd(copy).await).await
                });
                carried.await?
            }
            Action::Refuse(code, text) => {
                rule.meet();
                said(code, text)
            }
            Action::DoAndSay(code, text) => {
                self.to_etcd_and_forget(copy).await;
                rule.meet();
                rule.arrive();
                said(code, text)
            }
            Action::InTerm(term) => {
                let answer = in_term(self.to_etcd(copy).await, rpc, term).await;
                rule.meet();
                answer
            }
            Action::KeptByReplaced(..) => panic!("that is said of keepalives"),
            Action::NoSpace if puts_something(rpc, message) => {
                rule.meet();
                said(NO_SPACE.0, NO_SPACE.1)
            }
            Action::NoSpace => self.to_etcd(copy).await,
            Action::SlowReply(delay) => {
                let answer = whole(self.to_etcd(copy).await).await;
                rule.meet();
                rule.arrive();
                tokio::time::sleep(delay).await;
                answer
            }
        }
    }
}

/// An answer without a message.
fn said(code: Code, text: &str) -> Answer {
    Ok(tonic::Status::new(code, text).into_http())
}

/// J10: a member that lags answers a serializable read from what it last heard, and whoever was told an answer elsewhere would
/// be told "never seen".
fn reads_the_past(rpc: Rpc, message: &[u8]) -> bool {
    fn reads(txn: &PbTxnRequest) -> bool {
        let branches = txn.success.iter().chain(&txn.failure);
        branches
            .filter_map(|operation| operation.request.as_ref())
            .any(|request| match request {
                PbTxnOpRequest::RequestRange(range) => range.serializable,
                PbTxnOpRequest::RequestTxn(nested) => reads(nested),
                PbTxnOpRequest::RequestPut(_) | PbTxnOpRequest::RequestDeleteRange(_) => false,
            })
    }
    match rpc {
        Rpc::Txn => reads(&PbTxnRequest::decode(message).expect("a transaction")),
        Rpc::Range => {
            PbRangeRequest::decode(message)
                .expect("a range")
                .serializable
        }
        _ => false,
    }
}

fn puts_something(rpc: Rpc, message: &[u8]) -> bool {
    fn puts(txn: &PbTxnRequest) -> bool {
        let branches = txn.success.iter().chain(&txn.failure);
        branches
            .filter_map(|operation| operation.request.as_ref())
            .any(|request| match request {
                PbTxnOpRequest::RequestPut(_) => true,
                PbTxnOpRequest::RequestTxn(nested) => puts(nested),
                PbTxnOpRequest::RequestRange(_) | PbTxnOpRequest::RequestDeleteRange(_) => false,
            })
    }
    match rpc {
        Rpc::Txn => puts(&PbTxnRequest::decode(message).expect("a transaction")),
        Rpc::Put | Rpc::LeaseGrant => true,
        _ => false,
    }
}

/// An answer as another leader gives it.
async fn in_term(answer: Answer, rpc: Rpc, term: u64) -> Answer {
    let (head, body) = answer?.into_parts();
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned();
    let bytes = collected.to_bytes();
    let mut frames = Vec::new();
    // An error has no message.
    if let Some(message) = bytes.get(MESSAGE_HEAD_BYTES..) {
        let said = match rpc {
            Rpc::Txn => {
                let mut reply = PbTxnResponse::decode(message)?;
                reply.header.get_or_insert_default().raft_term = term;
                reply.encode_to_vec()
            }
            Rpc::Range => {
                let mut reply = PbRangeResponse::decode(message)?;
                reply.header.get_or_insert_default().raft_term = term;
                reply.encode_to_vec()
            }
            other => panic!("no test says that of {other:?}"),
        };
        frames.push(Ok(Frame::data(framed(&said))));
    }
    frames.extend(trailers.map(|trailers| Ok::<_, tonic::Status>(Frame::trailers(trailers))));
    let body = StreamBody::new(tokio_stream::iter(frames));
    Ok(Response::from_parts(head, Body::new(body)))
}

/// A message with its head.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a short message");
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

/// Reads an answer to its end, so that nothing is still under way when it is told to have arrived.
async fn whole(answer: Answer) -> Answer {
    let (head, body) = answer?.into_parts();
    let collected = body.collect().await?;
    Ok(Response::from_parts(head, Body::new(collected)))
}

/// What a channel answers.
pub(super) type Answer = Result<Response<Body>, BoxError>;

/// One fault in the making.
#[derive(Debug)]
pub(crate) struct When {
    plan: FaultPlan,
    rpc: Rpc,
    containing: Option<Vec<u8>>,
    times: usize,
}

impl When {
    /// Only calls whose request has these bytes somewhere, such as a resource's id.
    pub(crate) fn containing(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.containing = Some(bytes.as_ref().to_vec());
        self
    }

    /// The next so many calls, not just one.
    pub(crate) fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Until it is lifted.
    pub(crate) fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// What happens to them.
    pub(crate) fn then(self, action: Action) -> Injected {
        let rule = Arc::new(Rule {
            rpc: self.rpc,
            containing: self.containing,
            left: Mutex::new(self.times),
            action,
            met: watch::Sender::new(0),
            arrived: watch::Sender::new(0),
            delivered: watch::Sender::new(false),
        });
        let mut rules = self.plan.shared.rules.lock().unwrap();
        rules.push(Arc::clone(&rule));
        drop(rules);
        Injected {
            plan: self.plan,
            rule,
        }
    }
}

/// What is to happen to which calls.
#[derive(Debug)]
pub(super) struct Rule {
    rpc: Rpc,
    containing: Option<Vec<u8>>,
    left: Mutex<usize>,
    pub(super) action: Action,
    met: watch::Sender<usize>,
    arrived: watch::Sender<usize>,
    delivered: watch::Sender<bool>,
}

impl Rule {
    fn takes(&self, rpc: Rpc, message: &[u8]) -> bool {
        let contains = |bytes: &Vec<u8>| {
            message
                .windows(bytes.len())
                .any(|window| window == bytes.as_slice())
        };
        self.rpc == rpc && self.containing.as_ref().is_none_or(contains)
    }

    pub(super) fn meet(&self) {
        self.met.send_modify(|met| *met += 1);
    }

    pub(super) fn arrive(&self) {
        self.arrived.send_modify(|arrived| *arrived += 1);
    }

    pub(super) async fn wait_for_delivery(&self) {
        let mut delivered = self.delivered.subscribe();
        let _ = delivered.wait_for(|delivered| *delivered).await;
    }
}

/// A fault that was put in.
pub(crate) struct Injected {
    plan: FaultPlan,
    rule: Arc<Rule>,
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.rule.action, self.rule.rpc)
    }
}

impl Injected {
    /// Which calls it is for.
    pub(crate) fn rpc(&self) -> Rpc {
        self.rule.rpc
    }

    /// How many calls met it.
    pub(crate) fn hits(&self) -> usize {
        *self.rule.met.borrow()
    }

    /// Waits until a call has met it: a lost reply, until etcd has done the request; a held request, until it is held.
    pub(crate) async fn met(&self) {
        let mut met = self.rule.met.subscribe();
        let met = tokio::time::timeout(MET_WITHIN, met.wait_for(|met| *met > 0));
        assert!(met.await.is_ok(), "no call met {self:?}");
    }

    /// Hands the held requests to etcd and waits until it has answered them all.
    pub(crate) async fn deliver(&self) {
        let held = self.hits();
        assert!(held > 0, "nothing is held by {self:?}");
        self.lift();
        self.rule.delivered.send_replace(true);
        let mut arrived = self.rule.arrived.subscribe();
        let all = tokio::time::timeout(MET_WITHIN, arrived.wait_for(|arrived| *arrived >= held));
        assert!(all.await.is_ok(), "etcd did not answer {self:?}");
    }

    /// No further call meets it.
    pub(crate) fn lift(&self) {
        let mut rules = self.plan.shared.rules.lock().unwrap();
        rules.retain(|rule| !Arc::ptr_eq(rule, &self.rule));
    }
}

/// Requests by RPC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(BTreeMap<Rpc, usize>);

impl Counts {
    /// Those that came after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.0.clone();
        for (rpc, before) in &earlier.0 {
            *counts.entry(*rpc).or_default() -= before;
        }
        counts.retain(|_, count| *count > 0);
        Self(counts)
    }

    /// Of one RPC.
    pub(crate) fn of(&self, rpc: Rpc) -> usize {
        self.0.get(&rpc).copied().unwrap_or_default()
    }

    /// Reads and writes of keys: what a caller waits for when leases are at hand.
    pub(crate) fn keys(&self) -> usize {
        let all = [Rpc::Txn, Rpc::Range, Rpc::Put, Rpc::DeleteRange];
        all.into_iter().map(|rpc| self.of(rpc)).sum()
    }

    /// All of them.
    pub(crate) fn all(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(rpc, count): (&Rpc, &usize)| format!("{rpc:?} {count}");
        let all: Vec<_> = self.0.iter().map(one).collect();
        f.write_str(&all.join(", "))
    }
}

#[derive(Clone, Debug)]
struct Line {
    plan: FaultPlan,
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.plan.clone().carry(request))
    }
}
