//! `hold`: what becomes of reservations, told as it comes, until they are lost or it is ended.

use std::time::Duration;

use clap::Args;
use tonic::{Status, Streaming};

use super::exit::Exit;
use super::held::{Held, Said};
use super::output;
use super::output::say;
use super::session::{Output, Session, SessionArgs};
use super::table::Table;
use super::trouble::{Trouble, plain};
use crate::engine::Boottime;
use crate::proto::v1::hold_response::News;
use crate::proto::v1::{HoldRequest, HoldResponse};

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
    /// Tell of each renewal [default: of the first, of one that failed, and of the next that did not; `-o json` tells of each]
    #[arg(short, long, env = "FENCEPOST_VERBOSE")]
    verbose: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl HoldArgs {
    /// Tells what is told, until all is lost.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        Box::pin(output::while_read(self.tell())).await
    }

    async fn tell(self) -> Result<Exit, Trouble> {
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
            let said = held.hear(&news, opened);
            let output = self.session.printing.output;
            // Programs are told all there is.
            if said == Said::Usual && !self.verbose && output == Output::Table {
                continue;
            }
            output::answer(output, "HoldResponse", &news, |table| {
                fill(table, &news, opened);
                if said == Said::First && !self.verbose {
                    table.row(
                        "told next",
                        "what is not as usual; --verbose tells of each renewal",
                    );
                }
            })?;
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
