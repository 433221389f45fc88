//! Faults on streams: of keepalives message by message, and a cut of the line under any.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use etcd_client::proto::{PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response, request};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::{Code, Status};

use super::fault::{Action, Answer, Ending, FaultPlan, MESSAGE_HEAD_BYTES, Rpc, Rule, framed};

/// Messages under way in each direction.
const UNDER_WAY_MAX: usize = 16;

type Frames = mpsc::Sender<Result<Frame<Bytes>, Status>>;

/// One stream.
struct Stream {
    plan: FaultPlan,
    head: request::Parts,
    /// Replies to throw away, to hold up or to change, by lease.
    marked: Mutex<BTreeMap<i64, Arc<Rule>>>,
    /// Leases that nobody granted, asked for in the place of others.
    instead: Mutex<BTreeMap<i64, i64>>,
    /// How it ended before its time.
    ended: watch::Sender<Option<End>>,
}

/// How a stream ends before its time.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The line breaks.
    Broken,
    /// etcd says this, and nothing more.
    Said(Code, &'static str),
}

/// Carries a stream of keepalives to etcd.
pub(super) async fn carry_keep_alive(plan: FaultPlan, request: Request<Body>) -> Answer {
    let (head, body) = request.into_parts();
    let stream = Arc::new(Stream {
        plan: plan.clone(),
        head: head.clone(),
        marked: Mutex::default(),
        instead: Mutex::default(),
        ended: watch::Sender::new(None),
    });
    let (to_etcd, requests) = mpsc::channel(UNDER_WAY_MAX);
    tokio::spawn(Arc::clone(&stream).carry_requests(body, to_etcd));
    let mut ended = stream.ended.subscribe();
    let body = Body::new(StreamBody::new(ReceiverStream::new(requests)));
    let answer = tokio::select! {
        answer = plan.to_etcd(Request::from_parts(head, body)) => answer?,
        end = early_end(&mut ended) => return match end {
            End::Broken => Err(Box::new(line_broke())),
            End::Said(code, text) => Ok(Status::new(code, text).into_http()),
        },
    };
    let (head, body) = answer.into_parts();
    let (to_caller, replies) = mpsc::channel(UNDER_WAY_MAX);
    tokio::spawn(stream.carry_replies(body, to_caller));
    let body = Body::new(StreamBody::new(ReceiverStream::new(replies)));
    Ok(Response::from_parts(head, body))
}

/// A stream as it was, and its first message.
pub(super) async fn begun(request: Request<Body>) -> Result<(Request<Body>, Bytes), Status> {
    let (head, mut body) = request.into_parts();
    let first = body.frame().await.transpose()?;
    let first = first.and_then(|frame| frame.into_data().ok());
    let first = first.unwrap_or_default();
    let whole = stream::iter([Ok(first.clone())]).chain(body.into_data_stream());
    let body = Body::new(StreamBody::new(whole.map_ok(Frame::data)));
    Ok((Request::from_parts(head, body), first))
}

/// Carries a stream that a cut of the whole line breaks, in both directions.
pub(super) async fn breaking<A: Future<Output = Answer>>(
    cut: impl Future<Output = ()> + Send + 'static,
    request: Request<Body>,
    carry: impl FnOnce(Request<Body>) -> A,
) -> Answer {
    let cut = cut.shared();
    let request = request.map(|body| Body::new(UntilCut::new(body, cut.clone())));
    let answer = tokio::select! {
        answer = carry(request) => answer?,
        () = cut.clone() => return Err(Box::new(line_broke())),
    };
    Ok(answer.map(|body| Body::new(UntilCut::new(body, cut))))
}

/// What of a body comes before the line is cut.
struct UntilCut {
    /// `None`: it is cut, and the other end knows.
    body: Option<Body>,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl UntilCut {
    fn new(body: Body, cut: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            body: Some(body),
            cut: Box::pin(cut),
        }
    }
}

impl http_body::Body for UntilCut {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        if self.cut.as_mut().poll(context).is_ready() {
            self.body = None;
            return Poll::Ready(Some(Err(line_broke())));
        }
        frame
    }
}

/// Waits until a stream ends before its time.
async fn early_end(ended: &mut watch::Receiver<Option<End>>) -> End {
    let end = ended.wait_for(Option::is_some).await;
    let end = end.ok().and_then(|end| *end);
    // Whoever could end it is gone, so nobody does.
    match end {
        Some(end) => end,
        None => std::future::pending().await,
    }
}

/// The last frame of a stream that etcd ends with a status.
fn last_word(code: Code, text: &str) -> Frame<Bytes> {
    let mut trailers = http::HeaderMap::new();
    let status = Status::new(code, text);
    status.add_header(&mut trailers).expect("a status fits");
    Frame::trailers(trailers)
}

fn line_broke() -> Status {
    Status::unavailable("the line broke")
}

impl Stream {
    async fn carry_requests(self: Arc<Self>, mut body: Body, to_etcd: Frames) {
        let mut messages = Messages::default();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = to_etcd.closed() => None,
            };
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            for whole in messages.split(&data) {
                if let Some(whole) = self.judge(whole).await
                    && to_etcd.send(Ok(Frame::data(whole))).await.is_err()
                {
                    return;
                }
            }
        }
    }

    /// What of a message goes on to etcd now.
    async fn judge(self: &Arc<Self>, whole: Bytes) -> Option<Bytes> {
        self.plan.count(Rpc::LeaseKeepAlive);
        let message = whole.slice(MESSAGE_HEAD_BYTES..);
        let Some(rule) = self.plan.take(Rpc::LeaseKeepAlive, &message) else {
            return Some(whole);
        };
        match rule.action {
            Action::LoseReply(_) | Action::SlowReply(_) | Action::InTerm(_) => {
                let asked = PbLeaseKeepAliveRequest::decode(message).expect("a keepalive");
                self.marked.lock().unwrap().insert(asked.id, rule);
                Some(whole)
            }
            Action::KeptByReplaced(..) => {
                let mut asked = PbLeaseKeepAliveRequest::decode(message).expect("a keepalive");
                let mut instead = self.instead.lock().unwrap();
                let nobodys = i64::MAX - i64::try_from(instead.len()).expect("few keepalives");
                instead.insert(nobodys, asked.id);
                asked.id = nobodys;
                self.marked.lock().unwrap().insert(nobodys, rule);
                Some(framed(&asked.encode_to_vec()))
            }
            Action::DeliverLate(ending) => {
                let (plan, held) = (self.plan.clone(), Arc::clone(&rule));
                let body = Body::new(Full::new(whole));
                let request = Request::from_parts(self.head.clone(), body);
                tokio::spawn(async move {
                    held.wait_for_delivery().await;
                    plan.to_etcd_and_forget(request).await;
                    held.arrive();
                });
                rule.meet();
                if ending == Ending::Reset {
                    self.end(End::Broken);
                }
                None
            }
            Action::Hold => {
                rule.meet();
                rule.wait_for_delivery().await;
                rule.arrive();
                Some(whole)
            }
            // With a status etcd ends the stream.
            Action::Refuse(code, text) => {
                rule.meet();
                self.end(End::Said(code, text));
                None
            }
            Action::DoAndSay(..) | Action::NoSpace => {
                panic!("no test says that of a keepalive")
            }
            Action::Cut | Action::Lose => {
                rule.meet();
                self.end(End::Broken);
                None
            }
            Action::SlowRequest(delay) => {
                rule.meet();
                tokio::time::sleep(delay).await;
                Some(whole)
            }
        }
    }

    fn end(&self, how: End) {
        self.ended.send_replace(Some(how));
    }

    async fn carry_replies(self: Arc<Self>, mut body: Body, to_caller: Frames) {
        let mut ended = self.ended.subscribe();
        let mut messages = Messages::default();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                end = early_end(&mut ended) => {
                    let last = match end {
                        End::Broken => Err(line_broke()),
                        End::Said(code, text) => Ok(last_word(code, text)),
                    };
                    let _ = to_caller.send(last).await;
                    return;
                }
                () = to_caller.closed() => None,
            };
            let Some(frame) = frame else { return };
            let frame = match frame.map(Frame::into_data) {
                Ok(Ok(data)) => {
                    for whole in messages.split(&data) {
                        if let Some(whole) = self.told(whole).await {
                            let _ = to_caller.send(Ok(Frame::data(whole))).await;
                        }
                    }
                    continue;
                }
                Ok(Err(trailers)) => Ok(trailers),
                Err(error) => Err(error),
            };
            let last = frame.is_err();
            let _ = to_caller.send(frame).await;
            if last {
                return;
            }
        }
    }

    /// What the caller is told of a reply.
    async fn told(&self, whole: Bytes) -> Option<Bytes> {
        let message = whole.slice(MESSAGE_HEAD_BYTES..);
        let mut reply = PbLeaseKeepAliveResponse::decode(message).expect("a keepalive's reply");
        let marked = self.marked.lock().unwrap().remove(&reply.id);
        let Some(rule) = marked else {
            return Some(whole);
        };
        rule.meet();
        rule.arrive();
        match rule.action {
            Action::SlowReply(delay) => {
                // The line is slow, and so is all that comes after it.
                tokio::time::sleep(delay).await;
                return Some(whole);
            }
            Action::InTerm(term) => {
                reply.header.get_or_insert_default().raft_term = term;
                return Some(framed(&reply.encode_to_vec()));
            }
            Action::KeptByReplaced(term, seconds) => {
                reply.header.get_or_insert_default().raft_term = term;
                reply.id = self.instead.lock().unwrap()[&reply.id];
                reply.ttl = seconds;
                return Some(framed(&reply.encode_to_vec()));
            }
            _ => {}
        }
        if matches!(rule.action, Action::LoseReply(Ending::Reset)) {
            self.end(End::Broken);
        }
        None
    }
}

/// Cuts a stream of bytes into messages, each with its head.
#[derive(Default)]
struct Messages {
    rest: BytesMut,
}

impl Messages {
    fn split(&mut self, data: &[u8]) -> Vec<Bytes> {
        self.rest.extend_from_slice(data);
        let mut whole = Vec::new();
        while let Some([_, a, b, c, d]) = self.rest.first_chunk::<MESSAGE_HEAD_BYTES>() {
            let length = u32::from_be_bytes([*a, *b, *c, *d]);
            let length = MESSAGE_HEAD_BYTES + usize::try_from(length).expect("32 bits fit");
            if self.rest.len() < length {
                break;
            }
            whole.push(self.rest.split_to(length).freeze());
        }
        whole
    }
}
