//! A renewal that stalled promises no more than it kept.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::request::TTL_SECONDS_MIN;
use tokio::time::Instant;

use super::fence::{SHORTEST_SECONDS, over};
use crate::support::ask::{fresh_resource, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::judged;
use crate::support::engines;
use crate::support::fault::{Action, Rpc};

/// More than any stall here.
const PATIENT_CALL: Duration = Duration::from_secs(15);
const SHORTEST: Duration = Duration::from_secs(TTL_SECONDS_MIN as u64);
/// What a granter tells of the rest of a reservation is true to within this.
const TOLD_TO_WITHIN: Duration = Duration::from_secs(1);

/// What stalls: the keepalive on its way back, or the look that follows it, whichever call that is.
const STALLED: [Rpc; 3] = [Rpc::LeaseKeepAlive, Rpc::Range, Rpc::Txn];

async fn a_stalled_renewal_is_fenced_or_as_long_as_it_says(backend: Backend) {
    let stalls = STALLED.into_iter().flat_map(|rpc| {
        let delays = [SHORTEST, SHORTEST * 4 / 3, 2 * SHORTEST];
        delays.map(|delay| (rpc, delay))
    });
    let runs = stalls.map(|(rpc, delay)| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(PATIENT_CALL).await;
            let two = backend.sidecar().await;
            let resource = fresh_resource();
            let grant = one.hold(&reserve_for(&resource, SHORTEST_SECONDS)).await;
            // What opens the stream of keepalives is sent once more when it is open, which would renew anew after the stall.
            one.renew(&grant.id).await.grant.expect("it is held");
            let stalled = plan.when(rpc);
            let stalled = match rpc {
                Rpc::LeaseKeepAlive => stalled,
                _ => stalled.containing(resource.id()),
            };
            stalled.then(Action::SlowReply(delay));
            let observed = (two.clone(), resource.clone());
            let free = tokio::spawn(async move {
                over(&observed.0, &observed.1).await;
                Instant::now()
            });
            let sent = Instant::now();
            let renewed = one.renew(&grant.id).await;
            let answered = sent.elapsed();
            let Some(promised) = renewed.grant else {
                judged(&renewed.decision, Verdict::Fenced, Layer::Fence, Rule::Lost);
                return Outcome {
                    rpc,
                    answered,
                    fenced: true,
                };
            };
            // Whoever granted it tells what is left, and that follows from when the keepalive was sent, not from when it was
            // answered.
            let asked = Instant::now();
            let live = one.inspect(&resource).await.live;
            let ended = free.await.unwrap();
            let (safe_for, lived) = (promised.safe_for, ended - sent);
            assert!(
                lived >= safe_for,
                "{rpc:?} {delay:?}: {lived:?} < {safe_for:?}"
            );
            if let Some(left) = live.map(|live| live.at_most) {
                let rest = ended - asked + TOLD_TO_WITHIN;
                assert!(
                    rest >= left,
                    "{rpc:?} {delay:?}: {left:?} were left, and {rest:?} came"
                );
            }
            Outcome {
                rpc,
                answered,
                fenced: false,
            }
        }
    });
    let outcomes = futures_util::future::join_all(runs).await;
    let of_keepalive = |it: &&Outcome| it.rpc == Rpc::LeaseKeepAlive && it.answered >= SHORTEST;
    assert!(
        outcomes.iter().any(|it| of_keepalive(&it)),
        "no keepalive was stalled"
    );
    let of_look = |it: &&Outcome| it.rpc != Rpc::LeaseKeepAlive && it.answered >= SHORTEST;
    assert!(
        outcomes.iter().any(|it| of_look(&it)),
        "no second look was stalled"
    );
    assert!(
        outcomes.iter().any(|it| it.fenced),
        "twice the TTL is longer than the lease"
    );
}

struct Outcome {
    rpc: Rpc,
    answered: Duration,
    fenced: bool,
}

engines! {
    a_stalled_renewal_is_fenced_or_as_long_as_it_says,
}
