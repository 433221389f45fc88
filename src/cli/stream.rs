//! `hold` and `watch`: what is told as it comes, until it ends.

use clap::Args;
use tonic::Streaming;

use super::exit::Exit;
use super::session::{Session, SessionArgs};
use super::table::Table;
use super::trouble::Trouble;
use super::{ResourceArgs, output};
use crate::proto::v1::hold_response::News;
use crate::proto::v1::{HoldRequest, HoldResponse, WatchRequest, WatchResponse};

/// Holds reservations until it is ended.
#[derive(Debug, Args)]
pub(super) struct HoldArgs {
    /// The reservation_ids that `reserve` answered
    #[arg(required = true)]
    reservations: Vec<String>,
    /// Release what is not lost when this command ends, however it ends [default: it runs out]
    #[arg(long, env = "FENCEPOST_RELEASE_ON_CLOSE")]
    release_on_close: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl HoldArgs {
    /// Tells what is told, until all is lost.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = HoldRequest {
            reservation_ids: self.reservations,
            release_on_close: self.release_on_close,
        };
        // It ends when it is over, not after a time.
        let mut told = session.opening(session.client().hold(request)).await?;
        while let Some(news) = next(&session, &mut told).await? {
            output::answer(
                self.session.printing.output,
                "HoldResponse",
                &news,
                |table| {
                    fill(table, &news);
                },
            )?;
        }
        // They are lost, which is the only way to get here.
        Ok(Exit::Abandon)
    }
}

fn fill(table: &mut Table, response: &HoldResponse) {
    match &response.news {
        Some(News::Renewed(reservation)) => {
            table.row("news", "renewed").reservation(reservation);
        }
        Some(News::Expiring(reservation)) => {
            table
                .row("news", "expiring: a renewal failed, and is tried again")
                .reservation(reservation);
        }
        Some(News::Lost(decision)) => {
            table
                .row("news", "lost")
                .row("reservation", &response.reservation_id)
                .decision(decision);
        }
        None => {
            table.row("reservation", &response.reservation_id);
        }
    }
}

/// Follows a resource until it is ended.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// Tell only what has changed after this revision [default: first the resource as it stands]
    #[arg(
        long,
        env = "FENCEPOST_AFTER_REVISION",
        value_name = "REVISION",
        default_value_t = 0,
        hide_default_value = true
    )]
    after_revision: i64,
    /// The timeline_id that was told with that revision: after a restore of etcd the resource as it stands is told first then
    /// [default: the revision is taken as one of the timeline in force]
    #[arg(
        long,
        env = "FENCEPOST_TIMELINE_ID",
        value_name = "ID",
        requires = "after_revision"
    )]
    timeline_id: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

impl WatchArgs {
    /// Tells each state.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let request = WatchRequest {
            resource: Some(self.resource.into()),
            after_revision: self.after_revision,
            timeline_id: self.timeline_id.unwrap_or_default(),
        };
        let mut told = session.opening(session.client().watch(request)).await?;
        while let Some(state) = next(&session, &mut told).await? {
            output::answer(
                self.session.printing.output,
                "WatchResponse",
                &state,
                |table| {
                    shown(table, &state);
                },
            )?;
        }
        Ok(Exit::Good)
    }
}

fn shown(table: &mut Table, response: &WatchResponse) {
    if response.gap {
        table.row("gap", "states before this one may be missing");
    }
    if let Some(snapshot) = &response.snapshot {
        table.snapshot(snapshot);
    }
    table.row("timeline", &response.timeline_id);
}

async fn next<T>(session: &Session, told: &mut Streaming<T>) -> Result<Option<T>, Trouble> {
    let next = told.message().await;
    next.map_err(|status| session.trouble(&status))
}
