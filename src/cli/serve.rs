//! `serve` and `dev`.

use std::process::ExitCode;

use clap::Args;

/// Runs on etcd.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {}

/// Runs on a store in memory.
#[derive(Debug, Args)]
pub(super) struct DevArgs {}

/// Runs on etcd.
pub(super) async fn serve(_: ServeArgs) -> ExitCode {
    ExitCode::from(70)
}

/// Runs on a store in memory.
pub(super) async fn dev(_: DevArgs) -> ExitCode {
    ExitCode::from(70)
}
