//! Callers of the sidecar: the generated gRPC client over a channel, as an application has it.

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::proto::v1::intent::Content;
use tonic::transport::{Channel, Endpoint};

use crate::Outcome;
use crate::drive::Caller;
use crate::work::{self, Fresh, Move, Walk};

pub(crate) type Client = CoordinationServiceClient<Channel>;

/// The kind of every resource here.
const KIND: &str = "order";
/// The longest wait there is, in seconds.
const WAIT_SECONDS: i64 = 600;

/// Connections of one application, shared by its callers.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Vec<Client>);

impl Connections {
    pub(crate) async fn open(address: &str, count: usize) -> Outcome<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Client::new(endpoint.connect().await?));
        }
        Ok(Self(clients))
    }

    pub(crate) fn client(&self, caller: usize) -> Client {
        self.0[caller % self.0.len()].clone()
    }

    /// So many callers that walk through resources of their own.
    pub(crate) fn movers(&self, callers: usize, walk: &Walk) -> Vec<Mover> {
        let mover = |caller| Mover {
            client: self.client(caller),
            walk: walk.clone(),
        };
        (0..callers).map(mover).collect()
    }

    /// So many callers of one resource, which must be in the state that [`open_hot`] leaves.
    pub(crate) fn noters(&self, callers: usize, resource: &str, fresh: &Fresh) -> Vec<Noter> {
        let noter = |caller| Noter {
            client: self.client(caller),
            resource: resource.to_owned(),
            fresh: fresh.clone(),
        };
        (0..callers).map(noter).collect()
    }

    /// So many callers that ask again, each for an operation of its own that was just done.
    pub(crate) async fn replayers(&self, callers: usize, fresh: &Fresh) -> Outcome<Vec<Replayer>> {
        let mut replayers = Vec::new();
        for caller in 0..callers {
            let mut client = self.client(caller);
            let resource = fresh.next();
            let request = transition(&resource, work::MOVES[0]);
            applied(&mut client, request.clone()).await?;
            replayers.push(Replayer { client, request });
        }
        Ok(replayers)
    }

    /// So many callers that take and give back resources of their own.
    pub(crate) fn holders(&self, callers: usize, fresh: &Fresh) -> Vec<Holder> {
        let holder = |caller| Holder {
            client: self.client(caller),
            fresh: fresh.clone(),
        };
        (0..callers).map(holder).collect()
    }

    /// So many callers that hold a resource each, and ask about it again and again.
    pub(crate) async fn keepers(
        &self,
        callers: usize,
        fresh: &Fresh,
        asks: Asks,
    ) -> Outcome<Vec<Keeper>> {
        let mut keepers = Vec::new();
        for caller in 0..callers {
            let mut client = self.client(caller);
            let resource = fresh.next();
            let held = reserve(&mut client, &resource, 60).await?;
            keepers.push(Keeper {
                client,
                resource,
                held,
                asks,
            });
        }
        Ok(keepers)
    }
}

/// A Transition of each resource's next move.
pub(crate) struct Mover {
    client: Client,
    walk: Walk,
}

impl Caller for Mover {
    async fn call(&mut self) -> Outcome<()> {
        let (resource, step) = self.walk.next();
        let request = transition(resource, step);
        applied(&mut self.client, request).await
    }
}

/// A new operation on the one resource that all share.
pub(crate) struct Noter {
    client: Client,
    resource: String,
    fresh: Fresh,
}

impl Caller for Noter {
    async fn call(&mut self) -> Outcome<()> {
        let operation = self.fresh.next();
        let mut request = transition(&self.resource, work::MOVES[0]);
        let intent = request.intent.as_mut().ok_or("a request has an intent")?;
        // Each note says something else, as it would.
        let content = work::content(&self.resource, &operation);
        intent.content = Some(Content::Json(content.into_bytes().into()));
        intent.operation_id = operation;
        intent.from_states = vec![work::MOVES[0].to.to_owned()];
        intent.r#move = Some(pb::Move::default());
        applied(&mut self.client, request).await
    }
}

/// The same operation again.
pub(crate) struct Replayer {
    client: Client,
    request: pb::TransitionRequest,
}

impl Caller for Replayer {
    async fn call(&mut self) -> Outcome<()> {
        judged(
            &mut self.client,
            self.request.clone(),
            pb::Verdict::Replayed,
        )
        .await
    }
}

/// Reserve, then Release.
pub(crate) struct Holder {
    client: Client,
    fresh: Fresh,
}

impl Caller for Holder {
    async fn call(&mut self) -> Outcome<()> {
        let resource = self.fresh.next();
        let held = reserve(&mut self.client, &resource, 30).await?;
        release(&mut self.client, &held).await
    }
}

/// What a [`Keeper`] asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    Fence,
    Renew,
}

/// Fence or Renew of a live reservation.
pub(crate) struct Keeper {
    client: Client,
    resource: String,
    held: pb::Reservation,
    asks: Asks,
}

impl Caller for Keeper {
    async fn call(&mut self) -> Outcome<()> {
        let decision = match self.asks {
            Asks::Fence => {
                let ask = pb::FenceRequest {
                    resource: Some(named(&self.resource)),
                    token: self.held.token,
                    even_if_ended: false,
                };
                self.client.fence(ask).await?.into_inner().decision
            }
            Asks::Renew => {
                let ask = pb::RenewRequest {
                    reservation_id: self.held.reservation_id.clone(),
                };
                self.client.renew(ask).await?.into_inner().decision
            }
        };
        expect(decision.as_ref(), pb::Verdict::Granted).map(drop)
    }
}

/// Puts a resource into the state in which [`Noter`]s may add to it.
pub(crate) async fn open_hot(connections: &Connections, resource: &str) -> Outcome<()> {
    applied(
        &mut connections.client(0),
        transition(resource, work::MOVES[0]),
    )
    .await
}

/// Takes a resource.
pub(crate) async fn reserve(
    client: &mut Client,
    resource: &str,
    ttl_seconds: i64,
) -> Outcome<pb::Reservation> {
    let request = taking(resource, ttl_seconds);
    granted(client.reserve(request).await?.into_inner())
}

/// A call that waits for its turn, for as long as one may.
pub(crate) fn waiting(resource: &str, ttl_seconds: i64) -> pb::ReserveRequest {
    pb::ReserveRequest {
        wait: Some(prost_types::Duration {
            seconds: WAIT_SECONDS,
            nanos: 0,
        }),
        ..taking(resource, ttl_seconds)
    }
}

/// Gives a resource back.
pub(crate) async fn release(client: &mut Client, held: &pb::Reservation) -> Outcome<()> {
    let release = pb::ReleaseRequest {
        reservation_id: held.reservation_id.clone(),
        ..pb::ReleaseRequest::default()
    };
    let answer = client.release(release).await?.into_inner();
    expect(answer.decision.as_ref(), pb::Verdict::Applied).map(drop)
}

fn taking(resource: &str, ttl_seconds: i64) -> pb::ReserveRequest {
    pb::ReserveRequest {
        resource: Some(named(resource)),
        request_id: uuid::Uuid::new_v4().to_string(),
        ttl: Some(prost_types::Duration {
            seconds: ttl_seconds,
            nanos: 0,
        }),
        holder: "bench".to_owned(),
        ..pb::ReserveRequest::default()
    }
}

/// The reservation that a grant brings.
pub(crate) fn granted(answer: pb::ReserveResponse) -> Outcome<pb::Reservation> {
    expect(answer.decision.as_ref(), pb::Verdict::Granted)?;
    let held = answer.reservation.ok_or("a grant without a reservation")?;
    if held.token <= 0 || held.reservation_id.is_empty() {
        return Err(format!("a grant without a token or an id: {held:?}").into());
    }
    Ok(held)
}

/// One request of the walk.
pub(crate) fn transition(resource: &str, step: Move) -> pb::TransitionRequest {
    let creates = step.from.is_empty();
    let initial = if creates { "new" } else { "" };
    pb::TransitionRequest {
        resource: Some(named(resource)),
        intent: Some(pb::Intent {
            operation_id: step.operation.to_owned(),
            event: String::new(),
            identity: Default::default(),
            content: Some(Content::Json(
                work::content(resource, step.operation).into_bytes().into(),
            )),
            from_states: if creates {
                Vec::new()
            } else {
                vec![step.from.to_owned()]
            },
            r#move: Some(pb::Move {
                to_state: step.to.to_owned(),
                initial_state: initial.to_owned(),
                sets: Default::default(),
            }),
            ..pb::Intent::default()
        }),
        release: None,
        reservation_id: String::new(),
        result: Some(pb::Result {
            sha256: Vec::new().into(),
            body: work::result(resource, step.operation).into_bytes().into(),
            code: 200,
            content_type: String::new(),
            headers: Vec::new(),
        }),
        ..pb::TransitionRequest::default()
    }
}

async fn applied(client: &mut Client, request: pb::TransitionRequest) -> Outcome<()> {
    judged(client, request, pb::Verdict::Applied).await
}

/// Asks, and checks the verdict, the result byte for byte, and the state.
pub(crate) async fn judged(
    client: &mut Client,
    request: pb::TransitionRequest,
    verdict: pb::Verdict,
) -> Outcome<()> {
    let body = request.result.as_ref().map(|result| result.body.clone());
    let to = request
        .intent
        .as_ref()
        .and_then(|intent| intent.r#move.as_ref())
        .map(|step| step.to_state.clone());
    let answer = client.transition(request).await?.into_inner();
    let decision = expect(answer.decision.as_ref(), verdict)?;
    if decision.result.as_ref().map(|result| &result.body) != body.as_ref() {
        return Err(format!("another result than was sent: {decision:?}").into());
    }
    let to = to.filter(|to| !to.is_empty());
    if let (Some(now), Some(to)) = (&decision.now, to)
        && now.state != to
    {
        return Err(format!("another state than {to}: {decision:?}").into());
    }
    Ok(())
}

fn expect(decision: Option<&pb::Decision>, verdict: pb::Verdict) -> Outcome<&pb::Decision> {
    let decision = decision.ok_or("an answer without a decision")?;
    if decision.verdict() != verdict {
        return Err(format!("not {}: {decision:?}", verdict.as_str_name()).into());
    }
    Ok(decision)
}

fn named(id: &str) -> pb::Resource {
    pb::Resource {
        kind: KIND.to_owned(),
        id: id.to_owned(),
    }
}
