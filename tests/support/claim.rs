//! What tests claim about answers.

use std::fmt::Debug;
use std::time::Duration;

use fencepost::domain::decision::{Decision, Layer, Rule, Verdict};
use fencepost::domain::incident::Incident;
use fencepost::domain::outcome::StoredResult;
use fencepost::engine::Fault;

/// This verdict, from this layer, for this reason.
#[track_caller]
pub(crate) fn judged(decision: &Decision, verdict: Verdict, layer: Layer, rule: Rule) {
    let found = (decision.verdict, decision.layer, decision.rule);
    assert_eq!(found, (verdict, layer, rule), "{decision:?}");
    let explained = !decision.explanation.is_empty();
    assert!(explained, "an answer without a sentence: {decision:?}");
    if let Some(retry_after) = decision.retry_after {
        assert!(retry_after >= Duration::from_millis(1), "{decision:?}");
    }
}

/// The first application of a move.
#[track_caller]
pub(crate) fn applied(decision: &Decision) {
    judged(decision, Verdict::Applied, Layer::Result, Rule::Moved);
}

/// A repetition, with the first result.
#[track_caller]
pub(crate) fn replayed(decision: &Decision, first: &StoredResult) {
    let (layer, rule) = (Layer::Replay, Rule::SameContent);
    judged(decision, Verdict::Replayed, layer, rule);
    assert_eq!(decision.result.as_ref(), Some(first), "{decision:?}");
    assert!(decision.first_time_ms.is_some(), "{decision:?}");
}

/// All that must be equal in every repeated answer, whoever gives it: the resource as it stands now is not part of
/// it, nor is how often it was delivered.
pub(crate) fn lasting(decision: &Decision) -> Decision {
    Decision {
        now: None,
        deliveries: None,
        ..decision.clone()
    }
}

/// A call whose reply was lost may have its answer, or none; it must not say that nothing was done.
#[track_caller]
pub(crate) fn not_failed<T: Debug>(answer: &Result<T, Fault>) {
    match answer {
        Ok(_) | Err(Fault::UnknownOutcome { .. }) => {}
        Err(fault) => panic!("it was sent, and yet: {fault:?}"),
    }
}

/// The results that were not taken.
pub(crate) fn evidence(incident: &Incident) -> Vec<StoredResult> {
    let results = incident.evidence.iter().map(|one| one.result.clone());
    results.collect()
}
