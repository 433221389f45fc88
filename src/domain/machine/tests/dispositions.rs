//! What becomes of an event in a state.

use super::super::{Disposition, Refusal};
use super::machine;
use Refusal::{Rejected, TooEarly};

/// The answer to an event in a state; `None`: the resource does not exist.
fn answer(text: &str, event: &str, state: Option<&str>) -> String {
    let machine = machine(text);
    let definition = machine.definition();
    let mut events = definition.events.iter();
    let event = events
        .find(|other| other.name.value.as_str() == event)
        .unwrap();
    let at = state.map_or(0, |state| {
        let mut states = definition.states.iter();
        states
            .position(|other| other.name.value.as_str() == state)
            .unwrap()
            + 1
    });
    format!("{:?}", machine.dispositions(event)[at])
}

fn order() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/machines/order.yaml")).unwrap()
}

#[track_caller]
fn expect(text: &str, event: &str, state: Option<&str>, wanted: Disposition<'_>) {
    assert_eq!(
        answer(text, event, state),
        format!("{wanted:?}"),
        "{event} in {state:?}"
    );
}

#[test]
fn a_payment_for_a_cancelled_order_is_rejected_and_one_for_a_shipped_order_is_superseded() {
    expect(
        &order(),
        "pay",
        Some("cancelled"),
        Disposition::Refused(Rejected),
    );
    expect(&order(), "pay", Some("shipped"), Disposition::Superseded);
    expect(
        &order(),
        "ship",
        Some("pending_payment"),
        Disposition::Refused(TooEarly),
    );
    expect(&order(), "ship", None, Disposition::Refused(TooEarly));
    expect(&order(), "note", Some("paid"), Disposition::Stays);
    expect(
        &order(),
        "note",
        Some("delivered"),
        Disposition::Refused(Rejected),
    );
}

#[test]
fn with_a_refund_in_the_file_history_decides_not_reachability() {
    let text = order().replace(
        "  ship:",
        "  refund: { from: [paid], to: cancelled }\n  ship:",
    );
    // A cancelled order may have been paid or not; only its own history tells.
    expect(
        &text,
        "pay",
        Some("cancelled"),
        Disposition::ByHistory(Rejected),
    );
    expect(&text, "pay", Some("shipped"), Disposition::Superseded);
}

#[test]
fn what_was_made_in_an_earlier_visit_is_early_again_in_the_next() {
    let text = "
kind: k
version: 1
retention: 1h
states: { a: {}, b: {}, c: {} }
events:
  make: { creates: a, sets: [r] }
  ab: { from: [a], to: b, matches: [r] }
  bc: { from: [b], to: c, matches: [r] }
  ca: { from: [c], to: a, matches: [r] }
";
    expect(text, "bc", Some("a"), Disposition::ByHistory(TooEarly));
    expect(text, "ab", Some("b"), Disposition::Superseded);
    expect(text, "ab", Some("c"), Disposition::Superseded);
    // Every way to b leads through a, and a was entered anew after c was last left.
    expect(text, "ca", Some("b"), Disposition::ByHistory(TooEarly));
}

#[test]
fn a_second_creation_is_superseded_if_it_leads_where_the_first_did() {
    let text = "
kind: k
version: 1
retention: 1h
states: { a: {}, b: {}, z: { final: true } }
events:
  as_a: { creates: a }
  as_b: { creates: b }
  ab: { from: [a], to: b }
  end: { from: [b], to: z }
";
    expect(text, "as_a", Some("a"), Disposition::Superseded);
    expect(text, "as_a", Some("b"), Disposition::ByHistory(Rejected));
    expect(text, "as_b", Some("a"), Disposition::Refused(Rejected));
    expect(text, "as_b", Some("z"), Disposition::Superseded);
}

#[test]
fn a_move_that_sets_is_superseded_only_under_the_values_that_it_set() {
    let text = order().replace("ship: {", "ship: { sets: [parcel_id],");
    expect(
        &text,
        "ship",
        Some("delivered"),
        Disposition::ByHistory(Rejected),
    );
}

#[test]
fn an_event_that_stays_is_superseded_only_by_the_values_that_it_sets() {
    let sets = order();
    expect(
        &sets,
        "start_payment",
        Some("paid"),
        Disposition::ByHistory(Rejected),
    );
    let bare = "
kind: k
version: 1
retention: 1h
states: { a: {}, z: { final: true } }
events: { make: { creates: a }, look: { from: [a] }, end: { from: [a], to: z } }
";
    expect(bare, "look", Some("z"), Disposition::Refused(Rejected));
}

#[test]
fn otherwise_overrides_what_would_be_derived() {
    let text = order().replace(
        "matches: [payment_attempt_id] ",
        "otherwise: { shipped: reject }\n    matches: [payment_attempt_id] ",
    );
    expect(
        &text,
        "pay",
        Some("shipped"),
        Disposition::Said(super::super::Otherwise::Reject),
    );
    expect(&text, "pay", Some("paid"), Disposition::Superseded);
}
