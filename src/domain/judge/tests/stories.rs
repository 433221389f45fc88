//! Stories: every sentence follows from what is stored, and agrees with what would be answered.

mod claims;
mod queue;

use std::time::Duration;

use super::by_machine::{example, pay, under, way_to};
use super::message::{Message, happens, moves, once, operation};
use super::play::{BASE, Play};
use crate::domain::decision::Verdict;
use crate::domain::explain::{
    Gathered, NAMES_TOLD_MAX, OPERATIONS_TOLD_MAX, Story, Topic, explain,
};
use crate::domain::ids::{Holder, Reason};
use crate::domain::judge::Law;

/// 2026-01-31T12:00:00Z.
const THEN_MS: u64 = 1_769_860_800_000;

impl Play {
    fn story(&self, asked: Option<&str>) -> Story {
        let asked = asked.map(operation);
        let looked_for: Vec<_> = asked.iter().cloned().collect();
        explain(&Gathered {
            resource: self.resource.clone(),
            timeline: self.timeline,
            when: self.when,
            standing: self.standing(&looked_for),
            law: self.law.clone(),
            apart: self.apart.values().cloned().collect(),
            apart_looked_at: self.apart.len() as u64,
            incidents: self.incidents.values().cloned().collect(),
            more_incidents: 0,
            waiting: self.waiting.clone(),
            asked,
        })
    }
}

impl Story {
    fn of(&self, topic: Topic) -> Vec<&str> {
        let all = self.sentences.iter();
        let some = all.filter(|sentence| sentence.topic == topic);
        some.map(|sentence| sentence.text.as_str()).collect()
    }

    fn all(&self) -> String {
        let texts = self.sentences.iter().map(|sentence| sentence.text.as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn order(past: &[Message]) -> Play {
    let mut play = under(&example("order"), &[]);
    play.when.wall_ms = THEN_MS;
    play.past(past);
    play
}

#[track_caller]
fn says(texts: &[&str], part: &str) {
    assert!(
        texts.iter().any(|text| text.contains(part)),
        "{part:?} in {texts:#?}"
    );
}

#[test]
fn a_paid_order_tells_its_way_its_values_and_what_is_allowed() {
    let mut play = order(&way_to("paid"));
    play.pass(Duration::from_secs(180));
    let story = play.story(None);
    assert!(story.known);
    assert_eq!(
        story.of(Topic::State),
        [
            "order/1001 is in state paid since move 2 of 2.",
            "It was in: pending_payment (entered by move 1, left by move 2), paid (entered by move 2).",
            "It follows version 1 of its machine.",
        ]
    );
    assert_eq!(
        story.of(Topic::Identity),
        ["The payment_attempt_id in force is \"p1\"."]
    );
    assert_eq!(
        story.of(Topic::Round),
        ["Nobody holds it; it was never reserved, or so long ago that this is forgotten."]
    );
    assert!(story.of(Topic::Token).is_empty());
    let operations = story.of(Topic::Operation);
    assert_eq!(operations.len(), 3, "{operations:#?}");
    assert_eq!(
        operations[2],
        "Operation \"w2\", event pay by version 1 of the machine: APPLIED (MOVED) at 2026-01-31T12:00:00Z (3 min ago), with \
         an empty result; delivered at least once; its answer is repeated for another 4 days."
    );
    assert_eq!(
        story.of(Topic::Event),
        [
            "Allowed now: note, ship.",
            "SUPERSEDED, for the resource has made this move already: place.",
            "SUPERSEDED under the identity values of the move that was made, REJECTED under others that fit: start_payment, pay.",
            "TOO_EARLY, for a state that allows it can still come: deliver.",
            "REJECTED, for no state that allows it can come any more: cancel, expire.",
        ]
    );
    assert_eq!(story.of(Topic::Next), ["Nothing waits for a person."]);
    assert_eq!(story.snapshot.state.unwrap().as_str(), "paid");
}

// What is told of an event is what the judgement answers to it.
#[test]
fn every_event_in_every_state_is_told_as_it_would_be_judged() {
    let events = [
        "place",
        "start_payment",
        "pay",
        "note",
        "ship",
        "deliver",
        "cancel",
        "expire",
    ];
    for place in [
        "none",
        "pending_payment",
        "paid",
        "shipped",
        "delivered",
        "cancelled",
    ] {
        let mut play = order(&way_to(place));
        let story = play.story(None);
        let told = story.of(Topic::Event);
        for event in events {
            let mut message = happens("new", event).only_asking();
            if ["pay", "start_payment"].contains(&event) {
                message = message.of("payment_attempt_id", "p1");
            }
            let verdict = play.send(&message).decision().verdict;
            let mut found = told.iter().filter(|text| {
                let names = text.rsplit_once(": ").map_or("", |(_, names)| names);
                names
                    .trim_end_matches('.')
                    .split(", ")
                    .any(|name| name == event)
            });
            let text = found
                .next()
                .unwrap_or_else(|| panic!("{event} in {told:#?}"));
            assert_eq!(found.next(), None, "{event} twice in {told:#?}");
            let expected = match verdict {
                Verdict::Applied => "Allowed now",
                Verdict::Superseded => "SUPERSEDED",
                Verdict::TooEarly => "TOO_EARLY",
                Verdict::Rejected => "REJECTED",
                other => panic!("{event} in {place}: {other:?}"),
            };
            assert!(text.starts_with(expected), "{event} in {place}: {text}");
        }
    }
}

#[test]
fn a_conflict_tells_where_the_contents_differ_and_what_to_do_and_no_value() {
    let mut play = order(&way_to("pending_payment"));
    let first = pay("evt-77", "p1")
        .content(r#"{"amount":4990,"currency":"EUR","note":"secret"}"#)
        .saying("booked");
    play.past(std::slice::from_ref(&first));
    play.pass(Duration::from_secs(60));
    let other = pay("evt-77", "p1").content(r#"{"amount":4991,"currency":"EUR","note":"secret"}"#);
    let conflict = play.send(&other);
    let id = conflict.decision().incident.clone().unwrap();
    // As counted a moment later.
    let incident = play.incidents.get_mut(&id).unwrap();
    incident.last_ms = play.when.wall_ms;
    play.pass(Duration::from_secs(60));
    let story = play.story(Some("evt-77"));
    let answer = story.of(Topic::Answer);
    assert_eq!(
        answer,
        [
            "\"evt-77\" was decided at 2026-01-31T12:00:00Z (2 min ago): APPLIED, by layer RESULT, rule MOVED, for no layer \
             objected.",
            "The last request of which the time is known came at 2026-01-31T12:01:00Z (1 min ago); layer DIGEST found: \
             CONFLICT (OTHER_CONTENT), the operation was seen before with other content; it differs at \"/amount\".",
            "The same content again is answered REPLAYED (ACKNOWLEDGE), with the first result; another content under this \
             operation id is a CONFLICT, and never applied.",
        ]
    );
    let again = play.send(&first);
    assert_eq!(again.decision().verdict, Verdict::Replayed);
    says(&story.of(Topic::Incident), "It is open.");
    says(&story.of(Topic::Incident), "first from \"sender\"");
    says(
        &story.of(Topic::Next),
        &format!("fencepost incidents close {} --reason", id.0),
    );
    for secret in ["4990", "4991", "secret", "booked"] {
        assert!(!story.all().contains(secret), "{}", story.all());
    }
    let by = Holder::parse("ann").unwrap();
    let closed_ms = play.when.wall_ms;
    let incident = play.incidents.get_mut(&id).unwrap();
    incident.close(by, Reason::parse("refunded\nit").unwrap(), closed_ms);
    let story = play.story(Some("evt-77"));
    says(&story.of(Topic::Incident), "\"ann\" closed it at ");
    says(&story.of(Topic::Incident), r#""refunded\nit""#);
    assert_eq!(story.of(Topic::Next), ["Nothing waits for a person."]);
}

#[test]
fn a_second_payment_tells_why_it_was_superseded_and_stays_so() {
    let mut play = order(&way_to("shipped"));
    let second = pay("evt-78", "p1");
    let answer = play.send(&second);
    assert_eq!(answer.decision().verdict, Verdict::Superseded);
    let story = play.story(Some("evt-78"));
    let texts = story.of(Topic::Answer);
    says(
        &texts,
        "SUPERSEDED, by layer STATE, rule ALREADY_MOVED, for this move was already made, by another operation",
    );
    says(&texts, "it could have started from pending_payment");
    says(
        &texts,
        "The same content again is answered SUPERSEDED (ACKNOWLEDGE);",
    );
    says(&story.of(Topic::Incident), "SUPERSEDED (ALREADY_MOVED)");
    says(&story.of(Topic::Next), "Judge what is open");
    // Asked about another operation, that incident is told of but is not what is to be done about this one.
    let other = play.story(Some("w2"));
    assert_eq!(other.of(Topic::Next), ["Nothing waits for a person."]);
}

#[test]
fn a_fenced_worker_is_found_by_its_operation_though_that_was_never_stored() {
    let mut play = Play::new();
    play.past(&[moves("create", "", "open").initially("new")]);
    let (round, _) = play.hold(1);
    play.expire();
    let (_, second) = play.hold(2);
    let late = play.send(
        &moves("ship", "open", "shipped")
            .under(&round)
            .saying("parcel 7"),
    );
    assert_eq!(late.decision().verdict, Verdict::Fenced);
    let story = play.story(Some("ship"));
    assert!(story.known);
    says(
        &story.of(Topic::Answer),
        "Nothing is stored of operation \"ship\"",
    );
    says(&story.of(Topic::Answer), "layer FENCE found: FENCED (OVER)");
    says(
        &story.of(Topic::Incident),
        "1 result that was not taken is kept: the effect may have run",
    );
    says(&story.of(Topic::Next), "fencepost incidents show");
    says(
        &story.of(Topic::Round),
        "It is held by somebody who gave no name with a TTL of 30 s",
    );
    says(&story.of(Topic::Round), "0 were released and 1 ran out");
    says(
        &story.of(Topic::Token),
        &format!(
            "Token {} is good; every smaller token is overtaken",
            second.token
        ),
    );
    assert!(second.token.get() > BASE);
    play.expire();
    let story = play.story(None);
    says(
        &story.of(Topic::Round),
        "ran out: it was not renewed within its TTL of 30 s",
    );
    says(&story.of(Topic::Token), "passes only with even_if_ended");
    let never = play.story(Some("other"));
    assert!(!never.known);
    says(&never.of(Topic::Answer), "it would be judged anew");
}

#[test]
fn what_was_forgotten_is_told_as_that_and_nothing_at_all_as_that() {
    let mut play = Play::new();
    let story = play.story(None);
    assert!(!story.known);
    assert_eq!(story.snapshot.revision, None);
    says(&story.of(Topic::State), "Nothing is known of order/1001");
    assert_eq!(story.of(Topic::State).len(), 1, "{story:#?}");
    let retention = Duration::from_secs(3600);
    play.when.keeping.operations = retention;
    play.when.keeping.forget = Some(retention * 2);
    play.past(&[moves("create", "", "open").initially("new")]);
    play.hold(1);
    play.expire();
    play.pass(retention + Duration::from_secs(20));
    let over = play.story(Some("create"));
    says(&over.of(Topic::Operation), "its retention is over");
    for _ in 0..2 {
        play.pass(retention * 3);
        play.sweep();
    }
    play.pass(Duration::from_secs(600));
    let story = play.story(Some("create"));
    assert!(!story.known, "of the operation nothing is left");
    says(
        &story.of(Topic::State),
        "its state was forgotten, 10 min ago",
    );
    says(
        &story.of(Topic::Operation),
        "No finished operation of it is stored.",
    );
    assert!(play.story(None).known);
}

#[test]
fn of_many_operations_the_newest_are_told_also_those_that_moved_out_and_the_rest_is_counted() {
    let mut play = Play::new();
    let many = OPERATIONS_TOLD_MAX + 8;
    for at in 0..many {
        play.when.wall_ms = THEN_MS + at as u64 * 1000;
        play.past(&[once(&format!("op {at}")).saying(&"x".repeat(900))]);
    }
    assert!(
        play.apart.len() > 8 && play.apart.len() < many,
        "{}",
        play.apart.len()
    );
    let story = play.story(None);
    let texts = story.of(Topic::Operation);
    assert_eq!(texts.len(), 1 + OPERATIONS_TOLD_MAX);
    says(
        &texts[..1],
        "The last 32 operations are told of, … and 8 more are stored; name one",
    );
    for (at, text) in (8..many).zip(&texts[1..]) {
        assert!(
            text.starts_with(&format!("Operation \"op {at}\":")),
            "{at}: {text}"
        );
    }
    // One that is named is told of wherever it is.
    let named = play.story(Some("op 0"));
    says(
        &named.of(Topic::Answer),
        "Operation \"op 0\": APPLIED (RAN_ONCE)",
    );
    says(
        &named.of(Topic::Answer),
        "answered REPLAYED (ACKNOWLEDGE), with the first result",
    );
}

#[test]
fn a_resource_is_told_in_the_names_of_the_machine_in_force_and_why_none_can_judge_it() {
    let mut play = order(&way_to("paid"));
    let renamed = example("order")
        .replace("version: 1", "version: 2")
        .replace("paid", "settled")
        + "map: { states: { paid: settled } }\n";
    play.law = super::by_machine::law(&renamed);
    let story = play.story(None);
    says(
        &story.of(Topic::State),
        "is in state settled since move 2 of 2",
    );
    says(
        &story.of(Topic::State),
        "It follows version 2 of its machine.",
    );
    says(&story.of(Topic::Event), "Allowed now: note, ship.");
    play.law = Law::NoFile;
    let story = play.story(None);
    says(
        &story.of(Topic::State),
        "No message about it can be judged now: the resource was judged by version 1",
    );
    assert!(story.of(Topic::Event).is_empty());
    assert_eq!(story.snapshot.state.unwrap().as_str(), "paid");
}

#[test]
fn replaced_values_are_counted_and_never_told_and_texts_from_outside_cannot_begin_a_line() {
    let mut play = Play::new();
    play.past(&[moves("create", "", "open")
        .initially("new")
        .sets("attempt", "first-secret")]);
    play.past(&[
        moves("next\u{1b}[2J\nOperation \"x\": APPLIED", "open", "open").sets("attempt", "second"),
    ]);
    let story = play.story(None);
    assert_eq!(
        story.of(Topic::Identity),
        ["The attempt in force is \"second\"; 1 value before it was replaced."]
    );
    let all = story.all();
    assert!(
        !all.contains("first-secret") && !all.contains('\u{1b}'),
        "{all}"
    );
    assert_eq!(all.lines().count(), story.sentences.len(), "{all}");
    assert!(story.of(Topic::Operation).len() < NAMES_TOLD_MAX);
}
