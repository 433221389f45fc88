//! `watch`: the states of a resource as they come, until it is ended.

use std::time::Duration;

use clap::Args;
use tonic::{Status, Streaming};

use super::exit::Exit;
use super::output::say;
use super::session::{Session, SessionArgs};
use super::table::Table;
use super::trouble::{Trouble, may_be_opened_anew, plain};
use super::{ResourceArgs, output};
use crate::proto::v1::{WatchRequest, WatchResponse};

/// How often it is tried to go on where nothing is told for a while.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

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
        Box::pin(output::while_read(self.tell())).await
    }

    async fn tell(self) -> Result<Exit, Trouble> {
        let session = Session::open(&self.session).await?;
        let place = format!("{} {}", self.resource.kind, self.resource.id);
        let mut at = WatchRequest {
            resource: Some(self.resource.named()?),
            after_revision: self.after_revision,
            timeline_id: self.timeline_id.unwrap_or_default(),
        };
        let mut told = session.opening(session.client().watch(at.clone())).await?;
        loop {
            let state = match told.message().await {
                Ok(Some(state)) => state,
                Ok(None) => return Ok(Exit::Good),
                Err(status) => {
                    told = opened_anew(&session, status, &place, &at).await?;
                    continue;
                }
            };
            if !at.timeline_id.is_empty() && at.timeline_id != state.timeline_id {
                say(
                    "fencepost: a new timeline was started; what comes next is the resource as it stands in it\n",
                );
            }
            at.after_revision = state.snapshot.as_ref().map_or(0, |now| now.revision);
            at.timeline_id.clone_from(&state.timeline_id);
            output::answer(
                self.session.printing.output,
                "WatchResponse",
                &state,
                |table| {
                    shown(table, &state);
                },
            )?;
        }
    }
}

/// Goes on where a watch has ended with its timeline, once there is one again. Whatever else ended it is for whoever called.
async fn opened_anew(
    session: &Session,
    mut ended: Status,
    place: &str,
    at: &WatchRequest,
) -> Result<Streaming<WatchResponse>, Trouble> {
    let mut told = false;
    while may_be_opened_anew(&ended) {
        if !told {
            told = true;
            let why = session.stream_trouble(&ended).message;
            say(&format!(
                "fencepost: {why}; the watch goes on by itself when that is over\n"
            ));
        }
        tokio::time::sleep(OPEN_AGAIN_AFTER).await;
        match session.opened(session.client().watch(at.clone())).await {
            Ok(stream) => return Ok(stream),
            Err(status) => ended = status,
        }
    }
    Err(go_on(session, &ended, place, at))
}

/// What to do once a watch has ended.
fn go_on(session: &Session, status: &Status, place: &str, at: &WatchRequest) -> Trouble {
    let mut trouble = session.stream_trouble(status);
    let (revision, timeline) = (at.after_revision, &at.timeline_id);
    let mut again = format!("fencepost watch {place}");
    if revision > 0 {
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
