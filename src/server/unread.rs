//! A connection whose other side is seen to read nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::{Peer, Untaken};

/// It counts as an answer that was not taken for as long as the operating system takes no byte of what is to be written. So
/// what has no body, such as a refusal, is not kept for ever either.
pub(super) struct Unread<S> {
    stream: S,
    peer: Peer,
    stuck: Option<Untaken>,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, peer: Peer) -> Self {
        Self {
            stream,
            peer,
            stuck: None,
        }
    }

    fn seen<T>(&mut self, written: Poll<T>) -> Poll<T> {
        if written.is_ready() {
            self.stuck = None;
        } else if self.stuck.is_none() {
            self.stuck = Some(self.peer.not_taken());
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.seen(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.seen(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
