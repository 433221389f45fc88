//! One call that waits: it asks, waits for what stands in its way, and asks again.

use std::sync::Arc;
use std::time::Duration;

use super::{ANSWER_MARGIN, LAST_QUESTION_PART, Subject, Waiter};
use crate::domain::decision::{Decision, Rule, Verdict};
use crate::domain::ids::ResourceId;
use crate::domain::request::Intent;
use crate::domain::waiter;
use crate::engine::clock::Boottime;
use crate::engine::facade::{Caller, Engine};
use crate::engine::fault::Fault;
use crate::engine::pace::Pace;
use crate::engine::queue::Queued;
use crate::engine::ticket::Patience;

/// What a call may wait for.
pub(super) struct WaitsFor {
    /// The end of what is in progress of this operation.
    pub(super) operation: Option<Subject>,
    /// Its turn at all of these resources, if one is busy.
    pub(super) resources: Option<(Arc<[ResourceId]>, waiter::Waiter)>,
}

/// What an answer means to one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The operation is in progress.
    InProgress,
    /// The resource is busy.
    Busy,
    /// It has the resource, or has made its move: its entry in the queue went with the commit.
    Taken,
    /// Something that no waiting changes.
    Settled,
}

/// What a decision means.
pub(super) fn heard(decision: &Decision) -> Heard {
    match (decision.verdict, decision.rule) {
        (Verdict::InProgress, _) => Heard::InProgress,
        (Verdict::Busy, _) => Heard::Busy,
        (Verdict::Granted, Rule::WasFree | Rule::Claimed) | (Verdict::Applied, _) => Heard::Taken,
        (
            Verdict::Granted
            | Verdict::Replayed
            | Verdict::Interrupted
            | Verdict::Conflict
            | Verdict::Superseded
            | Verdict::OtherRound
            | Verdict::TooEarly
            | Verdict::Rejected
            | Verdict::Expired
            | Verdict::Fenced,
            _,
        ) => Heard::Settled,
    }
}

impl Engine {
    /// Asks until the answer is one that waiting does not change, or the wait is over. Answers also how long after the caller's
    /// arrival the question began that has this answer. `count`: what was told on the way is the answer.
    pub(super) async fn until_settled<T, F>(
        &self,
        waits_for: WaitsFor,
        wait: Duration,
        caller: Caller,
        once: impl Fn(Caller, Patience) -> F,
        heard: impl Fn(&T) -> Heard,
        count: impl Fn(&Self, &T),
    ) -> Result<(T, Duration), Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let longest = caller.deadline.since(caller.arrived);
        let wait = wait.min(longest.saturating_sub(ANSWER_MARGIN));
        let over = caller.arrived.plus(wait);
        let at_once = || async { Ok((once(caller, Patience::None).await?, Duration::ZERO)) };
        if over.left().is_zero() {
            return at_once().await;
        }
        let WaitsFor {
            operation,
            resources,
        } = waits_for;
        let many = resources.as_ref().map_or(1, |(all, _)| all.len());
        let Some(seat) = self.waiting.places(many).map(Arc::new) else {
            return at_once().await;
        };
        let waiting = &self.waiting;
        let mut bell = operation.as_ref().and_then(|of| waiting.listen(of));
        let mut asked = caller;
        let mut answer = once(asked, Patience::Waits(None)).await?;
        // Whether the lane took it for an answer on the way, which is not counted.
        let mut on_the_way = true;
        let mut follows: Option<Waiter> = None;
        let mut queued: Option<Queued> = None;
        let mut trouble: Option<Pace> = None;
        // For how long it does not queue, so that others come before it.
        let mut stands_back: Option<Duration> = None;
        loop {
            let patience = match (heard(&answer), &operation, &resources) {
                (Heard::InProgress, Some(operation), _) => {
                    queued = None;
                    let follows =
                        follows.get_or_insert_with(|| waiting.enter(operation, bell.take()));
                    tokio::select! {
                        biased;
                        // What is known so far is still an answer; nobody is asked any more.
                        () = self.shared.tasks.told_to_stop() => break,
                        halt = self.shared.store.halted() => return Err(Fault::Halted { halt }),
                        _ = follows.bell.changed() => Patience::Waits(None),
                        () = once_more(trouble.as_mut()) => Patience::Waits(None),
                        () = over.passed() => Patience::Over(None),
                    }
                }
                (Heard::Busy, _, Some(_)) if let Some(pause) = stands_back.take() => {
                    tokio::select! {
                        biased;
                        () = self.shared.tasks.told_to_stop() => break,
                        () = tokio::time::sleep(over.left().min(pause)) => {}
                    }
                    if over.left().is_zero() {
                        Patience::Over(None)
                    } else {
                        Patience::Waits(None)
                    }
                }
                (Heard::Busy, _, Some((resources, who))) => {
                    follows = None;
                    let queued = queued.get_or_insert_with(|| {
                        waiting
                            .queues
                            .enter(resources, who.clone(), Arc::clone(&seat))
                    });
                    tokio::select! {
                        biased;
                        () = self.shared.tasks.told_to_stop() => break,
                        halt = self.shared.store.halted() => return Err(Fault::Halted { halt }),
                        place = queued.turn() => Patience::Waits(Some(place)),
                        // It is still its turn, unless its place was lost, and then it is woken again.
                        () = once_more(trouble.as_mut()) => match queued.still_its_turn() {
                            Some(place) => Patience::Waits(Some(place)),
                            None => {
                                trouble = None;
                                continue;
                            }
                        },
                        () = over.passed() => Patience::Over(queued.place()),
                    }
                }
                (Heard::InProgress | Heard::Busy | Heard::Taken | Heard::Settled, _, _) => break,
            };
            asked.arrived = Boottime::now();
            let (place, is_last) = match patience {
                Patience::None => (None, false),
                Patience::Waits(place) => (place, false),
                Patience::Over(place) => (place, true),
            };
            // A question leaves time for what is known already, should etcd be slow.
            let limit = over.max(asked.arrived);
            let limit = limit.plus(ANSWER_MARGIN / LAST_QUESTION_PART);
            asked.deadline = limit.min(caller.deadline);
            if let Some(queued) = &mut queued {
                queued.asks();
            }
            match once(asked, patience).await {
                Ok(told) => (answer, on_the_way, trouble) = (told, !is_last, None),
                // It is the first and cannot be granted anything here, while others may be elsewhere: they come before it.
                Err(Fault::RenewalsLate { retry_after }) if heard(&answer) == Heard::Busy => {
                    (queued, trouble) = (None, None);
                    stands_back = Some(retry_after);
                }
                // Nothing was done. What is known still holds, and one in the queue keeps its place, and its turn.
                Err(fault) if fault.passes() || (!is_last && fault.ends_with_a_start()) => {
                    trouble.get_or_insert_with(Pace::new);
                    if !is_last {
                        continue;
                    }
                }
                Err(Fault::DeadlinePassed | Fault::Stopping { .. }) => break,
                Err(fault) => return Err(fault),
            }
            if let Some(queued) = &mut queued {
                match heard(&answer) {
                    Heard::Taken => queued.taken(place),
                    Heard::InProgress | Heard::Busy | Heard::Settled => queued.back(place),
                }
            }
            if is_last {
                break;
            }
        }
        let waited_on = match heard(&answer) {
            Heard::InProgress => true,
            Heard::Busy => resources.is_some(),
            Heard::Taken | Heard::Settled => false,
        };
        if on_the_way && waited_on {
            // It is the last after all.
            count(self, &answer);
        }
        Ok((answer, asked.arrived.since(caller.arrived)))
    }

    /// Counts what became of a delivery, if that was one.
    pub(super) fn delivered(
        &self,
        resource: &ResourceId,
        intent: Option<&Intent>,
        decision: &Decision,
    ) {
        if let Some(intent) = intent {
            let event = intent.event.as_ref().or(decision.event.as_ref());
            let counts = &self.shared.counts;
            counts.judged(resource.kind(), event, decision.verdict);
        }
    }
}

/// After a question that etcd did not answer, the moment to ask again; without one there is none.
async fn once_more(trouble: Option<&mut Pace>) {
    match trouble {
        Some(pace) => pace.wait().await,
        None => std::future::pending().await,
    }
}
