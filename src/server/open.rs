//! Opens the store that the configuration names, and waits for it.

use std::time::Duration;

use tracing::{info, warn};
use uuid::Uuid;

use crate::config::{Backend, Etcd};
use crate::domain::ids::Nonce;
use crate::domain::invalid::Invalid;
use crate::domain::token::Timeline;
use crate::embedded;
use crate::engine::Boottime;
use crate::engine::clock::wall_clock_ms;
use crate::store::{Endpoint, NotApplied, Prefix, Store, StoreError, StoreOptions};

/// First and longest pause between attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Where the embedded engine keeps what nobody else sees.
const MEMORY_PREFIX: &str = "/fencepost/";
/// How long a call to the embedded engine may take; it takes microseconds.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No answer came in time.
    #[error(
        "etcd did not answer within {} at {endpoints} ({last}); is it running, and is --etcd-endpoints right?",
        humantime::format_duration(*waited)
    )]
    NoAnswer {
        /// How long it was tried.
        waited: Duration,
        /// Where.
        endpoints: String,
        /// What the last attempt said.
        last: String,
    },
    /// etcd does not let the sidecar in.
    #[error("etcd does not let this sidecar in: {detail}")]
    Denied {
        /// What etcd said, and what is missing.
        detail: String,
    },
    /// What is there is not ours, or is damaged.
    #[error("{0}; use another --etcd-prefix, or repair what is there")]
    NotOurs(#[source] StoreError),
    /// An address or the prefix is not usable.
    #[error("the store cannot be addressed: {0}")]
    Unusable(#[from] Invalid),
}

/// Opens the store.
pub(super) async fn store(backend: &Backend) -> Result<Store, OpenError> {
    match backend {
        Backend::Etcd(etcd) => in_etcd(etcd).await,
        Backend::Memory => in_memory().await,
    }
}

async fn in_memory() -> Result<Store, OpenError> {
    let endpoint = Endpoint {
        name: "memory".to_owned(),
        channel: embedded::Engine::new().channel(),
    };
    let options = StoreOptions {
        prefix: Prefix::parse(MEMORY_PREFIX)?,
        call_timeout: MEMORY_TIMEOUT,
    };
    let opened = Store::open(vec![endpoint], options, first_timeline()).await;
    opened.map_err(OpenError::NotOurs)
}

async fn in_etcd(etcd: &Etcd) -> Result<Store, OpenError> {
    let options = StoreOptions {
        prefix: etcd.prefix.clone(),
        call_timeout: etcd.timeout,
    };
    let connect = |url: &String| match &etcd.tls {
        Some(tls) => Endpoint::connect_tls(url, tls),
        None => Endpoint::connect(url),
    };
    let draw = Uuid::new_v4();
    let endpoints: Vec<Endpoint> = turned(&etcd.endpoints, draw)
        .map(connect)
        .collect::<Result<_, _>>()?;
    let names = etcd.endpoints.join(", ");
    info!(endpoints = %names, "waiting for etcd");
    if let (Some(login), None) = (&etcd.login, &etcd.tls) {
        warn!(user = %login.user, "the password goes to etcd unencrypted; use https:// unless the network is trusted");
    }
    // Drawn once: attempts whose reply was lost must not each begin a timeline of their own.
    let first = first_timeline();
    let started = Boottime::now();
    let give_up = started.plus(etcd.wait);
    let (mut pause, longest_pause) = PAUSE;
    let mut last = "no attempt was answered".to_owned();
    loop {
        let login = etcd.login.clone();
        let attempt = Store::open_as(login, endpoints.clone(), options.clone(), first);
        match tokio::time::timeout(give_up.left(), attempt).await {
            Ok(Ok(store)) => return Ok(store),
            Ok(Err(error)) => match &error {
                StoreError::Corrupt { .. } => return Err(OpenError::NotOurs(error)),
                // Waiting gives no right.
                StoreError::NotApplied {
                    reason: NotApplied::Denied,
                    detail,
                } => {
                    return Err(OpenError::Denied {
                        detail: detail.clone(),
                    });
                }
                StoreError::NotApplied { detail, .. }
                | StoreError::Full { detail }
                | StoreError::Indeterminate { detail } => {
                    last.clone_from(detail);
                }
            },
            // The limit came first; what the attempt before said is the better reason.
            Err(_) => {}
        }
        let left = give_up.left();
        if left.is_zero() {
            return Err(OpenError::NoAnswer {
                waited: etcd.wait,
                endpoints: names,
                last,
            });
        }
        warn!(endpoints = %names, error = %last, "etcd does not answer yet; trying again");
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(longest_pause);
    }
}

/// All of them, beginning somewhere: many sidecars are given the same list, and one that answers is kept. So together they use
/// all members.
fn turned<T>(listed: &[T], draw: Uuid) -> impl Iterator<Item = &T> {
    let begin = draw.as_u128() % u128::try_from(listed.len().max(1)).unwrap_or(1);
    let begin = usize::try_from(begin).unwrap_or(0);
    listed.iter().cycle().skip(begin).take(listed.len())
}

fn first_timeline() -> Timeline {
    let id = Nonce::from_bytes(*Uuid::new_v4().as_bytes());
    Timeline::first(id, wall_clock_ms() / 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sidecars_with_the_same_list_begin_with_different_members_and_know_all() {
        let listed = ["a", "b", "c"];
        let mut began = BTreeMap::<&str, usize>::new();
        for _ in 0..300 {
            let order: Vec<&str> = turned(&listed, Uuid::new_v4()).copied().collect();
            *began.entry(order[0]).or_default() += 1;
            let known = ["abc", "bca", "cab"].contains(&order.concat().as_str());
            assert!(known, "{order:?}");
        }
        // A hundred each; with half as many the chance is less than one in a hundred million.
        assert!(listed.iter().all(|name| began[name] > 50), "{began:?}");
        let none: [&str; 0] = [];
        assert_eq!(turned(&none, Uuid::new_v4()).count(), 0);
        assert_eq!(turned(&["one"], Uuid::new_v4()).count(), 1);
    }
}
