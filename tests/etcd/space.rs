//! An etcd whose disk quota is used up.

use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions};
use fencepost::domain::decision::Verdict;
use fencepost::engine::{Fault, HEALTH_BOUND, Health, OperationState};
use fencepost::store::{Endpoint, Version};

use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::connection;
use crate::support::bounded;
use crate::support::claim::{applied, replayed};
use crate::support::etcd::Etcd;
use crate::support::sidecar::Sidecar;

const QUOTA: &str = "--quota-backend-bytes=16777216";
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// A TTL of which no lease is at hand.
const OTHER_SECONDS: u32 = 77;

/// Whoever acts on health could only restart the sidecar, which makes no room. So it says that it serves, also when it has looked.
async fn serves(sidecar: &Sidecar) {
    let mut health = sidecar.engine.health();
    health.mark_unchanged();
    let looked = tokio::time::timeout(HEALTH_BOUND, health.changed()).await;
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
        let mut health = one.engine.health();
        let unwell = tokio::spawn(async move {
            let unwell = health.wait_for(|health| *health != Health::Serving).await;
            unwell.map(|health| *health)
        });

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

        // What docs/etcd.md tells to do.
        for at in 0..filled {
            raw.delete(format!("/fill/{at}"), None).await.unwrap();
        }
        let now = raw.get("/fill/", None).await.unwrap();
        let now = now.header().unwrap().revision();
        let physical = Some(CompactionOptions::new().with_physical());
        raw.compact(now, physical).await.unwrap();
        raw.defragment().await.unwrap();
        let status = raw.status().await.unwrap();
        let mut of_member = AlarmOptions::new();
        of_member.with_member(status.header().unwrap().member_id());
        raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(of_member))
            .await
            .unwrap();
        let again = one.transition(&pay).await;
        assert!(
            matches!(again.verdict, Verdict::Applied | Verdict::Replayed),
            "{again:?}"
        );
        assert_eq!(two.state(&order).await, "paid");
        let next = two.hold(&reserve(&held)).await;
        assert!(next.token > grant.token);
        assert!(
            !unwell.is_finished(),
            "health has said that it does not serve"
        );
    }))
    .await;
}
