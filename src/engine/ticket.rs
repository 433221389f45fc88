//! One waiting request: who may still withdraw it, and who answers it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::facade::random_nonce;
use super::{Boottime, Fault};
use crate::domain::decision::Decision;
use crate::domain::ids::Nonce;
use crate::domain::judge::{Answer, Ask};
use crate::domain::request::Purpose;
use crate::domain::waiter::Place;

/// When to ask again after an outcome is unknown: the sidecar is settling it meanwhile.
pub(super) const UNKNOWN_RETRY: Duration = Duration::from_millis(500);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// How far a request has come. It can be withdrawn until a commit that may carry it out is on its way to etcd.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Stage>);

#[derive(Debug, Default)]
struct Stage {
    now: AtomicU8,
    withdrawn: Notify,
}

impl Progress {
    /// Takes the request back. False: too late, its commit is on its way.
    pub(super) fn withdraw(&self) -> bool {
        let swap = self.swap(WAITING, WITHDRAWN);
        if swap.is_ok() {
            self.0.withdrawn.notify_waiters();
        }
        swap.is_ok() || swap == Err(WITHDRAWN)
    }

    /// Notes that a commit is about to be sent. False: the request was withdrawn, and must not be part of it.
    pub(super) fn send(&self) -> bool {
        let swap = self.swap(WAITING, SENT);
        swap.is_ok() || swap == Err(SENT)
    }

    /// Notes that the commit that was sent was certainly not applied.
    pub(super) fn was_not_sent(&self) {
        // One that was withdrawn stays so.
        let _ = self.swap(SENT, WAITING);
    }

    fn swap(&self, from: u8, to: u8) -> Result<u8, u8> {
        let now = &self.0.now;
        now.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Whether the request was withdrawn.
    pub(super) fn withdrawn(&self) -> bool {
        self.0.now.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Waits for this, unless the request is withdrawn before it is done.
    pub(super) async fn unless_withdrawn<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let withdrawn = async {
            // It hears of what comes after this, polled or not.
            let withdrawn = self.0.withdrawn.notified();
            if !self.withdrawn() {
                withdrawn.await;
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = withdrawn => None,
        }
    }
}

/// What becomes of a caller whose operation is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is told so.
    None,
    /// It waits, and asks again; with its place in the queue, if it has one.
    Waits(Option<Place>),
    /// It has waited, and is told so now.
    Over(Option<Place>),
}

/// A request in a lane.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) ask: Ask,
    progress: Progress,
    patience: Patience,
    reply: oneshot::Sender<Result<Answer, Fault>>,
}

impl Ticket {
    /// A request and the place where its answer will be.
    pub(super) fn new(
        ask: Ask,
        progress: Progress,
        patience: Patience,
    ) -> (Self, oneshot::Receiver<Result<Answer, Fault>>) {
        let (reply, answer) = oneshot::channel();
        (
            Self {
                ask,
                progress,
                patience,
                reply,
            },
            answer,
        )
    }

    /// Whether its caller waits while its operation is in progress.
    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// Whether its caller is not told this now, but goes on waiting.
    pub(super) fn goes_on(&self, decision: &Decision) -> bool {
        matches!(self.patience, Patience::Waits(_)) && self.ask.waits_at(decision.verdict)
    }

    /// Whether nobody wants it any more and nothing of it was sent.
    pub(super) fn withdrawn(&self) -> bool {
        self.progress.withdrawn()
    }

    /// Notes that a commit that rests on this request is about to be sent. A request that only looks can be withdrawn to the
    /// end. False: it was withdrawn.
    pub(super) fn send(&self) -> bool {
        match self.ask {
            Ask::Transition(ref ask, _) if ask.purpose == Purpose::Validate => !self.withdrawn(),
            Ask::Complete(ref ask, _) if ask.purpose == Purpose::Validate => !self.withdrawn(),
            Ask::Reserve(..)
            | Ask::Ride(..)
            | Ask::Release(..)
            | Ask::Transition(..)
            | Ask::Complete(..)
            | Ask::Resolve(..)
            | Ask::Sweep(_) => self.progress.send(),
            Ask::Fence(_) | Ask::Check(_) | Ask::Lookup(_) | Ask::Inspect => !self.withdrawn(),
        }
    }

    /// Notes that the commit that rested on it was refused, and none is on its way: it can be withdrawn again.
    pub(super) fn refused(&self) {
        self.progress.was_not_sent();
    }

    /// Gives what it asks to hold another name, unless that one is known.
    pub(super) fn rename_unless(&mut self, known: impl FnOnce(Nonce) -> bool) {
        if let Ask::Reserve(_, nonce, _) | Ask::Ride(_, nonce) = &mut self.ask
            && !known(*nonce)
        {
            *nonce = random_nonce();
        }
    }

    /// Answers it. A caller that has gone away does not mind.
    pub(super) fn answer(self, answer: Result<Answer, Fault>) {
        drop(self.reply.send(answer));
    }
}

/// Waits for an answer until the caller's deadline, and says truly what is known when that comes first.
pub(super) async fn within<T>(
    deadline: Boottime,
    progress: &Progress,
    answer: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    // A caller that hangs up drops this future: what was not sent by then is withdrawn.
    let _withdraw_on_drop = WithdrawOnDrop(progress);
    match tokio::time::timeout(deadline.left(), answer).await {
        Ok(answer) => answer,
        Err(_) if progress.withdraw() => Err(Fault::DeadlinePassed),
        Err(_) => Err(Fault::UnknownOutcome {
            retry_after: UNKNOWN_RETRY,
        }),
    }
}

struct WithdrawOnDrop<'a>(&'a Progress);

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_either_withdrawn_or_sent_never_both() {
        let sent = Progress::default();
        assert!(sent.send());
        assert!(!sent.withdraw());
        let withdrawn = Progress::default();
        assert!(withdrawn.withdraw());
        assert!(!withdrawn.send());
        assert!(withdrawn.withdrawn() && !sent.withdrawn());
    }

    #[tokio::test]
    async fn a_deadline_is_told_apart_from_an_unknown_outcome() {
        let over = Boottime::now();
        let never = std::future::pending::<Result<(), Fault>>;
        let waiting = Progress::default();
        assert_eq!(
            within(over, &waiting, never()).await,
            Err(Fault::DeadlinePassed)
        );
        let sent = Progress::default();
        assert!(sent.send());
        let unknown = Fault::UnknownOutcome {
            retry_after: UNKNOWN_RETRY,
        };
        assert_eq!(within(over, &sent, never()).await, Err(unknown));
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_withdraws_what_was_not_sent() {
        let progress = Progress::default();
        let later = Boottime::now().plus(Duration::from_secs(60));
        let never = std::future::pending::<Result<(), Fault>>();
        let call = within(later, &progress, never);
        drop(call);
        assert!(
            !progress.withdrawn(),
            "a call that was never polled has not begun"
        );
        let mut call = Box::pin(within(
            later,
            &progress,
            std::future::pending::<Result<(), Fault>>(),
        ));
        assert!(
            futures_util::future::poll_immediate(&mut call)
                .await
                .is_none()
        );
        drop(call);
        assert!(progress.withdrawn());
    }
}
