//! Holding the reservation on a stream, and what is known of how long it lasts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use super::super::output::say;
use super::super::session::Session;
use super::super::trouble::plain;
use super::limits::Limits;
use super::round::Round;
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

/// What is said while it is not renewed.
#[derive(Debug)]
struct Telling {
    /// The command's name.
    name: String,
    limits: Limits,
    /// Whether it was said, and nothing better since.
    told: bool,
    given_up: GivenUp,
}

/// Whether the command was told to stop, after which nothing is said of renewals. Locked while something is said of them, so that
/// nothing comes after the loss.
#[derive(Clone, Debug, Default)]
struct GivenUp(Arc<Mutex<bool>>);

impl GivenUp {
    fn say(&self, text: &str) {
        let given_up = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !*given_up {
            say(text);
        }
    }

    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Telling {
    /// A stream has ended, or did not open.
    fn broken(&mut self, session: &Session, status: &Status, bound: Boottime) {
        if self.told {
            return;
        }
        self.told = true;
        let what = session.stream_trouble(status).message;
        let left = self.limits.stop_at(bound).left();
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        self.given_up.say(&format!(
            "fencepost: the reservation is not being renewed ({what}); {} runs on meanwhile, and is told to stop in {left} unless \
             it is renewed by then: that is tried all the time\n",
            self.name
        ));
    }

    fn renewed(&mut self) {
        if std::mem::take(&mut self.told) {
            self.given_up
                .say("fencepost: the reservation is renewed again\n");
        }
    }
}

/// A reservation that is held.
#[derive(Debug)]
pub(super) struct Keeping {
    standing: watch::Receiver<Standing>,
    holder: JoinHandle<()>,
    given_up: GivenUp,
}

impl Keeping {
    /// Holds from now on, for a command of this name.
    pub(super) fn start(session: &Session, round: &Round, name: String, limits: Limits) -> Self {
        let (bound, lost) = (round.bound, None);
        let (sender, standing) = watch::channel(Standing { bound, lost });
        let (session, reservation) = (session.clone(), round.id.clone());
        let given_up = GivenUp::default();
        let mut telling = Telling {
            name,
            limits,
            told: false,
            given_up: given_up.clone(),
        };
        let holder = tokio::spawn(async move {
            while sender.borrow().lost.is_none() {
                // What is safe counts from before the stream is opened.
                let opened = Boottime::now();
                let request = HoldRequest {
                    reservation_ids: vec![reservation.clone()],
                    // If we are killed, what the command has left behind may run on for a moment.
                    release_on_close: false,
                };
                let ended = match session.client().hold(request).await {
                    Ok(stream) => follow(stream.into_inner(), opened, &sender, &mut telling).await,
                    Err(status) => Some(status),
                };
                if let Some(status) = ended {
                    telling.broken(&session, &status, sender.borrow().bound);
                }
                tokio::time::sleep(REOPEN_AFTER).await;
            }
        });
        Self {
            standing,
            holder,
            given_up,
        }
    }

    /// The command is told to stop, which nothing makes undone: it is renewed no more, and nothing is said of that.
    pub(super) fn give_up(&self) {
        self.given_up.set();
        self.holder.abort();
    }

    /// How it stands.
    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Waits until it stands otherwise.
    pub(super) async fn changed(&mut self) {
        if self.standing.changed().await.is_err() {
            // Lost, or given up; nothing more will come.
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
    telling: &mut Telling,
) -> Option<Status> {
    loop {
        let news = match stream.message().await {
            Ok(Some(response)) => response.news,
            Ok(None) => return None,
            Err(status) => return Some(status),
        };
        match news {
            Some(News::Renewed(reservation)) => {
                telling.renewed();
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
