//! The end of a stream of holds: its holder left, hung up or stopped, or the sidecar stops.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::table::{Entry, HoldId};
use super::{AtClose, Holds};
use crate::domain::ids::{Nonce, ReservationId};
use crate::domain::judge::Ask;
use crate::domain::request::Left;
use crate::engine::clock::Boottime;
use crate::engine::facade::random_nonce;
use crate::engine::fault::Fault;
use crate::engine::pace::Pace;
use crate::engine::several::release_all;
use crate::engine::ticket::Progress;

/// Releases of one stream under way at once.
const RELEASES_AT_ONCE: usize = 64;
/// When to ask again a sidecar that is going down.
pub(super) const STOPPING_RETRY: Duration = Duration::from_secs(1);

/// Waits for the end of a stream, and does what is to be done then. A stop of the sidecar waits for it.
pub(super) struct Closing {
    pub(super) holds: Holds,
    pub(super) ids: Vec<HoldId>,
    pub(super) at_close: AtClose,
    pub(super) closed: CancellationToken,
    pub(super) _places: OwnedSemaphorePermit,
}

impl Closing {
    pub(super) async fn run(self) {
        let tasks = &self.holds.shared.tasks;
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = tasks.told_to_stop() => {}
        }
        let held: Vec<Entry> = {
            let mut table = self.holds.table();
            let held = self.ids.iter().filter_map(|id| table.remove(*id));
            held.collect()
        };
        match self.at_close {
            AtClose::Keep => {}
            AtClose::Release => {
                let releases = held
                    .into_iter()
                    .map(|entry| release(self.holds.clone(), entry));
                let mut releases = stream::iter(releases).buffer_unordered(RELEASES_AT_ONCE);
                while releases.next().await.is_some() {}
            }
        }
    }
}

/// Releases a reservation; what fails is tried again for as long as it could still last.
async fn release(holds: Holds, entry: Entry) {
    let reservation = &entry.holding.reservation;
    let resource = reservation.resource();
    let ends = Boottime::now().plus(entry.ttl());
    let ends = entry.certain.map_or(ends, |certain| certain.min(ends));
    let mut pace = Pace::new();
    // One name for all tries, so that a lost reply is recognised.
    let nonce = random_nonce();
    loop {
        let Err(fault) = once(&holds, reservation, nonce).await else {
            return;
        };
        if !may_pass(&fault) || ends.left().is_zero() || holds.shared.tasks.ended() {
            warn!(%resource, %fault, "a reservation was not released at the end of its stream; it runs out");
            return;
        }
        pace.wait().await;
    }
}

async fn once(holds: &Holds, reservation: &ReservationId, nonce: Nonce) -> Result<(), Fault> {
    let Holds { shared, lanes, .. } = holds;
    if reservation.is_of_several() {
        // Nobody withdraws it.
        let (sent, gone) = (Progress::default(), CancellationToken::new());
        let released = release_all(shared, lanes, reservation.clone(), nonce, &sent, &gone);
        return Box::pin(released).await.map(drop);
    }
    let release = Ask::Release(reservation.clone(), Left::Unsaid, nonce);
    holds.ask(reservation.resource(), release).await.map(drop)
}

/// Whether asking again can help.
fn may_pass(fault: &Fault) -> bool {
    match fault {
        Fault::Overloaded { .. }
        | Fault::RenewalsLate { .. }
        | Fault::MachineChanged { .. }
        | Fault::StoreUnavailable { .. }
        // A release needs no space.
        | Fault::StoreFull { .. }
        | Fault::Stopping { .. }
        | Fault::DeadlinePassed
        | Fault::UnknownOutcome { .. }
        | Fault::AnswerUnkept { .. } => true,
        Fault::InvalidField { .. }
        | Fault::UnknownKind { .. }
        | Fault::UnknownEvent { .. }
        | Fault::NoSuchMachine { .. }
        | Fault::MachineMismatch { .. }
        | Fault::LimitMet { .. }
        | Fault::NoSuchIncident
        | Fault::StoreDenied { .. }
        | Fault::Halted { .. }
        | Fault::TimelineSuperseded
        | Fault::StartNeedsSpace { .. }
        | Fault::CorruptRecord => false,
    }
}
