//! One watcher: what it wants, and how far it has been told.

use etcd_client::proto::{PbEvent, PbKeyValue, PbWatchResponse};
use prost::Message;

use super::check::MESSAGE_BYTES_MAX;
use super::key_range::KeyRange;
use super::log::Event;
use super::store::Store;

/// A watcher far behind is told this many revisions at a time.
const BATCH_REVISIONS_MAX: i64 = 1_000;
/// And no further revision once a response holds this much, so that a slow reader costs one
/// response of memory however far it falls behind; the rest waits in the history.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

const PUT: i32 = 0;
const DELETE: i32 = 1;

/// Every event before `next` has been told or was not wanted.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) key: Vec<u8>,
    pub(super) range_end: Vec<u8>,
    pub(super) next: i64,
    pub(super) no_put: bool,
    pub(super) no_delete: bool,
    pub(super) prev_kv: bool,
    pub(super) fragment: bool,
    pub(super) progress: bool,
    /// Nothing was sent since the last tick of the progress clock.
    pub(super) quiet: bool,
}

/// What a watcher is told next.
pub(super) enum News {
    /// It begins before what is left of history, and ends here.
    Compacted(i64),
    /// All it missed up to a revision; empty if it wanted none of it.
    Events { upto: i64, events: Vec<PbEvent> },
}

impl Watcher {
    pub(super) fn keys(&self) -> KeyRange<'_> {
        KeyRange::new(&self.key, &self.range_end)
    }

    /// Moves on through history by one batch of whole revisions; `None` if it is up to date.
    pub(super) fn advance(&mut self, store: &Store) -> Option<News> {
        let newest = store.revision();
        if self.next > newest {
            return None;
        }
        if self.next < store.compacted() {
            return Some(News::Compacted(store.compacted()));
        }
        let last = newest.min(self.next.saturating_add(BATCH_REVISIONS_MAX - 1));
        let mut events = Vec::new();
        let mut bytes = 0;
        while self.next <= last && bytes < BATCH_BYTES_MAX {
            let wanted = store
                .events(self.next)
                .iter()
                .filter(|event| self.wants(event));
            for event in wanted.map(|event| self.tell(store, event)) {
                bytes += event.encoded_len();
                events.push(event);
            }
            self.next += 1;
        }
        self.quiet &= events.is_empty();
        Some(News::Events {
            upto: self.next - 1,
            events,
        })
    }

    fn wants(&self, event: &Event) -> bool {
        let filtered = if event.live.is_some() {
            self.no_put
        } else {
            self.no_delete
        };
        !filtered && self.keys().contains(&event.key)
    }

    fn tell(&self, store: &Store, event: &Event) -> PbEvent {
        let revision = self.next;
        let (kind, kv) = match &event.live {
            Some(live) => (PUT, live.to_key_value(&event.key, revision)),
            None => {
                let kv = PbKeyValue {
                    key: event.key.to_vec(),
                    mod_revision: revision,
                    ..PbKeyValue::default()
                };
                (DELETE, kv)
            }
        };
        // Of a revision just compacted to, what came before is gone with the compaction.
        let old = if self.prev_kv {
            store.get(&event.key, revision - 1)
        } else {
            None
        };
        let prev_kv = old.map(|(written, live)| live.to_key_value(&event.key, written));
        PbEvent {
            r#type: kind,
            kv: Some(kv),
            prev_kv,
        }
    }
}

/// Cuts a response that outgrew a message into fragments, where the watcher asked for that.
pub(super) fn fragments(whole: PbWatchResponse) -> Vec<PbWatchResponse> {
    if whole.encoded_len() < MESSAGE_BYTES_MAX || whole.events.len() < 2 {
        return vec![whole];
    }
    let mut parts: Vec<PbWatchResponse> = Vec::new();
    let mut bytes = 0;
    let empty = PbWatchResponse {
        events: Vec::new(),
        fragment: true,
        ..whole.clone()
    };
    for event in whole.events {
        let size = event.encoded_len();
        match parts
            .last_mut()
            .filter(|_| bytes + size < MESSAGE_BYTES_MAX)
        {
            Some(part) => {
                bytes += size;
                part.events.push(event);
            }
            None => {
                bytes = size;
                parts.push(PbWatchResponse {
                    events: vec![event],
                    ..empty.clone()
                });
            }
        }
    }
    if let Some(last) = parts.last_mut() {
        last.fragment = false;
    }
    parts
}
