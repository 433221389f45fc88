//! `fence`, `lookup` and `inspect`: the calls that change nothing.

use clap::Args;
use prost_types::Timestamp;

use super::exit::Exit;
use super::reservation::exit;
use super::session::{Session, SessionArgs};
use super::table::bare;
use super::trouble::Trouble;
use super::wait::WaitArgs;
use super::{ResourceArgs, output, values};
use crate::proto::v1::{FenceRequest, InspectRequest, LookupRequest, OperationState};

/// Is a token good?
#[derive(Debug, Args)]
pub(super) struct FenceArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// The token that `reserve` answered
    #[arg(allow_negative_numbers = true, value_parser = values::token)]
    token: i64,
    /// A token also passes when its round is over, if nothing was granted after it
    #[arg(long, env = "FENCEPOST_EVEN_IF_ENDED")]
    even_if_ended: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl FenceArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = FenceRequest {
            resource: Some(self.resource.named()?),
            token: self.token,
            even_if_ended: self.even_if_ended,
        };
        let answer = session
            .answer(session.client().fence(session.ask(request)))
            .await?;
        output::answer(
            self.session.printing.output,
            "FenceResponse",
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

/// What has become of an operation?
#[derive(Debug, Args)]
pub(super) struct LookupArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// The sender's stable key, as given to `transition --operation`
    key: String,
    /// When the sender made it, such as 2026-01-31T12:00:00Z; tells one too old to be remembered from one never seen
    #[arg(long, env = "FENCEPOST_OPERATION_TIME", value_name = "TIME", value_parser = values::moment)]
    operation_time: Option<Timestamp>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    session: SessionArgs,
}

impl LookupArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = LookupRequest {
            resource: Some(self.resource.named()?),
            operation_id: self.key,
            operation_time: self.operation_time,
            wait: self.wait.to_wire()?,
        };
        let request = session.ask_waiting(request, self.wait.span());
        let answer = session.answer(session.client().lookup(request)).await?;
        output::answer(
            self.session.printing.output,
            "LookupResponse",
            &answer,
            |table| {
                table.row(
                    "operation",
                    bare(answer.state().as_str_name(), "OPERATION_STATE_"),
                );
                if let Some(decision) = &answer.decision {
                    table.decision(decision);
                }
            },
        )?;
        Ok(match answer.state() {
            OperationState::NeverSeen => Exit::NeverSeen,
            OperationState::Unspecified
            | OperationState::Running
            | OperationState::Interrupted
            | OperationState::Done
            | OperationState::DoneEmpty
            | OperationState::Refused
            | OperationState::Expired => exit(answer.decision.as_ref()),
        })
    }
}

/// How does the resource stand?
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    #[command(flatten)]
    session: SessionArgs,
}

impl InspectArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = InspectRequest {
            resource: Some(self.resource.named()?),
            with_queue: true,
        };
        let answer = session
            .answer(session.client().inspect(session.ask(request)))
            .await?;
        output::answer(
            self.session.printing.output,
            "InspectResponse",
            &answer,
            |table| {
                if let Some(snapshot) = &answer.snapshot {
                    table.snapshot(snapshot);
                }
                if let Some(queue) = &answer.queue {
                    table.queue(queue);
                }
            },
        )?;
        Ok(Exit::Good)
    }
}
