//! The way to a sidecar's admin socket.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::address::{self, Address};
use super::exit::Exit;
use super::session::root_cause;
use super::trouble::Trouble;
use crate::config::admin_socket_path;
use crate::proto::v1::operator_service_client::OperatorServiceClient;

/// Which admin socket to ask.
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
    /// A client of the socket, and where that is.
    pub(super) async fn open(self) -> Result<(OperatorServiceClient<Channel>, String), Trouble> {
        let socket = self
            .admin_socket
            .unwrap_or_else(|| admin_socket_path(self.addr.port()));
        let place = socket.display().to_string();
        if place == "none" {
            return Err(Trouble::usage(
                "the admin socket is `none`, so there is nobody to ask: start the sidecar with one, and name it with \
                 --admin-socket",
            ));
        }
        let client = OperatorServiceClient::new(connect(&socket).await?);
        Ok((client, place))
    }
}

async fn connect(socket: &Path) -> Result<Channel, Trouble> {
    let path = socket.to_owned();
    // A Unix socket has no host; the name is only there to make a well-formed request.
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|error| {
            let mut trouble = Trouble::failed(format!(
                "no sidecar answers at the admin socket {} ({}): start one with `fencepost dev`, or name its \
                 socket with --admin-socket or FENCEPOST_ADMIN_SOCKET",
                socket.display(),
                root_cause(&error)
            ));
            trouble.exit = Exit::Unavailable;
            trouble
        })
}
