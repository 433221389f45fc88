//! What a fold may assume, and what its answers rest on.

use super::message::{moves, once, operation, result};
use super::play::{Play, answered};
use crate::domain::decision::Verdict;
use crate::domain::judge::{Ask, Certainty, Standing};

fn certainties(play: &mut Play, asks: &[Ask]) -> Vec<Certainty> {
    let folded = play.fold_now(asks);
    let drafts = folded.judged.into_iter().map(answered);
    drafts.map(|draft| draft.certainty).collect()
}

#[test]
fn only_finished_operations_are_facts() {
    let mut play = Play::new();
    play.past(&[moves("c", "", "cancelled").initially("pending")]);
    let rejected = moves("no", "pending", "paid");
    play.send(&rejected);
    let conflict = moves("c", "", "cancelled").content("other");
    play.send(&conflict);
    for message in [moves("c", "", "cancelled"), rejected, conflict] {
        let ask = play.message(&message);
        assert_eq!(certainties(&mut play, &[ask]), [Certainty::Fact]);
    }
    let (id, held) = play.hold(1);
    let token = held.token.get();
    let resource = play.resource.clone();
    let fence = super::message::fence_as(
        &resource,
        token,
        crate::domain::request::EndedRounds::Accepted,
    );
    let may_change = [
        play.reserve(1),
        play.reserve(2),
        play.message(&moves("d", "", "x")),
        play.message(&moves("c", "", "cancelled").under(&id)),
        Ask::Check(id),
        fence,
        Ask::Inspect,
        Ask::Lookup(operation("d").into()),
    ];
    let all = certainties(&mut play, &may_change);
    assert_eq!(all, [Certainty::Confirm; 8]);
}

#[test]
fn what_the_fold_is_about_to_write_is_no_fact() {
    let mut play = Play::new();
    let message = once("op").saying("x");
    let asks = [
        play.message(&message),
        play.message(&message),
        play.message(&message.clone().content("other")),
        Ask::Lookup(operation("op").into()),
    ];
    assert_eq!(certainties(&mut play, &asks), [Certainty::Confirm; 4]);
}

#[test]
fn a_repetition_that_raises_an_incident_waits_for_it() {
    for size in [1, 3000] {
        let mut play = Play::new();
        let (id, _) = play.hold(1);
        let message = once("op").with_result(result(&vec![7; size])).under(&id);
        play.past(std::slice::from_ref(&message));
        let other_result = play.message(&message.clone().saying("other"));
        let conflict = play.message(&message.content("other"));
        for ask in [other_result, conflict] {
            let waits = certainties(&mut play, std::slice::from_ref(&ask));
            assert_eq!(waits, [Certainty::Confirm]);
        }
    }
}

#[test]
fn a_fold_over_what_has_changed_is_refused_whatever_it_wrote() {
    let mut play = Play::new();
    let (id, _) = play.hold(1);
    let stale = play.standing(&[]);
    let asks = [
        play.release(&id),
        play.reserve(2),
        Ask::Check(id.clone()),
        Ask::Inspect,
        play.message(&once("op").under(&id)),
    ];
    play.expire();
    for ask in &asks {
        let folded = play.fold(&stale, std::slice::from_ref(ask));
        assert!(play.apply(&folded).is_err(), "{ask:?}");
    }
    let stale = play.standing(&[]);
    play.past(&[once("other")]);
    for ask in &asks {
        let folded = play.fold(&stale, std::slice::from_ref(ask));
        assert!(play.apply(&folded).is_err(), "{ask:?}");
    }
}

#[test]
fn an_operation_moved_apart_is_not_done_twice_by_one_who_does_not_know_it() {
    let mut play = Play::new();
    let large = once("large").with_result(result(&[1; 3000]));
    play.past(std::slice::from_ref(&large));
    assert_eq!(play.apart.len(), 1);
    let without = play.standing(&[]);
    let ask = play.message(&large);
    let folded = play.fold(&without, std::slice::from_ref(&ask));
    assert!(folded.absent.contains(&operation("large")));
    assert!(!without.knows_absent(&folded.absent));
    assert!(play.apply(&folded).is_err(), "done twice");
    let replayed = play.ask(ask);
    assert_eq!(replayed.decision().verdict, Verdict::Replayed);
    assert_eq!(replayed.decision().result, Some(result(&[1; 3000])));
}

#[test]
fn looking_up_an_operation_assumes_its_absence_only_where_it_could_be_elsewhere() {
    let mut play = Play::new();
    play.past(&[once("small")]);
    let folded = play.fold_now(&[Ask::Lookup(operation("other").into())]);
    assert!(folded.absent.is_empty());
    play.past(&[once("large").with_result(result(&[1; 3000]))]);
    for id in ["small", "large"] {
        let folded = play.fold_now(&[Ask::Lookup(operation(id).into())]);
        assert!(folded.absent.is_empty(), "{id} is known");
    }
    let looked_for = [operation("other")];
    let standing = play.standing(&looked_for);
    let folded = play.fold(&standing, &[Ask::Lookup(operation("other").into())]);
    assert!(folded.absent.contains(&looked_for[0]));
    assert!(standing.knows_absent(&folded.absent));
}

#[test]
fn a_newer_standing_keeps_finished_operations_and_forgets_absences() {
    let mut play = Play::new();
    play.past(&[once("large").with_result(result(&[1; 3000]))]);
    let earlier = play.standing(&[operation("large"), operation("other")]);
    play.past(&[once("more")]);
    let newer = play.standing(&[]).remembering(earlier);
    let ask = play.message(&once("large"));
    let folded = play.fold(&newer, &[ask, Ask::Lookup(operation("other").into())]);
    let first = answered(folded.judged[0].clone());
    assert_eq!(first.certainty, Certainty::Fact);
    assert!(!newer.knows_absent(&folded.absent));
    let mut trimmed = newer;
    trimmed.trim(0);
    let folded = play.fold(&trimmed, &[Ask::Lookup(operation("large").into())]);
    assert!(folded.absent.contains(&operation("large")));
}

#[test]
fn each_answer_shows_the_resource_as_its_own_request_left_it() {
    let mut play = Play::new();
    let asks = [
        play.message(&moves("a", "", "").initially("one")),
        Ask::Inspect,
        play.message(&moves("b", "one", "two").sets("n", "v")),
        play.message(&moves("c", "three", "four")),
    ];
    let answers = play.ask_all(&asks);
    let states = answers.iter().map(|answer| {
        let now = answer.snapshot();
        assert_eq!(now.revision, play.record.as_ref().map(|(_, at)| *at));
        now.state.as_ref().unwrap().as_str().to_owned()
    });
    assert_eq!(states.collect::<Vec<_>>(), ["one", "one", "two", "two"]);
    assert_eq!(answers[3].snapshot().identity.len(), 1);
}

#[test]
fn a_question_writes_nothing_and_creates_nothing() {
    let mut play = Play::new();
    let asks = [
        Ask::Inspect,
        Ask::Lookup(operation("op").into()),
        play.message(&moves("op", "a", "b")),
    ];
    let folded = play.fold(&Standing::absent(), &asks);
    assert!(folded.write.is_none());
    let answer = play.ask(Ask::Inspect);
    assert_eq!(answer.snapshot().revision, None);
    assert_eq!(answer.snapshot().state, None);
}
