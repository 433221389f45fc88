//! `--wait`: of the calls that may wait for an operation in progress, or for a busy resource.

use std::time::Duration;

use clap::Args;

use super::session::span;
use super::trouble::Trouble;

/// How long to wait.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct WaitArgs {
    /// How long to wait while the operation is in progress or the resource is busy, with its unit: 30s, 5m; --timeout counts beside it [default: not]
    #[arg(
        long,
        env = "FENCEPOST_WAIT",
        value_name = "DURATION",
        value_parser = span,
        allow_hyphen_values = true
    )]
    wait: Option<Duration>,
}

impl WaitArgs {
    /// How long the call may take beside its timeout.
    pub(super) fn span(self) -> Duration {
        self.wait.unwrap_or_default()
    }

    /// For the message.
    pub(super) fn to_wire(self) -> Result<Option<prost_types::Duration>, Trouble> {
        let wire = self.wait.map(prost_types::Duration::try_from).transpose();
        wire.map_err(|_| Trouble::usage("--wait is too long; the most is 10m"))
    }
}
