//! Cases that random requests reach too seldom.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::proto::*;
use tokio::time::Instant;

use crate::ops::{Op, WatchSpec};
use crate::pair::{Pair, Plain};
use crate::watches::{Watch, create};

/// Every refusal the engine owes etcd.
const REFUSALS: [&str; 13] = [
    "InvalidArgument: etcdserver: key is not provided",
    "InvalidArgument: etcdserver: key not found",
    "InvalidArgument: etcdserver: value is provided",
    "InvalidArgument: etcdserver: lease is provided",
    "InvalidArgument: etcdserver: too many operations in txn request",
    "InvalidArgument: etcdserver: duplicate key given in txn request",
    "InvalidArgument: etcdserver: request is too large",
    "OutOfRange: etcdserver: mvcc: required revision has been compacted",
    "OutOfRange: etcdserver: mvcc: required revision is a future revision",
    "OutOfRange: etcdserver: too large lease TTL",
    "NotFound: etcdserver: requested lease not found",
    "FailedPrecondition: etcdserver: lease already exists",
    "ResourceExhausted: grpc: received message larger than max",
];

const REQUEST_BYTES_MAX: usize = 1536 * 1024;
const MESSAGE_BYTES_MAX: usize = 2048 * 1024;

fn put(key: &str) -> PbPutRequest {
    PbPutRequest {
        key: key.into(),
        value: b"v".to_vec(),
        ..Default::default()
    }
}

fn put_op(key: &str) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestPut(put(key))
}

fn delete_op(key: &str, range_end: &str) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestDeleteRange(PbDeleteRequest {
        key: key.into(),
        range_end: range_end.into(),
        prev_kv: true,
    })
}

fn txn(success: Vec<PbTxnOpRequest>) -> PbTxnRequest {
    either(success, Vec::new())
}

fn either(success: Vec<PbTxnOpRequest>, failure: Vec<PbTxnOpRequest>) -> PbTxnRequest {
    let ops = |ops: Vec<PbTxnOpRequest>| {
        ops.into_iter()
            .map(|request| PbTxnRequestOp {
                request: Some(request),
            })
            .collect()
    };
    PbTxnRequest {
        success: ops(success),
        failure: ops(failure),
        ..Default::default()
    }
}

fn nest(request: PbTxnRequest) -> PbTxnOpRequest {
    PbTxnOpRequest::RequestTxn(request)
}

fn puts(prefix: &str, count: usize) -> Vec<PbTxnOpRequest> {
    (0..count)
        .map(|number| put_op(&format!("{prefix}{number}")))
        .collect()
}

fn compares(count: usize) -> Vec<PbCompare> {
    let compare = PbCompare {
        key: b"none".to_vec(),
        ..Default::default()
    };
    vec![compare; count]
}

impl Pair {
    async fn puts(&mut self, request: PbPutRequest) -> bool {
        self.both::<_, PbPutResponse>("KV/Put", request)
            .await
            .is_ok()
    }

    async fn txns(&mut self, request: PbTxnRequest) -> bool {
        self.both::<_, PbTxnResponse>("KV/Txn", request)
            .await
            .is_ok()
    }

    async fn ranges(&mut self, request: PbRangeRequest) -> bool {
        self.both::<_, PbRangeResponse>("KV/Range", request)
            .await
            .is_ok()
    }

    async fn grants(&mut self, id: i64, ttl: i64) -> Option<i64> {
        let request = PbLeaseGrantRequest { ttl, id };
        let answer = self
            .both::<_, PbLeaseGrantResponse>("Lease/LeaseGrant", request)
            .await;
        answer.ok().map(|answer| answer.ttl)
    }
}

pub(crate) async fn width(pair: &mut Pair) {
    assert!(pair.txns(txn(puts("w", 128))).await);
    assert!(!pair.txns(txn(puts("w", 129))).await);
    assert!(!pair.txns(either(Vec::new(), puts("w", 129))).await);
    assert!(
        !pair
            .txns(PbTxnRequest {
                compare: compares(129),
                ..Default::default()
            })
            .await
    );
    assert!(pair.txns(txn(vec![nest(txn(puts("n", 127)))])).await);
    assert!(!pair.txns(txn(vec![nest(txn(puts("n", 128)))])).await);
    // What a level takes is its widest list, also one that does not run.
    for (inner, fits) in [(64, true), (65, false)] {
        let request = txn(vec![nest(txn(puts("n", inner)))]);
        assert_eq!(
            pair.txns(PbTxnRequest {
                compare: compares(64),
                ..request
            })
            .await,
            fits
        );
    }
    let deep = |inner| {
        txn(vec![
            nest(txn(vec![nest(txn(puts("d", inner)))])),
            put_op("d"),
        ])
    };
    assert!(pair.txns(deep(125)).await);
    assert!(!pair.txns(deep(126)).await);
}

pub(crate) async fn overlaps(pair: &mut Pair) {
    let cases = [
        (txn(vec![put_op("k"), put_op("k")]), false),
        (either(vec![put_op("k")], vec![put_op("k")]), true),
        (txn(vec![delete_op("k", ""), delete_op("k", "")]), true),
        (txn(vec![put_op("k"), delete_op("k", "")]), false),
        (txn(vec![put_op("k"), delete_op("a", "z")]), false),
        (txn(vec![put_op("k"), delete_op("a", "k")]), true),
        // The end "\0" means the last key, but not to the check.
        (txn(vec![put_op("k"), delete_op("a", "\0")]), true),
        (txn(vec![nest(txn(vec![put_op("k")])), put_op("k")]), false),
        (
            txn(vec![nest(either(vec![put_op("k")], vec![put_op("k")]))]),
            true,
        ),
        (
            txn(vec![
                nest(txn(vec![put_op("k")])),
                nest(txn(vec![put_op("k")])),
            ]),
            false,
        ),
        (
            txn(vec![nest(txn(vec![put_op("k")])), delete_op("a", "z")]),
            false,
        ),
        (
            txn(vec![nest(txn(vec![delete_op("a", "z")])), put_op("k")]),
            false,
        ),
        // Between children only the later puts are checked.
        (
            txn(vec![
                nest(txn(vec![delete_op("a", "z")])),
                nest(txn(vec![put_op("k")])),
            ]),
            false,
        ),
        (
            txn(vec![
                nest(txn(vec![put_op("k")])),
                nest(txn(vec![delete_op("a", "z")])),
            ]),
            true,
        ),
        (
            txn(vec![nest(either(
                vec![delete_op("k", "")],
                vec![put_op("k")],
            ))]),
            true,
        ),
        (
            txn(vec![
                nest(either(vec![], vec![put_op("k")])),
                nest(txn(vec![put_op("k")])),
            ]),
            false,
        ),
    ];
    for (request, fits) in cases {
        assert_eq!(pair.txns(request.clone()).await, fits, "{request:#?}");
        let all = PbRangeRequest {
            range_end: vec![0],
            key: vec![0],
            ..Default::default()
        };
        assert!(pair.ranges(all).await);
    }
}

pub(crate) async fn sizes(pair: &mut Pair) {
    let sized = |bytes: usize| PbPutRequest {
        value: vec![b'x'; bytes],
        ..put("large")
    };
    assert!(pair.puts(sized(REQUEST_BYTES_MAX - 64)).await);
    assert!(!pair.puts(sized(REQUEST_BYTES_MAX)).await);
    assert!(!pair.puts(sized(MESSAGE_BYTES_MAX - 64)).await);
    assert!(!pair.puts(sized(MESSAGE_BYTES_MAX)).await);
    let wide = |bytes: usize, success| PbTxnRequest {
        compare: vec![PbCompare {
            target: 3,
            key: b"large".to_vec(),
            target_union: Some(PbTargetUnion::Value(vec![b'x'; bytes])),
            ..Default::default()
        }],
        ..txn(success)
    };
    let read = PbRangeRequest {
        key: b"large".to_vec(),
        keys_only: true,
        ..Default::default()
    };
    // Reads do not go through etcd's log and are not held to the size of its entries.
    assert!(
        pair.txns(wide(
            REQUEST_BYTES_MAX,
            vec![PbTxnOpRequest::RequestRange(read)]
        ))
        .await
    );
    assert!(!pair.txns(wide(REQUEST_BYTES_MAX, vec![put_op("k")])).await);
}

pub(crate) async fn odd_requests(pair: &mut Pair) {
    let nothing = PbTxnRequest {
        success: vec![PbTxnRequestOp { request: None }],
        ..Default::default()
    };
    assert!(!pair.txns(nothing).await);
    assert!(pair.txns(PbTxnRequest::default()).await);
    assert!(pair.puts(put("odd")).await);
    for (target, result) in [(9, 0), (9, 1), (9, 3), (0, 9), (3, 9)] {
        let compare = PbCompare {
            target,
            result,
            key: b"odd".to_vec(),
            ..Default::default()
        };
        let request = PbTxnRequest {
            compare: vec![compare],
            ..txn(vec![put_op("odd2")])
        };
        assert!(pair.txns(request).await);
    }
    for revision in [-1, -7] {
        let read = PbRangeRequest {
            key: b"odd".to_vec(),
            revision,
            ..Default::default()
        };
        assert!(pair.ranges(read.clone()).await);
        pair.txns(txn(vec![PbTxnOpRequest::RequestRange(read)]))
            .await;
    }
    let empty = |request: PbPutRequest| PbPutRequest {
        key: vec![],
        ..request
    };
    let both = PbPutRequest {
        ignore_value: true,
        ignore_lease: true,
        lease: 5,
        ..put("odd")
    };
    let lease = PbPutRequest {
        value: vec![],
        ..both.clone()
    };
    // The first of several faults is the one that is named.
    for request in [empty(both.clone()), both, lease] {
        assert!(!pair.puts(request.clone()).await);
        assert!(
            !pair
                .txns(txn(vec![PbTxnOpRequest::RequestPut(request)]))
                .await
        );
    }
    let empty = PbDeleteRequest::default();
    assert!(
        pair.both::<_, PbDeleteResponse>("KV/DeleteRange", empty)
            .await
            .is_err()
    );
    // An order etcd does not know is none. A target it does not know stops etcd 3.4, and is not
    // for comparison; the engine refuses it with the words of later versions.
    let key = b"a".to_vec();
    let unordered = PbRangeRequest {
        key,
        range_end: vec![0],
        sort_order: 7,
        ..Default::default()
    };
    for sort_target in 0..5 {
        assert!(
            pair.ranges(PbRangeRequest {
                sort_target,
                limit: 1,
                ..unordered.clone()
            })
            .await
        );
    }
    let untargeted = PbRangeRequest {
        sort_target: 9,
        ..unordered
    };
    let refused = pair
        .ours
        .unary::<_, PbRangeResponse>("KV/Range", untargeted)
        .await;
    assert_eq!(
        refused.unwrap_err().message(),
        "etcdserver: invalid sort option"
    );
    let kept = PbPutRequest {
        value: vec![],
        ignore_value: true,
        lease: 99,
        ..put("missing")
    };
    assert!(!pair.puts(kept.clone()).await);
    assert!(!pair.txns(txn(vec![PbTxnOpRequest::RequestPut(kept)])).await);
}

pub(crate) async fn leases(pair: &mut Pair) {
    for (ttl, granted) in [(1, 2), (0, 2), (-5, 2), (2, 2), (3, 3)] {
        assert_eq!(pair.grants(11, ttl).await, Some(granted));
        pair.run(Op::Revoke(PbLeaseRevokeRequest { id: 11 })).await;
    }
    assert_eq!(pair.grants(11, 9_000_000_000).await, Some(9_000_000_000));
    assert_eq!(pair.grants(12, 9_000_000_001).await, None);
    // Too long comes before already there.
    assert_eq!(pair.grants(11, 9_000_000_001).await, None);
    assert_eq!(pair.grants(11, 100).await, None);
    for key in ["l2", "l1", "l3"] {
        assert!(
            pair.puts(PbPutRequest {
                lease: 11,
                ..put(key)
            })
            .await
        );
    }
    pair.run(Op::TimeToLive(PbLeaseTimeToLiveRequest {
        id: 11,
        keys: true,
    }))
    .await;
    let spec = WatchSpec {
        key: b"l".to_vec(),
        range_end: b"m".to_vec(),
        ..WatchSpec::default()
    };
    let mut watch = Watch::open(pair, spec).await.unwrap();
    pair.run(Op::Revoke(PbLeaseRevokeRequest { id: 11 })).await;
    watch.catch_up(pair).await;
    watch.close(pair).await;
    pair.run(Op::Revoke(PbLeaseRevokeRequest { id: 11 })).await;
    pair.keep_alive(PbLeaseKeepAliveRequest { id: 11 }).await;
    let request = PbLeaseGrantRequest { ttl: 60, id: 0 };
    for wire in [&mut pair.real, &mut pair.ours] {
        let mut ids = BTreeSet::new();
        for _ in 0..3 {
            let method = "Lease/LeaseGrant";
            let granted: PbLeaseGrantResponse = wire.unary(method, request).await.unwrap();
            assert!(
                granted.id > 0 && ids.insert(granted.id),
                "{ids:?} {granted:?}"
            );
            let revoke = PbLeaseRevokeRequest { id: granted.id };
            wire.unary::<_, PbLeaseRevokeResponse>("Lease/LeaseRevoke", revoke)
                .await
                .unwrap();
        }
    }
    pair.run(Op::Leases).await;
}

pub(crate) async fn history(pair: &mut Pair) {
    for key in ["h1", "h2", "h1"] {
        assert!(pair.puts(put(key)).await);
    }
    let all = |revision| PbRangeRequest {
        key: b"h".to_vec(),
        range_end: b"i".to_vec(),
        revision,
        ..Default::default()
    };
    let newest = pair.revision;
    let compact = |revision| {
        Op::Compact(PbCompactionRequest {
            revision,
            physical: true,
        })
    };
    pair.run(compact(newest - 1)).await;
    for (revision, fits) in [
        (Some(newest - 2), false),
        (Some(newest - 1), true),
        (Some(newest), true),
        // The revision that a write is about to make is a future one to reads inside it.
        (None, false),
    ] {
        let revision = revision.unwrap_or(pair.revision + 1);
        assert_eq!(pair.ranges(all(revision)).await, fits);
        let read = PbTxnOpRequest::RequestRange(all(revision));
        assert_eq!(pair.txns(txn(vec![read.clone()])).await, fits);
        let write = either(Vec::new(), vec![put_op("h3"), read]);
        let request = PbTxnRequest {
            compare: compares_false(),
            ..write
        };
        assert_eq!(pair.txns(request).await, fits);
    }
    pair.run(compact(newest - 1)).await;
    pair.run(compact(newest + 100)).await;
    for start in [1, newest - 2, newest - 1, newest, newest + 8] {
        let spec = WatchSpec {
            key: b"h".to_vec(),
            range_end: b"i".to_vec(),
            start,
            prev_kv: true,
            ..WatchSpec::default()
        };
        let watch = Watch::open(pair, spec).await;
        assert_eq!(watch.is_some(), start >= newest - 1, "from {start}");
        if let Some(watch) = watch {
            watch.close(pair).await;
        }
    }
}

fn compares_false() -> Vec<PbCompare> {
    vec![PbCompare {
        result: 3,
        key: b"none".to_vec(),
        ..Default::default()
    }]
}

/// Two watches on one stream, with ids of the client's choice.
pub(crate) async fn watch_ids(pair: &mut Pair) {
    let one = WatchSpec {
        key: b"i".to_vec(),
        ..WatchSpec::default()
    };
    let inverted = WatchSpec {
        range_end: b"a".to_vec(),
        ..one.clone()
    };
    let real = pair
        .real
        .stream("Watch/Watch", create(&one, 7))
        .await
        .unwrap();
    let ours = pair
        .ours
        .stream("Watch/Watch", create(&one, 7))
        .await
        .unwrap();
    let (mut real, mut ours): (_, (_, tonic::Streaming<PbWatchResponse>)) = (real, ours);
    let requests = [
        create(&one, 7),
        create(&inverted, 8),
        create(&inverted, 0),
        create(&one, 0),
        create(&one, 1),
        create(&one, 0),
        create(&one, -4),
    ];
    let mut ids = Vec::new();
    for request in std::iter::once(None).chain(requests.into_iter().map(Some)) {
        if let Some(request) = request.clone() {
            real.0.send(request.clone()).await.unwrap();
            ours.0.send(request).await.unwrap();
        }
        let mut answers = [real.1.message().await, ours.1.message().await]
            .map(|answer: Result<Option<PbWatchResponse>, _>| answer.unwrap().unwrap());
        answers.iter_mut().for_each(Plain::plain);
        let [real, ours] = answers;
        let answer = pair
            .same_watch_answer(&format!("{request:?}"), real, ours)
            .await;
        ids.push((answer.watch_id, answer.canceled));
    }
    let gone = (-1, true);
    let there = |id| (id, false);
    let expected = [
        there(7),
        gone,
        gone,
        gone,
        there(0),
        there(1),
        there(2),
        there(-4),
    ];
    assert_eq!(ids, expected);
}

/// Leases end by themselves, no earlier than granted, and take all their keys in one revision.
pub(crate) async fn expiry(pair: &mut Pair) {
    const TTL: i64 = 2;
    const LATE_MAX: Duration = Duration::from_secs(8);
    let spec = WatchSpec {
        key: b"x".to_vec(),
        range_end: b"y".to_vec(),
        prev_kv: true,
        ..WatchSpec::default()
    };
    let mut real = pair
        .real
        .stream("Watch/Watch", create(&spec, 0))
        .await
        .unwrap();
    let mut ours = pair
        .ours
        .stream("Watch/Watch", create(&spec, 0))
        .await
        .unwrap();
    let begun = Instant::now();
    assert_eq!(pair.grants(21, TTL).await, Some(TTL));
    for key in ["x2", "x1", "x3"] {
        assert!(
            pair.puts(PbPutRequest {
                lease: 21,
                ..put(key)
            })
            .await
        );
    }
    // A key that moved to no lease stays.
    assert!(pair.puts(put("x3")).await);
    let mut told = Vec::new();
    for (side, answers) in [("etcd", &mut real.1), ("the engine", &mut ours.1)] {
        let mut events: Vec<PbEvent> = Vec::new();
        while events.last().is_none_or(|event| event.r#type == 0) {
            let left = (Duration::from_secs(2) + LATE_MAX).saturating_sub(begun.elapsed());
            let answer: PbWatchResponse = tokio::time::timeout(left, answers.message())
                .await
                .unwrap_or_else(|_| panic!("{side} ends no lease in time: {events:#?}"))
                .unwrap()
                .unwrap();
            events.extend(answer.events);
        }
        assert!(begun.elapsed() >= Duration::from_secs(2), "it ended early");
        told.push(events);
    }
    assert_eq!(told[0], told[1]);
    let deleted: Vec<_> = told[1].iter().filter(|event| event.r#type == 1).collect();
    assert_eq!(deleted.len(), 2, "x1 and x2, in one revision: {deleted:#?}");
    pair.run(Op::TimeToLive(PbLeaseTimeToLiveRequest {
        id: 21,
        keys: true,
    }))
    .await;
    pair.keep_alive(PbLeaseKeepAliveRequest { id: 21 }).await;
    pair.run(Op::Leases).await;
    assert!(
        !pair
            .puts(PbPutRequest {
                lease: 21,
                ..put("x1")
            })
            .await
    );
    assert!(pair.puts(put("x1")).await);
}

pub(crate) fn every_refusal_was_met(pair: &Pair) {
    let met = |owed: &&str| pair.refusals.iter().any(|met| met.starts_with(*owed));
    let unmet: Vec<_> = REFUSALS.iter().filter(|owed| !met(owed)).collect();
    assert!(unmet.is_empty(), "never met: {unmet:#?}");
}
