//! Reserve and Release of several resources: all or nothing, in one commit.
//!
//! Renew needs nothing of its own: all reservation keys of a round hang on one lease, and are there or not together, so it looks
//! at that of the lead.

mod joint;
mod question;

use tokio_util::sync::CancellationToken;

use self::joint::Joint;
use self::question::Question;
use super::facade::{Caller, Engine, Reserved, judged, random_nonce};
use super::fault::Fault;
use super::holding::{began_now, granted};
use super::lane::Shared;
use super::lanes::Lanes;
use super::ticket::{Patience, Progress};
use crate::domain::decision::Decision;
use crate::domain::ids::{Nonce, ReservationId};
use crate::domain::judge::Answer;
use crate::domain::together::ReserveTogether;

impl Engine {
    /// Takes several resources, or none of them.
    pub async fn reserve_together(
        &self,
        ask: ReserveTogether,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        self.reserve_together_once(ask, Patience::None, caller)
            .await
    }

    pub(super) async fn reserve_together_once(
        &self,
        ask: ReserveTogether,
        patience: Patience,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        // Whoever leaves before anything was sent must not keep lanes from others.
        let gone = CancellationToken::new();
        let _gone_when_dropped = gone.clone().drop_guard();
        let (engine, sent) = (self.clone(), progress.clone());
        let work = async move {
            let together = ask.together.clone();
            let mut question = Question::Reserve {
                lease: engine.shared.leases.brought_along(ask.ttl, patience)?,
                ask,
                nonce: random_nonce(),
                patience,
            };
            let settled = {
                let mut joint = Joint::new(&engine.shared, &sent);
                match joint.borrow(&engine.lanes, together.all(), &gone).await {
                    Ok(()) => joint.settle(&mut question).await,
                    Err(fault) => Err(fault),
                }
            };
            question.give_back_lease(&engine.shared.leases, &settled);
            let lead = together.lead().clone();
            match settled? {
                Answer::Held(decision, held) if began_now(&decision) => {
                    // Absent: the lease was given up meanwhile, so nothing is known of its end.
                    let bound = engine.shared.leases.granted(held.nonce, held.lease);
                    let bound = bound.unwrap_or(caller.arrived);
                    Ok(granted(held.id(lead), decision, held, bound, caller))
                }
                Answer::Held(decision, held) => {
                    let first = Some(decision);
                    engine
                        .prolong(held.id(lead), held.lease, first, caller, &sent)
                        .await
                }
                other @ (Answer::Judged(_)
                | Answer::Ended(..)
                | Answer::Known(..)
                | Answer::Snapshot(_)
                | Answer::Swept) => Ok(Reserved {
                    decision: judged(other),
                    grant: None,
                }),
            }
        };
        self.finish(caller, &progress, work).await
    }

    /// Ends a reservation of several resources for all of them.
    pub(super) async fn release_together(
        &self,
        reservation: ReservationId,
        caller: Caller,
    ) -> Result<Decision, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let gone = CancellationToken::new();
        let _gone_when_dropped = gone.clone().drop_guard();
        let (engine, sent) = (self.clone(), progress.clone());
        let work = async move {
            let (shared, lanes) = (&engine.shared, &engine.lanes);
            release_all(shared, lanes, reservation, random_nonce(), &sent, &gone).await
        };
        self.finish(caller, &progress, work).await
    }
}

/// Ends a reservation of several resources for all of them. `nonce` names the request, and is the same for each try of it.
pub(super) async fn release_all(
    shared: &Shared,
    lanes: &Lanes,
    reservation: ReservationId,
    nonce: Nonce,
    sent: &Progress,
    gone: &CancellationToken,
) -> Result<Decision, Fault> {
    let mut joint = Joint::new(shared, sent);
    // The lead comes before the others in order, and knows them.
    let lead = std::slice::from_ref(reservation.resource());
    joint.borrow(lanes, lead, gone).await?;
    if let Some(others) = joint.others_of(&reservation).await? {
        joint.borrow(lanes, &others, gone).await?;
    }
    let mut question = Question::Release { reservation, nonce };
    let answer = joint.settle(&mut question).await?;
    if let Answer::Ended(_, round, lease) = &answer {
        shared.leases.released(*round, *lease);
    }
    Ok(judged(answer))
}
