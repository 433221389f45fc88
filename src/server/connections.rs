//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them.
//!
//! The loop is ours because the gRPC library's spins when the process runs out of files, knows no limit of connections and
//! no end to a graceful stop, and removes limits of the HTTP library that keep a hostile client from filling the memory.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tracing::{debug, warn};

use super::listen::Listen;
use super::unread::Unread;
use crate::engine::Sparing;
use crate::transport::{ANSWER_TAKEN_WITHIN, Peer};

/// Most connections open at once, of each kind. Over it they wait in the queue of the operating system.
const CONNECTIONS_MAX: usize = 1024;
/// Most calls under way on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Most streams of one connection that we reset because of its own errors.
const LOCAL_ERROR_RESETS_MAX: usize = 1024;
/// Most streams of one connection that it reset before we looked at them (rapid reset). As many as there may be calls under way: who
/// gives all of them up at one moment does no wrong.
const PENDING_RESETS_MAX: usize = 256;
/// Largest headers of one request, in bytes.
const HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// Buffer for reading an HTTP/1.1 connection, in bytes; headers must fit.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// How often a silent HTTP/2 connection is tried with a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the answer to a ping may take.
const PING_LIMIT: Duration = Duration::from_secs(10);
/// How long the headers of an HTTP/1.1 request may take, also how long such a connection may be idle.
const HEADERS_LIMIT: Duration = Duration::from_secs(30);
/// How long a new connection may be silent.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause after a connection could not be accepted.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The connections of a sidecar.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    troubles: Arc<Troubles>,
    tasks: TaskTracker,
    closing: CancellationToken,
    cut: CancellationToken,
}

/// What goes on for as long as somebody does it, and is told now and then.
#[derive(Debug)]
struct Troubles {
    full: Sparing,
    untaken: Sparing,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            troubles: Arc::new(Troubles {
                full: Sparing::of_what_lasts(),
                untaken: Sparing::of_what_lasts(),
            }),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }
}

impl Connections {
    /// Accepts connections until `close`, and answers their requests.
    pub(super) fn accept<L, A, F>(&self, listener: L, answer: A)
    where
        L: Listen + Sync,
        A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let all = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = all.closing.cancelled() => {}
                () = all.accept_forever(listener, answer) => {}
            }
        });
    }

    /// Accepts no more, and asks those that are open to close once their calls are answered.
    pub(super) fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
    }

    /// Waits until all are closed.
    pub(super) async fn closed(&self) {
        self.tasks.wait().await;
    }

    /// Cuts those that are still open.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }

    async fn accept_forever<L, A, F>(&self, listener: L, answer: A)
    where
        L: Listen,
        A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let (first_pause, longest_pause) = ACCEPT_PAUSE;
        let mut pause = first_pause;
        loop {
            if room.available_permits() == 0
                && let Some(unsaid) = self.troubles.full.speak()
            {
                let limit = CONNECTIONS_MAX;
                warn!(
                    limit,
                    unsaid,
                    "as many connections are open as there may be; further ones wait to be accepted"
                );
            }
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    pause = first_pause;
                    let all = self.clone();
                    let answer = answer.clone();
                    self.tasks.spawn(async move {
                        all.serve::<L, _, _>(stream, peer, answer, place).await
                    });
                }
                Err(error) if only_this_connection(&error) => {}
                Err(error) => {
                    // Out of files, most likely. Trying again at once would only burn the processor.
                    warn!(%error, pause_ms = pause.as_millis(), "cannot accept a connection");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest_pause);
                }
            }
        }
    }

    fn tell_of_untaken(&self, peer: &Peer) {
        if let Some(unsaid) = self.troubles.untaken.speak() {
            let limit_s = ANSWER_TAKEN_WITHIN.as_secs();
            warn!(
                %peer,
                limit_s, unsaid, "closed a connection: an answer was not taken in time"
            );
        }
    }

    async fn serve<L, A, F>(
        &self,
        stream: L::Stream,
        peer: Peer,
        answer: A,
        _: OwnedSemaphorePermit,
    ) where
        L: Listen,
        A: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let greeted = tokio::select! {
            greeted = tokio::time::timeout(GREETING_LIMIT, L::greeted(&stream)) => greeted,
            () = self.closing.cancelled() => return,
        };
        if !matches!(greeted, Ok(Ok(()))) {
            debug!(%peer, "closed a connection that said nothing");
            return;
        }
        let service = service_fn(|request| {
            // Boxed, for it is large, and is moved several times until it runs.
            let answering = Box::pin(answer(request, peer.clone()));
            async move { Ok::<_, Infallible>(answering.await) }
        });
        let stream = Unread::new(stream, peer.clone());
        let builder = builder();
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = peer.leaves_answers() => {
                self.tell_of_untaken(&peer);
                return;
            }
            () = self.closing.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.cut.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            debug!(%peer, %error, "a connection ended in an error");
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_LIMIT)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_local_error_reset_streams(LOCAL_ERROR_RESETS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_LIMIT);
    builder
}

fn only_this_connection(error: &io::Error) -> bool {
    [
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::Interrupted,
        // TCP_NODELAY on a connection that is gone already.
        io::ErrorKind::InvalidInput,
    ]
    .contains(&error.kind())
}
