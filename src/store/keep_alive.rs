//! Keepalives, over one long-lived stream.
//!
//! etcd answers a stream in order, and with the lease's id; so each keepalive is matched with its own answer, also if two
//! callers keep the same lease alive. A caller never gets the answer to a keepalive that was sent before it asked: it
//! counts the TTL from the moment of its call.
//!
//! The stream is opened by the first keepalive, and closed when it was not used for a while. When it breaks, or is silent while
//! answers are due, it is opened anew on another endpoint, and what was not answered is sent once more: a keepalive may arrive
//! twice. How much silence is borne: half of what a call may take, so that a second stream can still answer in time; less where
//! a reservation waits that lasts less. How long somebody still waits is nobody else's affair: it ends his keepalive alone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::ResponseHeader;
use etcd_client::proto::PbLeaseKeepAliveRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::error::{NotApplied, StoreError};
use super::failure::{Meaning, detail_of, indeterminate, meaning_of, not_applied};
use super::opening::{Stream, Unopened, open_at};
use super::session::Session;
use super::term::{KeptAlive, Term};
use crate::domain::record::LeaseId;

/// Most keepalives under way on one stream,
const KEEP_ALIVES_MAX: usize = 256;
/// and most of these that are sent before they are answered: the others are not, should their callers leave meanwhile.
const SENT_MAX: usize = 16;
/// How often a keepalive is sent, on one stream after another, before its outcome counts as unknown.
const SENDS_MAX: u8 = 2;
/// After each opening that was in vain twice the silence is borne, so often.
const PATIENT_OPENINGS_MAX: u32 = 4;
/// A stream that nobody used for so long is closed.
const IDLE: Duration = Duration::from_secs(30);

pub(super) type Answer = Result<Option<KeptAlive>, StoreError>;

/// What a reply of etcd says. Its TTL is 0 if etcd does not know the lease.
pub(super) fn kept_alive(ttl: i64, header: Option<&ResponseHeader>) -> Option<KeptAlive> {
    let seconds = u32::try_from(ttl).ok().filter(|seconds| *seconds > 0)?;
    let term = Term::of(header);
    Some(KeptAlive { seconds, term })
}

/// The stream, from outside.
#[derive(Debug)]
pub(super) struct KeepAlive {
    asked: mpsc::Sender<Waiter>,
    permits: Arc<Semaphore>,
}

/// A keepalive that somebody wants to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) lease: LeaseId,
    /// How much silence of the stream is too much.
    pub(super) silence: Duration,
    /// How long its caller waits, and
    pub(super) patience: Duration,
    /// until when.
    pub(super) deadline: Instant,
}

/// A keepalive whose answer is waited for.
#[derive(Debug)]
struct Waiter {
    lease: LeaseId,
    answer: oneshot::Sender<Answer>,
    sends_left: u8,
    silence: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Waiter {
    fn answer(self, answer: Answer) {
        // The caller may have gone.
        let _ = self.answer.send(answer);
    }
}

impl KeepAlive {
    /// Starts the task, which ends when this handle is dropped, or nobody uses it.
    pub(super) fn start(session: Arc<Session>) -> Self {
        let (asked, queue) = mpsc::channel(KEEP_ALIVES_MAX);
        tokio::spawn(run(session, queue));
        Self {
            asked,
            permits: Arc::new(Semaphore::new(KEEP_ALIVES_MAX)),
        }
    }

    /// Whether the task has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.asked.is_closed()
    }

    /// How many keepalives are under way.
    pub(super) fn under_way(&self) -> usize {
        KEEP_ALIVES_MAX.saturating_sub(self.permits.available_permits())
    }

    /// Sends a keepalive. `None`: nothing was sent, for the stream was closed at this moment.
    pub(super) async fn keep_alive(&self, wish: Wish) -> Option<Answer> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout_at(wish.deadline, permit).await else {
            return Some(Err(not_applied(
                NotApplied::Overloaded,
                format!("{KEEP_ALIVES_MAX} keepalives are under way on each stream"),
            )));
        };
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter {
            lease: wish.lease,
            answer,
            sends_left: SENDS_MAX,
            silence: wish.silence,
            _permit: permit,
        };
        // As many permits as places: there is one free, unless the task has ended.
        self.asked.try_send(waiter).ok()?;
        match timeout_at(wish.deadline, answered).await {
            Ok(Ok(answer)) => Some(answer),
            // Whoever is sent is answered; this one was dropped with the queue.
            Ok(Err(_)) => None,
            Err(_) => {
                let patience = wish.patience;
                let detail = format!("no answer to a keepalive within {patience:?}");
                Some(Err(indeterminate(detail)))
            }
        }
    }
}

async fn run(session: Arc<Session>, mut queue: mpsc::Receiver<Waiter>) {
    let mut unsent = VecDeque::new();
    let mut in_vain = 0;
    loop {
        if unsent.is_empty() {
            in_vain = 0;
            match timeout(IDLE, queue.recv()).await {
                Ok(Some(waiter)) => unsent.push_back(waiter),
                Ok(None) | Err(_) => return,
            }
        }
        let Some(stream) = open(&session, &mut unsent, in_vain).await else {
            in_vain = PATIENT_OPENINGS_MAX.min(in_vain + 1);
            continue;
        };
        in_vain = 0;
        match serve(&session, stream, &mut queue, &mut unsent).await {
            End::Broken => {}
            End::NotUsed => return,
        }
    }
}

/// Opens a stream by the first lease that waits; the lease is sent again. `in_vain`: how often that was tried.
async fn open<'s>(
    session: &'s Session,
    unsent: &mut VecDeque<Waiter>,
    in_vain: u32,
) -> Option<Stream<'s>> {
    unsent.retain(|waiter| !waiter.answer.is_closed());
    let lease = unsent.front()?.lease;
    let silence = unsent.iter().map(|waiter| waiter.silence).min();
    let silence = borne(
        session,
        silence.map(|least| least.saturating_mul(1 << in_vain)),
    );
    let mut failures = Vec::new();
    let mut may_have_been_sent = false;
    let mut was_waited_for = false;
    for (_, member) in session.order() {
        match open_at(session, member, lease, silence).await {
            Ok(stream) => {
                member.answered();
                return Some(stream);
            }
            Err(Unopened::Gone) => {
                member.answered();
                unsent.pop_front()?.answer(Ok(None));
                return None;
            }
            Err(Unopened::Failed(error)) => {
                let meaning = meaning_of(&error);
                let not_done = meaning == Meaning::TryAnother || meaning.is_about_who_asks();
                may_have_been_sent |= !not_done;
                failures.push(detail_of(&member.name, &error));
            }
            Err(Unopened::Silent) => {
                was_waited_for = true;
                if !is_found_out(session, silence) {
                    continue;
                }
            }
        }
        session.eject(member);
    }
    if was_waited_for {
        // Whose time is over has left; the others may still be served, and the next tries with a lease of its own.
        unsent.rotate_left(1);
        return None;
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
    /// Nobody has for a while, or nobody is left who could.
    NotUsed,
}

/// Whether so much silence tells that an endpoint does not answer. A short one is reason enough to try another endpoint, where
/// there is one, and no reason for all other calls to distrust the only one.
fn is_found_out(session: &Session, silence: Duration) -> bool {
    silence >= borne(session, None) || session.member(1).is_some()
}

/// How much silence is borne where somebody bears no more than this.
fn borne(session: &Session, silence: Option<Duration>) -> Duration {
    let half = session.call_limit() / 2;
    silence.map_or(half, |silence| silence.min(half))
}

async fn serve(
    session: &Session,
    mut stream: Stream<'_>,
    queue: &mut mpsc::Receiver<Waiter>,
    unsent: &mut VecDeque<Waiter>,
) -> End {
    let mut sent = Sent::default();
    // When the answer that is due now began to be waited for, or the last one came.
    let mut waiting_since = Instant::now();
    let mut found_out = true;
    let reason = loop {
        let silence = borne(session, sent.least_silence());
        tokio::select! {
            place = stream.requests.reserve(), if !unsent.is_empty() && sent.count < SENT_MAX => {
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
                None => return End::NotUsed,
            },
            reply = stream.replies.message() => match reply {
                Ok(Some(reply)) => {
                    waiting_since = Instant::now();
                    let kept = kept_alive(reply.ttl(), reply.header());
                    if kept.is_some_and(|kept| !session.revisions.count(&kept)) {
                        // What is under way here would not count either; elsewhere it may.
                        break "another leader was elected meanwhile".to_owned();
                    }
                    sent.answer(LeaseId(reply.id()), kept);
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
            () = sleep_until(waiting_since + IDLE), if sent.count == 0 && unsent.is_empty() => {
                return End::NotUsed;
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
    /// How much silence they bear, and how many of them.
    silences: BTreeMap<Duration, usize>,
}

impl Sent {
    fn push(&mut self, mut waiter: Waiter) {
        waiter.sends_left = waiter.sends_left.saturating_sub(1);
        self.count += 1;
        *self.silences.entry(waiter.silence).or_default() += 1;
        self.by_lease
            .entry(waiter.lease)
            .or_default()
            .push_back(waiter);
    }

    fn answer(&mut self, lease: LeaseId, kept: Option<KeptAlive>) {
        let Some(waiters) = self.by_lease.get_mut(&lease) else {
            return;
        };
        if let Some(waiter) = waiters.pop_front() {
            self.count -= 1;
            if let Some(as_much) = self.silences.get_mut(&waiter.silence) {
                *as_much -= 1;
                if *as_much == 0 {
                    self.silences.remove(&waiter.silence);
                }
            }
            waiter.answer(Ok(kept));
        }
        if waiters.is_empty() {
            self.by_lease.remove(&lease);
        }
    }

    /// The least that any of them bears.
    fn least_silence(&self) -> Option<Duration> {
        self.silences.first_key_value().map(|(least, _)| *least)
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
            silence: Duration::from_secs(1),
            _permit: permits.acquire_owned().await.unwrap(),
        };
        (waiter, answered)
    }

    fn kept(ttl: i64) -> Option<KeptAlive> {
        kept_alive(ttl, None)
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
        sent.answer(LeaseId(7), kept(60));
        assert!(matches!(first_answer.try_recv(), Ok(Ok(told)) if told == kept(60)));
        assert!(second_answer.try_recv().is_err());
        sent.answer(LeaseId(8), kept(0));
        assert!(matches!(other_answer.try_recv(), Ok(Ok(None))));
        sent.answer(LeaseId(9), kept(60));
        sent.answer(LeaseId(7), kept(59));
        assert!(matches!(second_answer.try_recv(), Ok(Ok(told)) if told == kept(59)));
        assert_eq!((sent.count, sent.by_lease.len()), (0, 0));
        assert_eq!(sent.least_silence(), None);
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
