//! What the tests stand on: a real etcd, the seam where faults are put in, sidecars, processes.
//!
//! Included by `#[path]` into each test binary that needs it.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod ask;
pub(crate) mod backend;
pub(crate) mod child;
pub(crate) mod claim;
pub(crate) mod cluster;
pub(crate) mod door;
pub(crate) mod etcd;
pub(crate) mod fault;
pub(crate) mod fault_body;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod reset;
pub(crate) mod rewound;
pub(crate) mod rounds;
pub(crate) mod seed;
pub(crate) mod sidecar;
pub(crate) mod sockets;

use std::time::Duration;

/// No test may hang: whatever takes longer than this is a failure with a name.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(120);
/// How often a condition is looked at while waiting for it.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Ends a test that hangs.
pub(crate) async fn bounded(test: impl Future<Output = ()>) {
    assert!(
        tokio::time::timeout(TEST_LIMIT, test).await.is_ok(),
        "the test took longer than {TEST_LIMIT:?}"
    );
}

/// Waits for a condition that must come true within a limit; answers what it found.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let found = tokio::time::timeout(limit, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    match found.await {
        Ok(found) => found,
        Err(_) => panic!("within {limit:?} it did not happen: {what}"),
    }
}

/// Makes two tests of each claim about a `Backend`: one on a real etcd, one on the embedded engine.
macro_rules! engines {
    ($($claim:ident),* $(,)?) => {
        mod real {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    let backend = $crate::support::backend::Backend::real().await;
                    $crate::support::bounded(Box::pin(super::$claim(backend))).await;
                }
            )*
        }

        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    let backend = $crate::support::backend::Backend::embedded();
                    $crate::support::bounded(Box::pin(super::$claim(backend))).await;
                }
            )*
        }
    };
}
pub(crate) use engines;

/// The same, and a third of each: on three members, of which each sidecar begins with another one.
#[allow(unused_macros, reason = "each test binary uses its own part of this")]
macro_rules! everywhere {
    ($($claim:ident),* $(,)?) => {
        $crate::support::engines! { $($claim),* }

        mod cluster {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    let backend = $crate::support::backend::Backend::cluster().await;
                    $crate::support::bounded(Box::pin(super::$claim(backend))).await;
                }
            )*
        }
    };
}
#[allow(unused_imports, reason = "each test binary uses its own part of this")]
pub(crate) use everywhere;
