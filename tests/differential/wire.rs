//! etcd's interface as plain messages, the same over a connection and in process.

use etcd_client::Channel;
use futures_util::stream;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Requests one test keeps in flight on a stream.
const STREAM_REQUESTS_MAX: usize = 16;

#[derive(Clone)]
pub(crate) struct Wire {
    grpc: Grpc<Channel>,
}

fn path(method: &str) -> PathAndQuery {
    PathAndQuery::try_from(format!("/etcdserverpb.{method}")).unwrap()
}

impl Wire {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            grpc: Grpc::new(channel).max_decoding_message_size(usize::MAX),
        }
    }

    pub(crate) async fn unary<Q, A>(&mut self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await;
        let codec = ProstCodec::<Q, A>::default();
        let answer = self
            .grpc
            .unary(Request::new(request), path(method), codec)
            .await;
        answer.map(tonic::Response::into_inner)
    }

    /// Sends one request on a stream, closes it, and answers the first answer.
    pub(crate) async fn once<Q, A>(&mut self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await;
        let codec = ProstCodec::<Q, A>::default();
        let requests = Request::new(stream::iter([request]));
        let answers = self.grpc.streaming(requests, path(method), codec).await?;
        answers
            .into_inner()
            .message()
            .await
            .map(|answer| answer.expect("an answer"))
    }

    pub(crate) async fn stream<Q, A>(
        &mut self,
        method: &str,
        first: Q,
    ) -> Result<(mpsc::Sender<Q>, Streaming<A>), Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await;
        let (sender, requests) = mpsc::channel(STREAM_REQUESTS_MAX);
        sender.send(first).await.expect("the receiver is here");
        let codec = ProstCodec::<Q, A>::default();
        let requests = Request::new(ReceiverStream::new(requests));
        let answers = self.grpc.streaming(requests, path(method), codec).await?;
        Ok((sender, answers.into_inner()))
    }

    async fn ready(&mut self) {
        self.grpc.ready().await.expect("a channel that takes calls");
    }
}
