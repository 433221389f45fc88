//! What is kept for a time: replayable within it, removed after it, and never begun anew by what is older.

use std::time::Duration;

use super::message::{moves, once, operation};
use super::play::{NOW, Play, answered};
use crate::domain::decision::{Advice, Layer, Rule, Verdict};
use crate::domain::judge::{Answer, Ask, Certainty, OperationState, SWEPT_OPERATIONS_MAX};
use crate::domain::request::{EndedRounds, Lookup};
use crate::domain::retention::{CLOCK_BOUND, StoreTime};

const RETENTION: Duration = Duration::from_secs(3600);
const FORGET: Duration = Duration::from_secs(7200);
/// Longer than the retention, the drift and the bound together.
const OVER: Duration = Duration::from_secs(3630);

fn play() -> Play {
    let mut play = Play::new();
    play.when.keeping.operations = RETENTION;
    play
}

impl Play {
    pub(super) fn pass(&mut self, span: Duration) {
        self.when.wall_ms += span.as_millis() as u64;
        let now = self.when.now.seconds() + span.as_secs();
        self.when.now = StoreTime::from_seconds(now);
    }

    /// Sweeps, told of all operations that have keys of their own.
    pub(super) fn sweep(&mut self) {
        let apart: Vec<_> = self.apart.keys().cloned().collect();
        let standing = self.standing(&apart);
        let folded = self.fold(&standing, &[Ask::Sweep(apart)]);
        let committed = self.apply(&folded).unwrap();
        let draft = answered(folded.judged.into_iter().next().unwrap());
        assert_eq!(draft.finish(committed), Answer::Swept);
    }

    fn known(&mut self, id: &str, made_ms: Option<u64>) -> OperationState {
        let lookup = Lookup {
            operation: operation(id),
            made_ms,
        };
        match self.ask(Ask::Lookup(lookup)) {
            Answer::Known(state, _) => state,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_operation_is_replayed_within_its_retention_and_kept_a_little_longer() {
    let mut play = play();
    play.past(&[once("op").saying("receipt")]);
    play.pass(RETENTION);
    play.sweep();
    let again = play.send(&once("op"));
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    // Over here, but perhaps not yet on the clock of another sidecar.
    play.pass(Duration::from_secs(5));
    let folded = play.fold_now(&[once("op").ask(&play.resource.clone(), play_nonce())]);
    let draft = answered(folded.judged.into_iter().next().unwrap());
    assert_eq!(
        draft.certainty,
        Certainty::Confirm,
        "memory no longer counts"
    );
    play.sweep();
    let again = play.send(&once("op"));
    assert_eq!(again.decision().verdict, Verdict::Replayed, "still stored");
    play.pass(CLOCK_BOUND);
    play.sweep();
    assert_eq!(play.record, None, "nothing else was known of the resource");
    assert_eq!(play.known("op", None), OperationState::NeverSeen);
}

fn play_nonce() -> crate::domain::ids::Nonce {
    crate::domain::ids::Nonce::from_bytes([99; 16])
}

#[test]
fn a_write_that_is_made_anyway_takes_away_what_is_over_and_none_is_made_for_that_alone() {
    let mut play = play();
    play.past(&[once("old"), moves("create", "", "open").initially("new")]);
    play.pass(OVER);
    let folded = play.fold_now(&[Ask::Inspect]);
    assert!(folded.write.is_none(), "a write only to remove something");
    play.past(&[once("new")]);
    let (record, _) = play.record.clone().unwrap();
    let kept: Vec<_> = record
        .operations
        .iter()
        .map(|found| found.id.clone())
        .collect();
    assert_eq!(kept, [operation("new")]);
    assert_eq!(record.touched, Some(play.when.now));
}

#[test]
fn a_removed_operation_is_judged_by_identity_and_state_and_moves_nothing_twice() {
    let mut play = play();
    let pay = moves("pay", "open", "paid").of("attempt", "p1");
    play.past(&[
        moves("create", "", "open")
            .initially("new")
            .sets("attempt", "p1"),
        pay.clone(),
    ]);
    play.pass(OVER);
    play.sweep();
    let (record, _) = play.record.clone().unwrap();
    assert!(record.operations.is_empty());
    let again = play.send(&pay);
    assert_eq!(again.decision().verdict, Verdict::Superseded);
    let other = play.send(&moves("pay 2", "open", "paid").of("attempt", "p0"));
    assert_eq!(other.decision().advice(), Advice::Retry);
    let (record, _) = play.record.clone().unwrap();
    assert_eq!(record.moves, 3, "nothing moved");
}

#[test]
fn operations_in_keys_of_their_own_are_removed_with_their_count() {
    let mut play = play();
    let many = 2 * SWEPT_OPERATIONS_MAX + 3;
    for at in 0..many {
        play.past(&[once(&format!("large {at}")).saying(&"x".repeat(2_000))]);
    }
    assert_eq!(play.apart.len(), many);
    play.pass(OVER);
    for left in [many - SWEPT_OPERATIONS_MAX, 3, 0] {
        play.sweep();
        assert_eq!(play.apart.len(), left);
    }
    assert_eq!(play.record, None);
}

#[test]
fn what_is_only_remembered_of_a_removed_operation_is_not_told_as_true() {
    let mut play = play();
    play.past(&[
        moves("create", "", "open").initially("new"),
        once("large").saying(&"x".repeat(2_000)),
        once("larger").saying(&"x".repeat(3_000)),
    ]);
    let before = play.standing(&[operation("large"), operation("larger")]);
    play.pass(OVER);
    play.sweep();
    play.past(&[once("next").saying(&"x".repeat(2_000))]);
    // A sidecar that remembers, and has read the record anew, but not that operation.
    let now = play.standing(&[]).remembering(before);
    let nonce = play.nonce();
    let ask = once("large").ask(&play.resource.clone(), nonce);
    let folded = play.fold(&now, &[ask]);
    assert!(folded.absent.contains(&operation("large")), "it looks anew");
    let draft = answered(folded.judged.into_iter().next().unwrap());
    let committed = crate::domain::token::Revision::from_etcd(1_000);
    assert_eq!(draft.finish(committed).decision().verdict, Verdict::Applied);
}

#[test]
fn a_message_older_than_the_retention_never_runs_and_alerts_once() {
    let mut play = play();
    play.pass(Duration::from_secs(1_000_000));
    let hours_ago = |hours: u64| NOW * 1000 + 1_000_000_000 - hours * 3_600_000;
    let old = once("op").made_at(hours_ago(2)).saying("evidence");
    for _ in 0..2 {
        let refused = play.send(&old);
        let decision = refused.decision();
        assert_eq!(
            (decision.verdict, decision.layer, decision.rule),
            (Verdict::Expired, Layer::Key, Rule::TooOld)
        );
        assert_eq!(decision.advice(), Advice::Refuse);
        assert!(decision.incident.is_some());
    }
    assert_eq!(play.record, None, "nothing is stored of it");
    assert_eq!(play.incidents.len(), 1);
    let evidence = play.incidents.values().next().unwrap();
    assert!(!evidence.evidence.is_empty(), "its effect may have run");
    assert_eq!(
        play.known("op", Some(hours_ago(2))),
        OperationState::Expired
    );
    assert_eq!(play.known("op", None), OperationState::NeverSeen);
    // A young one runs, and is replayed even when it has become old.
    let young = once("young").made_at(hours_ago(0));
    assert_eq!(play.send(&young).decision().verdict, Verdict::Applied);
    play.pass(RETENTION);
    assert_eq!(play.send(&young).decision().verdict, Verdict::Replayed);
    assert_eq!(
        play.known("young", young.made_ms),
        OperationState::DoneEmpty
    );
}

#[test]
fn a_reservation_that_is_over_is_remembered_for_one_more_retention() {
    let mut play = play();
    let (held, round) = play.hold(1);
    play.pass(OVER);
    play.sweep();
    assert!(play.record.is_some(), "it is live");
    play.expire();
    play.sweep();
    // Nobody had noticed its end: it is remembered from now on.
    play.pass(RETENTION);
    play.sweep();
    let token = round.token.get();
    let shown = play.fence(token, EndedRounds::Accepted);
    assert_eq!(shown.decision().rule, Rule::LastGranted);
    let late = play.let_go(&held);
    assert_eq!(late.decision().rule, Rule::Lost);
    play.pass(OVER);
    play.sweep();
    assert_eq!(play.record, None);
    // Forgotten, and refused all the same; the next token is larger.
    let shown = play.fence(token, EndedRounds::Accepted);
    assert_eq!(shown.decision().rule, Rule::NeverIssued);
    let (_, next) = play.hold(2);
    assert!(next.token.get() > token);
    let shown = play.fence(token, EndedRounds::Accepted);
    assert_eq!(shown.decision().rule, Rule::Overtaken);
}

#[test]
fn a_state_is_kept_for_good_unless_told_otherwise() {
    let mut play = play();
    play.past(&[moves("create", "", "open").initially("new")]);
    for _ in 0..5 {
        play.pass(1000 * OVER);
        play.sweep();
    }
    let (record, _) = play.record.clone().unwrap();
    assert!(record.state.is_some() && record.operations.is_empty());
}

#[test]
fn a_forgotten_resource_is_not_begun_anew_by_what_comes_late() {
    let mut play = play();
    play.when.keeping.forget = Some(FORGET);
    let create = moves("create", "", "open")
        .initially("new")
        .sets("attempt", "p1");
    play.past(std::slice::from_ref(&create));
    let (held, round) = play.hold(1);
    play.let_go(&held);
    play.pass(RETENTION + CLOCK_BOUND);
    play.sweep();
    assert!(play.record.as_ref().unwrap().0.state.is_some());
    play.pass(FORGET);
    play.sweep();
    assert_eq!(play.record.as_ref().unwrap().0.state, None);
    for late in [
        create.clone(),
        moves("pay", "open", "paid").of("attempt", "p1"),
        once("note").of("attempt", "p1"),
    ] {
        let refused = play.send(&late);
        let decision = refused.decision();
        assert_eq!(
            (decision.verdict, decision.rule),
            (Verdict::Rejected, Rule::Forgotten)
        );
        let again = play.send(&late);
        assert_eq!(again.decision().explanation, decision.explanation);
    }
    let shown = play.fence(round.token.get(), EndedRounds::Accepted);
    assert_eq!(shown.decision().rule, Rule::LastGranted);
    // What was refused is kept as long as any operation, and then all of it goes.
    play.pass(OVER);
    play.sweep();
    assert_eq!(play.record, None);
    assert_eq!(play.send(&create).decision().verdict, Verdict::Applied);
}

#[test]
fn a_sweep_is_alone_in_its_commit() {
    let mut play = play();
    play.past(&[once("old")]);
    play.pass(OVER);
    let (one, two) = (play.message(&once("a")), play.message(&once("b")));
    let sweep = Ask::Sweep(Vec::new());
    let folded = play.fold_now(&[one.clone(), sweep.clone()]);
    assert!(matches!(
        folded.judged[1],
        crate::domain::judge::Judged::Later
    ));
    let folded = play.fold_now(&[sweep, two]);
    assert!(matches!(
        folded.judged[1],
        crate::domain::judge::Judged::Later
    ));
    assert!(folded.write.unwrap().gone.record);
    // A sweep is no use of the resource.
    play.past(&[moves("create", "", "open").initially("new")]);
    play.pass(OVER);
    play.sweep();
    let (record, _) = play.record.clone().unwrap();
    assert!(record.operations.is_empty());
    assert!(record.touched.unwrap() < play.when.now);
}

#[test]
fn who_only_asks_is_told_what_would_be_and_nothing_is_written() {
    let mut play = play();
    play.past(&[moves("create", "", "open").initially("new")]);
    let before = play.record.clone();
    let told = |play: &mut Play, message: super::message::Message| {
        let ask = play.message(&message.only_asking());
        let folded = play.fold_now(&[ask]);
        assert!(folded.write.is_none(), "it writes");
        let draft = answered(folded.judged.into_iter().next().unwrap());
        assert_eq!(draft.certainty, Certainty::Confirm);
        let answer = draft.finish(None);
        let decision = answer.decision().clone();
        assert_eq!(decision.incident, None);
        assert!(decision.only_asked, "{decision:?}");
        let state = decision.now.unwrap().state.unwrap();
        assert_eq!(state.as_str(), "open", "the resource as it stands");
        decision.verdict
    };
    let pay = moves("pay", "open", "paid");
    assert_eq!(told(&mut play, pay.clone()), Verdict::Applied);
    assert_eq!(
        told(&mut play, moves("x", "new", "lost")),
        Verdict::Rejected
    );
    let created = moves("create", "", "open").initially("new");
    assert_eq!(told(&mut play, created.clone()), Verdict::Replayed);
    let conflict = created.content("other");
    assert_eq!(told(&mut play, conflict), Verdict::Conflict);
    assert_eq!(play.record, before);
    assert!(play.incidents.is_empty());
    assert_eq!(play.send(&pay).decision().verdict, Verdict::Applied);
    // What another request is about to write is no fact to tell.
    let asks = [
        play.message(&moves("ship", "paid", "shipped")),
        play.message(&moves("ship 2", "shipped", "lost").only_asking()),
    ];
    let folded = play.fold_now(&asks);
    assert!(matches!(
        folded.judged[1],
        crate::domain::judge::Judged::Later
    ));
}

#[test]
fn deliveries_are_counted_in_memory_and_written_with_the_next_write() {
    let mut play = play();
    play.past(&[once("op")]);
    let mut known = play.standing(&[]);
    for delivery in 2..5 {
        let ask = play.message(&once("op"));
        let folded = play.fold(&known, &[ask]);
        assert!(folded.write.is_none(), "a replay writes");
        let draft = answered(folded.judged.into_iter().next().unwrap());
        known.delivered_again(draft.repeats().unwrap());
        let answer = draft.finish(None);
        assert_eq!(answer.decision().deliveries, Some(delivery));
    }
    let (again, other) = (play.message(&once("op")), play.message(&once("other")));
    let folded = play.fold(&known, &[again, other]);
    let write = folded.write.clone().unwrap();
    assert_eq!(write.counted, [operation("op")]);
    play.apply(&folded).unwrap();
    let (record, _) = play.record.clone().unwrap();
    assert_eq!(record.operations[0].deliveries.get(), 5);
    assert_eq!(record.operations[1].deliveries.get(), 1);
    let after = play.standing(&[]).remembering(known);
    let after = after.counted(&write.counted);
    let ask = play.message(&once("op"));
    let folded = play.fold(&after, &[ask]);
    let draft = answered(folded.judged.into_iter().next().unwrap());
    assert_eq!(draft.finish(None).decision().deliveries, Some(6));
}
