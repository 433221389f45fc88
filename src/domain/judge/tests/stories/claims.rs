//! Stories of claims: running, died, given back, and what a person said of them.

use super::says;
use crate::domain::claim::Finding;
use crate::domain::explain::Topic;
use crate::domain::judge::tests::claims::{pay, pending};

#[test]
fn a_claim_is_told_while_it_runs_after_it_died_and_after_a_person_has_said_what_became_of_it() {
    let mut play = pending();
    let pay = pay();
    let (round, _) = play.claimed(&pay, 1);
    let running = play.story(Some("pay"));
    assert!(running.known);
    says(
        &running.of(Topic::Claim),
        "Operation \"pay\" is running under the live reservation, which claims it: attempt 1",
    );
    says(
        &running.of(Topic::Answer),
        "a message about it is answered IN_PROGRESS (RETRY), by layer REPLAY, rule RUNNING",
    );
    says(
        &running.of(Topic::Event),
        "Until \"pay\" is completed, no other message moves the resource.",
    );
    assert_eq!(running.of(Topic::Next), ["Nothing waits for a person."]);
    play.expire();
    let died = play.story(Some("pay"));
    says(
        &died.of(Topic::Claim),
        "is interrupted: attempt 1 ended without a result. Whether its effect ran is not known",
    );
    says(
        &died.of(Topic::Answer),
        "INTERRUPTED (RETRY), by layer REPLAY, rule CLAIM_DIED",
    );
    says(
        &died.of(Topic::Event),
        "Until \"pay\" is resolved, whatever else would move the resource is INTERRUPTED.",
    );
    says(
        &died.of(Topic::Next),
        "`fencepost resolve order \"1001\" \"pay\" --attempt 1 --reason TEXT`",
    );
    // Of another operation, it is told but not what is to be done.
    assert_eq!(
        play.story(Some("create")).of(Topic::Next),
        ["Nothing waits for a person."]
    );
    play.send(&pay);
    let reported = play.story(None);
    says(
        &reported.of(Topic::Incident),
        "about \"pay\": INTERRUPTED (CLAIM_DIED)",
    );
    assert_eq!(reported.of(Topic::Next).len(), 2, "{reported:#?}");
    play.resolve("pay", Finding::NotDone);
    let back = play.story(Some("pay"));
    assert!(back.known);
    says(
        &back.of(Topic::Claim),
        "was given back after attempt 1 with nothing done, and may start again",
    );
    says(&back.of(Topic::Claim), "said that it was not done, at ");
    says(&back.of(Topic::Answer), "it is judged anew");
    let (second, _) = play.claimed(&pay, 2);
    assert_ne!(second, round);
    play.expire();
    play.resolve("pay", Finding::Done);
    let done = play.story(Some("pay"));
    assert!(done.of(Topic::Claim).is_empty());
    says(
        &done.of(Topic::Operation),
        "Operation \"pay\": APPLIED (MOVED)",
    );
    says(&done.of(Topic::Operation), "said that it was done, at ");
    says(&done.of(Topic::Answer), "answered REPLAYED (ACKNOWLEDGE)");
}

#[test]
fn what_a_person_refused_is_told_with_who_said_so_and_what_may_rerun_asks_nobody() {
    let mut play = pending();
    let pay = pay();
    play.claimed(&pay.clone().reruns(), 1);
    play.expire();
    let reruns = play.story(Some("pay"));
    says(
        &reruns.of(Topic::Claim),
        "attempt 1 ended without a result. It may be claimed again",
    );
    says(&reruns.of(Topic::Answer), "rule NEEDS_CLAIM");
    assert_eq!(reruns.of(Topic::Next), ["Nothing waits for a person."]);
    play.resolve("pay", Finding::Refused);
    let refused = play.story(Some("pay"));
    says(&refused.of(Topic::Answer), "REJECTED, by layer ");
    says(&refused.of(Topic::Answer), "rule VOIDED");
    says(
        &refused.of(Topic::Operation),
        "said that it must never be run, at ",
    );
}
