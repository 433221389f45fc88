//! Two ends of the line where no etcd is: one that refuses connections, one that hangs up on a request it has read.
//!
//! Both are real sockets, so that the code under test sees the errors a network gives, not a likeness of them.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpSocket;
use tonic::transport::{Channel, Endpoint};

/// A line that reads nothing for so long has no request on it.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// HTTP/2: what a client says before its first frame.
const PREFACE_BYTES: usize = 24;
/// HTTP/2: a frame's length, type, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
/// HTTP/2: the flag of a request's last frame.
const END_STREAM: u8 = 1;
/// HTTP/2: the frames that can be a request's last.
const DATA_AND_HEADERS: [u8; 2] = [0, 1];

/// Where nobody listens, for as long as this lives.
#[derive(Clone, Debug)]
pub(crate) struct Refusing {
    // Bound and never listening: the port is ours, so nobody else can begin to listen on it.
    _socket: Arc<TcpSocket>,
    address: SocketAddr,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(loopback).expect("loopback has a free port");
        let address = socket.local_addr().expect("it is bound");
        Self {
            _socket: Arc::new(socket),
            address,
        }
    }

    pub(crate) fn channel(&self) -> Channel {
        lazy(self.address)
    }
}

/// Hangs up as soon as it has read a whole request.
#[derive(Clone, Debug)]
pub(crate) struct HangingUp {
    address: SocketAddr,
}

impl HangingUp {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        // It ends with the test binary; each connection ends with its request.
        std::thread::spawn(move || {
            for line in listener.incoming().flatten() {
                std::thread::spawn(move || read_one_request(line));
            }
        });
        Self { address }
    }

    pub(crate) fn channel(&self) -> Channel {
        lazy(self.address)
    }
}

fn lazy(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect_lazy()
}

/// Any failure to read ends it, as does the end of the request: both drop the line.
fn read_one_request(mut line: TcpStream) {
    let mut read = || -> std::io::Result<()> {
        line.set_read_timeout(Some(SILENCE_MAX))?;
        line.read_exact(&mut [0; PREFACE_BYTES])?;
        loop {
            let mut head = [0; FRAME_HEAD_BYTES];
            line.read_exact(&mut head)?;
            let [l0, l1, l2, kind, flags, ..] = head;
            let length = u32::from_be_bytes([0, l0, l1, l2]);
            let mut body = vec![0; usize::try_from(length).expect("24 bits")];
            line.read_exact(&mut body)?;
            if DATA_AND_HEADERS.contains(&kind) && flags & END_STREAM != 0 {
                return Ok(());
            }
        }
    };
    let _ = read();
}
