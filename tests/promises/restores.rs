//! etcd restored from a backup, by its own tools: what was granted after the backup is never granted again, and a person decides
//! what the backup cannot know.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{Grant, Layer, Rule, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::timeline::Halt;
use fencepost::domain::token::FencingToken;
use fencepost::engine::{Fault, Health, OperationState};

use crate::support::ask::{
    Ask, ask, body, create, fresh_resource, reserve, reserve_for, resolution,
};
use crate::support::backend::Backend;
use crate::support::claim::{applied, evidence, judged, replayed};
use crate::support::etcd::Etcd;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{bounded, until};

/// Longer than any test: what ends, ends because of the new timeline.
const LONG_SECONDS: u32 = 3600;
/// How long a sidecar may take to find out about a halt, or its end.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// More revisions than were lost.
const BUMP: i64 = 300;

/// What was done before and after the backup.
struct Story {
    /// In the backup: an order that is pending.
    order: ResourceId,
    /// In the backup: a resource that is held.
    seat: ResourceId,
    held: Grant,
    /// In the backup: an operation that is claimed, and may run again.
    claimed: ResourceId,
    claim: Grant,
    /// Lost: an order, and a grant, the last one of all.
    lost: ResourceId,
    last: FencingToken,
}

fn pay(resource: &ResourceId) -> Ask {
    ask(resource, "pay").from(&["pending"]).to("paid")
}

fn reruns(resource: &ResourceId) -> Ask {
    pay(resource).reruns()
}

impl Story {
    async fn told(one: &Sidecar, etcd: &Etcd, backup: &Path) -> Self {
        let [order, seat, claimed, lost] = [(); 4].map(|()| fresh_resource());
        applied(&one.transition(&create(&order, "pending")).await);
        applied(&one.transition(&create(&claimed, "pending")).await);
        let held = one.hold(&reserve_for(&seat, LONG_SECONDS)).await;
        let claim = one.hold(&reruns(&claimed).claim_for(LONG_SECONDS)).await;
        etcd.back_up(backup);
        applied(&one.transition(&create(&lost, "pending")).await);
        applied(&one.complete(&claim.id, "receipt").await);
        applied(&one.transition(&pay(&order)).await);
        let mut last = held.token;
        for _ in 0..20 {
            let grant = one.hold(&reserve_for(&lost, LONG_SECONDS)).await;
            assert!(grant.token > last);
            last = grant.token;
            one.release(&grant.id).await;
        }
        Self {
            order,
            seat,
            held,
            claimed,
            claim,
            lost,
            last,
        }
    }

    /// The store goes on as the backup knows it; nothing of what was granted before is granted again, or of any use.
    async fn goes_on(&self, sidecars: &[&Sidecar]) {
        for sidecar in sidecars {
            until("the sidecar goes on", FOUND_WITHIN, || async {
                let seen = sidecar.engine.inspect(self.order.clone(), caller()).await;
                seen.ok()
            })
            .await;
        }
        let [first, .., other] = sidecars else {
            panic!("at least two");
        };
        // What was in memory was of the lost history.
        assert_eq!(first.state(&self.order).await, "pending");
        assert_eq!(first.state(&self.lost).await, "");
        replayed(
            &first.transition(&create(&self.order, "pending")).await,
            &body(""),
        );
        applied(&first.transition(&create(&self.lost, "pending")).await);
        applied(&other.transition(&pay(&self.order)).await);

        // Zombies.
        let fenced = other.fence(&self.seat, self.held.token).await;
        judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
        let fenced = first.fence(&self.lost, self.last).await;
        judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
        for sidecar in sidecars {
            let renewed = sidecar.renew(&self.held.id).await.decision;
            judged(&renewed, Verdict::Fenced, Layer::Fence, Rule::Lost);
            let ended = sidecar.release(&self.held.id).await;
            judged(&ended, Verdict::Replayed, Layer::Replay, Rule::Lost);
        }
        let late = ask(&self.seat, "sell")
            .initial("free")
            .to("sold")
            .under(&self.held.id);
        let late = other.transition(&late).await;
        judged(&late, Verdict::Fenced, Layer::Fence, Rule::Lost);
        let mut highest = self.last;
        for (sidecar, resource) in [(first, &self.seat), (other, &self.lost)] {
            let grant = sidecar.hold(&reserve(resource)).await;
            assert!(grant.token > highest, "{} after {highest}", grant.token);
            let live = first.fence(resource, grant.token).await;
            judged(&live, Verdict::Granted, Layer::Fence, Rule::Live);
            highest = grant.token;
        }

        // Whether the claim was completed the backup does not know, though it may run again.
        let again = other.reserve(&reruns(&self.claimed).claim()).await.decision;
        let rule = Rule::OlderTimeline;
        judged(&again, Verdict::Interrupted, Layer::Replay, rule);
        let known = first.lookup(&self.claimed, "pay").await;
        assert_eq!(known.state, OperationState::Interrupted);
        let late = first.complete(&self.claim.id, "receipt").await;
        assert_eq!(late.verdict, Verdict::Fenced, "{late:?}");
        let incidents = first.incidents(&self.claimed).await;
        assert!(
            incidents
                .iter()
                .any(|found| found.verdict == Verdict::Interrupted)
        );
        let kept = incidents.iter().flat_map(evidence);
        assert!(kept.into_iter().any(|result| result == body("receipt")));
        let found = resolution(&self.claimed, "pay", Finding::NotDone, "");
        first.resolve(&found).await;
        let granted = other.hold(&reruns(&self.claimed).claim()).await;
        assert_eq!(granted.attempt, 2);
    }
}

/// Asks everything that can be asked; each must be answered by the halt.
async fn everything_is_halted(sidecar: &Sidecar, story: &Story) -> Halt {
    let known = |fault: Option<Fault>, what: &str| match fault {
        Some(Fault::Halted { halt }) => halt,
        other => panic!("{what}: {other:?} instead of a halt"),
    };
    let asked = sidecar.try_reserve(&reserve(&story.seat)).await;
    let halt = known(asked.err(), "Reserve");
    known(sidecar.try_renew(&story.held.id).await.err(), "Renew");
    known(sidecar.try_release(&story.held.id).await.err(), "Release");
    // The first is in the memory of the sidecar that committed it.
    for moves in [create(&story.order, "pending"), pay(&story.order)] {
        known(sidecar.try_transition(&moves).await.err(), "Transition");
    }
    let asked = sidecar.try_complete(&story.claim.id, "receipt").await;
    known(asked.err(), "a completing Transition");
    let fence = fencepost::domain::request::Fence {
        resource: story.seat.clone(),
        token: story.held.token,
        ended: fencepost::domain::request::EndedRounds::Refused,
    };
    known(sidecar.engine.fence(fence, caller()).await.err(), "Fence");
    let asked = sidecar.engine.inspect(story.order.clone(), caller()).await;
    known(asked.err(), "Inspect");
    let asked = sidecar.engine.explain(story.order.clone(), None, caller());
    known(asked.await.err(), "Explain");
    halt
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_went_back_halts_every_sidecar_until_a_person_starts_a_timeline() {
    Box::pin(bounded(async {
        let files = tempfile::tempdir().unwrap();
        let backup = files.path().join("backup");
        let etcd = Arc::new(Etcd::start().await);
        let backend = Backend::of_etcd(Arc::clone(&etcd));
        let [one, two] = backend.sidecars().await;
        let story = Story::told(&one, &etcd, &backup).await;
        assert_eq!(two.state(&story.order).await, "paid");
        let url = etcd.url().to_owned();
        drop(backend);
        let etcd = Arc::into_inner(etcd).expect("nobody else has it");
        let etcd = Arc::new(etcd.restore(&backup, None).await);
        assert_eq!(etcd.url(), url);

        // Nothing is granted on the way there, and no state of the backup is told as that of today.
        let fresh = fresh_resource();
        let halt = until("it halts", FOUND_WITHIN, || async {
            match one.try_reserve(&reserve(&fresh)).await {
                Err(Fault::Halted { halt }) => Some(halt),
                Err(Fault::StoreUnavailable { .. } | Fault::UnknownOutcome { .. }) => None,
                other => panic!("{other:?}"),
            }
        })
        .await;
        let Halt::WentBack { known, found, .. } = halt else {
            panic!("{halt:?}");
        };
        assert!(known > found, "{halt:?}");
        // One that comes now has never seen the higher revision.
        let late = Sidecar::open(
            crate::support::backend::connection(&url),
            one.prefix(),
            Duration::from_secs(5),
        )
        .await;
        for sidecar in [&one, &two, &late] {
            until("health says so", FOUND_WITHIN, || async {
                let health = *sidecar.engine.health().borrow();
                (health == Health::Halted(halt)).then_some(())
            })
            .await;
            assert_eq!(everything_is_halted(sidecar, &story).await, halt);
        }

        let started = late.start_timeline("the backup of noon").await;
        assert!(started.ended >= 2, "{started:?}");
        assert!(started.timeline.min_token > story.last.get());
        Box::pin(story.goes_on(&[&late, &one, &two])).await;
        for sidecar in [&one, &two, &late] {
            // It looks by itself, every second.
            until("health says so", FOUND_WITHIN, || async {
                let health = *sidecar.engine.health().borrow();
                (health == Health::Serving).then_some(())
            })
            .await;
            assert_eq!(sidecar.timeline(), started.timeline);
        }
        let now = two.engine.timeline_now(caller()).await.unwrap();
        assert_eq!((now.timeline, now.halt), (started.timeline, None));
        assert_eq!(now.starts.len(), 1);
        assert_eq!(now.starts[0].reason.to_string(), "the backup of noon");
        assert_eq!(now.starts[0].halt, Some(halt));

        // One too many ends what is held, and harms nothing else.
        let third = one.start_timeline("to be sure").await;
        assert!(third.timeline.base > started.timeline.base);
        assert_eq!(one.state(&story.order).await, "paid");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restore_with_higher_revisions_a_new_timeline_alone_gives_the_same() {
    Box::pin(bounded(async {
        let files = tempfile::tempdir().unwrap();
        let backup = files.path().join("backup");
        let etcd = Arc::new(Etcd::start().await);
        let backend = Backend::of_etcd(Arc::clone(&etcd));
        let [one, two] = backend.sidecars().await;
        let story = Story::told(&one, &etcd, &backup).await;
        drop(backend);
        let etcd = Arc::into_inner(etcd).expect("nobody else has it");
        let least = i64::try_from(story.last.get() - one.timeline().base).unwrap() + BUMP;
        let _etcd = etcd.restore(&backup, Some(least)).await;
        let started = until("a timeline is started", FOUND_WITHIN, || async {
            two.try_start_timeline("restored with a bump").await.ok()
        })
        .await;
        assert_eq!(started.ended, 2);
        Box::pin(story.goes_on(&[&two, &one])).await;
        let now = one.engine.timeline_now(caller()).await.unwrap();
        assert_eq!(now.starts[0].halt, None, "nothing was halted");
    }))
    .await;
}
