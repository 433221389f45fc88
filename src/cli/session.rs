//! One connection to a sidecar, and how its answers are wanted.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tower::service_fn;

use super::address::{self, Address};
use super::listened::{FirstBytes, Listened};
use super::trouble::Trouble;
use crate::proto::v1::coordination_service_client::CoordinationServiceClient;

/// Longest time to wait for an answer: a day.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimeout(Duration);

impl CallTimeout {
    /// Takes a duration with its unit.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let span = span(text)?;
        if span < Duration::from_millis(1) || span > TIMEOUT_MAX {
            return Err("must lie between 1ms and 24h".into());
        }
        Ok(Self(span))
    }
}

impl fmt::Display for CallTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// A duration with its unit.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        format!("`{text}` is not a duration with a unit; write it like 30s, 500ms or 2m")
    })
}

/// How to print an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// For programs: proto3 JSON, one message a line
    Json,
}

/// Where to ask, for how long, and how to print.
#[derive(Clone, Debug, Args)]
pub(super) struct SessionArgs {
    /// Where the sidecar listens: host:port or http://host:port
    #[arg(long, env = "FENCEPOST_ADDR", default_value = address::DEFAULT, value_parser = Address::parse)]
    pub(super) addr: Address,
    #[command(flatten)]
    pub(super) printing: PrintingArgs,
}

/// How long to wait, and how to print.
#[derive(Clone, Debug, Args)]
pub(super) struct PrintingArgs {
    /// How long to wait for an answer, with its unit: 10s, 500ms
    #[arg(long, env = "FENCEPOST_TIMEOUT", default_value = "10s", value_name = "DURATION", value_parser = CallTimeout::parse)]
    pub(super) timeout: CallTimeout,
    /// How to print the answer
    #[arg(
        short,
        long,
        env = "FENCEPOST_OUTPUT",
        default_value = "table",
        value_enum
    )]
    pub(super) output: Output,
}

/// One connection to a sidecar. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Session {
    client: CoordinationServiceClient<Channel>,
    place: String,
    /// Of whoever listens there.
    first: FirstBytes,
    timeout: CallTimeout,
}

impl Session {
    /// Connects at once, so that a sidecar that is not there is told from one that is.
    pub(super) async fn open(args: &SessionArgs) -> Result<Self, Trouble> {
        let timeout = args.printing.timeout;
        let endpoint = Endpoint::from_shared(args.addr.to_string())
            .map_err(|error| Trouble::usage(format!("--addr {}: {error}", args.addr)))?
            .connect_timeout(timeout.0);
        let first = FirstBytes::default();
        let channel = endpoint
            .connect_with_connector(tcp(args.addr.authority().to_owned(), first.clone()))
            .await
            .map_err(|error| Trouble::no_sidecar(&args.addr, &root_cause(&error)))?;
        Ok(Self {
            client: CoordinationServiceClient::new(channel),
            place: args.addr.to_string(),
            first,
            timeout,
        })
    }

    /// A client to call with.
    pub(super) fn client(&self) -> CoordinationServiceClient<Channel> {
        self.client.clone()
    }

    /// Wraps a message for the call.
    pub(super) fn ask<T>(&self, message: T) -> Request<T> {
        with_timeout(message, self.timeout)
    }

    /// Wraps a message for a call that may take so much longer because it waits.
    pub(super) fn ask_waiting<T>(&self, message: T, wait: Duration) -> Request<T> {
        with_timeout(message, CallTimeout(self.timeout.0.saturating_add(wait)))
    }

    /// Waits for a stream to open, as long as for an answer. What is told on it is waited for as long as it takes.
    pub(super) async fn opening<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Trouble> {
        let opened = self.opened(call).await;
        opened.map_err(|status| self.trouble(&status))
    }

    /// The same, for whoever looks at what went wrong.
    pub(super) async fn opened<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        match tokio::time::timeout(self.timeout.0, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the stream did not open in time")),
        }
    }

    /// What went wrong.
    pub(super) fn trouble(&self, status: &Status) -> Trouble {
        match self.first.of_a_stranger() {
            Some(said) => Trouble::stranger(&self.place, &said),
            None => Trouble::from_status(&self.place, status),
        }
    }

    /// Whether what listens there has shown that it is no sidecar. It does not become one.
    pub(super) fn met_a_stranger(&self) -> bool {
        self.first.of_a_stranger().is_some()
    }

    /// Why a stream ended that was not over.
    pub(super) fn stream_trouble(&self, status: &Status) -> Trouble {
        Trouble::of_stream(&self.place, status)
    }

    /// Waits for the answer.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Trouble> {
        match call.await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.trouble(&status)),
        }
    }
}

/// Connects to a host and a port.
fn tcp(
    authority: String,
    first: FirstBytes,
) -> impl tower::Service<
    Uri,
    Response = TokioIo<Listened<TcpStream>>,
    Error = std::io::Error,
    Future: Send,
> + Send
+ 'static {
    service_fn(move |_| {
        let (authority, first) = (authority.clone(), first.clone());
        async move {
            let stream = TcpStream::connect(authority).await?;
            // As the library's own connector: a call is one small write, which must not wait for more.
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(Listened::new(stream, first)))
        }
    })
}

/// Wraps a message with the deadline that the caller gives the call.
pub(super) fn with_timeout<T>(message: T, timeout: CallTimeout) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout.0);
    request
}

/// An error and what caused it, step by step.
pub(super) fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The innermost reason, such as "Connection refused".
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert!(span("30").unwrap_err().contains("30s"));
        assert!(span("").is_err());
        assert!(CallTimeout::parse("0s").is_err());
        assert!(CallTimeout::parse("25h").is_err());
    }
}
