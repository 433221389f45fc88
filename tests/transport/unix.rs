//! The admin socket as stock gRPC clients reach it: each names another authority, for there is none on a file.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::sidecar::{PATIENCE, Sidecar};

const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const END_HEADERS: u8 = 4;
/// SERVING, as gRPC frames it.
const SERVING: &[u8] = b"\0\0\0\0\x02\x08\x01";

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A header that goes into the table.
fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |it: &str| [&[u8::try_from(it.len()).unwrap()], it.as_bytes()].concat();
    [vec![0x40], text(name), text(value)].concat()
}

/// Two questions for the health, the second by the table that the first one made, as clients on gRPC's core send them.
fn questions(authority: &str) -> Vec<u8> {
    let first = [
        header(":path", "/grpc.health.v1.Health/Check"),
        header(":authority", authority),
        b"\x83\x86".to_vec(),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ];
    let empty = |stream| frame(0, 1, stream, b"\0\0\0\0\0");
    [
        GREETING.to_vec(),
        frame(HEADERS, END_HEADERS, 1, &first.concat()),
        empty(1),
        frame(HEADERS, END_HEADERS, 3, b"\xc1\xc0\x83\x86\xbf\xbe"),
        empty(3),
    ]
    .concat()
}

/// What is answered to both: data, or the code of a reset.
fn answers(mut line: impl Read + Write, authority: &str) -> Vec<Vec<u8>> {
    line.write_all(&questions(authority)).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let mut head = [0; 9];
        line.read_exact(&mut head).unwrap();
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        line.read_exact(&mut payload).unwrap();
        match head[3] {
            0 if !payload.is_empty() => answers.push(payload),
            RESET if payload != [0; 4] => answers.push(payload),
            _ => {}
        }
    }
    answers
}

#[test]
fn a_stock_client_is_answered_on_the_socket_whatever_authority_it_names_there() {
    const PROTOCOL_ERROR: &[u8] = &[0, 0, 0, 1];
    let sidecar = Sidecar::dev();
    let socket = sidecar.admin_socket();
    let path = socket.to_str().unwrap();
    let escaped = path.trim_start_matches('/').replace('/', "%2F");
    for authority in ["localhost", "localhost:0", path, &escaped] {
        let line = UnixStream::connect(&socket).unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(answers(line, authority), [SERVING, SERVING], "{authority}");
    }
    // On the port it has to be a host, as HTTP says.
    let told = answers(sidecar.connect(), "localhost");
    assert_eq!(told, [SERVING, SERVING]);
    let told = answers(sidecar.connect(), &escaped);
    assert_eq!(told, [PROTOCOL_ERROR, PROTOCOL_ERROR]);
}
