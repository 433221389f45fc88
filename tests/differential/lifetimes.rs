//! Leases, history and watches from their beginning to their end.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::proto::*;
use tokio::time::Instant;

use crate::ops::{Op, WatchSpec};
use crate::pair::{Pair, Plain};
use crate::requests::{either, never, put, put_op, txn};
use crate::watches::{Watch, create};

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
            compare: never(),
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
    const TTL: i64 = 4;
    const GRANTED: Duration = Duration::from_secs(4);
    const LATE_MAX: Duration = Duration::from_secs(20);
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
            let left = (GRANTED + LATE_MAX).saturating_sub(begun.elapsed());
            let answer: PbWatchResponse = tokio::time::timeout(left, answers.message())
                .await
                .unwrap_or_else(|_| panic!("{side} ends no lease in time: {events:#?}"))
                .unwrap()
                .unwrap();
            events.extend(answer.events);
        }
        assert!(begun.elapsed() >= GRANTED, "it ended early");
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
