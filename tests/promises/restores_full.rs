//! A restore, and the start of a timeline, while etcd has no space: neither a halt nor a timeline can be written.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::timeline::Halt;
use fencepost::engine::{Fault, Health, HowFar};

use super::restores_seen::{FAR, FOUND_WITHIN, asks_until_well, come_far, written};
use crate::support::ask::{create, fresh_resource, reserve, reserve_for};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::fault::{Action, FaultPlan, FaultyLink, Injected, NO_SPACE, Rpc};
use crate::support::rewound::Rewinding;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{engines, until};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any test.
const LONG_SECONDS: u32 = 3_600;

/// Both seams: the sidecar finds etcd further back, and without space.
async fn rewinding_and_full(backend: &Backend) -> (Sidecar, Rewinding, FaultPlan) {
    let (channel, plan) = FaultyLink::wrap(backend.channel());
    let (channel, rewinding) = Rewinding::wrap(channel);
    let sidecar = Sidecar::open(channel, backend.prefix(), CALL_TIMEOUT).await;
    (sidecar, rewinding, plan)
}

fn full(plan: &FaultPlan) -> Injected {
    plan.when(Rpc::Txn).always().then(Action::NoSpace)
}

/// A transaction that puts the timeline, and none that compares or reads it: in a put the value follows the key.
fn puts_the_timeline(backend: &Backend) -> Vec<u8> {
    format!("{}meta/timeline\u{12}", backend.prefix()).into_bytes()
}

async fn halted(sidecar: &Sidecar) -> Halt {
    until("it halts", FOUND_WITHIN, || async {
        match sidecar.engine.inspect(fresh_resource(), caller()).await {
            Err(Fault::Halted { halt }) => Some(halt),
            Err(Fault::StoreUnavailable { .. }) => None,
            other => panic!("{other:?}"),
        }
    })
    .await
}

async fn a_halt_for_which_there_is_no_space_holds_in_memory_and_is_written_later(backend: Backend) {
    let (one, rewinding, plan) = rewinding_and_full(&backend).await;
    let two = backend.sidecar().await;
    come_far(&backend).await;
    let (order, seat) = (fresh_resource(), fresh_resource());
    applied(&one.transition(&create(&order, "pending")).await);
    let held = one.hold(&reserve_for(&seat, LONG_SECONDS)).await;
    let before = written(&backend, "timeline").await;
    let no_space = full(&plan);
    rewinding.rewind(FAR);
    let halt = halted(&one).await;
    assert!(matches!(halt, Halt::WentBack { .. }), "{halt:?}");
    // etcd has come further meanwhile, and no answer speaks for a restore any more.
    rewinding.stop();
    let tried = no_space.hits();
    until("the halt is tried again", FOUND_WITHIN, || async {
        (no_space.hits() >= tried + 2).then_some(())
    })
    .await;
    assert_eq!(written(&backend, "timeline").await, before);
    assert_eq!(*one.engine.health().borrow(), Health::Halted(halt));
    let told = [
        one.try_transition(&create(&order, "pending")).await.err(),
        one.try_reserve(&reserve(&fresh_resource())).await.err(),
        one.try_renew(&held.id).await.err(),
        one.try_release(&held.id).await.err(),
    ];
    for fault in told {
        assert_eq!(fault, Some(Fault::Halted { halt }));
    }
    let now = one.engine.timeline_now(caller()).await.unwrap();
    assert_eq!(now.halt, Some(halt));
    // Whoever has seen nothing of it cannot know.
    assert_eq!(two.live(&seat).await, Some(held.token));

    no_space.lift();
    let found = until("it is written", FOUND_WITHIN, || async {
        match two.engine.inspect(order.clone(), caller()).await {
            Err(Fault::Halted { halt }) => Some(halt),
            Ok(_) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(found, halt);
    let started = two.start_timeline("the test says so").await;
    assert_eq!(started.ended, 1);
    for sidecar in [&one, &two] {
        asks_until_well(sidecar).await;
        let fenced = sidecar.fence(&seat, held.token).await;
        judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
    }
    let next = one.hold(&reserve(&seat)).await;
    assert!(next.token > held.token);
}

async fn what_halts_in_memory_alone_ends_with_a_timeline_of_another(backend: Backend) {
    let (one, rewinding, plan) = rewinding_and_full(&backend).await;
    let two = backend.sidecar().await;
    come_far(&backend).await;
    one.inspect(&fresh_resource()).await;
    let _no_space = full(&plan);
    rewinding.rewind(FAR);
    halted(&one).await;
    rewinding.stop();
    let started = two.start_timeline("nobody told this one").await;
    asks_until_well(&one).await;
    assert_eq!(one.timeline(), started.timeline);
}

async fn a_read_that_is_behind_halts_nothing_without_space_either(backend: Backend) {
    let (one, rewinding, plan) = rewinding_and_full(&backend).await;
    come_far(&backend).await;
    one.inspect(&fresh_resource()).await;
    let no_space = full(&plan);
    rewinding.rewind_reads(FAR);
    let read = one.engine.inspect(fresh_resource(), caller()).await;
    assert!(
        matches!(read, Err(Fault::StoreUnavailable { .. })),
        "{read:?}"
    );
    // The write was refused, and a deletion showed where etcd is.
    until("it was looked into", FOUND_WITHIN, || async {
        (no_space.hits() > 0).then_some(())
    })
    .await;
    rewinding.stop();
    asks_until_well(&one).await;
    let mut health = one.engine.health();
    let well = health.wait_for(|health| *health == Health::Serving);
    tokio::time::timeout(FOUND_WITHIN, well)
        .await
        .unwrap()
        .unwrap();
}

async fn no_timeline_is_started_without_space_and_the_answer_says_what_to_do(backend: Backend) {
    let (one, plan) = backend.faulty_within(CALL_TIMEOUT).await;
    let two = backend.sidecar().await;
    let seat = fresh_resource();
    let held = two.hold(&reserve_for(&seat, LONG_SECONDS)).await;
    let no_space = full(&plan);
    let refused = one.try_start_timeline("it is full").await.unwrap_err();
    assert!(
        matches!(
            refused,
            Fault::StartNeedsSpace {
                how_far: HowFar::Nothing,
                ..
            }
        ),
        "{refused:?}"
    );
    let said = refused.to_string();
    assert!(
        said.contains("nothing was done")
            && said.contains("disarm the alarm")
            && said.contains("start-timeline"),
        "{said}"
    );
    assert_eq!(two.live(&seat).await, Some(held.token));
    assert_eq!(one.live(&seat).await, Some(held.token));
    no_space.lift();
    assert_eq!(one.start_timeline("there is room").await.ended, 1);
}

async fn a_start_that_ran_out_of_space_halts_all_and_says_so_until_the_next(backend: Backend) {
    let (one, plan) = backend.faulty_within(CALL_TIMEOUT).await;
    let two = backend.sidecar().await;
    let seat = fresh_resource();
    let held = two.hold(&reserve_for(&seat, LONG_SECONDS)).await;
    // The first step fits.
    let first = plan
        .when(Rpc::Txn)
        .containing(puts_the_timeline(&backend))
        .then(Action::SlowRequest(Duration::ZERO));
    let no_space = full(&plan);
    let short = one.try_start_timeline("it fills up").await.unwrap_err();
    assert_eq!(first.hits(), 1);
    assert!(
        matches!(
            short,
            Fault::StartNeedsSpace {
                how_far: HowFar::Begun,
                ..
            }
        ),
        "{short:?}"
    );
    let said = short.to_string();
    assert!(
        !said.contains("nothing was done") && said.contains("nothing is judged"),
        "{said}"
    );
    for sidecar in [&one, &two] {
        let told = sidecar.try_reserve(&reserve(&fresh_resource())).await;
        assert!(
            matches!(
                told,
                Err(Fault::Halted {
                    halt: Halt::Starting { .. }
                })
            ),
            "{told:?}"
        );
    }
    no_space.lift();
    two.start_timeline("there is room").await;
    asks_until_well(&one).await;
    let fenced = one.fence(&seat, held.token).await;
    judged(&fenced, Verdict::Fenced, Layer::Fence, Rule::OlderTimeline);
}

async fn a_start_whose_steps_took_the_last_space_is_done(backend: Backend) {
    let (one, plan) = backend.faulty_within(CALL_TIMEOUT).await;
    let last = plan
        .when(Rpc::Txn)
        .containing(puts_the_timeline(&backend))
        .times(2)
        .then(Action::DoAndSay(NO_SPACE.0, NO_SPACE.1));
    let started = one.start_timeline("it just fits").await;
    assert_eq!(last.hits(), 2);
    asks_until_well(&one).await;
    assert_eq!(one.timeline(), started.timeline);
    let now = one.engine.timeline_now(caller()).await.unwrap();
    assert_eq!((now.halt, now.starts.len()), (None, 1));
}

engines! {
    a_halt_for_which_there_is_no_space_holds_in_memory_and_is_written_later,
    what_halts_in_memory_alone_ends_with_a_timeline_of_another,
    a_read_that_is_behind_halts_nothing_without_space_either,
    no_timeline_is_started_without_space_and_the_answer_says_what_to_do,
    a_start_that_ran_out_of_space_halts_all_and_says_so_until_the_next,
    a_start_whose_steps_took_the_last_space_is_done,
}
