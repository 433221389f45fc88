//! Messages in a form that is not taken, or that are none, are refused in words of the protocol that they came by; nobody is told
//! that the sidecar is at fault.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::sidecar::{PATIENCE, Sidecar};

const INSPECT: &str = "/fencepost.v1.CoordinationService/Inspect";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const INCIDENTS: &str = "/fencepost.v1.OperatorService/ListIncidents";
const STORY: &str = "/fencepost.v1.OperatorService/ExplainResource";
/// An empty message, as gRPC frames it, and one that is marked as compressed.
const EMPTY: &[u8] = b"\0\0\0\0\0";
const COMPRESSED: &[u8] = b"\x01\0\0\0\0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Port,
    Socket,
}

/// Every service that speaks gRPC.
const SERVICES: [(Way, &str); 6] = [
    (Way::Port, INSPECT),
    (Way::Port, HEALTH),
    (Way::Port, REFLECTION),
    (Way::Socket, INCIDENTS),
    (Way::Socket, HEALTH),
    (Way::Socket, REFLECTION),
];

fn post(sidecar: &Sidecar, (way, path): (Way, &str), headers: &str, body: &[u8]) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nte: trailers\r\ncontent-length: {length}\r\n\
         {headers}\r\n\r\n"
    );
    let request = [head.as_bytes(), body].concat();
    let mut answer = Vec::new();
    match way {
        Way::Port => {
            let mut stream = sidecar.connect();
            stream.write_all(&request).unwrap();
            stream.read_to_end(&mut answer).unwrap();
        }
        Way::Socket => {
            let mut stream = UnixStream::connect(sidecar.admin_socket()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&request).unwrap();
            stream.read_to_end(&mut answer).unwrap();
        }
    }
    String::from_utf8_lossy(&answer).to_ascii_lowercase()
}

#[test]
fn compressed_messages_are_unimplemented_at_every_door_which_says_what_is_taken() {
    let sidecar = Sidecar::dev();
    for service in SERVICES {
        for encoding in ["gzip", "zstd", "br"] {
            let headers = format!("content-type: application/grpc\r\ngrpc-encoding: {encoding}");
            let answer = post(&sidecar, service, &headers, COMPRESSED);
            assert!(answer.contains("grpc-status: 12"), "{service:?}: {answer}");
            assert!(
                answer.contains("grpc-accept-encoding: identity"),
                "{answer}"
            );
            assert!(answer.contains(encoding), "{answer}");
        }
        let headers = "content-type: application/grpc\r\ngrpc-encoding: identity";
        let answer = post(&sidecar, service, headers, EMPTY);
        assert!(!answer.contains("grpc-status: 12"), "{service:?}: {answer}");
    }
}

#[test]
fn nothing_but_protobuf_is_taken_for_protobuf() {
    let sidecar = Sidecar::dev();
    for service in SERVICES {
        for form in ["+json", "+thrift", "+", "+protobuf", "+json; charset=utf-8"] {
            let headers = format!("content-type: application/grpc{form}");
            let answer = post(&sidecar, service, &headers, EMPTY);
            assert!(answer.contains("grpc-status: 12"), "{service:?}: {answer}");
            assert!(answer.contains("application/grpc"), "{answer}");
        }
        for form in ["", "+proto", "+proto; a=b", ";a=b"] {
            let headers = format!("content-type: application/grpc{form}");
            let answer = post(&sidecar, service, &headers, EMPTY);
            assert!(answer.starts_with("http/1.1 200 "), "{answer}");
            assert!(!answer.contains("grpc-status: 12"), "{form}: {answer}");
        }
    }
    for kind in [
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/connect+proto",
        "application/proto",
        "application/json",
    ] {
        let headers = format!("content-type: {kind}");
        let answer = post(&sidecar, (Way::Socket, INCIDENTS), &headers, EMPTY);
        assert!(answer.starts_with("http/1.1 415 "), "{kind}: {answer}");
        assert!(answer.contains("application/grpc"), "{answer}");
        if kind != "application/json" {
            let answer = post(&sidecar, (Way::Port, INSPECT), &headers, EMPTY);
            assert!(answer.starts_with("http/1.1 415 "), "{kind}: {answer}");
            assert!(answer.contains("accept-post: application/json"), "{answer}");
        }
    }
}

#[test]
fn what_is_no_message_of_the_call_is_the_callers_mistake_on_the_admin_socket_too() {
    let sidecar = Sidecar::dev();
    let broken: [&[u8]; 7] = [
        // A field that ends before its length, one of another type, no UTF-8, no tag, no wire type, groups without an end,
        // and an endless number.
        b"\x0a\x7f",
        b"\x08\x01",
        b"\x12\x01\xff",
        b"\x00",
        b"\x0e",
        b"\x0b\x0b\x0b",
        b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    let framed = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &length, message].concat()
    };
    let grpc = "content-type: application/grpc";
    let mut deep = Vec::new();
    for _ in 0..60 {
        deep = [&[0x0a, u8::try_from(deep.len()).unwrap()][..], &deep].concat();
    }
    for message in broken.into_iter().chain([&deep[..]]) {
        for service in [(Way::Socket, STORY), (Way::Port, INSPECT)] {
            let answer = post(&sidecar, service, grpc, &framed(message));
            let told = answer.contains("grpc-status: 3");
            assert!(told, "{service:?} {message:?}: {answer}");
        }
    }
    // A call that nobody knows, whatever it was sent.
    let nothing = (Way::Socket, "/fencepost.v1.OperatorService/Nothing");
    let answer = post(&sidecar, nothing, grpc, &framed(b"\x0a\x7f"));
    assert!(answer.contains("grpc-status: 12"), "{answer}");
    // Fields of a later version are passed over, as protobuf promises.
    let answer = post(
        &sidecar,
        (Way::Socket, INCIDENTS),
        grpc,
        &framed(b"\xf8\x3f\x01"),
    );
    assert!(!answer.contains("grpc-status: 3"), "{answer}");
}
