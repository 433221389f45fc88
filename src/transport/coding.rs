//! In which form the messages of a gRPC request are: protobuf that is not compressed is taken, all else refused in words that a
//! gRPC client understands. Asked at every door and for every service, so that none takes JSON for protobuf.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tonic::Status;
use tonic::body::Body;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Most characters of a header that are told back.
const TOLD_CHARACTERS_MAX: usize = 64;

/// Whether a request is one of gRPC, whatever form its messages have. Not that of application/grpc-web, which is another
/// protocol.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    behind_the_name(headers).is_some()
}

/// Refuses a request of gRPC whose messages have another form than is taken.
pub(super) fn refusal(headers: &HeaderMap) -> Option<Response<Body>> {
    let form = behind_the_name(headers)?;
    let form = form.split(';').next().unwrap_or_default().trim_end();
    if !matches!(form, "" | "+proto") {
        let why = format!(
            "messages as application/grpc{} are not taken; send application/grpc, in protobuf",
            told(form.as_bytes())
        );
        return Some(Status::unimplemented(why).into_http());
    }
    let encoding = headers.get(ENCODING).filter(|name| *name != "identity")?;
    let why = format!(
        "messages compressed with {} are not taken; send them as they are",
        told(encoding.as_bytes())
    );
    let mut response = Status::unimplemented(why).into_http();
    let headers = response.headers_mut();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(response)
}

/// What stands behind `application/grpc` in the content type.
fn behind_the_name(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let rest = kind.strip_prefix("application/grpc")?;
    (rest.is_empty() || rest.starts_with(['+', ';'])).then_some(rest)
}

fn told(header: &[u8]) -> String {
    let text = String::from_utf8_lossy(header);
    text.chars().take(TOLD_CHARACTERS_MAX).collect()
}
