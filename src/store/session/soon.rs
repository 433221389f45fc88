//! Reads for somebody who cannot wait until a silent endpoint has used up a whole call.

use std::time::Duration;

use etcd_client::Txn;
use etcd_client::proto::PbTxnResponse;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use super::{Member, Repeat, Session};
use crate::store::error::{NotApplied, StoreError};
use crate::store::failure::{Meaning, full, not_applied};

impl Session {
    /// Reads. An endpoint that has not answered within its share of `patience` is not waited for alone: the next is asked too, and
    /// the first answer counts. Whoever was asked before the one that gave it is ejected; if none answers, that tells of none.
    pub(in crate::store) async fn read_soon(
        &self,
        patience: Duration,
        build: impl Fn() -> Txn,
    ) -> Result<PbTxnResponse, StoreError> {
        if self.members.len() == 1 {
            // A short silence is no reason to ask the only one twice.
            return self.txn(Repeat::Safe, build).await;
        }
        let share = self.share_of(patience);
        let read = &|member: &Member| {
            let mut kv = member.kv.clone();
            let txn = build();
            async move { kv.txn(txn).await }
        };
        let mut left = self.attempts(Repeat::Safe).into_iter();
        let mut asked = FuturesUnordered::new();
        // In the order in which they were asked.
        let mut silent: Vec<&Member> = Vec::new();
        let mut failures = Vec::new();
        loop {
            let next = left.next();
            if let Some((index, member)) = next {
                silent.push(member);
                let position = self.revisions.position();
                asked.push(async move {
                    let answer = self.ask(member, self.call_limit, read).await;
                    (index, member, position, answer)
                });
            }
            let limit = if left.len() > 0 { share } else { Duration::MAX };
            let (index, member, position, answer) = match timeout(limit, asked.next()).await {
                Ok(Some(told)) => told,
                Ok(None) => break,
                Err(_) => continue,
            };
            let (meaning, detail) = match answer {
                Ok(reply) => match self.revisions.heard(position, &reply) {
                    Ok(()) => {
                        let before = silent.iter().take_while(|other| other.name != member.name);
                        before.for_each(|other| self.eject(other));
                        member.answered();
                        self.current.store(index, super::Ordering::Relaxed);
                        return Ok(reply.0);
                    }
                    Err(wrong) => (Meaning::Unknown, format!("{}: {wrong}", member.name)),
                },
                Err(failure) => failure,
            };
            silent.retain(|other| other.name != member.name);
            let no = match meaning {
                Meaning::No(reason) => not_applied(reason, detail),
                Meaning::Full => full(detail),
                Meaning::WhoAsks => not_applied(NotApplied::Denied, detail),
                Meaning::RightsMoved => not_applied(NotApplied::Refused, detail),
                Meaning::Unknown | Meaning::TryAnother => {
                    self.eject(member);
                    failures.push(detail);
                    continue;
                }
            };
            member.answered();
            return Err(no);
        }
        failures.dedup();
        Err(not_applied(NotApplied::Unreachable, failures.join("; ")))
    }
}
