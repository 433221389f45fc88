//! Makes one TLS connection after another to an etcd member, each with the files as they are then.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::{BoxError, Service};

use super::{ALPN, Tls};

/// What a channel makes its connections with.
#[derive(Clone, Debug)]
pub(in crate::store) struct Connector(pub(in crate::store) Tls);

type Connection = TokioIo<TlsStream<TcpStream>>;

impl Service<Uri> for Connector {
    type Response = Connection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.0.clone();
        Box::pin(connect(tls, uri))
    }
}

async fn connect(tls: Tls, uri: Uri) -> Result<Connection, BoxError> {
    let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err("an address of etcd needs a host and a port".into());
    };
    let name = tls.name_for(host)?;
    // A disk may be slow; calls that are under way must not wait for it.
    let config = tokio::task::spawn_blocking(move || tls.for_a_connection()).await?;
    let address = (host.trim_start_matches('[').trim_end_matches(']'), port);
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let stream = TlsConnector::from(config).connect(name, tcp).await?;
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err("it speaks TLS but no HTTP/2, so it is no etcd".into());
    }
    Ok(TokioIo::new(stream))
}
