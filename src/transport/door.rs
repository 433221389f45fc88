//! Which door a request takes: gRPC, JSON, or one of the services beside (health, reflection).

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::Full;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::{Service, ServiceExt as _};

use crate::proto::v1::coordination_service_server::SERVICE_NAME;
use crate::proto::v1::operator_service_server::OperatorServiceServer;

use super::calls::{Calls, EngineSlot};
use super::coding::{self, is_grpc};
use super::gate::Gate;
use super::grpc::{self, Grpc};
use super::json::{Json, Rpc};
use super::operator::{self, Operator};
use super::streams::{Streaming, Streams};
use super::{MESSAGE_BYTES_MAX, status};

/// Most streams open on one connection. Half of the calls that it may have under way stay for those that are answered at once.
const STREAMS_PER_CONNECTION_MAX: usize = 128;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    name: Arc<str>,
    /// Room for streams on this connection.
    streams: Arc<Semaphore>,
}

impl Peer {
    /// Somebody on the loopback port.
    pub fn tcp(address: SocketAddr) -> Self {
        Self::named(address.to_string())
    }

    /// Somebody on the admin socket.
    pub fn unix() -> Self {
        Self::named("admin socket".to_owned())
    }

    fn named(name: String) -> Self {
        Self {
            name: name.into(),
            streams: Arc::new(Semaphore::new(STREAMS_PER_CONNECTION_MAX)),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    pub(super) fn streams(&self) -> &Arc<Semaphore> {
        &self.streams
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Answers what comes to the application's port. Cheap to clone.
#[derive(Clone)]
pub struct Door {
    grpc: Grpc,
    streams: Streams,
    json: Json,
    beside: Routes,
}

impl Door {
    /// A door to the engine; `beside` are the services that are not ours.
    pub fn new(engine: EngineSlot, gate: Gate, beside: Routes) -> Self {
        let calls = Calls::new(engine);
        Self {
            grpc: Grpc::new(calls.clone(), gate.clone()),
            streams: Streams::new(calls.clone(), gate.clone()),
            json: Json::new(calls, gate),
            beside: beside.prepare(),
        }
    }

    /// Answers a request.
    pub async fn answer<B>(self, request: Request<B>, peer: Peer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if request.headers().contains_key(ORIGIN) {
            return from_a_browser();
        }
        if let Some(refusal) = coding::refusal(request.headers()) {
            return refusal;
        }
        let ours = method_of(request.uri().path(), SERVICE_NAME);
        match (ours, is_grpc(request.headers())) {
            (_, true) if request.method() != Method::POST => no_post(),
            (Some(method), true) => {
                if let Some(method) = Streaming::named(method) {
                    return Box::pin(self.streams.answer(method, request, &peer)).await;
                }
                let method = Rpc::named(method);
                self.grpc.answer(method, request, &peer).await
            }
            (Some(method), false) => {
                let method = method.to_owned();
                // Boxed, for it is large, and each gRPC call would be made to hold it.
                Box::pin(self.json.answer(&method, request, &peer)).await
            }
            (None, true) => Box::pin(beside(self.beside, request)).await,
            (None, false) => nothing_here(),
        }
    }
}

/// Answers what comes to the admin socket. Cheap to clone.
#[derive(Clone)]
pub struct AdminDoor {
    gate: Gate,
    operator: OperatorServiceServer<Operator>,
    beside: Routes,
}

impl AdminDoor {
    /// A door to the operator's calls.
    pub fn new(engine: EngineSlot, gate: Gate, beside: Routes) -> Self {
        Self {
            gate,
            operator: OperatorServiceServer::new(Operator(Calls::new(engine)))
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            beside: beside.prepare(),
        }
    }

    /// Answers a request.
    pub async fn answer<B>(self, request: Request<B>, peer: Peer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if let Some(refusal) = coding::refusal(request.headers()) {
            return refusal;
        }
        let ours = method_of(
            request.uri().path(),
            OperatorServiceServer::<Operator>::NAME,
        )
        .map(str::to_owned);
        match (ours, is_grpc(request.headers())) {
            (Some(method), true) => gated(&self.gate, self.operator, &method, request, &peer).await,
            (None, true) => beside(self.beside, request).await,
            (_, false) => only_grpc(),
        }
    }
}

/// Lets a gRPC call through the gate, and hands it on whole.
async fn gated<S, B>(
    gate: &Gate,
    mut service: S,
    method: &str,
    request: Request<B>,
    peer: &Peer,
) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = std::convert::Infallible>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let admitted = match gate.admit(request, peer, grpc::terms()).await {
        Ok(admitted) => admitted,
        Err(fault) => return status::of(&fault).into_http(),
    };
    // The library reads the first message and would pass over whatever follows it.
    let sound = grpc::one_message(&admitted.message);
    let sound = sound.and_then(|message| operator::sound(method, &message));
    if let Err(status) = sound {
        return status.into_http();
    }
    let whole = Body::new(Full::new(admitted.message.clone()));
    let mut request = Request::from_parts(admitted.parts.clone(), whole);
    request.extensions_mut().insert(admitted.origin.clone());
    let answer = match service.call(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    // The place is held until the call is answered.
    drop(admitted);
    answer
}

async fn beside<B>(routes: Routes, request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match routes.oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

fn method_of<'p>(path: &'p str, service: &str) -> Option<&'p str> {
    path.strip_prefix('/')?
        .strip_prefix(service)?
        .strip_prefix('/')
}

/// Browsers put an `Origin` on every call that is not a plain fetch of a page; programs do not. It is refused before anything
/// else is looked at: a web page reaches loopback too, and one whose name was made to lead here (DNS rebinding) needs no
/// leave of ours to read the answers. The name under which a caller reached us is not looked at: stubs set it freely.
fn from_a_browser() -> Response<Body> {
    let text = "requests of web pages (with an Origin header) are refused; call from a program\n";
    plain(StatusCode::FORBIDDEN, text)
}

fn no_post() -> Response<Body> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "a gRPC call is a POST\n");
    let headers = response.headers_mut();
    headers.insert(http::header::ALLOW, http::HeaderValue::from_static("POST"));
    response
}

fn nothing_here() -> Response<Body> {
    let text = "nothing is here; gRPC is served, and JSON at POST /fencepost.v1.CoordinationService/<Method>\n";
    plain(StatusCode::NOT_FOUND, text)
}

fn only_grpc() -> Response<Body> {
    let text = "only gRPC is served here, with content-type application/grpc; `fencepost incidents`, `explain`, `machine` \
        and the like speak it\n";
    plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
}

fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
