//! A snapshot that was restored with raised revisions, by etcd's own means where its version has them.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::engine::{Health, OperationState};
use fencepost::store::Endpoint;

use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::claim::{applied, judged, replayed};
use crate::support::etcd::{Etcd, restores_with_a_bump};
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{bounded, until};

const PREFIX: &str = "/restored/";
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a sidecar may take to go on after a restore.
const BACK_WITHIN: Duration = Duration::from_secs(30);
/// Longer than any test: what ends, ends because of the new timeline.
const LONG_SECONDS: u32 = 3_600;
/// More revisions than were lost.
const BUMP: i64 = 5_000;

// What docs/restore.md says is noticed of it, and what is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raised_revisions_are_noticed_by_nobody_and_a_timeline_makes_all_of_it_good() {
    bounded(Box::pin(async {
        let files = tempfile::tempdir().unwrap();
        let backup = files.path().join("backup");
        let etcd = Etcd::start().await;
        let url = etcd.url().to_owned();
        let open = || async {
            let endpoint = Endpoint::connect(&url).unwrap();
            Sidecar::on(vec![endpoint], None, PREFIX, CALL_TIMEOUT).await
        };
        let (one, two) = (open().await, open().await);
        let [order, seat, claimed, lost] = [(); 4].map(|()| fresh_resource());
        for resource in [&order, &claimed] {
            applied(&one.transition(&create(resource, "pending")).await);
        }
        let zombie = one.hold(&reserve_for(&seat, LONG_SECONDS)).await;
        let pay = |resource| ask(resource, "pay").from(&["pending"]).to("paid");
        let claim = pay(&claimed).reruns().claim_for(LONG_SECONDS);
        let claim = one.hold(&claim).await;
        let following = two.engine.follow(order.clone(), None, caller());
        let mut following = following.await.unwrap();
        let mut shown = async || {
            let next = tokio::time::timeout(BACK_WITHIN, following.next()).await;
            next.expect("it is told in time")
        };
        assert!(!shown().await.unwrap().gap);

        etcd.back_up(&backup);
        // All of this is lost.
        applied(&one.transition(&pay(&order).result("first")).await);
        let state = |shown: &fencepost::engine::Shown| {
            let state = shown.snapshot.state.as_ref();
            state.map(ToString::to_string)
        };
        assert_eq!(state(&shown().await.unwrap()).as_deref(), Some("paid"));
        applied(&one.transition(&create(&lost, "pending")).await);
        applied(&one.complete(&claim.id, "receipt").await);
        let last = one.hold(&reserve_for(&lost, LONG_SECONDS)).await;
        let timeline = one.timeline();
        let _etcd = etcd.restore(&backup, Some(BUMP)).await;

        // Whoever watches is told the state of the backup, and that states are missing: what came next is compacted.
        if restores_with_a_bump() {
            let told = shown().await.unwrap();
            assert!(told.gap, "{told:?}");
            assert_eq!(state(&told).as_deref(), Some("pending"), "{told:?}");
        }
        until("etcd is back", BACK_WITHIN, || async {
            let seen = two.engine.inspect(order.clone(), caller()).await;
            seen.ok()
        })
        .await;
        let mut health = two.engine.health();
        let well = health.wait_for(|health| *health == Health::Serving);
        let well = tokio::time::timeout(BACK_WITHIN, well).await;
        well.expect("nothing is halted").unwrap();
        // What is asked of etcd is as the backup has it, and what is a fact is told from memory: that is why a timeline
        // has to be started.
        assert_eq!(two.state(&order).await, "pending");
        assert_eq!(one.timeline(), timeline);
        let again = one.transition(&pay(&order).result("second")).await;
        replayed(&again, &body("first"));

        let started = two.start_timeline("restored with a bump").await;
        assert_eq!(started.ended, 2, "{started:?}");
        assert!(shown().await.is_err(), "its revisions say nothing any more");
        let three = open().await;
        for sidecar in [&one, &two, &three] {
            until("the sidecar goes on", BACK_WITHIN, || async {
                (sidecar.timeline() == started.timeline).then_some(())
            })
            .await;
            let known = sidecar.lookup(&order, "pay").await;
            assert_eq!(known.state, OperationState::NeverSeen);
            for (resource, token) in [(&seat, zombie.token), (&lost, last.token)] {
                let fenced = sidecar.fence(resource, token).await;
                judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
            }
            let renewed = sidecar.renew(&zombie.id).await.decision;
            judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Lost);
            let claim = sidecar.reserve(&pay(&claimed).reruns().claim()).await;
            let rule = Rule::OlderTimeline;
            judged(&claim.decision, Verdict::Interrupted, Layer::Replay, rule);
        }
        // Nothing is answered from the memory of what was lost.
        applied(&one.transition(&pay(&order).result("second")).await);
        replayed(
            &three.transition(&pay(&order).result("third")).await,
            &body("second"),
        );
        assert_eq!(one.state(&lost).await, "");
        let mut highest = last.token;
        for (sidecar, resource) in [(&one, &seat), (&two, &lost), (&three, &order)] {
            let grant = sidecar.hold(&reserve(resource)).await;
            assert!(grant.token > highest, "{grant:?} after {highest}");
            highest = grant.token;
        }
    }))
    .await;
}
