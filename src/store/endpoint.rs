//! One way to reach etcd.

use std::time::Duration;

use super::tls::{Connector, Tls};
use crate::domain::invalid::Invalid;

/// How long a connection may take, its TLS handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How often a connection is tried with a ping. etcd cuts clients off that ping more often than every 5 seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long the answer to a ping may take before the connection counts as dead.
const PING_LIMIT: Duration = Duration::from_secs(3);

/// One etcd member, or the embedded engine.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// For logs and errors.
    pub name: String,
    /// How to reach it.
    pub channel: etcd_client::Channel,
}

impl Endpoint {
    /// An etcd member at `http://host:port`. Nothing is sent before the first call, so it need not be up. Must be called
    /// inside a Tokio runtime.
    pub fn connect(url: &str) -> Result<Self, Invalid> {
        let uri = address(url, "http")?;
        let name = name_of(&uri);
        let channel = patient(uri).tcp_nodelay(true).connect_lazy();
        Ok(Self {
            name,
            channel: etcd_client::Channel::Tonic(channel),
        })
    }

    /// The same at `https://host:port`.
    pub fn connect_tls(url: &str, tls: &Tls) -> Result<Self, Invalid> {
        let uri = address(url, "https")?;
        let name = name_of(&uri);
        let channel = patient(uri).connect_with_connector_lazy(Connector(tls.clone()));
        Ok(Self {
            name,
            channel: etcd_client::Channel::Tonic(channel),
        })
    }
}

fn address(url: &str, scheme: &str) -> Result<http::Uri, Invalid> {
    let uri: http::Uri = url
        .trim_end_matches('/')
        .parse()
        .map_err(|error| Invalid::new(format!("{url:?} is no URL: {error}")))?;
    if uri.scheme_str() != Some(scheme) {
        return Err(Invalid::new(format!(
            "{url:?} must have the form {scheme}://host:port; https:// is for TLS, which needs the certificate of etcd's authority"
        )));
    }
    let plain = uri
        .authority()
        .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    if !plain
        || uri.port_u16().is_none()
        || uri.query().is_some()
        || !matches!(uri.path(), "" | "/")
    {
        return Err(Invalid::new(format!(
            "{url:?} must have the form {scheme}://host:port, with a port and nothing after it"
        )));
    }
    Ok(uri)
}

fn name_of(uri: &http::Uri) -> String {
    uri.to_string().trim_end_matches('/').to_owned()
}

fn patient(uri: http::Uri) -> tonic::transport::Endpoint {
    tonic::transport::Endpoint::from(uri)
        .connect_timeout(CONNECT_LIMIT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_LIMIT)
        .keep_alive_while_idle(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endpoint_is_a_plain_address() {
        for good in [
            "http://127.0.0.1:2379",
            "http://[::1]:2379/",
            "http://etcd-0.etcd:2379",
        ] {
            let endpoint = Endpoint::connect(good).unwrap();
            assert_eq!(endpoint.name, good.trim_end_matches('/'));
        }
        for bad in [
            "",
            "127.0.0.1:2379",
            "localhost",
            "http://localhost",
            "http://:2379",
            "http://a:1/v3",
            "http://a:1?x=y",
            "http://user:secret@a:1",
            "unix:///run/etcd",
            "http://a:99999",
        ] {
            assert!(Endpoint::connect(bad).is_err(), "{bad}");
        }
        let error = Endpoint::connect("https://a:2379").unwrap_err().to_string();
        assert!(
            error.contains("TLS") && error.contains("authority"),
            "{error}"
        );
    }
}
