//! Which door a request takes: gRPC, JSON, or one of the services beside (health, reflection).

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

use crate::engine::Fault;
use crate::proto::v1::coordination_service_server::SERVICE_NAME;
use crate::proto::v1::operator_service_server::OperatorServiceServer;

use super::beside::Beside;
use super::calls::{Calls, EngineSlot};
use super::coding::{self, is_grpc};
use super::gate::{Gate, overloaded};
use super::grpc::{self, Grpc};
use super::json::{Json, Rpc};
use super::operator::{self, Operator};
use super::streams::{Streaming, Streams};
use super::untaken::{self, Taking, Untaken};
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
    taking: Arc<Taking>,
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
            taking: Arc::default(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Room for one more stream on this connection.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let what = "too many streams are open on this connection";
        let place = Arc::clone(&self.streams).try_acquire_owned();
        place.map_err(|_| overloaded(what, STREAMS_PER_CONNECTION_MAX))
    }

    /// An answer that it has not taken, for as long as what is returned is kept.
    pub fn not_taken(&self) -> Untaken {
        self.taking.not_taken()
    }

    /// Waits until it has not taken an answer for [`ANSWER_TAKEN_WITHIN`](super::ANSWER_TAKEN_WITHIN).
    pub async fn leaves_answers(&self) {
        self.taking.too_long().await;
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
    beside: Beside,
}

impl Door {
    /// A door to the engine; `beside` are the services that are not ours.
    pub fn new(engine: EngineSlot, gate: Gate, beside: Routes) -> Self {
        let calls = Calls::new(engine);
        Self {
            grpc: Grpc::new(calls.clone(), gate.clone()),
            streams: Streams::new(calls.clone(), gate.clone()),
            json: Json::new(calls, gate),
            beside: Beside::new(beside),
        }
    }

    /// Answers a request.
    pub async fn answer<B>(self, request: Request<B>, peer: Peer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let answer = self.answer_to(request, &peer).await;
        if answer.status() == StatusCode::OK {
            answer
        } else {
            Box::pin(refusal(answer, &peer)).await
        }
    }

    async fn answer_to<B>(self, request: Request<B>, peer: &Peer) -> Response<Body>
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
                    return Box::pin(self.streams.answer(method, request, peer)).await;
                }
                let method = Rpc::named(method);
                self.grpc.answer(method, request, peer).await
            }
            (Some(method), false) => {
                let method = method.to_owned();
                // Boxed, for it is large, and each gRPC call would be made to hold it.
                Box::pin(self.json.answer(&method, request, peer)).await
            }
            (None, true) => Box::pin(self.beside.answer(request, peer)).await,
            (None, false) => nothing_here(),
        }
    }
}

/// Answers what comes to the admin socket. Cheap to clone.
#[derive(Clone)]
pub struct AdminDoor {
    gate: Gate,
    operator: OperatorServiceServer<Operator>,
    beside: Beside,
}

impl AdminDoor {
    /// A door to the operator's calls.
    pub fn new(engine: EngineSlot, gate: Gate, beside: Routes) -> Self {
        Self {
            gate,
            operator: OperatorServiceServer::new(Operator(Calls::new(engine)))
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            beside: Beside::new(beside),
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
            (None, true) => Box::pin(self.beside.answer(request, &peer)).await,
            (_, false) => only_grpc(),
        }
    }
}

/// A refusal over HTTP, of which at most this text is left to take. It counts as not taken like any other answer.
async fn refusal(answer: Response<Body>, peer: &Peer) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let text = body
        .collect()
        .await
        .map_or_else(|_| Bytes::new(), |body| body.to_bytes());
    let text = if text.is_empty() {
        text
    } else {
        untaken::counted(text, peer.not_taken())
    };
    Response::from_parts(head, Body::new(Full::new(text)))
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
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
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
    let (head, body) = answer.into_parts();
    // Whole at once: it is one message.
    let Ok(body) = body.collect().await else {
        return Status::internal("the answer could not be written").into_http();
    };
    let trailers = body.trailers().cloned();
    let whole = body.to_bytes();
    if whole.is_empty() {
        return Response::from_parts(head, Body::new(ended(whole, trailers)));
    }
    match gate.answered(admitted, whole) {
        Ok(whole) => Response::from_parts(head, Body::new(ended(whole, trailers))),
        Err(fault) => status::of(&fault).into_http(),
    }
}

fn ended(
    whole: Bytes,
    trailers: Option<HeaderMap>,
) -> impl HttpBody<Data = Bytes, Error = Infallible> + Send + 'static {
    let trailers = trailers.map(Ok);
    Full::new(whole).with_trailers(ready(trailers))
}

/// What a path names of a service.
pub(super) fn method_of<'p>(path: &'p str, service: &str) -> Option<&'p str> {
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
