//! A sidecar that passes everything on to an honest one, except for one lie.

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
    ReleaseResponse, RenewRequest, RenewResponse, ReserveRequest, ReserveResponse,
    TransitionRequest, TransitionResponse, Verdict, WatchRequest, WatchResponse, intent::Content,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming, async_trait};

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

    fn distort_request(&self, asked: &mut TransitionRequest) {
        let count = self.deliveries.fetch_add(1, Ordering::Relaxed);
        if self.lie == Lie::NobodyNamesARound {
            asked.reservation_id.clear();
        }
        self.distort_intent(&mut asked.intent, count);
    }

    fn distort_intent(&self, intent: &mut Option<Intent>, count: u64) {
        let Some(intent) = intent else {
            return;
        };
        match self.lie {
            Lie::EveryDeliveryIsNew => intent.operation_id.push_str(&format!("#{count}")),
            Lie::EveryContentIsEqual => intent.content = Some(Content::Raw("the same".into())),
            Lie::NobodyNamesAnAttempt => intent.identity.clear(),
            Lie::EveryStateMayMove => intent.from_states.clear(),
            _ => {}
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
        let count = self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.distort_intent(&mut asked.intent, count);
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
        self.distort_request(&mut asked);
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
        let mut answer = self
            .honest()
            .lookup(request.into_inner())
            .await?
            .into_inner();
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
        self.honest().inspect(request.into_inner()).await
    }
}
