//! Versions of a machine: a record of an older one is led through what every later one says.

use std::sync::Arc;

use super::by_machine::{law, under};
use super::message::{Message, happens, moves, state};
use super::play::Play;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::judge::{Judged, Law, Unlawful};
use crate::domain::machine::{InForce, Lineage, Machine};

const FIRST: &str = "\
kind: order
version: 1
retention: 1h
states: { new: {}, waiting: {}, done: { final: true } }
events:
  make: { creates: new }
  wait: { from: [new], to: waiting }
  end: { from: [waiting], to: done }
";

const SECOND: &str = "\
kind: order
version: 2
retention: 1h
states: { new: {}, queued: {}, done: { final: true } }
events:
  make: { creates: new }
  queue: { from: [new], to: queued }
  end: { from: [queued], to: done }
map: { states: { waiting: queued }, events: { wait: queue } }
";

const THIRD: &str = "\
kind: order
version: 5
retention: 1h
states: { new: {}, ready: {}, done: { final: true } }
events:
  make: { creates: new }
  queue: { from: [new], to: ready }
  finish: { from: [ready], to: done }
map: { states: { queued: ready }, events: { end: finish } }
";

fn machine(text: &str) -> Machine {
    Machine::read(text.as_bytes()).machine.unwrap()
}

/// The last of these files in force, after all of them were.
pub(super) fn after(texts: &[&str]) -> Law {
    let machines: Vec<Machine> = texts.iter().map(|text| machine(text)).collect();
    let lineage = machines
        .iter()
        .fold(Lineage::default(), Lineage::followed_by);
    let lineage = machines.windows(2).fold(lineage, |lineage, pair| {
        lineage.remembering(&pair[0], &pair[1])
    });
    let last = machines.last().unwrap().clone();
    Law::Machine(Arc::new(InForce::new(last, lineage)))
}

fn begun() -> [Message; 2] {
    [happens("m", "make"), happens("w", "wait")]
}

#[test]
fn a_record_is_led_through_every_version_between_when_it_is_touched() {
    let mut play = under(FIRST, &begun());
    play.law = after(&[FIRST, SECOND, THIRD]);
    let before = play.record.clone();
    let shown = play.ask(crate::domain::judge::Ask::Inspect);
    assert_eq!(shown.snapshot().state, Some(state("ready")));
    assert_eq!(shown.snapshot().machine.unwrap().get(), 5);
    assert_eq!(play.record, before, "reading wrote");
    // Its history is led along: the move into the state was made already.
    let twice = play.send(&happens("w2", "queue"));
    assert_eq!(twice.decision().verdict, Verdict::Superseded);
    play.past(&[happens("f", "finish")]);
    let record = &play.record.as_ref().unwrap().0;
    assert_eq!(record.machine.unwrap().get(), 5);
    let names: Vec<_> = record.visits.keys().map(|state| state.as_str()).collect();
    assert_eq!(names, ["done", "new", "ready"]);
    let by: Vec<_> = record
        .operations
        .iter()
        .map(|o| o.machine.unwrap().get())
        .collect();
    assert_eq!(by, [1, 1, 5, 5], "who judged what");
}

#[test]
fn a_sender_that_has_not_heard_of_a_version_is_understood() {
    let mut play = under(FIRST, &begun());
    play.law = after(&[FIRST, SECOND, THIRD]);
    // Sent again in its old words: the same operation, the same event.
    let again = play.send(&happens("w", "wait"));
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    let again = play.send(&happens("w", "queue"));
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    let other = play.send(&happens("w", "finish"));
    assert_eq!(other.decision().verdict, Verdict::Conflict);
    play.past(&[happens("e", "end").starting(&["waiting"])]);
    let done = play.record.as_ref().unwrap().0.state.clone();
    assert_eq!(done, Some(state("done")));
}

#[test]
fn two_states_that_become_one_share_their_history() {
    let merged = FIRST
        .replace("version: 1", "version: 2")
        .replace("waiting: {}, ", "")
        .replace("  wait: { from: [new], to: waiting }\n", "")
        .replace("[waiting]", "[new]")
        + "map: { states: { waiting: new }, events: { wait: none } }\n";
    let mut play = under(FIRST, &begun());
    play.law = after(&[FIRST, &merged]);
    play.past(&[happens("e", "end")]);
    let record = &play.record.as_ref().unwrap().0;
    assert_eq!(record.visits[&state("new")].left, Some(3));
    let ask = play.message(&happens("x", "wait"));
    let judged = play.fold_now(&[ask]).judged.pop();
    assert!(
        matches!(judged, Some(Judged::Unlawful(Unlawful::NoEvent { .. }))),
        "it was dropped for good: {judged:?}"
    );
}

fn told(play: &mut Play, message: &Message) -> String {
    let ask = play.message(message);
    let folded = play.fold_now(&[ask]);
    assert!(folded.write.is_none());
    match folded.judged.into_iter().next() {
        Some(Judged::Unlawful(Unlawful::Mismatch(why))) => why,
        other => panic!("{other:?}"),
    }
}

// H4: who does not know the version that judged a resource does not judge it.
#[test]
fn a_resource_of_a_later_version_is_judged_by_no_older_one_and_by_none() {
    let mut play = under(SECOND, &[happens("m", "make"), happens("w", "queue")]);
    for older in [law(FIRST), Law::NoFile] {
        play.law = older;
        let why = told(&mut play, &happens("x", "end"));
        assert!(why.contains("version 2") && why.contains("apply"), "{why}");
        let shown = play.ask(crate::domain::judge::Ask::Inspect);
        assert_eq!(shown.snapshot().state, Some(state("queued")));
        assert_eq!(shown.snapshot().machine.unwrap().get(), 2);
        assert!(shown.snapshot().allowed.is_empty());
        // What is finished stays so, whoever is asked.
        let again = play.send(&happens("w", "queue"));
        assert_eq!(again.decision().verdict, Verdict::Replayed);
    }
}

#[test]
fn resources_from_before_the_first_machine_go_on_in_it_if_it_has_their_states() {
    let before = [
        moves("m", "", "waiting").initially("new"),
        moves("odd", "waiting", "waiting").sets("odd", "1"),
    ];
    let mut play = Play::new();
    play.past(&before);
    play.law = law(FIRST);
    play.past(&[happens("e", "end")]);
    let again = play.send(&before[0]);
    assert_eq!(
        again.decision().verdict,
        Verdict::Replayed,
        "a fact from before"
    );

    let mut play = Play::new();
    play.past(&[moves("m", "", "parked").initially("new")]);
    play.law = law(FIRST);
    let why = told(&mut play, &happens("e", "end"));
    assert!(why.contains("parked") && why.contains("map"), "{why}");
    let mapped =
        FIRST.replace("version: 1", "version: 2") + "map: { states: { parked: waiting } }\n";
    play.law = after(&[FIRST, &mapped]);
    play.past(&[happens("e", "end")]);
}

const COUNTED: &str = "\
kind: order
version: 1
retention: 1h
states: { new: {}, done: { final: true } }
events:
  make: { creates: new }
  pay: { from: [new], to: done, digest: { include: [/amount] } }
";

/// Contents are compared under the rule that the operation was stored under, whatever rule they were read under, and whatever
/// rule is in force now.
#[test]
fn what_was_compared_in_one_version_is_compared_the_same_in_every_later_one() {
    let second = COUNTED
        .replace("version: 1", "version: 2")
        .replace("include: [/amount]", "exclude: [/note]");
    let third = second
        .replace("version: 2", "version: 7")
        .replace("pay:", "settle:")
        + "map: { events: { pay: settle } }\n";
    let pay = |content: &str| happens("p", "pay").content(content);
    let texts = [COUNTED, &second, &third];
    for versions in 1..=3 {
        let mut play = Play::new();
        play.law = after(&texts[..1]);
        play.past(&[
            happens("m", "make"),
            pay(r#"{"amount": 10, "currency": "EUR"}"#),
        ]);
        play.law = after(&texts[..versions]);
        let again = play.send(&pay(r#"{"amount": 10.0, "note": "again"}"#));
        assert_eq!(again.decision().verdict, Verdict::Replayed, "{versions}");
        let other = play.send(&pay(r#"{"amount": 11, "currency": "EUR"}"#));
        assert_eq!(other.decision().verdict, Verdict::Conflict, "{versions}");
        assert_eq!(other.decision().differing, ["/amount"]);
    }
}

#[test]
fn a_content_without_a_part_that_counts_is_refused_with_its_pointer() {
    let mut play = Play::new();
    play.law = after(&[COUNTED]);
    play.past(&[happens("m", "make")]);
    let ask = play.message(&happens("p", "pay").content(r#"{"currency": "EUR"}"#));
    let asked = play.fold_now(&[ask]).judged.pop();
    let Some(Judged::Unlawful(Unlawful::Field { field, reason })) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(field, "intent.json");
    assert!(reason.contains("/amount"), "{reason}");
}

// Its sender is not updated with the machine: what it sends again is what it has sent.
#[test]
fn a_repetition_stays_one_whatever_later_versions_make_of_its_event() {
    let dropped = THIRD
        .replace("version: 5", "version: 6")
        .replace("queue: { from", "enqueue: { from")
        .replace("end: finish }", "end: finish, queue: none }");
    let mut play = under(FIRST, &[happens("m", "make")]);
    play.law = after(&[FIRST, SECOND]);
    // Judged as `queue`, whatever it is called by its sender.
    play.past(&[happens("w", "wait")]);
    for texts in [&[FIRST, SECOND][..], &[FIRST, SECOND, &dropped]] {
        play.law = after(texts);
        for name in ["wait", "queue"] {
            let ask = play.message(&happens("w", name));
            let folded = play.fold_now(std::slice::from_ref(&ask));
            assert!(!folded.lawful, "{name}: that stays so");
            assert_eq!(
                play.ask(ask).decision().verdict,
                Verdict::Replayed,
                "{name}"
            );
        }
        let other = play.send(&happens("w", "make"));
        assert_eq!(other.decision().rule, Rule::OtherEvent);
    }
}
