//! `reserve`, `renew` and `release`.

use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use super::exit::Exit;
use super::intent::{IntentArgs, ResultArgs};
use super::session::{Session, SessionArgs, span};
use super::trouble::Trouble;
use super::wait::WaitArgs;
use super::{ResourceArgs, output, values};
use crate::engine::Boottime;
use crate::proto::v1::{
    Decision, ReleaseRequest, RenewRequest, Reservation, ReserveRequest, Resource,
};

/// Takes a resource.
#[derive(Debug, Args)]
pub(super) struct ReserveArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// A further resource of the same reservation, of which all are taken or none; may be repeated, up to 15 times (a comma is a part
    /// of the id)
    #[arg(long, env = "FENCEPOST_ALSO", value_name = "KIND/ID", value_parser = values::resource)]
    also: Vec<Resource>,
    /// Names this attempt; give the same one to repeat a call whose answer was lost [default: a fresh one]
    #[arg(long, env = "FENCEPOST_REQUEST_ID", value_name = "UUID", value_parser = values::request_id)]
    request_id: Option<Uuid>,
    /// How long it lasts unless renewed, with its unit: 30s, 5m [default: the sidecar's, 30s]
    #[arg(
        long,
        env = "FENCEPOST_TTL",
        value_name = "DURATION",
        value_parser = span,
        allow_hyphen_values = true
    )]
    ttl: Option<Duration>,
    /// Shown to people who ask who holds it [default: the address that the sidecar sees the call come from]
    #[arg(long, env = "FENCEPOST_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    /// A live reservation of yours, under which the operation is claimed instead of a new one
    #[arg(long, env = "FENCEPOST_RESERVATION", value_name = "ID")]
    reservation: Option<String>,
    /// If the claim dies, the effect may run again, up to 5 times in all [default: a person decides]
    #[arg(long, env = "FENCEPOST_RERUN_IF_INTERRUPTED")]
    rerun_if_interrupted: bool,
    #[command(flatten)]
    intent: IntentArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    session: SessionArgs,
}

impl ReserveArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let request_id = self.request_id.unwrap_or_else(Uuid::new_v4).to_string();
        let ttl = self
            .ttl
            .map(prost_types::Duration::try_from)
            .transpose()
            .map_err(|_| Trouble::usage("--ttl is too long; the most is 24h"))?;
        values::hint_at_commas(&self.also);
        let request = ReserveRequest {
            resource: Some(self.resource.named()?),
            also: self.also,
            request_id: request_id.clone(),
            ttl,
            holder: self.holder.unwrap_or_default(),
            intent: self.intent.read(self.rerun_if_interrupted)?,
            reservation_id: self.reservation.unwrap_or_default(),
            wait: self.wait.to_wire()?,
        };
        let session = Session::open(&self.session).await?;
        let asked = Boottime::now();
        let call = async {
            let mut client = session.client();
            let request = session.ask_waiting(request, self.wait.span());
            session.answer(client.reserve(request)).await
        };
        let answer = call.await.map_err(|mut trouble| {
            // A fresh id that nobody was told could not be asked about again. Where nothing was done, there is nothing to ask.
            if !matches!(trouble.exit, Exit::Invalid | Exit::Unavailable) {
                trouble.message.push_str(&format!(
                    "\nto ask about this very attempt, repeat it with --request-id {request_id}"
                ));
            }
            trouble
        })?;
        let exit = exit(answer.decision.as_ref());
        output::answer(
            self.session.printing.output,
            "ReserveResponse",
            &answer,
            |table| {
                fill(
                    table,
                    answer.decision.as_ref(),
                    answer.reservation.as_ref().zip(Some(asked)),
                );
            },
        )?;
        Ok(exit)
    }
}

/// Names a round.
#[derive(Debug, Args)]
pub(super) struct RoundArgs {
    /// The reservation_id that `reserve` answered
    reservation: String,
    #[command(flatten)]
    session: SessionArgs,
}

impl RoundArgs {
    /// Prolongs the round.
    pub(super) async fn renew(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = RenewRequest {
            reservation_id: self.reservation,
        };
        let asked = Boottime::now();
        let answer = session
            .answer(session.client().renew(session.ask(request)))
            .await?;
        output::answer(
            self.session.printing.output,
            "RenewResponse",
            &answer,
            |table| {
                fill(
                    table,
                    answer.decision.as_ref(),
                    answer.reservation.as_ref().zip(Some(asked)),
                );
            },
        )?;
        Ok(exit(answer.decision.as_ref()))
    }
}

/// Ends a round.
#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    round: RoundArgs,
    /// Nothing was done of the operation that it claimed, which may start again [default: a person decides, or what
    /// --rerun-if-interrupted said]
    #[arg(long, env = "FENCEPOST_NOTHING_DONE")]
    nothing_done: bool,
    #[command(flatten)]
    result: ResultArgs,
}

impl ReleaseArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.round.session).await?;
        let request = ReleaseRequest {
            reservation_id: self.round.reservation,
            nothing_done: self.nothing_done,
            // Of a claim: how its effect ended, for whoever decides what becomes of it.
            result: self.result.read()?,
        };
        let answer = session
            .answer(session.client().release(session.ask(request)))
            .await?;
        output::answer(
            self.round.session.printing.output,
            "ReleaseResponse",
            &answer,
            |table| {
                fill(table, answer.decision.as_ref(), None);
            },
        )?;
        Ok(exit(answer.decision.as_ref()))
    }
}

fn fill(
    table: &mut super::table::Table,
    decision: Option<&Decision>,
    reservation: Option<(&Reservation, Boottime)>,
) {
    if let Some(decision) = decision {
        table.decision(decision);
    }
    if let Some((reservation, asked)) = reservation {
        table.reservation(reservation, asked);
    }
}

/// An answer without a judgement is not one to build on.
pub(super) fn exit(decision: Option<&Decision>) -> Exit {
    decision.map_or(Exit::Failed, |decision| Exit::of_advice(decision.advice()))
}
