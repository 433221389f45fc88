//! `hold` and `watch`: what is told as it comes, until it ends.

use std::time::Duration;

use clap::Args;
use tonic::{Status, Streaming};

use super::exit::Exit;
use super::held::Held;
use super::output::say;
use super::session::{Session, SessionArgs};
use super::table::Table;
use super::trouble::{Trouble, plain};
use super::{ResourceArgs, output};
use crate::engine::Boottime;
use crate::proto::v1::hold_response::News;
use crate::proto::v1::{HoldRequest, HoldResponse, WatchRequest, WatchResponse};

/// How often it is looked whether a reservation's time is over. The runtime's timers stand still while the machine is suspended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
        let mut held = Held::new(&self.reservations, self.release_on_close);
        let request = HoldRequest {
            reservation_ids: self.reservations,
            release_on_close: self.release_on_close,
        };
        // What is safe counts from before the stream is opened. It ends when it is over, not after a time.
        let opened = Boottime::now();
        let mut told = session.opening(session.client().hold(request)).await?;
        while let Some(news) = next_in_time(&mut told, &mut held)
            .await
            .map_err(|status| left_over(&session, &held, &status))?
        {
            held.hear(&news, opened);
            output::answer(
                self.session.printing.output,
                "HoldResponse",
                &news,
                |table| {
                    fill(table, &news, opened);
                },
            )?;
        }
        // They are lost, which is the only way to get here.
        Ok(Exit::Abandon)
    }
}

/// The next news; `None`: all is lost, whoever says so.
async fn next_in_time(
    told: &mut Streaming<HoldResponse>,
    held: &mut Held,
) -> Result<Option<HoldResponse>, Status> {
    loop {
        let look = held
            .first_bound()
            .map_or(LOOK_EVERY, |bound| bound.left().min(LOOK_EVERY));
        match tokio::time::timeout(look, told.message()).await {
            Ok(news) => return news,
            Err(_) => {
                for reservation in held.take_over() {
                    say(&format!(
                        "fencepost: {} is lost: no renewal was heard of in its time, so somebody else may hold it now; stop what was \
                         done under it\n",
                        plain(&reservation)
                    ));
                }
            }
        }
        if held.is_empty() {
            return Ok(None);
        }
    }
}

/// What the end of the stream means for what is still held.
fn left_over(session: &Session, held: &Held, status: &Status) -> Trouble {
    let mut trouble = session.stream_trouble(status);
    trouble.message.push_str(&held.told());
    trouble
}

fn fill(table: &mut Table, response: &HoldResponse, opened: Boottime) {
    match &response.news {
        Some(News::Renewed(reservation)) => {
            table
                .row("news", "renewed")
                .reservation(reservation, opened);
        }
        Some(News::Expiring(reservation)) => {
            table
                .row("news", "expiring: a renewal failed, and is tried again")
                .reservation(reservation, opened);
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
        let place = format!("{} {}", self.resource.kind, self.resource.id);
        let request = WatchRequest {
            resource: Some(self.resource.named()?),
            after_revision: self.after_revision,
            timeline_id: self.timeline_id.unwrap_or_default(),
        };
        let mut at = (request.after_revision, request.timeline_id.clone());
        let mut told = session.opening(session.client().watch(request)).await?;
        while let Some(state) = told
            .message()
            .await
            .map_err(|status| go_on(&session, &status, &place, &at))?
        {
            let revision = state.snapshot.as_ref().map_or(0, |now| now.revision);
            at = (revision, state.timeline_id.clone());
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

/// What to do once a watch has ended.
fn go_on(session: &Session, status: &Status, place: &str, at: &(i64, String)) -> Trouble {
    let mut trouble = session.stream_trouble(status);
    let (revision, timeline) = at;
    let mut again = format!("fencepost watch {place}");
    if *revision > 0 {
        again.push_str(&format!(" --after-revision {revision}"));
        if !timeline.is_empty() {
            again.push_str(&format!(" --timeline-id {timeline}"));
        }
    }
    trouble.message.push_str(&plain(&format!(
        "; a watch keeps nothing, so nothing is lost by that: go on where this ended, at this or another sidecar of the same etcd, \
         with `{again}`"
    )));
    trouble
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
