//! Whatever rests on the law is committed and told under its guard, and nothing else is.

use std::sync::Arc;

use bytes::Bytes;

use super::by_machine::{example, pay, under, way_to};
use super::message::{Message, completing, happens, once, operation, resolution, result};
use super::play::{NOW, Play};
use crate::domain::claim::Finding;
use crate::domain::decision::Verdict;
use crate::domain::judge::{Ask, Judged, Law};
use crate::domain::machine::{Filed, Machine, Succession, succession};
use crate::domain::request::{Left, Lookup, Running};

fn pending() -> Play {
    under(&example("order"), &way_to("pending_payment"))
}

#[track_caller]
fn guarded(play: &mut Play, ask: Ask) -> Vec<Judged> {
    let folded = play.fold_now(&[ask]);
    assert!(folded.lawful, "{:?}", folded.judged);
    folded.judged
}

#[track_caller]
fn unguarded(play: &mut Play, ask: Ask) {
    let folded = play.fold_now(&[ask]);
    assert!(!folded.lawful, "{:?}", folded.judged);
}

fn resolving(play: &mut Play, finding: Finding) -> Ask {
    let ask = resolution(&play.resource, "p", finding, Running::Spared);
    let nonce = play.nonce();
    Ask::Resolve(Box::new(ask), nonce)
}

fn interrupted() -> Play {
    let mut play = pending();
    play.claimed(&pay("p", "p1"), 1);
    play.expire();
    play
}

#[test]
fn how_long_is_kept_what_a_person_settles_is_for_the_law() {
    for finding in [Finding::Refused, Finding::Done] {
        let mut play = interrupted();
        let ask = resolving(&mut play, finding);
        guarded(&mut play, ask);
    }
    let mut play = interrupted();
    let ask = resolving(&mut play, Finding::NotDone);
    unguarded(&mut play, ask);
}

#[test]
fn that_a_message_is_too_old_is_for_the_law() {
    let mut play = pending();
    let old = pay("x", "p1").made_at(1);
    let ask = play.message(&old);
    guarded(&mut play, ask);
    let nonce = play.nonce();
    let claim = old.claim(&play.resource, 1, nonce);
    guarded(&mut play, claim);
    for made_ms in [1, u64::MAX] {
        let ask = Ask::Lookup(Lookup {
            operation: operation("x"),
            made_ms: Some(made_ms),
        });
        guarded(&mut play, ask);
    }
    unguarded(&mut play, Ask::Lookup(operation("x").into()));
}

#[test]
fn that_two_names_are_two_events_is_for_the_law() {
    let mut play = pending();
    play.past(&[happens("n", "note")]);
    // Also once a person was alerted, so that nothing is left to be written.
    for _ in 0..2 {
        let ask = play.message(&happens("n", "cancel"));
        guarded(&mut play, ask.clone());
        play.ask(ask);
    }
    let ask = play.message(&happens("n", "note"));
    unguarded(&mut play, ask);
    play.claimed(&pay("p", "p1"), 1);
    for _ in 0..2 {
        let ask = play.message(&happens("p", "cancel"));
        guarded(&mut play, ask.clone());
        play.ask(ask);
    }
}

#[test]
fn what_a_sweep_removes_is_for_the_law() {
    let mut play = pending();
    guarded(&mut play, Ask::Sweep(Vec::new()));
}

#[test]
fn what_would_be_answered_is_for_the_law() {
    let mut play = pending();
    let ask = play.message(&pay("p", "p1").only_asking());
    guarded(&mut play, ask);
}

// The rule by which the first was read is that of its version, which never changes; that the content was not kept, so that it
// cannot be read so, is told only once the law was confirmed.
#[test]
fn what_cannot_be_read_is_told_under_the_law() {
    let mut play = pending();
    play.past(&[pay("p", "p1")]);
    let mut ask = play.message(&pay("p", "p1"));
    if let Ask::Transition(ask, _) = &mut ask {
        ask.intent.beside = crate::domain::digest::Beside::default();
    }
    let judged = guarded(&mut play, ask);
    assert!(matches!(judged[..], [Judged::Unlawful(_)]), "{judged:?}");
}

#[test]
fn how_long_an_incident_is_kept_is_for_the_law() {
    let other = |message: Message| message.content(r#"{"amount": 1, "currency": "EUR"}"#);
    // A conflict with what is finished, and with what is open.
    let mut play = pending();
    play.past(&[pay("p", "p1")]);
    let ask = play.message(&other(pay("p", "p1")));
    guarded(&mut play, ask);
    let mut play = pending();
    play.claimed(&pay("p", "p1"), 1);
    let ask = play.message(&other(pay("p", "p1")));
    guarded(&mut play, ask);
    // A late result.
    let mut play = Play::new();
    let (round, _) = play.hold(1);
    play.expire();
    let ask = play.message(&once("op").under(&round).saying("late"));
    guarded(&mut play, ask);
    let nonce = play.nonce();
    let late = completing(round, Some(result(b"late")), None);
    guarded(&mut play, Ask::Complete(late, nonce));
}

#[test]
fn what_rests_on_no_law_is_not_held_up_by_it() {
    let mut play = pending();
    let reserve = play.reserve(1);
    unguarded(&mut play, reserve);
    let (round, held) = play.hold(1);
    unguarded(&mut play, Ask::Check(round.clone()));
    let fence = super::message::fence_as(
        &play.resource.clone(),
        held.token.get(),
        crate::domain::request::EndedRounds::Refused,
    );
    unguarded(&mut play, fence);
    let release = Ask::Release(round, Left::Unsaid, play.nonce());
    unguarded(&mut play, release);
    // A claim that died is kept until a person has looked into it, whatever the law says.
    let mut play = pending();
    let (claim, _) = play.claimed(&pay("p", "p1"), 1);
    let release = Ask::Release(claim, Left::Unsaid, play.nonce());
    unguarded(&mut play, release);
    let mut play = interrupted();
    let ask = play.message(&pay("p", "p1"));
    unguarded(&mut play, ask);
}

// What was forgotten under a shorter retention may have been done, however long operations are kept since.
#[test]
fn raising_the_retention_makes_no_message_young_that_was_too_old() {
    const HOUR_MS: u64 = 3_600_000;
    let now_ms = NOW * 1000;
    let text = example("order").replace("retry_window: 72h, ", "");
    let text = text.replace("retention: 96h", "retention: 1h");
    let higher = text
        .replace("version: 1\n", "version: 2\n")
        .replace("retention: 1h", "retention: 96h");
    let filed = |text: &str, before: Option<&Filed>, time_ms| {
        let source = Bytes::from(text.to_owned());
        let machine = Machine::read(&source).machine.unwrap();
        match succession(before, &machine, &source, time_ms) {
            Succession::Install(filed) => *filed,
            other => panic!("{other:?}"),
        }
    };
    let first = filed(&text, None, 0);
    // Raised two hours ago.
    let second = filed(&higher, Some(&first), now_ms - 2 * HOUR_MS);
    let mut play = pending();
    play.law = Law::Machine(Arc::new(second.open().unwrap()));
    for (hours_ago, verdict) in [
        (1, Verdict::Applied),
        // Its sender's clock may be a little wrong, so it may be from before.
        (2, Verdict::Expired),
        (3, Verdict::Expired),
        (95, Verdict::Expired),
        (97, Verdict::Expired),
    ] {
        let id = format!("note {hours_ago}");
        let made_ms = now_ms - hours_ago * HOUR_MS;
        let told = play.send(&happens(&id, "note").made_at(made_ms));
        assert_eq!(told.decision().verdict, verdict, "{hours_ago} h");
    }
    // A lowered one is asked by the time in force alone.
    let third = higher.replace("version: 2\n", "version: 3\n");
    let third = filed(&third.replace("96h", "2h"), Some(&second), now_ms - 1);
    let raised = third.lineage.raised().count();
    assert_eq!(raised, 1, "only a raise is remembered");
}
