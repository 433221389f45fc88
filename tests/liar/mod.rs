//! A sidecar that passes everything on to an honest one, except for one lie.
//!
//! A lie means the same whether a machine judges or the requests themselves, so it is told in the words of whichever does: a
//! message of an event without its identity would be refused, and has the one in force put in; where states stand in a file,
//! another file judges.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use fencepost::proto::v1::coordination_service_server::{
    CoordinationService, CoordinationServiceServer,
};
use fencepost::proto::v1::{
    Advice, Decision, FenceRequest, FenceResponse, HoldRequest, HoldResponse, InspectRequest,
    InspectResponse, Intent, LookupRequest, LookupResponse, OperationState, ReleaseRequest,
    ReleaseResponse, RenewRequest, RenewResponse, ReserveRequest, ReserveResponse, Resource,
    TransitionRequest, TransitionResponse, Verdict, WatchRequest, WatchResponse, intent::Content,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming, async_trait};

/// The kind of the demo's orders under a machine.
const ORDER: &str = "demo-order";
/// The kind whose machine lets every order move from everywhere, put in force by the test.
pub(crate) const LAX_ORDER: &str = "lax-order";
/// The events that begin a round: what they name is not in force yet.
const BEGIN_ROUNDS: [&str; 2] = ["start_payment", "hold"];

/// What the proxy lies about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    EveryVerdictIsGranted,
    EveryDeliveryIsNew,
    EveryContentIsEqual,
    NoResultComesBack,
    NothingWasEverSeen,
    NobodyNamesARound,
    EveryTokenIsGood,
    EveryTokenIsOne,
    NobodyNamesAnAttempt,
    EveryStateMayMove,
    NobodyIsCalled,
    EverythingIsSettled,
    EverySenderListens,
    NobodySaysWhatTheyReserveFor,
}

struct Liar {
    honest: CoordinationServiceClient<Channel>,
    lie: Lie,
    deliveries: Arc<AtomicU64>,
}

/// Listens on a free port until the test's runtime ends.
pub(crate) async fn start(honest: SocketAddr, lie: Lie) -> SocketAddr {
    let channel = Endpoint::from_shared(format!("http://{honest}"))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let liar = Liar {
        honest: CoordinationServiceClient::new(channel),
        lie,
        deliveries: Arc::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = Server::builder()
        .add_service(CoordinationServiceServer::new(liar))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    addr
}

impl Liar {
    fn honest(&self) -> CoordinationServiceClient<Channel> {
        self.honest.clone()
    }

    async fn distort_request(&self, asked: &mut TransitionRequest) {
        if self.lie == Lie::NobodyNamesARound {
            asked.reservation_id.clear();
        }
        self.distort_intent(&mut asked.resource, &mut asked.intent)
            .await;
    }

    async fn distort_intent(&self, resource: &mut Option<Resource>, intent: &mut Option<Intent>) {
        let count = self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.distort_resource(resource);
        let Some(intent) = intent else {
            return;
        };
        if self.lie == Lie::NobodyNamesAnAttempt && !intent.event.is_empty() {
            if !BEGIN_ROUNDS.contains(&intent.event.as_str()) {
                self.name_the_round_in_force(resource, intent).await;
            }
            return;
        }
        match self.lie {
            Lie::EveryDeliveryIsNew => intent.operation_id.push_str(&format!("#{count}")),
            Lie::EveryContentIsEqual => {
                intent.content = Some(Content::Json(
                    r#"{"amount": null, "currency": null}"#.into(),
                ))
            }
            Lie::NobodyNamesAnAttempt => intent.identity.clear(),
            Lie::EveryStateMayMove => intent.from_states.clear(),
            _ => {}
        }
    }

    async fn name_the_round_in_force(&self, resource: &Option<Resource>, intent: &mut Intent) {
        let asked = InspectRequest {
            resource: resource.clone(),
            ..InspectRequest::default()
        };
        let found = self.honest().inspect(asked).await.unwrap().into_inner();
        let in_force = found.snapshot.unwrap_or_default().identity;
        for (name, value) in &mut intent.identity {
            if let Some(known) = in_force.get(name) {
                value.clone_from(known);
            }
        }
    }

    /// From one machine to the other.
    fn distort_resource(&self, resource: &mut Option<Resource>) {
        if let (Lie::EveryStateMayMove, Some(resource)) = (self.lie, resource)
            && resource.kind == ORDER
        {
            LAX_ORDER.clone_into(&mut resource.kind);
        }
    }

    fn distort(&self, decision: &mut Option<Decision>) {
        let Some(decision) = decision else { return };
        match self.lie {
            Lie::EveryVerdictIsGranted => {
                decision.verdict = Verdict::Granted.into();
                decision.rule = "LIVE".into();
                decision.explanation = "all is well".into();
            }
            Lie::NoResultComesBack => decision.result = None,
            Lie::NobodyIsCalled => decision.incident_id.clear(),
            Lie::EverySenderListens
                if matches!(decision.verdict(), Verdict::Rejected | Verdict::Conflict) =>
            {
                decision.advice = Advice::Refuse.into();
            }
            _ => {}
        }
    }
}

#[async_trait]
impl CoordinationService for Liar {
    type HoldStream = Streaming<HoldResponse>;
    type WatchStream = Streaming<WatchResponse>;

    async fn hold(
        &self,
        request: Request<HoldRequest>,
    ) -> Result<Response<Self::HoldStream>, Status> {
        self.honest().hold(request.into_inner()).await
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.honest().watch(request.into_inner()).await
    }

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let mut asked = request.into_inner();
        self.distort_intent(&mut asked.resource, &mut asked.intent)
            .await;
        if self.lie == Lie::NobodySaysWhatTheyReserveFor {
            asked.intent = None;
        }
        let mut answer = self.honest().reserve(asked).await?.into_inner();
        self.distort(&mut answer.decision);
        if let (Lie::EveryTokenIsOne, Some(reservation)) = (self.lie, &mut answer.reservation) {
            reservation.token = 1;
        }
        Ok(Response::new(answer))
    }

    async fn transition(
        &self,
        request: Request<TransitionRequest>,
    ) -> Result<Response<TransitionResponse>, Status> {
        let mut asked = request.into_inner();
        self.distort_request(&mut asked).await;
        let mut answer = self.honest().transition(asked).await?.into_inner();
        self.distort(&mut answer.decision);
        if let (Lie::EverythingIsSettled, Some(decision)) = (self.lie, &mut answer.decision) {
            decision.advice = Advice::Acknowledge.into();
        }
        Ok(Response::new(answer))
    }

    async fn fence(
        &self,
        request: Request<FenceRequest>,
    ) -> Result<Response<FenceResponse>, Status> {
        let mut answer = self
            .honest()
            .fence(request.into_inner())
            .await?
            .into_inner();
        self.distort(&mut answer.decision);
        if let (Lie::EveryTokenIsGood, Some(decision)) = (self.lie, &mut answer.decision) {
            decision.advice = Advice::Proceed.into();
        }
        Ok(Response::new(answer))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        self.honest().renew(request.into_inner()).await
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        self.honest().release(request.into_inner()).await
    }

    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        let mut asked = request.into_inner();
        self.distort_resource(&mut asked.resource);
        let mut answer = self.honest().lookup(asked).await?.into_inner();
        if self.lie == Lie::NothingWasEverSeen {
            answer.state = OperationState::NeverSeen.into();
            answer.decision = None;
        }
        Ok(Response::new(answer))
    }

    async fn inspect(
        &self,
        request: Request<InspectRequest>,
    ) -> Result<Response<InspectResponse>, Status> {
        let mut asked = request.into_inner();
        self.distort_resource(&mut asked.resource);
        self.honest().inspect(asked).await
    }
}
