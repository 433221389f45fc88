//! Logs, to standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, fmt};

use super::libraries::Libraries;
use crate::config::{Log, LogFormat};

/// Sends logs to standard error for the rest of the process.
pub fn start(log: &Log) -> Result<(), TryInitError> {
    let lines = fmt()
        .with_env_filter(EnvFilter::new(&log.level))
        .with_writer(std::io::stderr)
        // The library would say on standard error that standard error cannot be written, which panics, and so ends the process.
        .log_internal_errors(false);
    match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .with(Libraries::default())
            .try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .finish()
            .with(Libraries::default())
            .try_init(),
    }
}
