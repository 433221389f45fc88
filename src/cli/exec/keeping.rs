//! Holding the reservation on a stream, and what is known of how long it lasts.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use super::super::output::say;
use super::super::session::Session;
use super::super::trouble::plain;
use crate::engine::Boottime;
use crate::proto::v1::hold_response::News;
use crate::proto::v1::{HoldRequest, HoldResponse, Reservation};

/// How long after a stream has ended the next one is opened.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// How the reservation stands.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// Until when it is certainly held.
    pub(super) bound: Boottime,
    /// Why it is lost, if the sidecar says so.
    pub(super) lost: Option<String>,
}

/// A reservation that is held.
#[derive(Debug)]
pub(super) struct Keeping {
    standing: watch::Receiver<Standing>,
    holder: JoinHandle<()>,
}

impl Keeping {
    /// Holds from now on.
    pub(super) fn start(session: &Session, reservation: String, bound: Boottime) -> Self {
        let (sender, standing) = watch::channel(Standing { bound, lost: None });
        let client = session.client();
        let holder = tokio::spawn(async move {
            let mut told = false;
            while sender.borrow().lost.is_none() {
                // What is safe counts from before the stream is opened.
                let opened = Boottime::now();
                let request = HoldRequest {
                    reservation_ids: vec![reservation.clone()],
                    // If we are killed, what the command has left behind may run on for a moment.
                    release_on_close: false,
                };
                let ended = match client.clone().hold(request).await {
                    Ok(stream) => follow(stream.into_inner(), opened, &sender, &mut told).await,
                    Err(status) => Some(status),
                };
                if let Some(status) = ended.filter(|_| !told) {
                    told = true;
                    say(&format!(
                        "fencepost: the reservation is not being renewed ({}); it is tried again, and the command is stopped in \
                         time if that fails\n",
                        plain(status.message())
                    ));
                }
                tokio::time::sleep(REOPEN_AFTER).await;
            }
        });
        Self { standing, holder }
    }

    /// How it stands.
    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Waits until it stands otherwise.
    pub(super) async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            // Lost, which was told; nothing more will come.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.holder.abort();
    }
}

/// Until the stream ends; answers why, if that is an error.
async fn follow(
    mut stream: Streaming<HoldResponse>,
    opened: Boottime,
    standing: &watch::Sender<Standing>,
    told: &mut bool,
) -> Option<Status> {
    loop {
        let news = match stream.message().await {
            Ok(Some(response)) => response.news,
            Ok(None) => return None,
            Err(status) => return Some(status),
        };
        match news {
            Some(News::Renewed(reservation)) => {
                *told = false;
                let bound = opened.plus(safe_for(&reservation));
                standing.send_modify(|standing| standing.bound = standing.bound.max(bound));
            }
            Some(News::Lost(decision)) => {
                let why = plain(&decision.explanation);
                standing.send_modify(|standing| standing.lost = Some(why));
                return None;
            }
            // What was known before counts.
            Some(News::Expiring(_)) | None => {}
        }
    }
}

/// How long a reservation is certainly held; one that does not say so is not.
pub(super) fn safe_for(reservation: &Reservation) -> Duration {
    let told = reservation.safe_for.map(Duration::try_from);
    told.and_then(Result::ok).unwrap_or_default()
}
