//! Callers that are not meant: web pages, and messages that are not what their protocol says.

use crate::sidecar::Sidecar;

const QUESTION: &str = r#"{"resource":{"kind":"order","id":"1001"}}"#;
/// An InspectRequest of order 1, as gRPC frames it.
const FRAMED: &[u8] = b"\0\0\0\0\x0c\x0a\x0a\x0a\x05order\x12\x011";

fn send(sidecar: &Sidecar, method: &str, headers: &str, body: &[u8]) -> String {
    let path = "/fencepost.v1.CoordinationService/Inspect";
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: evil.example:7411\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n\r\n"
    );
    sidecar
        .raw(&[head.as_bytes(), body].concat())
        .to_ascii_lowercase()
}

#[test]
fn a_web_page_is_refused_by_every_door_whatever_name_it_used() {
    let sidecar = Sidecar::dev();
    let json = "content-type: application/json";
    let grpc = "content-type: application/grpc";
    for origin in ["http://evil.example:7411", "null", "http://127.0.0.1:7411"] {
        for kind in [json, grpc, "content-type: text/plain"] {
            for method in ["POST", "OPTIONS"] {
                let headers = format!("{kind}\r\norigin: {origin}");
                let answer = send(&sidecar, method, &headers, QUESTION.as_bytes());
                assert!(answer.starts_with("http/1.1 403 "), "{answer}");
                assert!(!answer.contains("access-control"), "{answer}");
            }
        }
    }
    // What a page can send without asking first is not taken either, should a browser leave the Origin out.
    for kind in [
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    ] {
        let headers = format!("content-type: {kind}");
        let answer = send(&sidecar, "POST", &headers, QUESTION.as_bytes());
        assert!(answer.starts_with("http/1.1 415 "), "{answer}");
    }
    // A program may call us by any name.
    let answer = send(&sidecar, "POST", json, QUESTION.as_bytes());
    assert!(answer.starts_with("http/1.1 200 "), "{answer}");
}

#[test]
fn a_grpc_call_is_one_post_of_one_whole_message() {
    let sidecar = Sidecar::dev();
    let grpc = "content-type: application/grpc";
    let answer = send(&sidecar, "POST", grpc, FRAMED);
    assert!(!answer.contains("grpc-status: 3"), "{answer}");
    let twice = [FRAMED, FRAMED].concat();
    for body in [&twice[..], &FRAMED[..FRAMED.len() - 1], &FRAMED[..3], b""] {
        let answer = send(&sidecar, "POST", grpc, body);
        assert!(answer.contains("grpc-status: 3"), "{answer}");
        assert!(answer.contains("grpc-message: body%20"), "{answer}");
    }
    for method in ["GET", "PUT", "OPTIONS"] {
        let answer = send(&sidecar, method, grpc, FRAMED);
        assert!(answer.starts_with("http/1.1 405 "), "{answer}");
        assert!(answer.contains("allow: post"), "{answer}");
    }
}
