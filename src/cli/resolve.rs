//! `resolve`: what a person found out about an operation that was interrupted.

use clap::Args;

use super::admin::{AdminArgs, author};
use super::exit::Exit;
use super::intent::ResultArgs;
use super::reservation::exit;
use super::session::{PrintingArgs, with_timeout};
use super::trouble::Trouble;
use super::{ResourceArgs, output};
use crate::proto::v1::{Finding, ResolveOperationRequest};

/// Resolves an operation.
#[derive(Debug, Args)]
pub(super) struct ResolveArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// The sender's stable key, as given to `reserve --operation`
    key: String,
    /// Why: what was looked at, and what it said; kept with the operation
    #[arg(long, env = "FENCEPOST_REASON", value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    finding: FindingArgs,
    /// Who says so [default: $USER, else `admin socket`]
    #[arg(long, env = "FENCEPOST_BY", value_name = "NAME")]
    by: Option<String>,
    /// The attempt that was looked into; another one is left alone [default: whichever is the last]
    #[arg(long, env = "FENCEPOST_ATTEMPT", value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    attempt: Option<i32>,
    /// End the operation's claim if it is still live [default: it stays, and nothing is resolved]
    #[arg(long, env = "FENCEPOST_EVEN_IF_RUNNING")]
    even_if_running: bool,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

/// What was found out: one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct FindingArgs {
    /// The effect was done: make its move, and store the result
    #[arg(long, env = "FENCEPOST_DONE")]
    done: bool,
    /// It was not done: the operation may start again
    #[arg(long, env = "FENCEPOST_NOT_DONE")]
    not_done: bool,
    /// It must never be run: refuse every duplicate
    #[arg(long, env = "FENCEPOST_REFUSED")]
    refused: bool,
}

impl ResolveArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let printing = self.printing.clone();
        let request = ResolveOperationRequest {
            resource: Some(self.resource.named()?),
            operation_id: self.key,
            finding: self.finding.read().into(),
            result: self.result.read()?,
            resolver: author(self.by),
            reason: self.reason,
            attempt: self.attempt.unwrap_or_default(),
            even_if_running: self.even_if_running,
        };
        let place = self.admin.place();
        let mut client = self.admin.connect().await?;
        let answer = client
            .resolve_operation(with_timeout(request, printing.timeout))
            .await
            .map_err(|status| Trouble::from_status(&place, &status))?
            .into_inner();
        output::answer(
            printing.output,
            "ResolveOperationResponse",
            &answer,
            |table| {
                if let Some(decision) = &answer.decision {
                    table.decision(decision);
                }
            },
        )?;
        Ok(exit(answer.decision.as_ref()))
    }
}

impl FindingArgs {
    fn read(&self) -> Finding {
        if self.done {
            Finding::Done
        } else if self.not_done {
            Finding::NotDone
        } else {
            Finding::Refused
        }
    }
}
