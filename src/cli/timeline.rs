//! `admin`: the timeline of the store, and the step that follows a restore from a backup.

use clap::{Args, Subcommand};

use super::admin::{AdminArgs, author};
use super::exit::{self, Exit};
use super::output;
use super::session::{PrintingArgs, with_timeout};
use super::table::Table;
use super::trouble::Trouble;
use crate::proto::v1::{
    GetTimelineRequest, GetTimelineResponse, StartTimelineRequest, StartTimelineResponse, Timeline,
};

/// The largest token that there can be.
const TOKEN_MAX: i64 = (1 << 53) - 1;

/// What is done with the store as a whole.
#[derive(Debug, Subcommand)]
pub(super) enum AdminCommand {
    /// Start a new timeline: the step that must follow each restore of etcd from a backup. All reservations end, older tokens
    /// are refused, and what was halted goes on. Safe to repeat
    #[command(after_help = exit::of_a_question(&[]))]
    StartTimeline(StartArgs),
    /// Show which timeline is in force, whether it is halted and why, and which were started
    #[command(after_help = exit::of_a_question(&[10]))]
    Timeline(TimelineArgs),
}

/// Why, and above what.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// Why: which backup was restored, and when; kept for good
    #[arg(long, env = "FENCEPOST_REASON", value_name = "TEXT")]
    reason: String,
    /// A token that is known to have been granted; all new ones will be above it [default: the clock says enough]
    #[arg(long, env = "FENCEPOST_ABOVE", value_name = "TOKEN", value_parser = clap::value_parser!(i64).range(1..=TOKEN_MAX))]
    above: Option<i64>,
    /// Who starts it [default: $USER, else `admin socket`]
    #[arg(long, env = "FENCEPOST_BY", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

/// Where to ask.
#[derive(Debug, Args)]
pub(super) struct TimelineArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl AdminCommand {
    /// Does what was asked.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        match self {
            Self::StartTimeline(args) => args.run().await,
            Self::Timeline(args) => args.run().await,
        }
    }
}

impl StartArgs {
    async fn run(self) -> Result<Exit, Trouble> {
        let request = StartTimelineRequest {
            reason: self.reason,
            above: self.above.unwrap_or_default(),
            started_by: author(self.by),
        };
        let place = self.admin.place();
        let mut client = self.admin.connect().await?;
        let answer = client
            .start_timeline(with_timeout(request, self.printing.timeout))
            .await
            .map_err(|status| Trouble::from_status(&place, &status))?
            .into_inner();
        output::answer(
            self.printing.output,
            "StartTimelineResponse",
            &answer,
            |table| started(table, &answer),
        )?;
        Ok(Exit::Good)
    }
}

impl TimelineArgs {
    async fn run(self) -> Result<Exit, Trouble> {
        let place = self.admin.place();
        let mut client = self.admin.connect().await?;
        let answer = client
            .get_timeline(with_timeout(GetTimelineRequest {}, self.printing.timeout))
            .await
            .map_err(|status| Trouble::from_status(&place, &status))?
            .into_inner();
        output::answer(
            self.printing.output,
            "GetTimelineResponse",
            &answer,
            |table| told(table, &answer),
        )?;
        // A script that waits for the end of a halt must not read the output.
        Ok(if answer.halted.is_empty() {
            Exit::Good
        } else {
            Exit::Retry
        })
    }
}

fn started(table: &mut Table, answer: &StartTimelineResponse) {
    if let Some(timeline) = &answer.timeline {
        of(table, timeline);
    }
    table.row(
        "ended",
        format!("{} reservations", answer.ended_reservations),
    );
}

fn told(table: &mut Table, answer: &GetTimelineResponse) {
    if let Some(timeline) = &answer.timeline {
        of(table, timeline);
    }
    table.row("halted", &answer.halted);
    if let Some(since) = &answer.halt_time {
        table.row("since", since.to_string());
    }
    for start in &answer.starts {
        let time = start
            .start_time
            .map_or_else(String::new, |at| at.to_string());
        let halted = match start.halted.as_str() {
            "" => String::new(),
            why => format!(" (before: {why})"),
        };
        let text = format!(
            "{time} {} by {}: {}{halted}",
            start.timeline_id, start.started_by, start.reason
        );
        table.row("started", text);
    }
}

fn of(table: &mut Table, timeline: &Timeline) {
    table
        .row("timeline", &timeline.timeline_id)
        .row("its tokens", format!("above {}", timeline.base));
}
