//! Watches on both sides, read up to the same revision.

use std::time::Duration;

use etcd_client::proto::*;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use tonic::Streaming;

use crate::etcd::Line;
use crate::ops::WatchSpec;
use crate::pair::{Pair, Plain};

/// etcd looks after watchers that are behind ten times a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const NO_DELETE: i32 = 1;
/// The first that tells nothing of what was there before a key began, where it ended and began anew in one revision.
const NOTHING_BEFORE_A_BEGINNING: Line = (3, 5);

struct Side {
    requests: Sender<PbWatchRequest>,
    answers: Streaming<PbWatchResponse>,
}

impl Side {
    async fn answer(&mut self) -> PbWatchResponse {
        let answer = timeout(ANSWER_LIMIT, self.answers.message()).await;
        let mut answer = answer
            .expect("an answer in time")
            .unwrap()
            .expect("an open stream");
        answer.plain();
        answer
    }

    async fn ask(&self, union: PbWatchRequestUnion) {
        self.requests
            .send(PbWatchRequest {
                request_union: Some(union),
            })
            .await
            .unwrap();
    }

    /// All events up to one of `revision` or later.
    async fn events(&mut self, revision: i64) -> Vec<PbEvent> {
        let mut events: Vec<PbEvent> = Vec::new();
        while events.last().is_none_or(|event| written(event) < revision) {
            let answer = self.answer().await;
            let told = events.last().map_or(0, written);
            assert!(
                !answer.events.is_empty() && !answer.canceled,
                "not events: {answer:#?}"
            );
            for event in &answer.events {
                assert!(
                    written(event) > told,
                    "a revision was torn apart or told twice"
                );
            }
            let newest = answer.events.last().map_or(0, written);
            assert!(answer.revision() >= newest, "a header behind its events");
            events.extend(answer.events);
        }
        events
    }
}

fn written(event: &PbEvent) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

pub(crate) struct Watch {
    spec: WatchSpec,
    real: Side,
    ours: Side,
    id: i64,
    /// Deletions of this revision are not compared: etcd 3.4 loses them when it is also the
    /// revision compacted to, the engine keeps them as later versions of etcd do.
    blurred: i64,
}

pub(crate) fn create(spec: &WatchSpec, watch_id: i64) -> PbWatchRequest {
    // The message has no public name, but it has a default and fields.
    let mut union = PbWatchRequestUnion::CreateRequest(Default::default());
    if let PbWatchRequestUnion::CreateRequest(create) = &mut union {
        create.key = spec.key.clone();
        create.range_end = spec.range_end.clone();
        create.start_revision = spec.start;
        create.filters = spec.filters.clone();
        create.prev_kv = spec.prev_kv;
        create.fragment = spec.fragment;
        create.watch_id = watch_id;
    }
    PbWatchRequest {
        request_union: Some(union),
    }
}

impl Pair {
    pub(crate) async fn same_watch_answer(
        &mut self,
        asked: &str,
        real: PbWatchResponse,
        ours: PbWatchResponse,
    ) -> PbWatchResponse {
        self.same(&asked, Ok(real), Ok(ours)).unwrap()
    }
}

impl Watch {
    /// `None` if both refused it, or both said that its beginning is compacted.
    pub(crate) async fn open(pair: &mut Pair, spec: WatchSpec) -> Option<Self> {
        let request = create(&spec, 0);
        let real = pair
            .real
            .stream("Watch/Watch", request.clone())
            .await
            .unwrap();
        let ours = pair.ours.stream("Watch/Watch", request).await.unwrap();
        let mut watch = Self {
            real: Side {
                requests: real.0,
                answers: real.1,
            },
            ours: Side {
                requests: ours.0,
                answers: ours.1,
            },
            id: 0,
            blurred: pair.compacted,
            spec,
        };
        let created = watch.answer(pair).await;
        if created.canceled {
            return None;
        }
        watch.id = created.watch_id;
        if watch.spec.start != 0 && watch.spec.start < pair.compacted {
            let ended = watch.answer(pair).await;
            assert!(
                ended.canceled && ended.compact_revision == pair.compacted,
                "{ended:#?}"
            );
            return None;
        }
        watch.catch_up(pair).await;
        watch
            .both_ask(PbWatchRequestUnion::ProgressRequest(Default::default()))
            .await;
        let progress = watch.answer(pair).await;
        assert_eq!(
            (progress.watch_id, progress.revision()),
            (-1, pair.revision)
        );
        Some(watch)
    }

    async fn both_ask(&self, union: PbWatchRequestUnion) {
        self.real.ask(union.clone()).await;
        self.ours.ask(union).await;
    }

    async fn answer(&mut self, pair: &mut Pair) -> PbWatchResponse {
        let (real, ours) = (self.real.answer().await, self.ours.answer().await);
        pair.same_watch_answer(&format!("watch {:?}", self.spec), real, ours)
            .await
    }

    /// Writes a key of the watch, and reads both sides up to that.
    pub(crate) async fn catch_up(&mut self, pair: &mut Pair) {
        let key = if self.spec.key.is_empty() {
            vec![0]
        } else {
            self.spec.key.clone()
        };
        let mut last = 0;
        while last < self.spec.start.max(1) {
            let put = PbPutRequest {
                key: key.clone(),
                ..Default::default()
            };
            let put = pair.both::<_, PbPutResponse>("KV/Put", put).await.unwrap();
            let delete = PbDeleteRequest {
                key: key.clone(),
                ..Default::default()
            };
            let delete = pair
                .both::<_, PbDeleteResponse>("KV/DeleteRange", delete)
                .await
                .unwrap();
            let deletions_hidden = self.spec.filters.contains(&NO_DELETE);
            last = if deletions_hidden {
                put.revision()
            } else {
                delete.revision()
            };
        }
        let mut real = self.real.events(last).await;
        let mut ours = self.ours.events(last).await;
        let blurred = self.blurred;
        for events in [&mut real, &mut ours] {
            events.retain(|event| event.r#type == 0 || written(event) != blurred);
        }
        if pair.line >= NOTHING_BEFORE_A_BEGINNING {
            let begins = |event: &PbEvent| {
                let kv = event.kv.as_ref();
                kv.is_some_and(|kv| event.r#type == 0 && kv.version == 1)
            };
            for event in ours.iter_mut().filter(|event| begins(event)) {
                event.prev_kv = None;
            }
        }
        assert_eq!(
            real, ours,
            "etcd (left) and the engine told {:?} otherwise",
            self.spec
        );
        // Filters are numbered like the events they hide.
        let hidden = |event: &PbEvent| self.spec.filters.contains(&event.r#type);
        assert!(
            !ours.iter().any(hidden),
            "a filter of {:?} let through",
            self.spec
        );
    }

    pub(crate) async fn close(mut self, pair: &mut Pair) {
        self.catch_up(pair).await;
        let mut union = PbWatchRequestUnion::CancelRequest(Default::default());
        if let PbWatchRequestUnion::CancelRequest(cancel) = &mut union {
            cancel.watch_id = self.id;
        }
        self.both_ask(union).await;
        let canceled = self.answer(pair).await;
        assert!(
            canceled.canceled && canceled.compact_revision == 0,
            "{canceled:#?}"
        );
    }
}
