//! What came first from whoever listens at an address: it tells a sidecar from a server that speaks something else.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::trouble::plain;

/// Most that is kept of what came first, in bytes: enough to show a status line.
const FIRST_BYTES_MAX: usize = 64;
/// Where an HTTP/2 frame says of which type it is, and the type of the one that a server begins with.
const FRAME_TYPE_AT: usize = 3;
const SETTINGS: u8 = 4;

/// What came first, shared with the connection on which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    /// What a server said that speaks no HTTP/2, and so cannot have understood anything. `None`: it does, or said nothing yet.
    pub(super) fn of_a_stranger(&self) -> Option<String> {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *first.get(FRAME_TYPE_AT)? == SETTINGS {
            return None;
        }
        let text = String::from_utf8_lossy(&first);
        Some(plain(text.lines().next().unwrap_or_default()))
    }

    fn keep(&self, bytes: &[u8]) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_BYTES_MAX.saturating_sub(first.len());
        first.extend(bytes.iter().take(room));
    }
}

/// A connection of which the first bytes are kept.
#[derive(Debug)]
pub(super) struct Listened<S> {
    stream: S,
    first: FirstBytes,
}

impl<S> Listened<S> {
    pub(super) fn new(stream: S, first: FirstBytes) -> Self {
        Self { stream, first }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.first
            .keep(buffer.filled().get(before..).unwrap_or_default());
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listened<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_begin_with_settings_is_a_stranger() {
        let said = |bytes: &[u8]| {
            let first = FirstBytes::default();
            for byte in bytes {
                first.keep(&[*byte]);
            }
            first.of_a_stranger()
        };
        assert_eq!(said(b""), None);
        assert_eq!(said(b"HT"), None);
        assert_eq!(said(&[0, 0, 18, SETTINGS, 0, 0, 0, 0, 0]), None);
        let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(said(answer).as_deref(), Some("HTTP/1.1 400 Bad Request"));
        let long = said(&[b'x'; 1000]).map(|text| text.len());
        assert_eq!(long, Some(FIRST_BYTES_MAX));
    }
}
