//! What holds for two sidecars holds for three: machines, incidents, waiting.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost::domain::decision::{Advice, Verdict};
use futures_util::future::join_all;

use super::laws::{By, pay, ship};
use crate::support::ask::{body, fresh_resource, reserve};
use crate::support::backend::Backend;
use crate::support::claim::{applied, replayed};
use crate::support::sidecar::Sidecar;
use crate::support::{engines, until};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);
/// What was counted is written within this.
const COUNTED_WITHIN: Duration = Duration::from_secs(20);
/// Copies of one message at once.
const COPIES: usize = 12;

async fn three(backend: &Backend) -> [Sidecar; 3] {
    [
        backend.sidecar().await,
        backend.sidecar().await,
        backend.sidecar().await,
    ]
}

async fn a_machine_moves_an_order_once_whichever_of_three_is_asked(backend: Backend) {
    let sidecars = three(&backend).await;
    for _ in 0..4 {
        let order = By::Machine.pending(&sidecars[0]).await;
        for (asked, state) in [(pay(&order), "paid"), (ship(&order), "shipped")] {
            let copies = (0..COPIES).map(|at| {
                let asked = asked.clone().result(format!("of copy {at}"));
                let sidecar = &sidecars[at % 3];
                async move { sidecar.transition(&asked).await }
            });
            let answers = join_all(copies).await;
            let first: Vec<_> = answers
                .iter()
                .filter(|it| it.verdict == Verdict::Applied)
                .collect();
            assert_eq!(first.len(), 1, "{answers:?}");
            let result = first[0].result.clone().unwrap();
            for again in answers.iter().filter(|it| it.verdict != Verdict::Applied) {
                replayed(again, &result);
            }
            for sidecar in &sidecars {
                assert_eq!(sidecar.state(&order).await, state);
                replayed(&sidecar.transition(&asked).await, &result);
            }
        }
    }
}

async fn a_contradiction_that_three_meet_at_once_is_one_incident_that_counts_all(backend: Backend) {
    let sidecars = three(&backend).await;
    let order = By::Machine.pending(&sidecars[0]).await;
    applied(
        &sidecars[1]
            .transition(&pay(&order).json("1").result("first"))
            .await,
    );
    let others = (0..COPIES).map(|at| {
        let (sidecar, other) = (&sidecars[at % 3], pay(&order).json("2"));
        async move { sidecar.transition(&other).await }
    });
    let mut ids = BTreeSet::new();
    for told in join_all(others).await {
        assert_eq!(told.verdict, Verdict::Conflict, "{told:?}");
        ids.insert(told.incident.unwrap());
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    let again = u32::try_from(COPIES - 1).unwrap();
    until("all are counted", COUNTED_WITHIN, || async {
        let found = sidecars[2].incidents(&order).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].again <= again, "{found:?}");
        (found[0].again == again).then_some(())
    })
    .await;
    replayed(
        &sidecars[0].transition(&pay(&order).json("1")).await,
        &body("first"),
    );
}

async fn of_those_who_wait_at_three_for_one_claim_all_get_its_result(backend: Backend) {
    let sidecars = three(&backend).await;
    let order = By::Machine.pending(&sidecars[0]).await;
    let grant = sidecars[0].hold(&pay(&order).claim()).await;
    let waiting = [0, 1, 2, 0, 1, 2].map(|at| sidecars[at].transition_waiting(&pay(&order), LONG));
    for sidecar in &sidecars {
        let look = || async { (sidecar.engine.waiters().calls == 2).then_some(()) };
        until("both wait", COUNTED_WITHIN, look).await;
    }
    applied(&sidecars[2].complete(&grant.id, "receipt").await);
    for told in join_all(waiting).await {
        replayed(&told.unwrap().unwrap(), &body("receipt"));
    }
}

async fn a_busy_resource_goes_round_three_in_the_order_of_arrival(backend: Backend) {
    let sidecars = three(&backend).await;
    let resource = fresh_resource();
    let mut held = sidecars[0].hold(&reserve(&resource)).await;
    let mut waiting = Vec::new();
    for at in 0..6 {
        waiting.push(sidecars[at % 3].reserve_waiting(&reserve(&resource), LONG));
        let queue = format!("{}w/", backend.prefix());
        until("it is queued", COUNTED_WITHIN, || async {
            let keys = backend.written().await;
            let queued = keys.iter().filter(|(key, _)| key.starts_with(&queue));
            (queued.count() == at + 1).then_some(())
        })
        .await;
    }
    for (at, told) in waiting.into_iter().enumerate() {
        assert!(!told.is_finished(), "{at} came before its turn");
        sidecars[(at + 1) % 3].release(&held.id).await;
        let next = told.await.unwrap().unwrap();
        assert_eq!(next.decision.advice(), Advice::Proceed, "{at}: {next:?}");
        let grant = next.grant.unwrap();
        assert!(grant.token > held.token);
        held = grant;
    }
}

engines! {
    a_machine_moves_an_order_once_whichever_of_three_is_asked,
    a_contradiction_that_three_meet_at_once_is_one_incident_that_counts_all,
    of_those_who_wait_at_three_for_one_claim_all_get_its_result,
    a_busy_resource_goes_round_three_in_the_order_of_arrival,
}
