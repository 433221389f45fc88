//! Following keys: what is there, and then each change in its order, for as long as somebody wants to know.
//!
//! A watch resumes where it was: after a broken stream, on another endpoint, it goes on with the next revision. Where etcd
//! has forgotten what came between (compaction), everything is read anew. Nothing is ever missed silently, and nothing is
//! kept here but the place where to go on: whoever follows reads on from etcd as it comes to it.

mod opening;

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use etcd_client::proto::PbKeyValue;
use etcd_client::{Error, EventType, GetOptions, WatchFilterType, WatchOptions, WatchResponse};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::Code;

use super::error::StoreError;
use super::failure::meaning_of;
use super::link::Store;
use super::session::{Repeat, Session};
use super::txn::as_etcd;
use crate::domain::token::Revision;
use opening::{Open, Opening, ToOpen};

/// Keys that one request reads at most.
const KEYS_PER_REQUEST: i64 = 8;
/// How long a stream may be silent before etcd is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(60);
/// First and longest pause before a stream is opened again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// What is new.
#[derive(Debug)]
pub(super) enum News {
    /// Everything as it stands; what is not named does not exist.
    All(Vec<PbKeyValue>),
    /// What has changed since, in order.
    Changes(Vec<Change>),
}

/// One change of one key.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: Vec<u8>,
    /// `None`: it was deleted.
    pub(super) value: Option<Vec<u8>>,
    /// When.
    pub(super) revision: Revision,
}

/// Follows one key, or a range of them.
pub(super) struct Watch {
    session: Arc<Session>,
    start: Vec<u8>,
    /// `None`: one key.
    end: Option<Vec<u8>>,
    /// The revision whose changes come next. `None`: everything has to be read first.
    next: Option<i64>,
    /// How many keys one request reads at most.
    page: i64,
    of: Of,
    open: Option<Open>,
    /// A stream on its way. It goes on whether or not somebody waits: where news of one watch end the wait for another, that one
    /// comes up all the same.
    opening: Option<Opening>,
    pauses: ExponentialBackoff,
    /// Until when nothing is tried.
    paused_until: Option<Instant>,
}

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// What is there, and each change.
    Everything,
    /// Deletions alone. What is there is not read, so that what is missed where etcd has forgotten it stays missed.
    Ends,
}

/// Why a stream is used no longer.
struct Broken {
    reason: String,
    /// The endpoint does not answer, so that others are to be tried first.
    silent: bool,
    /// What comes next was compacted away, or is too much for one message: etcd would send it again and again.
    compacted: bool,
    /// etcd does not let this sidecar watch, or does not know any more who it is.
    refused: bool,
}

impl Store {
    /// Follows the keys from `start` to before `end`; without an end, that one key.
    pub(super) fn watch(&self, start: Vec<u8>, end: Option<Vec<u8>>) -> Watch {
        Watch {
            session: self.session_handle(),
            start,
            end,
            next: None,
            page: KEYS_PER_REQUEST,
            of: Of::Everything,
            open: None,
            opening: None,
            pauses: pauses(),
            paused_until: None,
        }
    }

    /// Follows one key from the change that comes after a revision. Where etcd has forgotten that, everything is told.
    pub(super) fn watch_after(&self, key: Vec<u8>, after: Revision) -> Watch {
        Watch {
            next: Some(as_etcd(after).saturating_add(1)),
            ..self.watch(key, None)
        }
    }

    /// Follows the deletions of keys from `start` to before `end`, from now on.
    pub(super) fn watch_ends(&self, start: Vec<u8>, end: Vec<u8>) -> Watch {
        Watch {
            of: Of::Ends,
            ..self.watch(start, Some(end))
        }
    }
}

impl Watch {
    /// What is new; first, and whenever something may have been missed, everything. Waits and tries again without an end;
    /// whoever stops waiting misses nothing.
    pub(super) async fn next(&mut self) -> News {
        loop {
            if let Some(until) = self.paused_until {
                sleep_until(until).await;
                self.paused_until = None;
            }
            let Some(next) = self.next else {
                match self.read_all().await {
                    Ok(all) => {
                        self.pauses = pauses();
                        return News::All(all);
                    }
                    Err(error) => self.pause(&error.to_string()),
                }
                continue;
            };
            if self.open.is_none() {
                let opening = match self.opening.take() {
                    Some(opening) => opening,
                    None => Box::pin(self.stream_from(next).open()),
                };
                let opened = self.opening.insert(opening).await;
                self.opening = None;
                match opened {
                    Ok(open) => self.open = Some(open),
                    Err(detail) => self.pause(&detail),
                }
                continue;
            }
            match self.listen().await {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => return News::Changes(changes),
                Err(broken) => {
                    let member = self.open.take().map(|open| open.member);
                    let member = member.and_then(|at| self.session.member(at));
                    if let Some(member) = member.filter(|_| broken.silent) {
                        self.session.eject(member);
                    }
                    if broken.compacted {
                        self.next = None;
                    } else {
                        self.pause(&broken.reason);
                    }
                    if broken.refused {
                        // The token may be to blame: this sees to another.
                        self.session.look().await;
                    }
                }
            }
        }
    }

    /// Reads so many keys with one request, where values are small.
    pub(super) fn paged(mut self, keys: i64) -> Self {
        self.page = keys;
        self
    }

    /// Up to which revision everything was told. `None`: nothing was told yet.
    pub(super) fn told_up_to(&self) -> Option<Revision> {
        self.next.and_then(|next| Revision::from_etcd(next - 1))
    }

    /// Since when its stream is up. `None`: it is not, and changes may wait to be told.
    pub(super) fn up_since(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.since)
    }

    /// Begins anew with everything.
    pub(super) fn restart(&mut self) {
        self.next = None;
        self.open = None;
        self.opening = None;
    }

    /// Tries nothing for a while.
    fn pause(&mut self, why: &str) {
        tracing::debug!(
            reason = why,
            "a watch is interrupted; it goes on where it was"
        );
        let pause = self.pauses.next().unwrap_or(PAUSE.1);
        self.paused_until = Some(Instant::now() + pause);
    }

    /// Reads everything, in pages, all of one revision.
    async fn read_all(&mut self) -> Result<Vec<PbKeyValue>, StoreError> {
        self.open = None;
        if self.of == Of::Ends {
            return self.begin_now().await;
        }
        let mut all: Vec<PbKeyValue> = Vec::new();
        let mut start = self.start.clone();
        let mut at = 0;
        loop {
            let reply = self
                .session
                .call(Repeat::Safe, |member| {
                    let mut kv = member.kv.clone();
                    let mut options = GetOptions::new().with_limit(self.page).with_revision(at);
                    if let Some(end) = &self.end {
                        options = options.with_range(end.clone());
                    }
                    let start = start.clone();
                    async move { kv.get(start, Some(options)).await }
                })
                .await?
                .0;
            if at == 0 {
                at = reply.header.as_ref().map_or(0, |header| header.revision);
            }
            let more = reply.more;
            all.extend(reply.kvs);
            let Some(last) = all.last().filter(|_| more) else {
                break;
            };
            start = super::keys::just_after(last.key.clone());
        }
        self.next = Some(at + 1);
        Ok(all)
    }

    /// Begins with the next change, whatever is there.
    async fn begin_now(&mut self) -> Result<Vec<PbKeyValue>, StoreError> {
        let reply = self
            .session
            .call(Repeat::Safe, |member| {
                let mut kv = member.kv.clone();
                let options = GetOptions::new().with_count_only();
                let start = self.start.clone();
                async move { kv.get(start, Some(options)).await }
            })
            .await?;
        let now = reply
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        self.next = Some(now + 1);
        Ok(Vec::new())
    }

    fn stream_from(&self, next: i64) -> ToOpen {
        let mut options = WatchOptions::new()
            .with_start_revision(next)
            .with_progress_notify();
        if let Some(end) = &self.end {
            options = options.with_range(end.clone());
        }
        if self.of == Of::Ends {
            options = options.with_filters([WatchFilterType::NoPut]);
        }
        ToOpen {
            session: Arc::clone(&self.session),
            start: self.start.clone(),
            options,
        }
    }

    /// Waits for one message of the stream.
    async fn listen(&mut self) -> Result<Vec<Change>, Broken> {
        let limit = self.session.call_limit();
        let Some(open) = &mut self.open else {
            return Ok(Vec::new());
        };
        let broken = |reason: String, silent: bool| Broken {
            reason,
            silent,
            compacted: false,
            refused: false,
        };
        let until = open.asked.unwrap_or_else(|| Instant::now() + SILENCE);
        let message = match timeout_at(until, open.stream.message()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return Err(broken("etcd closed it".to_owned(), false)),
            Ok(Err(error)) if meaning_of(&error).is_about_who_asks() => {
                return Err(Broken {
                    refused: true,
                    ..broken(error.to_string(), false)
                });
            }
            Ok(Err(error)) if too_large(&error) => {
                return Err(Broken {
                    compacted: true,
                    ..broken(error.to_string(), false)
                });
            }
            Ok(Err(error)) => return Err(broken(error.to_string(), true)),
            Err(_) if open.asked.is_some() => {
                return Err(broken(format!("no answer within {limit:?}"), true));
            }
            Err(_) => {
                open.asked = Some(Instant::now() + limit);
                let asking = open.stream.request_progress();
                return match timeout(limit, asking).await {
                    Ok(Ok(())) => Ok(Vec::new()),
                    Ok(Err(error)) => Err(broken(error.to_string(), true)),
                    Err(_) => Err(broken("it takes no question".to_owned(), true)),
                };
            }
        };
        open.asked = None;
        self.taken(&message)
    }

    fn taken(&mut self, message: &WatchResponse) -> Result<Vec<Change>, Broken> {
        if message.canceled() {
            let compacted = message.compact_revision() > 0;
            let reason = message.cancel_reason().to_owned();
            let refused = is_about_who_asks(&reason);
            return Err(Broken {
                silent: !compacted && !refused,
                compacted,
                refused,
                reason,
            });
        }
        self.pauses = pauses();
        let mut changes = Vec::with_capacity(message.events().len());
        for event in message.events() {
            let Some(kv) = event.kv() else { continue };
            let Some(revision) = Revision::from_etcd(kv.mod_revision()) else {
                continue;
            };
            // Changes of one revision come together.
            self.next = Some(kv.mod_revision() + 1);
            changes.push(Change {
                key: kv.key().to_vec(),
                value: match event.event_type() {
                    EventType::Put => Some(kv.value().to_vec()),
                    EventType::Delete => None,
                },
                revision,
            });
        }
        // Unasked, and without changes: etcd says that everything up to its revision was told. (The answer to a question
        // of ours is for all watches of a stream, and comes before what an old etcd has still to tell.)
        let told = message.events().is_empty() && !message.created() && message.watch_id() >= 0;
        if let Some(header) = message.header().filter(|_| told) {
            self.next = self.next.max(Some(header.revision() + 1));
        }
        Ok(changes)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("start", &self.start.escape_ascii().to_string())
            .field("next", &self.next)
            .field("open", &self.open.is_some())
            .finish_non_exhaustive()
    }
}

/// Whether etcd ended a watch because it does not know who asks, or knows other rights than the token was made under. An older etcd
/// says "permission denied" of a token that it does not know.
fn is_about_who_asks(reason: &str) -> bool {
    [
        "permission denied",
        "invalid auth token",
        "user name is empty",
        "revision of auth store is old",
    ]
    .iter()
    .any(|text| reason.contains(text))
}

/// Whether a message is longer than this side reads. It says nothing of the member.
fn too_large(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.code() == Code::OutOfRange)
}

/// Waits that grow, with jitter so that many sidecars do not come back at the same moment, and never end.
fn pauses() -> ExponentialBackoff {
    let (first, longest) = PAUSE;
    ExponentialBuilder::new()
        .with_min_delay(first)
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests;
