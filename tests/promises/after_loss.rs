//! What a token is worth once its loss was told while etcd said nothing: nothing, at whatever moment what was sent arrives.

use std::time::Duration;

use fencepost::domain::decision::{Layer, Rule, Verdict};
use fencepost::domain::request::{EndedRounds, Fence};
use fencepost::engine::{AtClose, Boottime, Fault};
use futures_util::future::join_all;

use super::fence::{SHORTEST_SECONDS, over};
use super::holds::{lost, opened, renewed, silence};
use crate::support::ask::{ask, create, fresh_resource, reserve_for};
use crate::support::backend::{Backend, SHORT_CALL_TIMEOUT};
use crate::support::claim::{applied, judged};
use crate::support::engines;
use crate::support::fault::{Action, Ending, Rpc};
use crate::support::sidecar::caller_for;

/// How long each of these calls may take,
const LIMIT: Duration = Duration::from_secs(2);
/// and how much later a busy machine may come to look at it.
const LATE: Duration = Duration::from_secs(2);
/// A call of the sidecar to etcd that outlasts them.
const PATIENT_CALL: Duration = Duration::from_secs(5);

/// No other request has this in it.
const PAY: &str = "late payment";

/// Fails if anything passed, or if it took too long.
async fn is_refused<T: std::fmt::Debug>(call: impl Future<Output = Result<T, Fault>>) -> Fault {
    let began = Boottime::now();
    let told = call.await;
    let took = Boottime::now().since(began);
    assert!(took < LIMIT + LATE, "{took:?}");
    told.expect_err("nothing is known of it")
}

// B3. Silence past the bound is a loss; there is nothing between held and lost.
async fn a_token_whose_loss_was_told_in_silence_passes_nowhere(backend: Backend) {
    let runs = [
        (SHORT_CALL_TIMEOUT, false),
        (PATIENT_CALL, false),
        (SHORT_CALL_TIMEOUT, true),
        (PATIENT_CALL, true),
    ];
    let runs = runs.map(|(call_timeout, sent_before)| {
        let backend = backend.clone();
        async move {
            let (one, plan) = backend.faulty_within(call_timeout).await;
            let two = backend.sidecar().await;
            let resource = fresh_resource();
            applied(&one.transition(&create(&resource, "pending")).await);
            let wish = reserve_for(&resource, SHORTEST_SECONDS);
            let grant = one.hold(&wish).await;
            let mut hold = opened(&one, &[&grant.id], AtClose::Keep).await;
            renewed(&mut hold).await;
            // It knows the token as a good one.
            let good = one.fence(&resource, grant.token).await;
            judged(&good, Verdict::Granted, Layer::Fence, Rule::Live);
            let pay = ask(&resource, PAY).from(&["pending"]).to("paid");
            let pay = pay.under(&grant.id).result("charged");
            let moves = plan.when(Rpc::Txn).containing(PAY).always();
            let moves = moves.then(Action::DeliverLate(Ending::Silence));
            let silent = silence(&plan);
            if sent_before {
                // The token was good when this left.
                let sent = one.engine.transition(pay.build(), caller_for(LIMIT));
                let fault = is_refused(sent).await;
                assert!(matches!(fault, Fault::UnknownOutcome { .. }), "{fault:?}");
                assert!(moves.hits() > 0);
            }
            let told = lost(&mut hold).await;
            judged(&told, Verdict::Fenced, Layer::Fence, Rule::Lost);
            for ended in [EndedRounds::Refused, EndedRounds::Accepted] {
                let fence = Fence {
                    resource: resource.clone(),
                    token: grant.token,
                    ended,
                };
                // A question is known to have done nothing.
                let fault = is_refused(one.engine.fence(fence, caller_for(LIMIT))).await;
                let unanswered = matches!(
                    fault,
                    Fault::StoreUnavailable { .. } | Fault::DeadlinePassed
                );
                assert!(unanswered, "{fault:?}");
                let moved = one.engine.transition(pay.build(), caller_for(LIMIT));
                let fault = is_refused(moved).await;
                let unanswered = matches!(
                    fault,
                    Fault::StoreUnavailable { .. }
                        | Fault::DeadlinePassed
                        | Fault::UnknownOutcome { .. }
                );
                assert!(unanswered, "{fault:?}");
                is_refused(one.engine.renew(grant.id.clone(), caller_for(LIMIT))).await;
            }
            over(&two, &resource).await;
            // What was sent arrives after all, and finds the reservation over.
            for held in silent.iter().chain([&moves]) {
                if held.hits() > 0 {
                    held.deliver().await;
                }
                held.lift();
            }
            assert_eq!(two.live(&resource).await, None);
            assert_eq!(two.state(&resource).await, "pending");
            for sidecar in [&one, &two] {
                let fence = sidecar.fence(&resource, grant.token).await;
                judged(&fence, Verdict::Fenced, Layer::Fence, Rule::TokenEnded);
                let moved = sidecar.transition(&pay).await;
                judged(&moved, Verdict::Fenced, Layer::Fence, Rule::Lost);
            }
        }
    });
    join_all(runs).await;
}

engines! {
    a_token_whose_loss_was_told_in_silence_passes_nowhere,
}
