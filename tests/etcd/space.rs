//! An etcd whose disk quota is used up.

use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions};
use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::timeline::Halt;
use fencepost::engine::{Fault, Health, HowFar, OperationState};
use fencepost::store::{Endpoint, Version};

use crate::support::ask::{
    ask, body, create, fresh_resource, fresh_resources, reserve, reserve_for, together,
};
use crate::support::backend::connection;
use crate::support::claim::{applied, judged, replayed};
use crate::support::etcd::Etcd;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{bounded, until};

const QUOTA: &str = "--quota-backend-bytes=16777216";
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const BACK_WITHIN: Duration = Duration::from_secs(30);
/// Longer than any test.
const LONG_SECONDS: u32 = 3_600;

/// Until it is full; answers how many keys that took.
async fn fill(raw: &mut Client) -> usize {
    let filling = vec![b'x'; 1024 * 1024];
    let mut filled = 0;
    while raw
        .put(format!("/fill/{filled}"), filling.clone(), None)
        .await
        .is_ok()
    {
        filled += 1;
        assert!(filled < 64, "it takes more than its quota");
    }
    filled
}

/// What docs/etcd.md tells to do.
async fn make_room(raw: &mut Client, filled: usize) {
    for at in 0..filled {
        raw.delete(format!("/fill/{at}"), None).await.unwrap();
    }
    let now = raw.get("/fill/", None).await.unwrap();
    let now = now.header().unwrap().revision();
    let physical = Some(CompactionOptions::new().with_physical());
    raw.compact(now, physical).await.unwrap();
    raw.defragment().await.unwrap();
    let all = raw.alarm(AlarmAction::Get, AlarmType::Nospace, None).await;
    for alarm in all.unwrap().alarms() {
        let mut of_member = AlarmOptions::new();
        of_member.with_member(alarm.member_id());
        raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of_member))
            .await
            .unwrap();
    }
}

/// A TTL of which no lease is at hand.
const OTHER_SECONDS: u32 = 77;

/// A sidecar looks by itself once it has heard nothing for a while, and the leases that it keeps ready are heard of for a while after use.
const LOOKS_WITHIN: Duration = Duration::from_secs(30);

/// Whoever acts on health could only restart the sidecar, which makes no room. So it says that it serves, also when it has looked.
async fn serves(sidecar: &Sidecar) {
    let mut health = sidecar.engine.health();
    health.mark_unchanged();
    let looked = tokio::time::timeout(LOOKS_WITHIN, health.changed()).await;
    looked.expect("it looks").unwrap();
    assert_eq!(*health.borrow(), Health::Serving);
}

// J6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_clearly_and_is_used_again_once_it_was_cleared() {
    bounded(Box::pin(async {
        let etcd = Etcd::start_with(false, &[QUOTA]).await;
        let mut raw = Client::from_channel(connection(etcd.url()), None)
            .await
            .unwrap();
        let endpoint = || vec![Endpoint::connect(etcd.url()).unwrap()];
        let one = Sidecar::on(endpoint(), None, "/full/", CALL_TIMEOUT).await;
        let (order, held) = (fresh_resource(), fresh_resource());
        applied(
            &one.transition(&create(&order, "pending").result("made"))
                .await,
        );
        let grant = one.hold(&reserve(&held)).await;
        let (several, others): ([_; 3], [_; 2]) = (fresh_resources(), fresh_resources());
        let of_several = one.hold_together(&together(&several)).await;
        let mut health = one.engine.health();
        let unwell = tokio::spawn(async move {
            let unwell = health.wait_for(|health| *health != Health::Serving).await;
            unwell.map(|health| *health)
        });

        let filled = fill(&mut raw).await;

        let version = raw.status().await.unwrap().version().to_owned();
        let defects = Version::parse(&version).unwrap().defects();
        // An older etcd does not count what is put in nested transactions.
        let counts = !defects.iter().any(|defect| defect.contains("quota"));
        let pay = ask(&order, "pay").from(&["pending"]).to("paid");
        let paid = one.try_transition(&pay).await;
        if counts {
            assert!(matches!(paid, Err(Fault::StoreFull { .. })), "{paid:?}");
            assert_eq!(one.state(&order).await, "pending");
            let all = one.try_reserve(&reserve(&fresh_resource())).await;
            assert!(matches!(all, Err(Fault::StoreFull { .. })), "{all:?}");
            let all = one.try_reserve_together(&together(&others)).await;
            assert!(matches!(all, Err(Fault::StoreFull { .. })), "{all:?}");
            for resource in &others {
                assert_eq!(one.live(resource).await, None);
            }
        } else {
            applied(&paid.unwrap());
            // Of leases it knows.
            let other = reserve_for(&fresh_resource(), OTHER_SECONDS);
            let granted = one.try_reserve(&other).await;
            assert!(
                matches!(granted, Err(Fault::StoreFull { .. })),
                "{granted:?}"
            );
        }
        replayed(
            &one.transition(&create(&order, "pending")).await,
            &body("made"),
        );
        assert!(one.renew(&grant.id).await.grant.is_some());
        // A sidecar that comes only now finds what it needs.
        let two = Sidecar::on(endpoint(), None, "/full/", CALL_TIMEOUT).await;
        for sidecar in [&one, &two] {
            let known = sidecar.lookup(&order, "create").await;
            assert_eq!(known.state, OperationState::Done);
            replayed(&known.decision.unwrap(), &body("made"));
            let good = sidecar.fence(&held, grant.token).await;
            assert_eq!(good.verdict, Verdict::Granted);
            serves(sidecar).await;
        }
        assert_eq!(two.live(&held).await, Some(grant.token));
        assert_eq!(two.release(&grant.id).await.verdict, Verdict::Applied);
        assert_eq!(one.live(&held).await, None);
        assert_eq!(one.release(&grant.id).await.verdict, Verdict::Replayed);
        let ended = two.release(&of_several.id).await;
        judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
        for resource in &several {
            assert_eq!(one.live(resource).await, None);
        }
        let again = one.release(&of_several.id).await;
        let as_if_run_out = if counts { Rule::Lost } else { Rule::Released };
        judged(&again, Verdict::Replayed, Layer::Replay, as_if_run_out);

        make_room(&mut raw, filled).await;
        let again = one.transition(&pay).await;
        assert!(
            matches!(again.verdict, Verdict::Applied | Verdict::Replayed),
            "{again:?}"
        );
        assert_eq!(two.state(&order).await, "paid");
        let next = two.hold(&reserve(&held)).await;
        assert!(next.token > grant.token);
        let next = one.hold_together(&together(&several)).await;
        assert!(next.token > of_several.token);
        assert!(
            !unwell.is_finished(),
            "health has said that it does not serve"
        );
    }))
    .await;
}

// What docs/restore.md says of a restore without space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_that_was_restored_halts_in_memory_until_there_is_room() {
    bounded(Box::pin(async {
        let files = tempfile::tempdir().unwrap();
        let backup = files.path().join("backup");
        let etcd = Etcd::start_with(false, &[QUOTA]).await;
        let url = etcd.url().to_owned();
        let endpoint = || vec![Endpoint::connect(&url).unwrap()];
        let one = Sidecar::on(endpoint(), None, "/full/", CALL_TIMEOUT).await;
        let (order, held) = (fresh_resource(), fresh_resource());
        let made = create(&order, "pending").result("made");
        applied(&one.transition(&made).await);
        let zombie = one.hold(&reserve_for(&held, LONG_SECONDS)).await;
        let mut raw = Client::from_channel(connection(&url), None).await.unwrap();
        let filled = fill(&mut raw).await;
        etcd.back_up(&backup);
        // Deletions go on, and revisions with them.
        for at in 0..filled {
            raw.delete(format!("/fill/{at}"), None).await.unwrap();
        }
        assert_eq!(one.release(&zombie.id).await.verdict, Verdict::Applied);
        let etcd = etcd.restore(&backup, None).await;

        let halt = until("it halts", BACK_WITHIN, || async {
            match one.engine.inspect(order.clone(), caller()).await {
                Err(Fault::Halted { halt }) => Some(halt),
                Err(Fault::StoreUnavailable { .. }) => None,
                other => panic!("{other:?}"),
            }
        })
        .await;
        assert!(matches!(halt, Halt::WentBack { .. }), "{halt:?}");
        let told = one.try_transition(&made).await;
        assert_eq!(told, Err(Fault::Halted { halt }), "not even from memory");
        let refused = one.try_start_timeline("it is full").await;
        assert!(
            matches!(
                refused,
                Err(Fault::StartNeedsSpace {
                    how_far: HowFar::Nothing,
                    ..
                })
            ),
            "{refused:?}"
        );

        let mut raw = Client::from_channel(connection(etcd.url()), None)
            .await
            .unwrap();
        make_room(&mut raw, filled).await;
        // Now it is written, and whoever comes is told of it.
        let two = Sidecar::on(endpoint(), None, "/full/", CALL_TIMEOUT).await;
        until("the halt is written", BACK_WITHIN, || async {
            let asked = two.engine.inspect(order.clone(), caller()).await;
            (asked == Err(Fault::Halted { halt })).then_some(())
        })
        .await;
        let started = two.start_timeline("there is room").await;
        assert_eq!(started.ended, 1, "the backup knows the reservation");
        for sidecar in [&one, &two] {
            until("it goes on", BACK_WITHIN, || async {
                let seen = sidecar.engine.inspect(order.clone(), caller()).await;
                seen.ok()
            })
            .await;
            let fenced = sidecar.fence(&held, zombie.token).await;
            judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
        }
        let next = one.hold(&reserve(&held)).await;
        assert!(next.token > zombie.token);
    }))
    .await;
}
