//! What a comparison with etcd cannot show: time, bounds, and the end of things.
#![allow(clippy::as_conversions, clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use bytes::Bytes;
use etcd_client::proto::PbRangeRequest;
use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, GetOptions, LeaseGrantOptions, PutOptions, Txn,
    TxnOp, WatchOptions, WatchResponse, WatchStream,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::Engine;
use super::refusal::Refusal;
use super::store::{HISTORY_BYTES_MAX, HISTORY_REVISIONS_MAX, Store};
use super::watch::PROGRESS_INTERVAL;

const SOON: Duration = Duration::from_secs(10);

async fn client(engine: &Engine) -> Client {
    Client::from_channel(engine.channel(), None).await.unwrap()
}

async fn put_leased(client: &mut Client, key: &str, lease: i64) {
    client
        .put(key, "v", Some(PutOptions::new().with_lease(lease)))
        .await
        .unwrap();
}

async fn keys(client: &mut Client) -> Vec<String> {
    let all = client
        .get("\0", Some(GetOptions::new().with_from_key()))
        .await
        .unwrap();
    all.kvs()
        .iter()
        .map(|kv| kv.key_str().unwrap().to_owned())
        .collect()
}

/// Answers once the watch has begun.
async fn watch(client: &mut Client, key: &str, options: Option<WatchOptions>) -> WatchStream {
    let mut watch = client.watch(key, options).await.unwrap();
    assert!(next(&mut watch).await.created());
    watch
}

async fn next(watch: &mut WatchStream) -> WatchResponse {
    timeout(SOON, watch.message())
        .await
        .expect("an answer in time")
        .unwrap()
        .unwrap()
}

fn revisions(answer: &WatchResponse) -> Vec<i64> {
    answer
        .events()
        .iter()
        .map(|event| event.kv().unwrap().mod_revision())
        .collect()
}

/// Waits, within bounds, until the runtime has as few tasks as said.
async fn tasks_fall_to(count: usize) {
    let deadline = Instant::now() + SOON;
    while Handle::current().metrics().num_alive_tasks() > count {
        assert!(Instant::now() < deadline, "a task outlives its engine");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_on_its_second_and_takes_its_keys_in_one_revision() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    client
        .lease_grant(60, Some(LeaseGrantOptions::new().with_id(1)))
        .await
        .unwrap();
    client
        .lease_grant(10, Some(LeaseGrantOptions::new().with_id(2)))
        .await
        .unwrap();
    for key in ["a", "b"] {
        put_leased(&mut client, key, 2).await;
    }
    put_leased(&mut client, "c", 1).await;
    sleep(Duration::from_millis(9_990)).await;
    assert_eq!(keys(&mut client).await, ["a", "b", "c"]);
    let before = client
        .get("a", None)
        .await
        .unwrap()
        .header()
        .unwrap()
        .revision();
    sleep(Duration::from_millis(20)).await;
    assert_eq!(keys(&mut client).await, ["c"]);
    let after = client
        .get("a", None)
        .await
        .unwrap()
        .header()
        .unwrap()
        .revision();
    assert_eq!(after, before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_kept_lease_lives_on_and_an_ended_one_does_not_come_back() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    client
        .lease_grant(10, Some(LeaseGrantOptions::new().with_id(1)))
        .await
        .unwrap();
    put_leased(&mut client, "a", 1).await;
    let (mut keeper, mut kept) = client.lease_keep_alive(1).await.unwrap();
    for _ in 0..5 {
        sleep(Duration::from_secs(9)).await;
        keeper.keep_alive().await.unwrap();
        assert_eq!(kept.message().await.unwrap().unwrap().ttl(), 10);
    }
    assert_eq!(keys(&mut client).await, ["a"]);
    sleep(Duration::from_secs(11)).await;
    keeper.keep_alive().await.unwrap();
    assert_eq!(kept.message().await.unwrap().unwrap().ttl(), 0);
    assert!(keys(&mut client).await.is_empty());
}

#[test]
fn a_lease_past_its_end_is_not_renewed_even_before_the_ticker_comes() {
    let mut store = Store::new();
    let now = Instant::now();
    store.leases.grant(1, 10, now).unwrap();
    assert_eq!(store.renew(1, now + Duration::from_secs(9)), Some(10));
    assert_eq!(store.renew(1, now + Duration::from_secs(19)), None);
    assert_eq!(store.revoke(1), Err(Refusal::LeaseNotFound));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_by_a_client_that_does_not_read_the_answers() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    client
        .lease_grant(10, Some(LeaseGrantOptions::new().with_id(1)))
        .await
        .unwrap();
    let (mut keeper, _unread) = client.lease_keep_alive(1).await.unwrap();
    for _ in 0..5 {
        keeper.keep_alive().await.unwrap();
        sleep(Duration::from_secs(9)).await;
    }
    assert!(client.lease_time_to_live(1, None).await.unwrap().ttl() >= 0);
}

#[tokio::test]
async fn the_engine_ends_with_its_last_handle_channel_and_stream() {
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
    let engine = Engine::new();
    let mut client = client(&engine).await;
    drop(engine);
    client.lease_grant(60, None).await.unwrap();
    let mut watch = watch(&mut client, "a", None).await;
    client.put("a", "v", None).await.unwrap();
    drop(client);
    assert_eq!(revisions(&next(&mut watch).await), [2]);
    assert!(Handle::current().metrics().num_alive_tasks() > 0);
    drop(watch);
    tasks_fall_to(0).await;
}

#[tokio::test]
async fn a_watcher_that_reads_late_is_told_every_revision_once_and_in_order() {
    const WRITES: i64 = 5_000;
    let engine = Engine::new();
    let mut client = client(&engine).await;
    let mut watch = watch(&mut client, "a", None).await;
    for _ in 0..WRITES {
        client.put("a", "v", None).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut told = Vec::new();
    let mut answers = 0;
    while told.len() < WRITES as usize {
        told.extend(revisions(&next(&mut watch).await));
        answers += 1;
    }
    assert_eq!(told, (2..2 + WRITES).collect::<Vec<_>>());
    // One answer for each write would have been kept for this watcher; they were made from
    // history when it read.
    assert!(answers < 20, "{answers} answers");
}

#[tokio::test]
async fn progress_is_answered_only_when_all_before_it_is_told() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    for _ in 0..2_500 {
        client.put("a", "v", None).await.unwrap();
    }
    let options = WatchOptions::new().with_start_revision(2);
    let mut watch = client.watch("a", Some(options)).await.unwrap();
    watch.request_progress().await.unwrap();
    assert!(next(&mut watch).await.created());
    let mut told = Vec::new();
    let progress = loop {
        let answer = next(&mut watch).await;
        if answer.events().is_empty() {
            break answer.header().unwrap().revision();
        }
        told.extend(revisions(&answer));
    };
    assert_eq!((told.len(), told.last()), (2_500, Some(&progress)));
}

#[tokio::test]
async fn a_watcher_that_fell_behind_a_compaction_is_told_so() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    let value = vec![b'x'; 1024 * 1024];
    let mut watch = watch(&mut client, "a", None).await;
    for _ in 0..20 {
        client.put("a", value.clone(), None).await.unwrap();
        tokio::task::yield_now().await;
    }
    client.compact(20, None).await.unwrap();
    let mut told = Vec::new();
    let ended = loop {
        let answer = next(&mut watch).await;
        if answer.canceled() {
            break answer;
        }
        told.extend(revisions(&answer));
    };
    assert_eq!(ended.compact_revision(), 20);
    // What had been told by then has no gap.
    assert_eq!(told, (2..2 + told.len() as i64).collect::<Vec<_>>());
    assert!(
        told.len() < 15,
        "{} answers were made ahead of the reader",
        told.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watcher_hears_of_progress() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    let options = WatchOptions::new().with_progress_notify();
    let mut watch = watch(&mut client, "a", Some(options)).await;
    client.put("b", "v", None).await.unwrap();
    let begun = Instant::now();
    let answer = watch.message().await.unwrap().unwrap();
    assert!(answer.events().is_empty() && !answer.canceled() && !answer.created());
    assert_eq!(answer.header().unwrap().revision(), 2);
    assert!(begun.elapsed() >= PROGRESS_INTERVAL - Duration::from_secs(1));
}

#[tokio::test]
async fn a_revision_too_large_for_a_message_is_told_in_fragments() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    let options = WatchOptions::new()
        .with_prefix()
        .with_prev_key()
        .with_fragment();
    let mut watch = watch(&mut client, "k", Some(options)).await;
    let puts = || {
        let put = |number| TxnOp::put(format!("k{number:03}"), vec![b'x'; 14 * 1024], None);
        Txn::new().and_then((0..100).map(put).collect::<Vec<_>>())
    };
    client.txn(puts()).await.unwrap();
    assert_eq!(next(&mut watch).await.events().len(), 100);
    client.txn(puts()).await.unwrap();
    let mut told = Vec::new();
    let mut parts = 0;
    while told.len() < 100 {
        let answer = next(&mut watch).await;
        told.extend(
            answer
                .events()
                .iter()
                .map(|event| event.kv().unwrap().key().to_vec()),
        );
        parts += 1;
    }
    assert!(parts > 1 && told.is_sorted(), "{parts} parts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_rise_strictly_whoever_writes() {
    const WRITERS: i64 = 8;
    const WRITES: i64 = 200;
    let engine = Engine::new();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut client = client(&engine).await;
        writers.spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..WRITES {
                let put = client.put(format!("{writer}"), "v", None).await.unwrap();
                seen.push(put.header().unwrap().revision());
            }
            assert!(seen.is_sorted_by(|a, b| a < b));
            seen
        });
    }
    let mut all: Vec<i64> = writers.join_all().await.concat();
    all.sort_unstable();
    assert_eq!(all, (2..2 + WRITERS * WRITES).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_refused_transaction_leaves_nothing_behind() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    let puts = [
        TxnOp::put("a", "v", None),
        TxnOp::put("b", "v", Some(PutOptions::new().with_lease(99))),
    ];
    let refused = client.txn(Txn::new().and_then(puts)).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("requested lease not found")
    );
    assert!(keys(&mut client).await.is_empty());
    assert_eq!(
        client
            .put("a", "v", None)
            .await
            .unwrap()
            .header()
            .unwrap()
            .revision(),
        2
    );
}

#[tokio::test]
async fn a_kept_value_survives_a_deletion_that_escaped_the_overlap_check() {
    let engine = Engine::new();
    let mut client = client(&engine).await;
    client.put("a", "v", None).await.unwrap();
    let txn = Txn::new()
        .when([Compare::version("a", CompareOp::Greater, 0)])
        .and_then([
            TxnOp::delete("a", Some(DeleteOptions::new().with_from_key())),
            TxnOp::put("a", "", Some(PutOptions::new().with_ignore_value())),
        ]);
    client.txn(txn).await.unwrap();
    let read = client.get("a", None).await.unwrap();
    assert_eq!(
        (read.kvs()[0].value(), read.kvs()[0].version()),
        (&b"v"[..], 1)
    );
}

fn read(store: &Store, revision: i64) -> Result<i64, Refusal> {
    let request = PbRangeRequest {
        key: b"k".to_vec(),
        revision,
        ..PbRangeRequest::default()
    };
    super::range::range(store, &request).map(|answer| answer.count)
}

#[test]
fn old_revisions_are_compacted_by_number() {
    let mut store = Store::new();
    let writes = HISTORY_REVISIONS_MAX + 1_000;
    for _ in 0..writes {
        let mut write = store.begin();
        write.put(Bytes::from_static(b"k"), Bytes::new(), 0);
        write.commit();
    }
    let newest = store.revision();
    assert_eq!(store.compacted(), newest - HISTORY_REVISIONS_MAX as i64 + 1);
    assert_eq!(read(&store, store.compacted()), Ok(1));
    assert_eq!(read(&store, store.compacted() - 1), Err(Refusal::Compacted));
}

#[test]
fn old_revisions_are_compacted_by_size_and_deleted_keys_go_for_good() {
    let mut store = Store::new();
    let value = Bytes::from(vec![0; 1024 * 1024]);
    let fits = HISTORY_BYTES_MAX / value.len();
    let mut write = store.begin();
    write.put(Bytes::from_static(b"old"), value.clone(), 0);
    write.commit();
    let mut write = store.begin();
    write.delete(&Bytes::from_static(b"old"));
    write.commit();
    for _ in 0..fits + 10 {
        let mut write = store.begin();
        write.put(Bytes::from_static(b"k"), value.clone(), 0);
        write.commit();
    }
    let kept = store.revision() - store.compacted();
    assert!(
        (fits as i64 - 2..=fits as i64).contains(&kept),
        "{kept} revisions of {fits} that fit"
    );
    assert!(!store.keys.contains_key(&b"old"[..]));
    assert_eq!(read(&store, 0), Ok(1));
}

#[tokio::test]
async fn the_same_services_answer_on_a_port() {
    let engine = Engine::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let server = tonic::transport::Server::builder().add_routes(engine.routes());
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let mut remote = Client::connect([format!("http://{address}")], None)
        .await
        .unwrap();
    remote.put("a", "v", None).await.unwrap();
    assert_eq!(keys(&mut client(&engine).await).await, ["a"]);
    let mut watch = watch(&mut remote, "a", None).await;
    client(&engine).await.delete("a", None).await.unwrap();
    assert_eq!(revisions(&next(&mut watch).await), [3]);
    serving.abort();
}
