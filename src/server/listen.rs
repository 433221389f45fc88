//! What connections come in by: the loopback port, and the admin socket.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::transport::Peer;

/// How often a connection that sent the beginning of HTTP/2's first words is looked at again.
const GREETING_LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The first words of HTTP/2.
const HTTP2_GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A way in.
pub(super) trait Listen: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;

    /// Waits until the other side has said enough to tell which HTTP it speaks. The HTTP library has no limit of its own on
    /// this wait.
    fn greeted(stream: &Self::Stream) -> impl Future<Output = io::Result<()>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = Self::accept(self).await?;
        // An answer must not wait for a full packet.
        stream.set_nodelay(true)?;
        Ok((stream, Peer::tcp(address)))
    }

    async fn greeted(stream: &TcpStream) -> io::Result<()> {
        let mut first = [0; HTTP2_GREETING.len()];
        loop {
            let count = stream.peek(&mut first).await?;
            let said = first.get(..count).unwrap_or_default();
            if said.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if count == HTTP2_GREETING.len() || !HTTP2_GREETING.starts_with(said) {
                return Ok(());
            }
            // A peek does not wait for more than is there.
            tokio::time::sleep(GREETING_LOOK_AGAIN).await;
        }
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = Self::accept(self).await?;
        Ok((stream, Peer::unix()))
    }

    async fn greeted(_: &UnixStream) -> io::Result<()> {
        // Only our own user can open the socket, and may hold it open.
        Ok(())
    }
}
