//! Errors in the words of the Connect protocol.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{Response, StatusCode};
use prost::Message as _;
use prost_reflect::DescriptorPool;
use serde::Serialize;
use serde_json::value::RawValue;
use tonic::body::Body;
use tonic::{Code, Status};

use super::schema::to_json;
use super::with_body;

static ERROR_DETAILS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .expect("the descriptors of the error details are sound")
});

#[derive(Serialize)]
struct Error<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail>,
}

#[derive(Serialize)]
struct Detail {
    r#type: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<Box<RawValue>>,
}

/// The answer that a status becomes.
pub(super) fn response(status: &Status) -> Response<Body> {
    response_as(words(status.code()).1, status)
}

/// The same under another HTTP status.
pub(super) fn response_as(http: StatusCode, status: &Status) -> Response<Body> {
    let error = Error {
        code: words(status.code()).0,
        message: status.message(),
        details: details(status),
    };
    let json = serde_json::to_vec(&error).expect("texts become JSON");
    with_body(http, json.into())
}

fn details(status: &Status) -> Vec<Detail> {
    // Only statuses made here get this far, so their details are there or absent, never damaged.
    let details = tonic_types::pb::Status::decode(status.details())
        .map(|status| status.details)
        .unwrap_or_default();
    let detail = |any: prost_types::Any| {
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        let debug = ERROR_DETAILS
            .get_message_by_name(name)
            .map(|descriptor| to_json(descriptor, &any.value))
            .and_then(|json| String::from_utf8(json).ok())
            .and_then(|json| RawValue::from_string(json).ok());
        Detail {
            r#type: name.to_owned(),
            value: STANDARD_NO_PAD.encode(&any.value),
            debug,
        }
    };
    details.into_iter().map(detail).collect()
}

/// The name and the HTTP status that Connect gives to a code.
fn words(code: Code) -> (&'static str, StatusCode) {
    match code {
        // A status without an error does not reach this door.
        Code::Ok | Code::Unknown => ("unknown", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Cancelled => (
            "canceled",
            StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        ),
        Code::InvalidArgument => ("invalid_argument", StatusCode::BAD_REQUEST),
        Code::DeadlineExceeded => ("deadline_exceeded", StatusCode::GATEWAY_TIMEOUT),
        Code::NotFound => ("not_found", StatusCode::NOT_FOUND),
        Code::AlreadyExists => ("already_exists", StatusCode::CONFLICT),
        Code::PermissionDenied => ("permission_denied", StatusCode::FORBIDDEN),
        Code::ResourceExhausted => ("resource_exhausted", StatusCode::TOO_MANY_REQUESTS),
        Code::FailedPrecondition => ("failed_precondition", StatusCode::BAD_REQUEST),
        Code::Aborted => ("aborted", StatusCode::CONFLICT),
        Code::OutOfRange => ("out_of_range", StatusCode::BAD_REQUEST),
        Code::Unimplemented => ("unimplemented", StatusCode::NOT_IMPLEMENTED),
        Code::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
        Code::DataLoss => ("data_loss", StatusCode::INTERNAL_SERVER_ERROR),
        Code::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED),
    }
}
