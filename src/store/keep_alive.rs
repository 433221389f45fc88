//! Keepalives, over one long-lived stream.
//!
//! etcd answers a stream in order, and with the lease's id; so each keepalive is matched with its own answer, also if two
//! callers keep the same lease alive. A caller never gets the answer to a keepalive that was sent before it asked: it
//! counts the TTL from the moment of its call.
//!
//! The stream is opened by the first keepalive and closed by nobody. When it breaks, or is silent while answers are due,
//! it is opened anew on another endpoint, and what was not answered is sent once more: a keepalive may arrive twice. How much
//! silence is borne: half of what a call may take, so that a second stream can still answer in time; less where somebody waits
//! less, who will then ask again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::proto::PbLeaseKeepAliveRequest;
use etcd_client::{Error, LeaseKeepAliveStream, LeaseKeeper};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::{NotApplied, StoreError};
use super::failure::{Meaning, detail_of, indeterminate, meaning_of, not_applied};
use super::session::{Member, Session};
use crate::domain::record::LeaseId;

/// Most keepalives under way.
const KEEP_ALIVES_MAX: usize = 1024;
/// How often a keepalive is sent, on one stream after another, before its outcome counts as unknown.
const SENDS_MAX: u8 = 2;

type Answer = Result<Option<u32>, StoreError>;

/// The stream, from outside.
#[derive(Debug)]
pub(super) struct KeepAlive {
    asked: mpsc::Sender<Waiter>,
    permits: Arc<Semaphore>,
    limit: Duration,
}

/// A keepalive whose answer is waited for.
#[derive(Debug)]
struct Waiter {
    lease: LeaseId,
    answer: oneshot::Sender<Answer>,
    sends_left: u8,
    /// How long its caller waits.
    patience: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Waiter {
    fn answer(self, answer: Answer) {
        // The caller may have gone.
        let _ = self.answer.send(answer);
    }
}

impl KeepAlive {
    /// Starts the task, which ends when this handle is dropped.
    pub(super) fn start(session: Arc<Session>) -> Self {
        let (asked, queue) = mpsc::channel(KEEP_ALIVES_MAX);
        let limit = session.call_limit();
        tokio::spawn(run(session, queue));
        Self {
            asked,
            permits: Arc::new(Semaphore::new(KEEP_ALIVES_MAX)),
            limit,
        }
    }

    /// Sends a keepalive; its caller waits so long for the answer, and never longer than for any call.
    pub(super) async fn keep_alive(&self, lease: LeaseId, patience: Duration) -> Answer {
        let patience = patience.min(self.limit);
        let deadline = Instant::now() + patience;
        let permit = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout_at(deadline, permit).await else {
            return Err(not_applied(
                NotApplied::Overloaded,
                format!("{KEEP_ALIVES_MAX} keepalives are under way"),
            ));
        };
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter {
            lease,
            answer,
            sends_left: SENDS_MAX,
            patience,
            _permit: permit,
        };
        // As many permits as places: there is one free.
        if self.asked.try_send(waiter).is_err() {
            return Err(not_applied(
                NotApplied::Unreachable,
                "the keepalive task has ended",
            ));
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(indeterminate(format!(
                "no answer to a keepalive within {patience:?}"
            ))),
        }
    }
}

/// An open stream.
struct Stream<'s> {
    member: &'s Member,
    requests: mpsc::Sender<PbLeaseKeepAliveRequest>,
    replies: LeaseKeepAliveStream,
}

async fn run(session: Arc<Session>, mut queue: mpsc::Receiver<Waiter>) {
    let mut unsent = VecDeque::new();
    loop {
        if unsent.is_empty() {
            match queue.recv().await {
                Some(waiter) => unsent.push_back(waiter),
                None => return,
            }
        }
        if let Some(stream) = open(&session, &mut unsent).await
            && serve(&session, stream, &mut queue, &mut unsent).await == End::NoCallers
        {
            return;
        }
    }
}

/// Opens a stream by the first lease that waits. The answer to the opening is not passed on; the lease is sent again.
async fn open<'s>(session: &'s Session, unsent: &mut VecDeque<Waiter>) -> Option<Stream<'s>> {
    unsent.retain(|waiter| !waiter.answer.is_closed());
    let lease = unsent.front()?.lease;
    let patience = unsent.iter().map(|waiter| waiter.patience).min();
    let silence = borne(session, patience);
    let mut failures = Vec::new();
    let mut may_have_been_sent = false;
    for (_, member) in session.order() {
        let token = session.token();
        let mut client = member.lease.clone();
        let mut opened = timeout(silence, client.keep_alive(lease.0)).await;
        if let Ok(Err(error)) = &opened
            && let meaning = meaning_of(error)
            && meaning.is_about_who_asks()
            && session.be_known(member, token, meaning).await.is_ok()
        {
            opened = timeout(silence, client.keep_alive(lease.0)).await;
        }
        match opened {
            Ok(Ok((LeaseKeeper { sender, .. }, replies))) => {
                member.answered();
                return Some(Stream {
                    member,
                    requests: sender,
                    replies,
                });
            }
            // The client's word for a TTL of 0.
            Ok(Err(Error::LeaseKeepAliveError(reason))) if reason == "lease not found" => {
                member.answered();
                unsent.pop_front()?.answer(Ok(None));
                return None;
            }
            Ok(Err(error)) => {
                let meaning = meaning_of(&error);
                let not_done = meaning == Meaning::TryAnother || meaning.is_about_who_asks();
                may_have_been_sent |= !not_done;
                failures.push(detail_of(&member.name, &error));
            }
            Err(_) => {
                may_have_been_sent = true;
                failures.push(session.silent(member, silence));
                if !is_found_out(session, silence) {
                    continue;
                }
            }
        }
        session.eject(member);
    }
    let detail = failures.join("; ");
    for waiter in unsent.drain(..) {
        waiter.answer(Err(if may_have_been_sent {
            indeterminate(detail.clone())
        } else {
            not_applied(NotApplied::Unreachable, detail.clone())
        }));
    }
    None
}

/// Why a stream is used no longer.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Broken,
    NoCallers,
}

/// Whether so much silence tells that an endpoint does not answer. A short one is reason enough to try another endpoint, where
/// there is one, and no reason for all other calls to distrust the only one.
fn is_found_out(session: &Session, silence: Duration) -> bool {
    silence >= borne(session, None) || session.member(1).is_some()
}

/// How much silence is borne where somebody waits no longer than this.
fn borne(session: &Session, patience: Option<Duration>) -> Duration {
    let half = session.call_limit() / 2;
    patience.map_or(half, |patience| patience.min(half))
}

async fn serve(
    session: &Session,
    mut stream: Stream<'_>,
    queue: &mut mpsc::Receiver<Waiter>,
    unsent: &mut VecDeque<Waiter>,
) -> End {
    let mut sent = Sent::default();
    // When the answer that is due now began to be waited for.
    let mut waiting_since = Instant::now();
    let mut found_out = true;
    let reason = loop {
        let silence = borne(session, sent.patience);
        tokio::select! {
            place = stream.requests.reserve(), if !unsent.is_empty() => {
                let Ok(place) = place else { break "it was closed".to_owned() };
                let Some(waiter) = unsent.pop_front() else { continue };
                if waiter.answer.is_closed() {
                    // Its caller waits no longer.
                    continue;
                }
                place.send(PbLeaseKeepAliveRequest { id: waiter.lease.0 });
                if sent.count == 0 {
                    waiting_since = Instant::now();
                }
                sent.push(waiter);
            }
            waiter = queue.recv(), if unsent.len() < KEEP_ALIVES_MAX => match waiter {
                Some(waiter) => unsent.push_back(waiter),
                None => return End::NoCallers,
            },
            reply = stream.replies.message() => match reply {
                Ok(Some(reply)) => {
                    waiting_since = Instant::now();
                    sent.answer(LeaseId(reply.id()), reply.ttl());
                }
                Ok(None) => break "etcd closed it".to_owned(),
                Err(error) => {
                    // A token that has run out says nothing of the member.
                    found_out = !meaning_of(&error).is_about_who_asks();
                    break detail_of(&stream.member.name, &error);
                }
            },
            () = sleep_until(waiting_since + silence), if sent.count > 0 => {
                found_out = is_found_out(session, silence);
                break session.silent(stream.member, silence);
            }
        }
    };
    if sent.count > 0 && found_out {
        // While nothing is due, a server that stops or restarts closes the stream rightly.
        session.eject(stream.member);
    }
    tracing::debug!(endpoint = %stream.member.name, %reason, "the keepalive stream broke");
    sent.give_back(&reason, unsent);
    End::Broken
}

/// What was sent on a stream and not answered.
#[derive(Default)]
struct Sent {
    by_lease: HashMap<LeaseId, VecDeque<Waiter>>,
    count: usize,
    /// The least that any of them waits; of those that were answered since the last time that none was due, too.
    patience: Option<Duration>,
}

impl Sent {
    fn push(&mut self, mut waiter: Waiter) {
        waiter.sends_left = waiter.sends_left.saturating_sub(1);
        self.count += 1;
        let least = self
            .patience
            .map_or(waiter.patience, |least| least.min(waiter.patience));
        self.patience = Some(least);
        self.by_lease
            .entry(waiter.lease)
            .or_default()
            .push_back(waiter);
    }

    fn answer(&mut self, lease: LeaseId, ttl: i64) {
        let Some(waiters) = self.by_lease.get_mut(&lease) else {
            return;
        };
        if let Some(waiter) = waiters.pop_front() {
            self.count -= 1;
            // 0: etcd does not know the lease.
            let ttl = u32::try_from(ttl).ok().filter(|seconds| *seconds > 0);
            waiter.answer(Ok(ttl));
        }
        if waiters.is_empty() {
            self.by_lease.remove(&lease);
        }
        if self.count == 0 {
            self.patience = None;
        }
    }

    fn give_back(self, reason: &str, unsent: &mut VecDeque<Waiter>) {
        for waiter in self.by_lease.into_values().flatten() {
            if waiter.sends_left > 0 {
                unsent.push_back(waiter);
            } else {
                waiter.answer(Err(indeterminate(format!(
                    "the keepalive stream broke: {reason}"
                ))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waiter(lease: i64) -> (Waiter, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let permits = Arc::new(Semaphore::new(1));
        let waiter = Waiter {
            lease: LeaseId(lease),
            answer,
            sends_left: SENDS_MAX,
            patience: Duration::from_secs(1),
            _permit: permits.acquire_owned().await.unwrap(),
        };
        (waiter, answered)
    }

    #[tokio::test]
    async fn an_answer_goes_to_the_keepalive_that_was_sent_first() {
        let mut sent = Sent::default();
        let (first, mut first_answer) = waiter(7).await;
        let (second, mut second_answer) = waiter(7).await;
        let (other, mut other_answer) = waiter(8).await;
        for waiter in [first, second, other] {
            sent.push(waiter);
        }
        // The second asked later: an answer to the first would promise it too much.
        sent.answer(LeaseId(7), 60);
        assert!(matches!(first_answer.try_recv(), Ok(Ok(Some(60)))));
        assert!(second_answer.try_recv().is_err());
        sent.answer(LeaseId(8), 0);
        assert!(matches!(other_answer.try_recv(), Ok(Ok(None))));
        sent.answer(LeaseId(9), 60);
        sent.answer(LeaseId(7), 59);
        assert!(matches!(second_answer.try_recv(), Ok(Ok(Some(59)))));
        assert_eq!((sent.count, sent.by_lease.len()), (0, 0));
    }

    #[tokio::test]
    async fn what_was_sent_often_enough_is_not_sent_again() {
        let mut unsent = VecDeque::new();
        let (lost, mut answer) = waiter(7).await;
        unsent.push_back(lost);
        for left in (0..SENDS_MAX).rev() {
            let mut sent = Sent::default();
            sent.push(unsent.pop_front().unwrap());
            sent.give_back("cut", &mut unsent);
            assert_eq!(unsent.len(), usize::from(left > 0));
        }
        let Ok(Err(StoreError::Indeterminate { detail })) = answer.try_recv() else {
            panic!("no answer");
        };
        assert!(detail.contains("cut"), "{detail}");
    }
}
