//! At most one live reservation of a resource, and tokens that only rise.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::domain::decision::{Advice, Layer, Rule, Verdict};
use fencepost::domain::token::{FencingToken, TOKEN_MAX};
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::support::ask::{ask, create, fresh_resource, reserve, resource_of};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged};
use crate::support::everywhere;

/// Callers that want the same resource at once.
const CALLERS: usize = 1_000;
/// Callers that go on asking at the same time, once they were told that it is busy.
const ASKING_MAX: usize = 16;
/// How long such a caller waits: far shorter than a stranger should, because the holds here last no time.
const ASK_AGAIN: Duration = Duration::from_millis(2);

async fn of_many_who_ask_at_once_one_is_granted_and_the_others_are_busy(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let asks = (0..100).map(|caller| {
        let (sidecar, ask) = (&sidecars[caller % 2], reserve(&resource));
        async move { sidecar.reserve(&ask).await }
    });
    let answers = join_all(asks).await;
    let granted: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.grant.clone())
        .collect();
    assert_eq!(granted.len(), 1, "{granted:?}");
    for answer in answers.iter().filter(|answer| answer.grant.is_none()) {
        let decision = &answer.decision;
        judged(decision, Verdict::Busy, Layer::Fence, Rule::Held);
        assert_eq!(decision.advice(), Advice::Retry);
        assert!(decision.retry_after.is_some(), "{decision:?}");
        let live = decision.now.as_ref().and_then(|now| now.live.as_ref());
        assert_eq!(
            live.map(|live| live.token),
            Some(granted[0].token),
            "{decision:?}"
        );
    }
}

// A1: a lock must not wait for a key that merely looks like its own.
async fn names_that_begin_alike_are_different_resources(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let alike = [
        ("order", "1"),
        ("order", "10"),
        ("order", "order"),
        ("order", "1/x"),
        ("order", "1 "),
        ("order", " 1"),
        ("order", "order%2F1"),
        ("order", "1%2Fx"),
        ("order", "/1"),
        ("order", "1/"),
        ("orde", "r/1"),
        ("Order", "1"),
    ];
    let mut raw = backend.raw().await;
    for (kind, id) in alike {
        let key = sidecars[0].key_of(&resource_of(kind, id));
        for foreign in [
            format!("{key}/foreign"),
            format!("{key}~"),
            format!("{}{kind}/{id}/x", backend.prefix()),
        ] {
            raw.put(foreign, "not ours", None).await.unwrap();
        }
    }
    for (at, (kind, id)) in alike.into_iter().enumerate() {
        let ask = reserve(&resource_of(kind, id));
        let granted = sidecars[at % 2].reserve(&ask).await.decision;
        judged(&granted, Verdict::Granted, Layer::Result, Rule::WasFree);
    }
    for (at, (kind, id)) in alike.into_iter().enumerate() {
        let ask = reserve(&resource_of(kind, id));
        let busy = sidecars[at % 2].reserve(&ask).await.decision;
        assert_eq!(busy.verdict, Verdict::Busy, "{kind}/{id:?}: {busy:?}");
    }
}

// A5: many callers, one holder's name, one connection each sidecar: re-entry is by request id alone.
async fn a_thousand_callers_hold_one_at_a_time_under_rising_tokens(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let asking = Arc::new(Semaphore::new(ASKING_MAX));
    let held = Arc::new(AtomicBool::new(false));
    let counter = Arc::new(AtomicUsize::new(0));
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let callers = (0..CALLERS).map(|caller| {
        let sidecar = sidecars[caller % 2].clone();
        let ask = reserve(&resource);
        let (asking, held) = (Arc::clone(&asking), Arc::clone(&held));
        let (counter, tokens) = (Arc::clone(&counter), Arc::clone(&tokens));
        tokio::spawn(async move {
            let mut answer = sidecar.reserve(&ask).await;
            let mut turn = None;
            let grant = loop {
                if let Some(grant) = answer.grant {
                    break grant;
                }
                assert_eq!(answer.decision.verdict, Verdict::Busy, "{answer:?}");
                if turn.is_none() {
                    turn = Some(asking.acquire().await.unwrap());
                }
                tokio::time::sleep(ASK_AGAIN).await;
                answer = sidecar.reserve(&ask).await;
            };
            assert!(!held.swap(true, Ordering::SeqCst), "two hold it at once");
            let before = counter.load(Ordering::SeqCst);
            tokens.lock().unwrap().push(grant.token);
            tokio::task::yield_now().await;
            counter.store(before + 1, Ordering::SeqCst);
            assert!(held.swap(false, Ordering::SeqCst), "it was not held");
            let ended = sidecar.release(&grant.id).await;
            judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), CALLERS);
    rising(&tokens.lock().unwrap());
}

async fn the_same_request_gets_the_same_token_back_from_any_sidecar(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let ask = reserve(&resource);
    let first = sidecars[0].hold(&ask).await;
    for sidecar in [&sidecars[0], &sidecars[1], &sidecars[0]] {
        let again = sidecar.reserve(&ask).await;
        judged(
            &again.decision,
            Verdict::Granted,
            Layer::Replay,
            Rule::SameRequest,
        );
        let again = again.grant.unwrap();
        assert_eq!((again.id, again.token), (first.id.clone(), first.token));
    }
    sidecars[1].release(&first.id).await;
    for sidecar in &sidecars {
        let over = sidecar.reserve(&ask).await.decision;
        judged(&over, Verdict::Fenced, Layer::Fence, Rule::Released);
        assert_eq!(over.advice(), Advice::Abandon);
    }
    assert_eq!(sidecars[0].live(&resource).await, None);
}

// C6: a token is a position in history in every mode, never a random number.
async fn tokens_rise_over_a_thousand_rounds_across_sidecars_and_restarts(backend: Backend) {
    let mut sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    let mut tokens = Vec::new();
    for round in 0..1_000 {
        if round % 250 == 249 {
            sidecars[round % 2] = backend.sidecar().await;
        }
        let grant = sidecars[round % 2].hold(&reserve(&resource)).await;
        tokens.push(grant.token);
        let by = if round % 3 == 0 {
            1 - round % 2
        } else {
            round % 2
        };
        let ended = sidecars[by].release(&grant.id).await;
        judged(&ended, Verdict::Applied, Layer::Result, Rule::Ended);
    }
    rising(&tokens);
    assert!(tokens.iter().all(|token| token.get() <= TOKEN_MAX));
}

async fn while_a_resource_is_held_only_its_holder_moves_it(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "pending")).await);
    let grant = sidecars[0].hold(&reserve(&resource)).await;
    let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
    for sidecar in &sidecars {
        let busy = sidecar.transition(&pay).await;
        judged(&busy, Verdict::Busy, Layer::Fence, Rule::Held);
        assert!(busy.retry_after.is_some(), "{busy:?}");
        assert_eq!(sidecar.state(&resource).await, "pending");
    }
    let ship = ask(&resource, "hold")
        .from(&["pending"])
        .to("held")
        .under(&grant.id);
    applied(&sidecars[1].transition(&ship).await);
    assert_eq!(sidecars[0].state(&resource).await, "held");
}

everywhere! {
    of_many_who_ask_at_once_one_is_granted_and_the_others_are_busy,
    names_that_begin_alike_are_different_resources,
    a_thousand_callers_hold_one_at_a_time_under_rising_tokens,
    the_same_request_gets_the_same_token_back_from_any_sidecar,
    tokens_rise_over_a_thousand_rounds_across_sidecars_and_restarts,
    while_a_resource_is_held_only_its_holder_moves_it,
}

#[track_caller]
fn rising(tokens: &[FencingToken]) {
    let falls = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!(falls, None, "tokens must rise");
}
