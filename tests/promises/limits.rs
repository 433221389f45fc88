//! Every bound is named; over it comes a clear error, and nothing is cut short.

use bytes::Bytes;
use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::{
    Kind, OPERATION_ID_BYTES_MAX, OperationId, RESOURCE_ID_BYTES_MAX, ResourceId,
};
use fencepost::domain::outcome::{HEADERS_MAX, RESULT_BODY_BYTES_MAX, StoredResult};
use fencepost::domain::record::{IDENTITY_NAMES_REMEMBERED_MAX, STATES_REMEMBERED_MAX};
use fencepost::engine::Fault;

use crate::support::ask::{ask, body, create, fresh_resource, reserve, resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, replayed};
use crate::support::everywhere;

async fn a_resource_that_would_be_in_too_many_states_stays_where_it_is(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    // "new" is the first of them.
    applied(&sidecars[0].transition(&create(&resource, "s1")).await);
    for state in 2..STATES_REMEMBERED_MAX {
        let step = ask(&resource, &format!("to {state}")).to(&format!("s{state}"));
        applied(&sidecars[state % 2].transition(&step).await);
    }
    let last = format!("s{}", STATES_REMEMBERED_MAX - 1);
    let over = ask(&resource, "over");
    for sidecar in &sidecars {
        let refused = sidecar
            .try_transition(&over.clone().to("one-too-many"))
            .await;
        match refused {
            Err(Fault::LimitMet { limit, .. }) => assert_eq!(limit, STATES_REMEMBERED_MAX),
            other => panic!("{other:?}"),
        }
        assert_eq!(sidecar.state(&resource).await, last);
        assert_eq!(sidecar.lookup(&resource, "over").await.decision, None);
    }
    applied(
        &sidecars[1]
            .transition(&ask(&resource, "back").to("s1"))
            .await,
    );
}

async fn a_resource_does_not_remember_more_identity_names_than_it_may(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "open")).await);
    for name in 0..IDENTITY_NAMES_REMEMBERED_MAX {
        let set = ask(&resource, &format!("set {name}"))
            .stay()
            .sets(&format!("n{name}"), "v");
        applied(&sidecars[name % 2].transition(&set).await);
    }
    let over = ask(&resource, "over").stay().sets("one-more", "v");
    let refused = sidecars[0].try_transition(&over).await;
    assert!(
        matches!(refused, Err(Fault::LimitMet { limit, .. }) if limit == IDENTITY_NAMES_REMEMBERED_MAX),
        "{refused:?}"
    );
    let known = ask(&resource, "known").stay().sets("n0", "another value");
    applied(&sidecars[1].transition(&known).await);
}

async fn a_limit_met_by_one_request_does_not_harm_the_others_that_came_with_it(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let resource = fresh_resource();
    applied(&sidecars[0].transition(&create(&resource, "s1")).await);
    for state in 2..STATES_REMEMBERED_MAX {
        let step = ask(&resource, &format!("to {state}")).to(&format!("s{state}"));
        applied(&sidecars[0].transition(&step).await);
    }
    let asks = (0..40).map(|at| {
        let over = at % 2 == 0;
        let ask = ask(&resource, &format!("at {at}")).to(if over { "over" } else { "s1" });
        let sidecar = &sidecars[at % 4 / 2];
        async move { (over, sidecar.try_transition(&ask).await) }
    });
    for (over, answer) in futures_util::future::join_all(asks).await {
        match answer {
            Err(Fault::LimitMet { .. }) => assert!(over),
            Ok(decision) => assert!(
                !over && decision.verdict == Verdict::Applied,
                "{decision:?}"
            ),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(sidecars[1].state(&resource).await, "s1");
}

async fn the_largest_result_is_kept_whole(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let bytes: Vec<u8> = (0..RESULT_BODY_BYTES_MAX)
        .map(|at| (at % 251) as u8)
        .collect();
    let largest = StoredResult {
        body: Bytes::from(bytes),
        code: 999,
        content_type: "x".repeat(256),
        headers: (0..HEADERS_MAX)
            .map(|at| (format!("h{at:02}"), "v".repeat(253)))
            .collect(),
    };
    let largest = largest.checked().unwrap();
    let run = create(&resource, "done").full_result(largest.clone());
    applied(&one.transition(&run).await);
    replayed(&two.transition(&run).await, &largest);
    replayed(&backend.sidecar().await.transition(&run).await, &largest);
}

// A12: names are never cut short, and odd ones come back as they were.
async fn every_name_up_to_the_limit_is_a_resource_of_its_own(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let long = |last: char, length: usize| {
        let mut id = "x".repeat(length - 1);
        id.push(last);
        id
    };
    let mut ids: Vec<String> = [
        "a", "A", "é", "e\u{301}", "/a", "a/", "a//", "..", ".", "a\nb", "a\tb", " ", "  ", "🦀",
        "%2F", "/", "a%00", "\u{7f}",
    ]
    .map(str::to_owned)
    .into();
    for length in [255, 256, 257, RESOURCE_ID_BYTES_MAX] {
        ids.extend([long('y', length), long('z', length)]);
    }
    let mut tokens = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let resource = resource(id);
        let grant = sidecars[at % 2].hold(&reserve(&resource)).await;
        let mine = ask(&resource, "op").result(id).under(&grant.id);
        assert_eq!(
            sidecars[at % 2].transition(&mine).await.verdict,
            Verdict::Applied
        );
        tokens.push(grant.token);
    }
    for (at, id) in ids.iter().enumerate() {
        let sidecar = &sidecars[(at + 1) % 2];
        let snapshot = sidecar.inspect(&resource(id)).await;
        assert_eq!(snapshot.resource.id(), id);
        assert_eq!(
            snapshot.live.map(|live| live.token),
            Some(tokens[at]),
            "{id:?}"
        );
        let known = sidecar.lookup(&resource(id), "op").await.decision.unwrap();
        assert_eq!(known.result, Some(body(id)), "{id:?}");
    }
}

// F1: a blank key would be everybody's; these are not blank.
async fn operation_ids_that_look_like_nothing_are_operations_of_their_own(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let resource = fresh_resource();
    let mut longest = [
        "x".repeat(OPERATION_ID_BYTES_MAX),
        "x".repeat(OPERATION_ID_BYTES_MAX),
    ];
    longest[1].replace_range(OPERATION_ID_BYTES_MAX - 1.., "y");
    let odd = [
        "null",
        "undefined",
        "0",
        "a",
        "a ",
        " a",
        "a/b",
        "a%2Fb",
        &longest[0],
        &longest[1],
    ];
    for operation in odd {
        let run = ask(&resource, operation).result(operation);
        assert_eq!(
            one.transition(&run).await.verdict,
            Verdict::Applied,
            "{operation:?}"
        );
    }
    for operation in odd {
        replayed(
            &two.transition(&ask(&resource, operation)).await,
            &body(operation),
        );
    }
}

everywhere! {
    a_resource_that_would_be_in_too_many_states_stays_where_it_is,
    a_resource_does_not_remember_more_identity_names_than_it_may,
    a_limit_met_by_one_request_does_not_harm_the_others_that_came_with_it,
    the_largest_result_is_kept_whole,
    every_name_up_to_the_limit_is_a_resource_of_its_own,
    operation_ids_that_look_like_nothing_are_operations_of_their_own,
}

#[test]
fn a_name_over_its_limit_is_refused_with_its_length_and_the_limit() {
    let kind = Kind::parse("order").unwrap();
    for length in [RESOURCE_ID_BYTES_MAX + 1, 1_024, 65_536] {
        let refused = ResourceId::new(kind.clone(), &"x".repeat(length)).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains(&length.to_string()), "{told}");
        assert!(told.contains(&RESOURCE_ID_BYTES_MAX.to_string()), "{told}");
    }
    for bad in ["", "a\0b"] {
        assert!(ResourceId::new(kind.clone(), bad).is_err(), "{bad:?}");
    }
    for blank in ["", " ", "\t\u{a0}"] {
        assert!(OperationId::parse(blank).is_err(), "{blank:?}");
    }
}

#[test]
fn a_result_over_its_limit_is_refused_with_the_limit() {
    let over = body(vec![0; RESULT_BODY_BYTES_MAX + 1]);
    let refused = over.checked().unwrap_err().to_string();
    assert!(refused.contains("65537"), "{refused}");
    assert!(refused.contains("65536"), "{refused}");
}
