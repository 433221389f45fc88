//! Invariant 12: no time of day decides who holds what. One sidecar is a year early, the other a year late.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{AtClose, Boottime, Clock};

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS, over};
use super::holds::{lost, opened, renewed};
use crate::support::ask::{
    ask, body, create, fresh_resource, fresh_resources, reserve, reserve_for, together,
};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::sidecar::Sidecar;
use crate::support::{everywhere, until};

const YEAR_MS: i64 = 365 * 24 * 3_600_000;
const SHORTEST: Duration = Duration::from_secs(3);
/// Longer than anything takes here.
const WAIT: Duration = Duration::from_secs(15);

/// One that is a year early, and one that is a year late, in an order that the test may turn.
async fn years_apart(backend: &Backend) -> ([Sidecar; 2], [Clock; 2]) {
    let clocks = [Clock::default(), Clock::default()];
    clocks[0].put_wall_off(-YEAR_MS);
    clocks[1].put_wall_off(YEAR_MS);
    let [early, late] = clocks
        .clone()
        .map(|clock| async { backend.telling_time_by(clock).await });
    ([early.await, late.await], clocks)
}

async fn who_holds_is_known_by_no_time_of_day(backend: Backend) {
    let ([early, late], _) = years_apart(&backend).await;
    for (one, two) in [(&early, &late), (&late, &early)] {
        let resource = fresh_resource();
        let grant = one.hold(&reserve_for(&resource, 60)).await;
        let minute = Duration::from_secs(60);
        assert!(
            grant.safe_for <= minute && grant.safe_for + WAIT > minute,
            "{grant:?}"
        );
        let busy = two.reserve(&reserve(&resource)).await.decision;
        judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
        for sidecar in [one, two] {
            let good = sidecar.fence(&resource, grant.token).await;
            judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
            let renewed = sidecar.renew(&grant.id).await.grant.expect("it lives");
            assert_eq!(renewed.token, grant.token);
            assert!(renewed.safe_for <= minute, "{renewed:?}");
        }
        applied(
            &two.transition(&create(&resource, "held").under(&grant.id))
                .await,
        );
        // Handed on to who waits at the other.
        let waits = two.reserve_waiting(&reserve(&resource), WAIT);
        until("it waits", WAIT, || async {
            (two.engine.waiters().calls == 1).then_some(())
        })
        .await;
        judged(
            &one.release(&grant.id).await,
            Verdict::Applied,
            Layer::Result,
            Rule::Ended,
        );
        let next = waits.await.unwrap().expect("a decision").grant;
        let next = next.expect("it is its turn");
        assert!(next.token > grant.token);
        let old = one
            .transition(&ask(&resource, "late").under(&grant.id))
            .await;
        judged(&old, Verdict::Fenced, Layer::Fence, Rule::Released);
        // Several are of one kind with one.
        let [first, second] = fresh_resources();
        let both = two.hold_together(&together(&[first.clone(), second])).await;
        let busy = one.reserve(&reserve(&first)).await.decision;
        assert_eq!(busy.verdict, Verdict::Busy, "{busy:?}");
        two.release(&both.id).await;
        one.hold(&reserve(&first)).await;
    }
}

async fn a_hold_lasts_and_ends_whatever_the_time_of_day_is_put_to(backend: Backend) {
    let (sidecars, clocks) = years_apart(&backend).await;
    let runs = [0, 1].map(|at| {
        let (one, two, clock) = (&sidecars[at], &sidecars[1 - at], &clocks[at]);
        async move {
            let (kept, taken) = (fresh_resource(), fresh_resource());
            let grant = one.hold(&reserve_for(&kept, SHORTEST_SECONDS)).await;
            let other = one.hold(&reserve_for(&taken, SHORTEST_SECONDS)).await;
            let opening = Boottime::now();
            let mut hold = opened(one, &[&grant.id], AtClose::Keep).await;
            let mut stolen = opened(one, &[&other.id], AtClose::Keep).await;
            renewed(&mut stolen).await;
            let offs = [YEAR_MS, 0, -YEAR_MS].into_iter().cycle();
            for off in offs {
                clock.put_wall_off(off);
                let told = renewed(&mut hold).await;
                assert_eq!(told.token, grant.token);
                assert!(told.safe_for <= Boottime::now().since(opening) + SHORTEST);
                assert_eq!(two.live(&kept).await, Some(grant.token));
                if Boottime::now().since(opening) > 2 * SHORTEST {
                    break;
                }
            }
            // Taken away by the other.
            two.release(&other.id).await;
            let ended = lost(&mut stolen).await;
            judged(&ended, Verdict::Fenced, Layer::Fence, Rule::Released);
            // Nobody renews it any more.
            drop(hold);
            let left_at = Boottime::now();
            over(two, &kept).await;
            let took = Boottime::now().since(left_at);
            assert!(took < OVER_WITHIN, "{took:?}");
            let next = two.hold(&reserve(&kept)).await;
            assert!(next.token > grant.token);
            let ended = one.renew(&grant.id).await.decision;
            judged(&ended, Verdict::Fenced, Layer::Fence, Rule::Lost);
        }
    });
    futures_util::future::join_all(runs).await;
}

// A claim is a reservation: the one who finds it dead is a year away from the one who died over it.
async fn a_claim_dies_with_its_lease_alone(backend: Backend) {
    let (sidecars, _) = years_apart(&backend).await;
    let runs = [0, 1].map(|at| {
        let (one, two) = (&sidecars[at], &sidecars[1 - at]);
        async move {
            let resource = fresh_resource();
            let pay = ask(&resource, "pay").reruns().result("paid");
            let claim = one.hold(&pay.claim_for(SHORTEST_SECONDS)).await;
            let running = two.reserve(&pay.claim()).await.decision;
            assert_eq!(running.verdict, Verdict::InProgress, "{running:?}");
            over(two, &resource).await;
            let again = two.reserve(&pay.claim()).await;
            let again = again.grant.expect("it may run again");
            assert!(again.token > claim.token);
            let late = one.complete(&claim.id, "late").await;
            assert_eq!(late.verdict, Verdict::Fenced, "{late:?}");
            let done = two.complete(&again.id, "paid").await;
            assert_eq!(done.verdict, Verdict::Applied, "{done:?}");
            let known = one.lookup(&resource, "pay").await.decision;
            assert_eq!(known.expect("it is known").result, Some(body("paid")));
        }
    });
    futures_util::future::join_all(runs).await;
}

everywhere! {
    who_holds_is_known_by_no_time_of_day,
    a_hold_lasts_and_ends_whatever_the_time_of_day_is_put_to,
    a_claim_dies_with_its_lease_alone,
}
