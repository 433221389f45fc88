//! `incidents`: what a person must judge.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::address::{self, Address};
use super::exit::Exit;
use super::session::{Output, PrintingArgs, root_cause, with_timeout};
use super::table::Table;
use super::trouble::Trouble;
use super::{json, output};
use crate::config::admin_socket_path;
use crate::proto::v1::operator_service_client::OperatorServiceClient;
use crate::proto::v1::{Incident, ListIncidentsRequest};

/// Incidents asked for at a time: the largest page there is.
const PAGE: i32 = 200;

/// Lists incidents.
#[derive(Debug, Args)]
pub(super) struct IncidentsArgs {
    /// The sidecar's admin socket [default: the one that belongs to the port of --addr]
    #[arg(long, env = "FENCEPOST_ADMIN_SOCKET", value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// Where the sidecar listens; only its port is used, to find the admin socket
    #[arg(long, env = "FENCEPOST_ADDR", default_value = address::DEFAULT, value_parser = Address::parse)]
    addr: Address,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl IncidentsArgs {
    /// Prints every page as it comes.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
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
        let mut client = OperatorServiceClient::new(connect(&socket).await?);
        let mut page_token = String::new();
        let mut listed: usize = 0;
        loop {
            let request = ListIncidentsRequest {
                page_size: PAGE,
                page_token: page_token.clone(),
            };
            let page = client
                .list_incidents(with_timeout(request, self.printing.timeout))
                .await
                .map_err(|status| Trouble::from_status(&place, &status))?
                .into_inner();
            listed += page.incidents.len();
            output::write(&render(self.printing.output, &page.incidents)?)?;
            if page.next_page_token.is_empty() {
                break;
            }
            if page.next_page_token == page_token {
                return Err(Trouble::failed(format!(
                    "{place} answers the same page for ever"
                )));
            }
            page_token = page.next_page_token;
        }
        if listed == 0 && self.printing.output == Output::Table {
            output::write("no incidents\n")?;
        }
        Ok(Exit::Good)
    }
}

fn render(form: Output, incidents: &[Incident]) -> Result<String, Trouble> {
    let mut text = String::new();
    for incident in incidents {
        match form {
            Output::Json => text.push_str(&json::line("Incident", incident)?),
            Output::Table => {
                text.push_str(&Table::default().incident(incident).render());
                text.push('\n');
            }
        }
    }
    Ok(text)
}

/// Connects to an admin socket.
pub(super) async fn connect(socket: &Path) -> Result<Channel, Trouble> {
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
