//! Keepalives that may be answered late, each over a stream of its own.
//!
//! etcd answers no keepalive of a lease that has run out until it has ended it, which takes minutes where many ran out together.
//! Where nobody knows whether a lease has, its keepalive holds up no other, and that it is not answered says nothing of the member.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::proto::PbLeaseKeepAliveRequest;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{NotApplied, StoreError};
use super::failure::{Meaning, detail_of, indeterminate, meaning_of, not_applied};
use super::keep_alive::{Answer, kept_alive};
use super::opening::{Unopened, open_at};
use super::session::{Member, Session};
use super::term::KeptAlive;
use crate::domain::record::LeaseId;

/// Most of them under way.
const LONE_MAX: usize = 1024;

/// Those that are under way.
#[derive(Debug)]
pub(super) struct Lone {
    session: Arc<Session>,
    places: Semaphore,
}

/// What came of one at one member.
enum Told {
    Answer(Option<KeptAlive>),
    /// Whether it may have been sent.
    Nothing(String, bool),
}

impl Lone {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self {
            session,
            places: Semaphore::new(LONE_MAX),
        }
    }

    /// Sends a keepalive over a stream of its own, to one member after another, for somebody who waits so long.
    pub(super) async fn keep_alive(&self, lease: LeaseId, patience: Duration) -> Answer {
        let deadline = Instant::now() + patience;
        let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(not_applied(
                NotApplied::Overloaded,
                format!("{LONE_MAX} keepalives of leases whose end is not known are under way"),
            ));
        };
        let limit = self.session.share_of(patience);
        let asking = self.ask_members(lease, limit);
        let answered = timeout_at(deadline, asking).await;
        answered.unwrap_or_else(|_| Err(unanswered(patience)))
    }

    async fn ask_members(&self, lease: LeaseId, limit: Duration) -> Answer {
        let mut failures = Vec::new();
        let mut may_have_been_sent = false;
        for (_, member) in self.session.order() {
            match self.ask(member, lease, limit).await {
                Told::Answer(kept) => {
                    member.answered();
                    return Ok(kept);
                }
                Told::Nothing(detail, sent) => {
                    may_have_been_sent |= sent;
                    failures.push(detail);
                }
            }
        }
        let detail = failures.join("; ");
        Err(if may_have_been_sent {
            indeterminate(detail)
        } else {
            not_applied(NotApplied::Unreachable, detail)
        })
    }

    async fn ask(&self, member: &Member, lease: LeaseId, limit: Duration) -> Told {
        let session = &self.session;
        let failed = |error: &etcd_client::Error| {
            session.eject(member);
            let sent = !matches!(meaning_of(error), Meaning::TryAnother | Meaning::WhoAsks);
            Told::Nothing(detail_of(&member.name, error), sent)
        };
        let mut stream = match open_at(session, member, lease, limit).await {
            Ok(stream) => stream,
            Err(Unopened::Gone) => return Told::Answer(None),
            Err(Unopened::Silent) => return Told::Nothing(session.silent(member, limit), true),
            Err(Unopened::Failed(error)) => return failed(&error),
        };
        // The answer to the opening says that the lease lives, and not for how long.
        let again = PbLeaseKeepAliveRequest { id: lease.0 };
        let asking = async {
            // If that fails, so does reading.
            let _ = stream.requests.send(again).await;
            stream.replies.message().await
        };
        match timeout(limit, asking).await {
            Ok(Ok(Some(reply))) => {
                let kept = kept_alive(reply.ttl(), reply.header());
                if kept.is_some_and(|kept| !session.revisions.count(&kept)) {
                    session.eject(member);
                    let detail = format!("{}: another leader was elected meanwhile", member.name);
                    return Told::Nothing(detail, true);
                }
                Told::Answer(kept)
            }
            Ok(Ok(None)) => Told::Nothing(format!("{}: it closed the stream", member.name), true),
            Ok(Err(error)) => failed(&error),
            Err(_) => Told::Nothing(session.silent(member, limit), true),
        }
    }
}

fn unanswered(patience: Duration) -> StoreError {
    indeterminate(format!("no answer to a keepalive within {patience:?}"))
}
