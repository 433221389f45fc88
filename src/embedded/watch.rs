//! etcd's Watch service.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::proto::{
    PbWatchRequest, PbWatchRequestUnion, PbWatchResponse, PbWatchServer, PbWatchService,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::shared::Shared;
use super::watcher::{News, Watcher, fragments};

/// etcd's own: a watcher that asked for it hears that nothing happened this often.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Answers made ahead of a client that does not read. No more are made until it does.
const ANSWERS_MAX: usize = 4;

/// The watch id of an answer that concerns no watcher, or all.
const NO_WATCHER: i64 = -1;
/// The smallest key there is; an empty key means "from the first on".
const FIRST_KEY: &[u8] = b"\0";
const NO_PUT: i32 = 0;
const NO_DELETE: i32 = 1;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
}

pub(super) fn service(shared: &Arc<Shared>) -> PbWatchServer<Watch> {
    PbWatchServer::new(Watch {
        shared: Arc::clone(shared),
    })
}

#[tonic::async_trait]
impl PbWatchService for Watch {
    type WatchStream = ReceiverStream<Result<PbWatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<PbWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (answers, read) = mpsc::channel(ANSWERS_MAX);
        let watchers = Watchers::new(Arc::clone(&self.shared), request.into_inner());
        // A watch begins when it is asked for, whenever its answers are read.
        tokio::spawn(watchers.run(answers));
        Ok(Response::new(ReceiverStream::new(read)))
    }
}

/// The watchers of one stream. They keep no events of their own: each remembers how far it has
/// been told, and reads on from the store's history as the client reads on from the stream.
struct Watchers {
    shared: Arc<Shared>,
    requests: Streaming<PbWatchRequest>,
    /// The client may still ask for more. What it asked for goes on when it will not.
    open: bool,
    revisions: watch::Receiver<i64>,
    watchers: BTreeMap<i64, Watcher>,
    next_id: i64,
    /// At most the answers to one request, or one batch for one watcher.
    ready: VecDeque<PbWatchResponse>,
    /// Where the search for a watcher with news goes on, so that none starves.
    turn: i64,
    progress_asked: bool,
    clock: Interval,
}

impl Watchers {
    fn new(shared: Arc<Shared>, requests: Streaming<PbWatchRequest>) -> Self {
        let mut clock = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            revisions: shared.revisions(),
            shared,
            requests,
            open: true,
            watchers: BTreeMap::new(),
            next_id: 0,
            ready: VecDeque::new(),
            turn: i64::MIN,
            progress_asked: false,
            clock,
        }
    }

    async fn run(mut self, answers: mpsc::Sender<Result<PbWatchResponse, Status>>) {
        loop {
            let answer = tokio::select! {
                () = answers.closed() => return,
                answer = self.next() => answer,
            };
            let failed = answer.is_err();
            if answers.send(answer).await.is_err() || failed {
                return;
            }
        }
    }

    async fn next(&mut self) -> Result<PbWatchResponse, Status> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Ok(answer);
            }
            let newest = *self.revisions.borrow_and_update();
            let behind = self.watchers.values().any(|watcher| watcher.next <= newest);
            if self.progress_asked && !behind {
                self.progress_asked = false;
                self.ready.push_back(self.answer(newest, NO_WATCHER));
                continue;
            }
            tokio::select! {
                biased;
                request = self.requests.message(), if self.open => match request {
                    Ok(Some(request)) => self.accept(request),
                    Ok(None) => self.open = false,
                    Err(status) => return Err(status),
                },
                _ = self.clock.tick() => self.tick(),
                () = std::future::ready(()), if behind => self.advance(newest),
                changed = self.revisions.changed() => {
                    changed.expect("this stream holds the sender");
                }
            }
        }
    }

    fn accept(&mut self, request: PbWatchRequest) {
        match request.request_union {
            Some(PbWatchRequestUnion::CreateRequest(create)) => {
                let no_put = create.filters.contains(&NO_PUT);
                let no_delete = create.filters.contains(&NO_DELETE);
                let watcher = Watcher {
                    key: if create.key.is_empty() {
                        FIRST_KEY.to_vec()
                    } else {
                        create.key
                    },
                    range_end: create.range_end,
                    next: create.start_revision,
                    no_put,
                    no_delete,
                    prev_kv: create.prev_kv,
                    fragment: create.fragment,
                    progress: create.progress_notify,
                    quiet: true,
                };
                let answer = self.create(create.watch_id, watcher);
                self.ready.push_back(answer);
            }
            Some(PbWatchRequestUnion::CancelRequest(cancel)) => {
                self.cancel(cancel.watch_id);
            }
            Some(PbWatchRequestUnion::ProgressRequest(_)) => self.progress_asked = true,
            None => {}
        }
    }

    fn create(&mut self, id: i64, mut watcher: Watcher) -> PbWatchResponse {
        let newest = self.shared.with(|store| store.revision());
        let refused = |reason: &str| PbWatchResponse {
            created: true,
            canceled: true,
            cancel_reason: reason.to_owned(),
            ..self.answer(newest, NO_WATCHER)
        };
        if watcher.keys().is_empty() {
            return refused("mvcc: watcher range is empty");
        }
        if self.watchers.contains_key(&id) && id != 0 {
            return refused("mvcc: duplicate watch ID provided on the WatchStream");
        }
        let id = if id == 0 { self.free_id() } else { id };
        if watcher.next == 0 {
            watcher.next = newest + 1;
        }
        self.watchers.insert(id, watcher);
        PbWatchResponse {
            created: true,
            ..self.answer(newest, id)
        }
    }

    fn cancel(&mut self, id: i64) {
        if self.watchers.remove(&id).is_some() {
            let newest = self.shared.with(|store| store.revision());
            let answer = self.answer(newest, id);
            self.ready.push_back(PbWatchResponse {
                canceled: true,
                ..answer
            });
        }
    }

    fn free_id(&mut self) -> i64 {
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Tells one watcher one batch.
    fn advance(&mut self, newest: i64) {
        let behind = |(id, watcher): (&i64, &Watcher)| (watcher.next <= newest).then_some(*id);
        let later = self.watchers.range(self.turn..).find_map(behind);
        let Some(id) = later.or_else(|| self.watchers.iter().find_map(behind)) else {
            return;
        };
        self.turn = id.saturating_add(1);
        let Some(watcher) = self.watchers.get_mut(&id) else {
            return;
        };
        let cut = watcher.fragment;
        match self.shared.with(|store| watcher.advance(store)) {
            Some(News::Compacted(compact_revision)) => {
                self.watchers.remove(&id);
                // etcd leaves the revision of this header at 0.
                let answer = self.answer(0, id);
                self.ready.push_back(PbWatchResponse {
                    canceled: true,
                    compact_revision,
                    ..answer
                });
            }
            Some(News::Events { upto, events }) if !events.is_empty() => {
                let whole = PbWatchResponse {
                    events,
                    ..self.answer(upto, id)
                };
                self.ready
                    .extend(if cut { fragments(whole) } else { vec![whole] });
            }
            Some(News::Events { .. }) | None => {}
        }
    }

    fn tick(&mut self) {
        let newest = *self.revisions.borrow();
        for (&id, watcher) in &mut self.watchers {
            if watcher.progress && watcher.quiet && watcher.next > newest {
                self.ready.push_back(PbWatchResponse {
                    header: self.shared.identity.header(newest),
                    watch_id: id,
                    ..PbWatchResponse::default()
                });
            }
            watcher.quiet = true;
        }
    }

    fn answer(&self, revision: i64, watch_id: i64) -> PbWatchResponse {
        let header = self.shared.identity.header(revision);
        PbWatchResponse {
            header,
            watch_id,
            ..PbWatchResponse::default()
        }
    }
}
