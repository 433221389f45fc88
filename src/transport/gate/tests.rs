//! What the gate lets in, and what it keeps.

use std::convert::Infallible;

use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{Full, StreamBody};

use super::*;

const TERMS: Terms = Terms {
    timeout: |_| Ok(Said::within(Duration::from_secs(10))),
    bytes_max: 4,
};

fn request(body: &'static str) -> Request<Full<Bytes>> {
    Request::new(Full::from(body))
}

async fn admitted(gate: &Gate, body: &'static str) -> Result<Admitted, Fault> {
    gate.admit(request(body), &Peer::unix(), TERMS).await
}

#[tokio::test]
async fn a_call_without_room_is_turned_away_and_a_place_given_back_is_taken_again() {
    let gate = Gate::default();
    let mut inside = Vec::new();
    for _ in 0..CALLS_UNDER_WAY_MAX {
        inside.push(admitted(&gate, "").await.ok().unwrap());
    }
    let full = admitted(&gate, "").await.err();
    assert!(matches!(full, Some(Fault::Overloaded { .. })), "{full:?}");
    inside.pop();
    assert!(admitted(&gate, "").await.is_ok());
}

#[tokio::test]
async fn more_bytes_than_may_be_held_are_turned_away_and_those_given_back_are_taken_again() {
    const PART: usize = 1024 * 1024;
    let gate = Gate::default();
    let body = || Request::new(Full::from(vec![0; PART]));
    let terms = || Terms {
        bytes_max: PART,
        ..TERMS
    };
    let mut inside = Vec::new();
    for _ in 0..usize::try_from(BYTES_HELD_MAX).unwrap() / PART {
        let call = gate.admit(body(), &Peer::unix(), terms()).await;
        inside.push(call.ok().unwrap());
    }
    let full = gate.admit(body(), &Peer::unix(), terms()).await.err();
    assert!(matches!(full, Some(Fault::Overloaded { .. })), "{full:?}");
    assert!(admitted(&gate, "").await.is_ok());
    inside.pop();
    assert!(gate.admit(body(), &Peer::unix(), terms()).await.is_ok());
}

#[tokio::test]
async fn an_answer_keeps_the_place_of_its_call_until_it_is_dropped_but_is_not_under_way() {
    let gate = Gate::default();
    let mut answers = Vec::new();
    for _ in 0..CALLS_UNDER_WAY_MAX {
        let call = admitted(&gate, "").await.ok().unwrap();
        answers.push(gate.answered(call, Bytes::from_static(b"yes")).unwrap());
    }
    let full = admitted(&gate, "").await.err();
    let limit = CALLS_UNDER_WAY_MAX.to_string();
    assert!(full.clone().unwrap().to_string().contains(&limit));
    assert!(matches!(full, Some(Fault::Overloaded { .. })), "{full:?}");
    assert_eq!(answers.pop().unwrap(), "yes");
    assert!(admitted(&gate, "").await.is_ok());
    gate.close();
    gate.empty().await;
}

#[tokio::test]
async fn large_answers_without_room_are_not_kept_and_small_ones_always_are() {
    const LARGE: usize = 1024 * 1024;
    let gate = Gate::default();
    let answered = async |bytes: usize| {
        let call = admitted(&gate, "").await.ok().unwrap();
        gate.answered(call, vec![0; bytes].into())
    };
    let mut answers = Vec::new();
    for _ in 0..size(ANSWER_BYTES_MAX) / LARGE {
        answers.push(answered(LARGE).await.unwrap());
    }
    let full = answered(SMALL_ANSWER_BYTES_MAX + 1).await.unwrap_err();
    assert!(matches!(full, Fault::AnswerUnkept { .. }), "{full:?}");
    assert!(answered(SMALL_ANSWER_BYTES_MAX).await.is_ok());
    answers.pop();
    assert!(answered(LARGE).await.is_ok());
}

#[tokio::test]
async fn a_closed_gate_turns_calls_away_and_is_empty_once_the_last_is_over() {
    let gate = Gate::default();
    let inside = admitted(&gate, "").await.ok().unwrap();
    gate.close();
    let late = admitted(&gate, "").await.err();
    assert!(matches!(late, Some(Fault::Stopping { .. })), "{late:?}");
    let mut empty = Box::pin(gate.empty());
    assert!(futures_util::poll!(empty.as_mut()).is_pending());
    drop(inside);
    empty.await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_here_whole_soon_after_the_gate_closed_is_not_waited_for() {
    for (after, arrives) in [
        (REST_ARRIVES_WITHIN / 2, true),
        (REST_ARRIVES_WITHIN * 2, false),
    ] {
        let (gate, peer) = (Gate::default(), Peer::unix());
        let half = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"12")));
        let rest = async move {
            tokio::time::sleep(after).await;
            half()
        };
        let body = stream::iter([half()]).chain(stream::once(Box::pin(rest)));
        let call = gate.admit(Request::new(StreamBody::new(body)), &peer, TERMS);
        let mut call = Box::pin(call);
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        gate.close();
        match call.await {
            Ok(admitted) => assert!(arrives && admitted.message == "1212"),
            Err(fault) => assert!(!arrives && fault == stopping(), "{fault:?}"),
        }
        gate.empty().await;
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_the_limit() {
    let gate = Gate::default();
    assert_eq!(admitted(&gate, "1234").await.ok().unwrap().message, "1234");
    let fault = admitted(&gate, "12345").await.err().unwrap();
    assert_eq!(
        fault.to_string(),
        "the message has too many bytes; a large content can be sent as its digest; the limit is 4"
    );
}

#[tokio::test]
async fn a_caller_that_never_ends_its_message_is_told_that_its_deadline_passed() {
    let gate = Gate::default();
    let silence = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::new(StreamBody::new(silence));
    let terms = Terms {
        timeout: |_| Ok(Said::within(Duration::from_millis(20))),
        ..TERMS
    };
    let fault = gate.admit(request, &Peer::unix(), terms).await.err();
    assert_eq!(fault, Some(Fault::DeadlinePassed));
}
