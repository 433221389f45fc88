//! Transactions at their limits.

use etcd_client::proto::*;

use crate::etcd::Line;
use crate::pair::Pair;
use crate::requests::{compares, delete_op, either, nest, put, put_op, puts, txn};

/// The first that refuses an order of which it does not know what it is.
const REFUSES_UNKNOWN_ORDERS: Line = (3, 6);
const REQUEST_BYTES_MAX: usize = 1536 * 1024;
const MESSAGE_BYTES_MAX: usize = 2048 * 1024;

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

/// Guards are held against the store before the transaction; reads see what it has written.
pub(crate) async fn guards(pair: &mut Pair) {
    let read = PbTxnOpRequest::RequestRange(PbRangeRequest {
        key: b"g".to_vec(),
        ..Default::default()
    });
    let absent = PbCompare {
        key: b"g".to_vec(),
        ..Default::default()
    };
    let inner = either(vec![read.clone()], vec![put_op("g2")]);
    let inner = nest(PbTxnRequest {
        compare: vec![absent],
        ..inner
    });
    let request = txn(vec![put_op("g"), read, inner]);
    let answer = pair
        .both::<_, PbTxnResponse>("KV/Txn", request)
        .await
        .unwrap();
    let Some(PbTxnOpResponse::ResponseTxn(inner)) = &answer.responses[2].response else {
        panic!("{answer:#?}");
    };
    assert!(
        inner.succeeded,
        "a guard saw a write of its own transaction"
    );
    let Some(PbTxnOpResponse::ResponseRange(read)) = &inner.responses[0].response else {
        panic!("{inner:#?}");
    };
    assert_eq!(
        read.count, 1,
        "a read did not see a write of its own transaction"
    );
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
    // An order etcd does not know is none, up to 3.5. A target it does not know stops etcd 3.4, and is not
    // for comparison; the engine refuses it with the words of later versions.
    let key = b"a".to_vec();
    let unordered = PbRangeRequest {
        key,
        range_end: vec![0],
        sort_order: 7,
        ..Default::default()
    };
    for sort_target in 0..5 {
        let read = PbRangeRequest {
            sort_target,
            limit: 1,
            ..unordered.clone()
        };
        if pair.line < REFUSES_UNKNOWN_ORDERS {
            assert!(pair.ranges(read).await);
            continue;
        }
        let refused = pair.real.unary::<_, PbRangeResponse>("KV/Range", read);
        let refused = refused.await.unwrap_err();
        assert_eq!(refused.message(), "etcdserver: invalid sort option");
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
