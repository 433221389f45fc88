//! Who waits is told in order, the first of them one by one.

use super::*;
use crate::domain::ids::RequestId;
use crate::domain::waiter::{WAITERS_TOLD_MAX, Waiter, WaitingCall, WhoWaits};

const REQUEST: &str = "0b8e4c1a-5f0e-4c43-9d2e-7b1c2f3a4d5e";

fn waiter(call: WaitingCall, seconds_ago: u64) -> Waiter {
    Waiter {
        holder: None,
        call,
        operation: None,
        request: None,
        also: 0,
        time_ms: THEN_MS - 1_000 * seconds_ago,
    }
}

#[test]
fn who_waits_is_told_with_what_it_waits_for_and_since_when() {
    let mut play = order(&way_to("paid"));
    assert!(play.story(None).of(Topic::Queue).is_empty());
    play.waiting = WhoWaits {
        calls: 3,
        first: vec![
            Waiter {
                holder: Some(Holder::parse("till\n 4").unwrap()),
                request: Some(RequestId::parse(REQUEST).unwrap()),
                also: 2,
                ..waiter(WaitingCall::Reserve, 90)
            },
            Waiter {
                operation: Some(operation("ship \"1\"")),
                ..waiter(WaitingCall::Transition, 5)
            },
        ],
    };
    let story = play.story(None);
    assert_eq!(story.waiting, play.waiting);
    assert_eq!(
        story.of(Topic::Queue),
        [
            "3 calls wait for it; the one that comes first, since 2026-01-31T11:58:30Z (1 min ago).",
            "1. A Reserve of \"till\\n 4\", request 0b8e4c1a-5f0e-4c43-9d2e-7b1c2f3a4d5e, which waits for 2 other resources as well, \
             since 2026-01-31T11:58:30Z (1 min ago).",
            "2. A Transition of somebody who gave no name, for operation \"ship \\\"1\\\"\", since 2026-01-31T11:59:55Z (5 s ago).",
            "… and 1 more.",
        ]
    );
}

#[test]
fn of_many_who_wait_the_first_are_told_and_the_rest_is_counted() {
    let mut play = order(&way_to("paid"));
    let first = vec![waiter(WaitingCall::Reserve, 1); WAITERS_TOLD_MAX];
    play.waiting = WhoWaits { calls: 500, first };
    let story = play.story(None);
    let told = story.of(Topic::Queue);
    assert_eq!(told.len(), 1 + WAITERS_TOLD_MAX + 1);
    assert!(told[0].starts_with("500 calls wait for it"), "{told:#?}");
    assert_eq!(told[1 + WAITERS_TOLD_MAX], "… and 490 more.");
    // What is no entry of ours is counted alone.
    let first = Vec::new();
    play.waiting = WhoWaits { calls: 1, first };
    assert_eq!(play.story(None).of(Topic::Queue), ["1 call waits for it."]);
}
