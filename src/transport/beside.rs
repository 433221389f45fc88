//! The services that are not ours, health and reflection, within limits of their own: they are asked also when calls are turned
//! away, be it because there are too many or because the sidecar stops.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt as _;

use crate::engine::Fault;

use super::door::{Peer, method_of};
use super::gate::overloaded;
use super::status;
use super::untaken::Untaken;

/// Most questions for the health of now (Health.Check) at once, at each door. Each is answered at once.
pub(super) const HEALTH_CHECKS_MAX: usize = 1024;
/// How long the message of a question for the health may take to arrive, of either kind.
pub(super) const HEALTH_CHECK_WITHIN: Duration = Duration::from_secs(10);
/// Most streams that follow the health (Health.Watch), at each door: one for each connection.
pub(super) const HEALTH_WATCHES_MAX: usize = 1024;
/// Most streams of reflection at each door. A person or a tool asks, and hangs up.
pub(super) const REFLECTIONS_MAX: usize = 64;

const HEALTH: &str = "grpc.health.v1.Health";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The services beside ours. Cheap to clone.
#[derive(Clone)]
pub(super) struct Beside {
    routes: Routes,
    checks: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    reflections: Arc<Semaphore>,
}

/// What a request keeps until its answer has ended.
struct Place {
    _of_all: OwnedSemaphorePermit,
    /// A stream has one on its connection.
    _of_connection: Option<OwnedSemaphorePermit>,
    /// Any other answer is waited for a while only.
    _untaken: Option<Untaken>,
}

impl Beside {
    pub(super) fn new(routes: Routes) -> Self {
        Self {
            routes: routes.prepare(),
            checks: Arc::new(Semaphore::new(HEALTH_CHECKS_MAX)),
            watches: Arc::new(Semaphore::new(HEALTH_WATCHES_MAX)),
            reflections: Arc::new(Semaphore::new(REFLECTIONS_MAX)),
        }
    }

    /// Answers a request of gRPC.
    pub(super) async fn answer<B>(self, request: Request<B>, peer: &Peer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let answered = match method_of(request.uri().path(), HEALTH) {
            Some("Check") => self.check(request, peer).await,
            Some(_) => {
                let what = "too many Health.Watch streams are open here";
                let place = stream(&self.watches, HEALTH_WATCHES_MAX, what, peer);
                self.stream(place, request).await
            }
            None => {
                let what = "too many streams of reflection are open here";
                let place = stream(&self.reflections, REFLECTIONS_MAX, what, peer);
                self.stream(place, request).await
            }
        };
        answered.unwrap_or_else(|fault| status::of(&fault).into_http())
    }

    async fn check<B>(&self, request: Request<B>, peer: &Peer) -> Result<Response<Body>, Fault>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let what = "too many questions for the health are under way here";
        let place = one_of(&self.checks, HEALTH_CHECKS_MAX, what)?;
        let answer = tokio::time::timeout(HEALTH_CHECK_WITHIN, self.routed(request)).await;
        let answer = answer.map_err(|_| Fault::DeadlinePassed)?;
        let place = Place {
            _of_all: place,
            _of_connection: None,
            _untaken: Some(peer.not_taken()),
        };
        Ok(placed(answer, place))
    }

    async fn stream<B>(
        &self,
        place: Result<Place, Fault>,
        request: Request<B>,
    ) -> Result<Response<Body>, Fault>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let place = place?;
        // What follows the health is answered once its message is here; reflection is at once.
        let answer = tokio::time::timeout(HEALTH_CHECK_WITHIN, self.routed(request)).await;
        Ok(placed(answer.map_err(|_| Fault::DeadlinePassed)?, place))
    }

    async fn routed<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        match self.routes.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

fn one_of(
    places: &Arc<Semaphore>,
    limit: usize,
    what: &'static str,
) -> Result<OwnedSemaphorePermit, Fault> {
    let place = Arc::clone(places).try_acquire_owned();
    place.map_err(|_| overloaded(what, limit))
}

fn stream(
    places: &Arc<Semaphore>,
    limit: usize,
    what: &'static str,
    peer: &Peer,
) -> Result<Place, Fault> {
    Ok(Place {
        _of_all: one_of(places, limit, what)?,
        _of_connection: Some(peer.stream()?),
        _untaken: None,
    })
}

fn placed(answer: Response<Body>, place: Place) -> Response<Body> {
    answer.map(|body| {
        Body::new(Placed {
            body,
            place: Some(place),
        })
    })
}

/// An answer with its place, which is given back when it ends.
struct Placed {
    body: Body,
    place: Option<Place>,
}

impl HttpBody for Placed {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) {
            self.place = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
