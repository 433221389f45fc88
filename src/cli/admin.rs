//! The way to a sidecar's admin socket, for the commands that ask its operator's calls.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::address::{self, Address};
use super::trouble::Trouble;
use crate::config::admin_socket_path;
use crate::proto::v1::operator_service_client::OperatorServiceClient;

/// Who says something, where neither the caller nor the environment tells: what a sidecar itself writes then.
const AUTHOR_UNKNOWN: &str = "admin socket";

/// Where the admin socket is.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// The sidecar's admin socket [default: the one that belongs to the port of --addr]
    #[arg(long, env = "FENCEPOST_ADMIN_SOCKET", value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Where the sidecar listens; only its port is used, to find the admin socket
    #[arg(long, env = "FENCEPOST_ADDR", default_value = address::DEFAULT, value_parser = Address::parse)]
    addr: Address,
}

impl AdminArgs {
    /// The socket, for errors.
    pub(super) fn place(&self) -> String {
        self.socket().display().to_string()
    }

    /// Connects to it.
    pub(super) async fn connect(&self) -> Result<OperatorServiceClient<Channel>, Trouble> {
        let socket = self.socket();
        if socket.as_os_str() == "none" {
            return Err(Trouble::usage(
                "the admin socket is `none`, so there is nobody to ask: start the sidecar with one, and name it with \
                 --admin-socket",
            ));
        }
        let channel = channel(&socket)
            .await
            .map_err(|error| Trouble::no_admin_socket(&socket, &error))?;
        Ok(OperatorServiceClient::new(channel))
    }

    fn socket(&self) -> PathBuf {
        let given = self.admin_socket.clone();
        given.unwrap_or_else(|| admin_socket_path(self.addr.port()))
    }
}

/// Who says what is kept with a name: as given, else the user that runs this command.
pub(super) fn author(by: Option<String>) -> String {
    let by = by.or_else(|| std::env::var("USER").ok());
    by.filter(|name| !name.is_empty())
        .unwrap_or_else(|| AUTHOR_UNKNOWN.to_owned())
}

/// Connects to an admin socket.
pub(super) async fn channel(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    let path = socket.to_owned();
    // A Unix socket has no host; the name is only there to make a well-formed request.
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
}
