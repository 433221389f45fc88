//! Opening a stream of a watch at the first member that takes it.

use std::pin::Pin;
use std::sync::Arc;

use etcd_client::{WatchOptions, WatchStream};
use tokio::time::{Instant, timeout};

use crate::store::failure::detail_of;
use crate::store::session::Session;

/// A stream on its way, or why there is none.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<Open, String>> + Send>>;

/// A stream that is up.
pub(super) struct Open {
    pub(super) stream: WatchStream,
    /// Which endpoint it goes to.
    pub(super) member: usize,
    /// Whether etcd was asked if it is still there, and when its answer is due.
    pub(super) asked: Option<Instant>,
    pub(super) since: Instant,
}

/// A stream that is to be opened.
pub(super) struct ToOpen {
    pub(super) session: Arc<Session>,
    pub(super) start: Vec<u8>,
    pub(super) options: WatchOptions,
}

impl ToOpen {
    pub(super) async fn open(self) -> Result<Open, String> {
        let mut failures = Vec::new();
        let limit = self.session.call_limit();
        for (at, member) in self.session.order() {
            let mut client = member.watch.clone();
            let opening = client.watch(self.start.clone(), Some(self.options.clone()));
            match timeout(limit, opening).await {
                Ok(Ok(stream)) => {
                    return Ok(Open {
                        stream,
                        member: at,
                        asked: None,
                        since: Instant::now(),
                    });
                }
                Ok(Err(error)) => failures.push(detail_of(&member.name, &error)),
                Err(_) => failures.push(self.session.silent(member, limit)),
            }
            self.session.eject(member);
        }
        Err(failures.join("; "))
    }
}
