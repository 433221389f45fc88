//! Reserve, Renew and Release: the verbs that deal with leases and time.

use super::clock::Boottime;
use super::facade::{Caller, Engine, Reserved, judged, question_failed, random_nonce};
use super::fault::Fault;
use super::leases::KEEPALIVES_MAX;
use super::ticket::{Patience, Progress, UNKNOWN_RETRY};
use crate::domain::decision::{Decision, Grant, Layer, Rule, Verdict};
use crate::domain::ids::ReservationId;
use crate::domain::judge::{Answer, Ask, HeldRound};
use crate::domain::record::LeaseId;
use crate::domain::request::{Left, Reserve, Ride};
use crate::store::StoreError;

impl Engine {
    /// Takes a resource.
    pub async fn reserve(&self, ask: Reserve, caller: Caller) -> Result<Reserved, Fault> {
        self.reserve_once(ask, Patience::None, caller).await
    }

    pub(super) async fn reserve_once(
        &self,
        ask: Reserve,
        patience: Patience,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        self.admit(caller)?;
        let made_ms = ask.intent.as_ref().and_then(|intent| intent.made_ms);
        self.check_time("intent.operation_time", made_ms)?;
        let progress = Progress::default();
        let engine = self.clone();
        let sent = progress.clone();
        let work = async move {
            let resource = ask.resource.clone();
            let lease = engine.shared.leases.brought_along(ask.ttl, patience)?;
            let ask = Ask::Reserve(ask, random_nonce(), lease);
            let asked = engine.ask(&resource, ask, sent.clone(), patience);
            match asked.await? {
                Answer::Held(decision, held) if began_now(&decision) => {
                    // Absent: the lease was given up meanwhile, so nothing is known of its end.
                    let bound = engine.shared.leases.granted(held.nonce, held.lease);
                    Ok(granted(
                        held.id(resource),
                        decision,
                        held,
                        bound.unwrap_or(caller.arrived),
                        caller,
                    ))
                }
                Answer::Held(decision, held) => {
                    engine
                        .prolong(held.id(resource), held.lease, Some(decision), caller, &sent)
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

    /// Claims an operation on a round that the caller has; that is a renewal of the round too.
    pub async fn ride(&self, ask: Ride, caller: Caller) -> Result<Reserved, Fault> {
        self.ride_once(ask, Patience::None, caller).await
    }

    pub(super) async fn ride_once(
        &self,
        ask: Ride,
        patience: Patience,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        self.admit(caller)?;
        self.check_time("intent.operation_time", ask.intent.made_ms)?;
        let progress = Progress::default();
        let engine = self.clone();
        let sent = progress.clone();
        let work = async move {
            let resource = ask.reservation.resource().clone();
            let ask = Ask::Ride(Box::new(ask), random_nonce());
            let asked = engine.ask(&resource, ask, sent.clone(), patience);
            match asked.await? {
                Answer::Held(decision, held) => {
                    let first = Some(decision);
                    engine
                        .prolong(held.id(resource), held.lease, first, caller, &sent)
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

    /// Makes a reservation last again.
    pub async fn renew(
        &self,
        reservation: ReservationId,
        caller: Caller,
    ) -> Result<Reserved, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let engine = self.clone();
        let sent = progress.clone();
        let work = async move {
            let resource = reservation.resource().clone();
            let round = reservation.round();
            // A keepalive proves the lease, not the reservation: the key is looked at before and after it. The sidecar that
            // granted the round and has not seen its end knows the lease without looking.
            if let Some(lease) = engine.shared.leases.held_here(round) {
                return engine
                    .prolong(reservation, lease, None, caller, &sent)
                    .await;
            }
            let ask = Ask::Check(reservation.clone());
            let asked = engine.ask(&resource, ask, sent.clone(), Patience::None);
            match asked.await? {
                Answer::Held(_, held) => {
                    engine
                        .prolong(reservation, held.lease, None, caller, &sent)
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

    /// Ends a reservation, and says what it leaves behind.
    pub async fn release(
        &self,
        reservation: ReservationId,
        left: Left,
        caller: Caller,
    ) -> Result<Decision, Fault> {
        if reservation.is_of_several() {
            // No claim is held under it, so nothing is left behind.
            return self.release_together(reservation, caller).await;
        }
        self.admit(caller)?;
        let progress = Progress::default();
        let engine = self.clone();
        let sent = progress.clone();
        let work = async move {
            let resource = reservation.resource().clone();
            let ask = Ask::Release(reservation, left, random_nonce());
            let asked = engine.ask(&resource, ask, sent, Patience::None);
            asked.await.map(judged)
        };
        self.finish(caller, &progress, work).await
    }

    /// Renews the lease of a round that was seen alive, and looks again whether it still is. `first`: the judgement to give if
    /// it is; absent: that of the second look.
    pub(super) async fn prolong(
        &self,
        reservation: ReservationId,
        lease: LeaseId,
        first: Option<Decision>,
        caller: Caller,
        progress: &Progress,
    ) -> Result<Reserved, Fault> {
        if !progress.send() {
            return Err(Fault::DeadlinePassed);
        }
        let leases = &self.shared.leases;
        for _ in 0..KEEPALIVES_MAX {
            let renewed = leases.renew(lease).await.map_err(|error| match error {
                StoreError::Indeterminate { .. } => unknown(),
                StoreError::NotApplied { .. }
                | StoreError::Full { .. }
                | StoreError::Corrupt { .. } => question_failed(&error),
            })?;
            let second = self
                .ask(
                    reservation.resource(),
                    Ask::Check(reservation.clone()),
                    Progress::default(),
                    Patience::None,
                )
                .await;
            match second.map_err(after_keepalive)? {
                Answer::Held(seen, held) => {
                    let bound = match &renewed {
                        Some(renewed) => leases.confirmed(renewed),
                        // The lease was gone, yet its key was seen after that: etcd is about to end it.
                        None => Some(caller.arrived),
                    };
                    let Some(bound) = bound else { continue };
                    let decision = match first {
                        Some(first) => Decision {
                            now: seen.now,
                            ..first
                        },
                        None => seen,
                    };
                    return Ok(granted(reservation, decision, held, bound, caller));
                }
                other @ (Answer::Judged(_)
                | Answer::Ended(..)
                | Answer::Known(..)
                | Answer::Snapshot(_)
                | Answer::Swept) => {
                    leases.lost(reservation.round());
                    return Ok(Reserved {
                        decision: judged(other),
                        grant: None,
                    });
                }
            }
        }
        Err(unknown())
    }
}

/// Whether the answer's round began with the commit that it belongs to.
pub(super) fn began_now(decision: &Decision) -> bool {
    matches!(decision.rule, Rule::WasFree | Rule::Claimed)
}

/// The lease may have been renewed; the caller counts on nothing, and may ask again.
fn unknown() -> Fault {
    Fault::UnknownOutcome {
        retry_after: UNKNOWN_RETRY,
    }
}

/// Once the keepalive was sent, a question that failed does not mean that nothing was done.
fn after_keepalive(fault: Fault) -> Fault {
    match fault {
        Fault::StoreUnavailable { .. }
        | Fault::StoreFull { .. }
        | Fault::StoreDenied { .. }
        | Fault::Overloaded { .. }
        | Fault::Stopping { .. } => unknown(),
        Fault::InvalidField { .. }
        | Fault::UnknownKind { .. }
        | Fault::UnknownEvent { .. }
        | Fault::NoSuchMachine { .. }
        | Fault::MachineMismatch { .. }
        | Fault::MachineChanged { .. }
        | Fault::LimitMet { .. }
        | Fault::NoSuchIncident
        | Fault::RenewalsLate { .. }
        | Fault::Halted { .. }
        | Fault::TimelineSuperseded
        | Fault::StartNeedsSpace { .. }
        | Fault::DeadlinePassed
        | Fault::UnknownOutcome { .. }
        | Fault::AnswerUnkept { .. }
        | Fault::CorruptRecord => fault,
    }
}

/// The answer to a holder, if what it holds still has time left.
pub(super) fn granted(
    id: ReservationId,
    decision: Decision,
    held: HeldRound,
    bound: Boottime,
    caller: Caller,
) -> Reserved {
    if bound.left().is_zero() {
        // We stalled for longer than the reservation lasts. It may be gone, and nobody may rely on it.
        let decision = Decision {
            verdict: Verdict::Fenced,
            layer: Layer::Fence,
            rule: Rule::Lost,
            explanation: "the reservation's time ran out before the answer could be given"
                .to_owned(),
            ..decision
        };
        return Reserved {
            decision,
            grant: None,
        };
    }
    let safe_for = bound.since(caller.arrived).min(held.ttl.as_duration());
    let grant = Grant {
        id,
        token: held.token,
        ttl: held.ttl,
        safe_for,
        attempt: held.attempt,
    };
    Reserved {
        decision,
        grant: Some(grant),
    }
}
