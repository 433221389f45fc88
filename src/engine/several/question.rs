//! What is asked of several resources at once.

use crate::domain::ids::{Nonce, ReservationId};
use crate::domain::judge::Answer;
use crate::domain::record::LeaseId;
use crate::domain::together::ReserveTogether;
use crate::engine::facade::random_nonce;
use crate::engine::fault::Fault;
use crate::engine::leases::Leases;

/// What is asked of all of them.
#[derive(Debug)]
pub(super) enum Question {
    /// To be held by one round; the nonce names it if it is granted, on this lease.
    Reserve {
        ask: ReserveTogether,
        nonce: Nonce,
        lease: LeaseId,
    },
    /// That their round ends; the nonce tells this request's success from another's.
    Release {
        reservation: ReservationId,
        nonce: Nonce,
    },
}

impl Question {
    /// Gives back the lease that was brought along if that is certainly unused.
    pub(super) fn give_back_lease(&self, leases: &Leases, settled: &Result<Answer, Fault>) {
        if let Self::Reserve { lease, .. } = self {
            match settled {
                Ok(Answer::Held(_, held)) if held.lease == *lease => {}
                Err(Fault::UnknownOutcome { .. }) => leases.retire(*lease),
                Ok(_) | Err(_) => leases.put_back(*lease),
            }
        }
    }

    /// The lease ended before it was used.
    pub(super) async fn replace_lease(&mut self, leases: &Leases) -> Result<(), Fault> {
        if let Self::Reserve { ask, lease, .. } = self {
            leases.retire(*lease);
            *lease = leases.take(ask.ttl).await?;
        }
        Ok(())
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
