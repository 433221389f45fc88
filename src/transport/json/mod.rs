//! The same calls as JSON over HTTP, by the Connect protocol for unary calls: for `curl`, shells and PHP, without stubs.

mod decode;
mod error;
mod halves;
mod schema;
mod values;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::Full;
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use crate::engine::Fault;

use super::calls::Calls;
use super::convert::refused;
use super::door::Peer;
use super::gate::{Admitted, Gate, Terms};
use super::streams::Streaming;
use super::{JSON_BODY_BYTES_MAX, status, timeouts};
pub(super) use schema::{Rpc, operator_input};

const JSON: &str = "application/json";
const PROTOCOL_VERSION: &str = "connect-protocol-version";
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// The JSON door. Cheap to clone.
#[derive(Clone)]
pub(super) struct Json {
    calls: Calls,
    gate: Gate,
}

impl Json {
    pub(super) fn new(calls: Calls, gate: Gate) -> Self {
        Self { calls, gate }
    }

    /// Answers a request to a method of the service.
    pub(super) async fn answer<B>(
        &self,
        method: &str,
        request: Request<B>,
        peer: &Peer,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(streaming) = Streaming::named(method) {
            return error::response(&Status::unimplemented(streaming.instead()));
        }
        let Some(rpc) = Rpc::named(method) else {
            let status = Status::unimplemented("there is no such method");
            return error::response_as(StatusCode::NOT_FOUND, &status);
        };
        if request.method() != Method::POST {
            let why = "only POST is served here\n";
            return unsupported(StatusCode::METHOD_NOT_ALLOWED, (ALLOW, "POST"), why);
        }
        if !is_json(request.headers()) {
            let why = "send the header content-type: application/json\n";
            return unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, (ACCEPT_POST, JSON), why);
        }
        if let Err(status) = protocol(request.headers()) {
            return error::response(&status);
        }
        let terms = Terms {
            timeout: timeouts::of_connect,
            bytes_max: JSON_BODY_BYTES_MAX,
        };
        let answer = match self.gate.admit(request, peer, terms).await {
            Ok(admitted) => {
                let answer = self.call(rpc, &admitted).await;
                answer.and_then(|json| self.gate.answered(admitted, json.into()))
            }
            Err(fault) => Err(fault),
        };
        match answer {
            Ok(json) => with_body(StatusCode::OK, json),
            Err(fault) => error::response(&status::of(&fault)),
        }
    }

    async fn call(&self, rpc: Rpc, call: &Admitted) -> Result<Vec<u8>, Fault> {
        let (calls, text, origin) = (&self.calls, &call.message[..], &call.origin);
        match rpc {
            Rpc::Reserve => written(rpc, calls.reserve(read(rpc, text)?, origin).await),
            Rpc::Transition => written(rpc, calls.transition(read(rpc, text)?, origin).await),
            Rpc::Fence => written(rpc, calls.fence(read(rpc, text)?, origin).await),
            Rpc::Renew => written(rpc, calls.renew(read(rpc, text)?, origin).await),
            Rpc::Release => written(rpc, calls.release(read(rpc, text)?, origin).await),
            Rpc::Lookup => written(rpc, calls.lookup(read(rpc, text)?, origin).await),
            Rpc::Inspect => written(rpc, calls.inspect(read(rpc, text)?, origin).await),
        }
    }
}

/// Reads a request by its descriptor, then hands it over as the type that gRPC would have decoded.
fn read<M: Message + Default>(rpc: Rpc, text: &[u8]) -> Result<M, Fault> {
    let message = decode::message(&rpc.input(), text)?;
    let decoded = M::decode(message.encode_to_vec().as_slice());
    Ok(decoded.expect("a message encoded by its own descriptor decodes"))
}

/// Writes an answer by its descriptor.
fn written<M: Message>(rpc: Rpc, answer: Result<M, Fault>) -> Result<Vec<u8>, Fault> {
    Ok(schema::to_json(rpc.output(), &answer?.encode_to_vec()))
}

fn protocol(headers: &HeaderMap) -> Result<(), Status> {
    if let Some(version) = headers.get(PROTOCOL_VERSION)
        && version != "1"
    {
        let fault = refused(format!("header {PROTOCOL_VERSION}"), "must be 1");
        return Err(status::of(&fault));
    }
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(Status::unimplemented(
            "compressed bodies are not taken; the supported content-encoding is identity",
        )),
        Some(_) | None => Ok(()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()) else {
        return false;
    };
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    let utf8 = |parameter: &str| {
        let parameter = parameter.trim().to_ascii_lowercase();
        matches!(
            parameter.as_str(),
            "" | "charset=utf-8" | "charset=\"utf-8\""
        )
    };
    kind.trim().eq_ignore_ascii_case(JSON) && parameters.split(';').all(utf8)
}

/// What the protocol answers before a call begins: a header for programs, and a line for people.
fn unsupported(
    code: StatusCode,
    (header, value): (HeaderName, &'static str),
    why: &'static str,
) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::from(why)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header, HeaderValue::from_static(value));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn with_body(code: StatusCode, json: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::from(json)));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
