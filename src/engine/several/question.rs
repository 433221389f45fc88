//! What is asked of several resources at once.

use crate::domain::ids::{Nonce, ReservationId};
use crate::domain::judge::{Answer, Concerted, Several};
use crate::domain::record::LeaseId;
use crate::domain::together::ReserveTogether;
use crate::engine::facade::random_nonce;
use crate::engine::fault::Fault;
use crate::engine::leases::Leases;
use crate::engine::ticket::Patience;

/// What is asked of all of them.
#[derive(Debug)]
pub(super) enum Question {
    /// To be held by one round; the nonce names it if it is granted, on this lease. `None`: none is taken before it is needed.
    Reserve {
        ask: ReserveTogether,
        nonce: Nonce,
        lease: Option<LeaseId>,
        patience: Patience,
    },
    /// That their round ends; the nonce tells this request's success from another's.
    Release {
        reservation: ReservationId,
        nonce: Nonce,
    },
}

impl Question {
    /// Judges it.
    pub(super) fn put_to(&self, several: Several<'_>) -> Concerted {
        match self {
            Self::Reserve {
                ask,
                nonce,
                lease,
                patience,
            } => {
                let several = match patience {
                    Patience::None => several,
                    Patience::Waits(place) => several.placed(*place, true),
                    Patience::Over(place) => several.placed(*place, false),
                };
                several.reserve(ask, *nonce, *lease)
            }
            Self::Release { reservation, nonce } => several.release(reservation, *nonce),
        }
    }

    /// Gives back the lease that was brought along if that is certainly unused.
    pub(super) fn give_back_lease(&self, leases: &Leases, settled: &Result<Answer, Fault>) {
        if let Self::Reserve {
            lease: Some(lease), ..
        } = self
        {
            match settled {
                Ok(Answer::Held(_, held)) if held.lease == *lease => {}
                Err(Fault::UnknownOutcome { .. }) => leases.retire(*lease),
                Ok(_) | Err(_) => leases.put_back(*lease),
            }
        }
    }

    /// It is to be granted, and gets its lease only now.
    pub(super) async fn take_lease(&mut self, leases: &Leases) -> Result<(), Fault> {
        if let Self::Reserve { ask, lease, .. } = self {
            *lease = Some(leases.take(ask.ttl).await?);
        }
        Ok(())
    }

    /// The lease ended before it was used.
    pub(super) async fn replace_lease(&mut self, leases: &Leases) -> Result<(), Fault> {
        if let Self::Reserve { lease, .. } = self
            && let Some(gone) = lease.take()
        {
            leases.retire(gone);
        }
        self.take_lease(leases).await
    }

    /// A grant whose reply was lost may have been, be over, and be forgotten. It must not be granted again under its old name.
    pub(super) fn rename_unless(&mut self, known: impl FnOnce(Nonce) -> bool) {
        if let Self::Reserve { nonce, .. } = self
            && !known(*nonce)
        {
            *nonce = random_nonce();
        }
    }
}
