//! The seam itself: a fault that does not do what it says would make every other test here worthless.

use std::time::Duration;

use etcd_client::{Client, Error, PutOptions, WatchStream};

use crate::support::backend::Backend;
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, FaultyLink, Injected, Rpc};

/// Longer than any answer takes here, so that silence is told from slowness.
const SILENCE: Duration = Duration::from_millis(400);

async fn client(backend: &Backend) -> (Client, FaultPlan) {
    let (channel, plan) = FaultyLink::wrap(backend.channel());
    (Client::from_channel(channel, None).await.unwrap(), plan)
}

async fn value(backend: &Backend, key: &str) -> Option<String> {
    let found = backend.raw().await.get(key, None).await.unwrap();
    let found = found.kvs().first();
    found.map(|entry| entry.value_str().unwrap().to_owned())
}

fn key(backend: &Backend) -> String {
    format!("{}key", backend.prefix())
}

/// What a client library tells of a failure: the words of the whole chain.
fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        words = format!("{words}: {next}");
        cause = next.source();
    }
    words
}

async fn a_lost_reply_leaves_the_write_and_tells_the_caller_nothing(backend: Backend) {
    let key = key(&backend);
    for ending in Ending::BOTH {
        let (mut etcd, plan) = client(&backend).await;
        let lost = plan.when(Rpc::Put).then(Action::LoseReply(ending));
        let value_sent = format!("{ending:?}");
        let put = etcd.put(key.clone(), value_sent.clone(), None);
        let answer = tokio::time::timeout(SILENCE, put).await;
        match ending {
            Ending::Silence => assert!(answer.is_err(), "{answer:?}"),
            Ending::Reset => assert!(matches!(answer, Ok(Err(_))), "{answer:?}"),
        }
        lost.met().await;
        assert_eq!(value(&backend, &key).await, Some(value_sent));
        etcd.put(key.clone(), "after", None).await.unwrap();
        assert_eq!(value(&backend, &key).await.as_deref(), Some("after"));
    }
}

async fn a_late_delivery_reaches_etcd_after_the_caller_has_left_and_not_before(backend: Backend) {
    let key = key(&backend);
    for ending in Ending::BOTH {
        let (mut etcd, plan) = client(&backend).await;
        etcd.put(key.clone(), "before", None).await.unwrap();
        let late = plan.when(Rpc::Put).then(Action::DeliverLate(ending));
        let put = etcd.put(key.clone(), "late", None);
        let answer = tokio::time::timeout(SILENCE, put).await;
        assert!(!matches!(answer, Ok(Ok(_))), "{answer:?}");
        late.met().await;
        assert_eq!(value(&backend, &key).await.as_deref(), Some("before"));
        late.deliver().await;
        assert_eq!(value(&backend, &key).await.as_deref(), Some("late"));
    }
}

async fn a_held_request_arrives_even_if_its_sender_has_left(backend: Backend) {
    let key = key(&backend);
    let (mut etcd, plan) = client(&backend).await;
    let held = plan.when(Rpc::Put).then(Action::Hold);
    let put = etcd.put(key.clone(), "held", None);
    assert!(tokio::time::timeout(SILENCE, put).await.is_err());
    assert_eq!(value(&backend, &key).await, None);
    held.deliver().await;
    assert_eq!(value(&backend, &key).await.as_deref(), Some("held"));
}

async fn a_cut_and_a_loss_are_told_apart_by_their_errors_and_write_nothing(backend: Backend) {
    let key = key(&backend);
    let (mut etcd, plan) = client(&backend).await;
    plan.when(Rpc::Put).then(Action::Cut);
    let cut = etcd.put(key.clone(), "cut", None).await.unwrap_err();
    assert!(chain(&cut).contains("refused"), "{}", chain(&cut));
    plan.when(Rpc::Put).then(Action::Lose);
    let lost = etcd.put(key.clone(), "lost", None).await.unwrap_err();
    assert!(!chain(&lost).contains("refused"), "{}", chain(&lost));
    assert_eq!(value(&backend, &key).await, None);
}

async fn only_calls_that_contain_the_bytes_are_met_and_all_are_counted(backend: Backend) {
    let (mut etcd, plan) = client(&backend).await;
    let other = format!("{}other", backend.prefix());
    let before = plan.counts();
    let cut = plan
        .when(Rpc::Put)
        .containing("other")
        .always()
        .then(Action::Cut);
    etcd.put(key(&backend), "1", None).await.unwrap();
    etcd.put(other.clone(), "1", None).await.unwrap_err();
    etcd.put(other.clone(), "2", None).await.unwrap_err();
    cut.lift();
    etcd.put(other, "3", None).await.unwrap();
    etcd.get(key(&backend), None).await.unwrap();
    let made = plan.counts().since(&before);
    assert_eq!(
        (cut.hits(), made.of(Rpc::Put), made.of(Rpc::Range)),
        (2, 4, 1)
    );
    assert_eq!((made.keys(), made.all()), (5, 5));
}

async fn keepalives_are_met_message_by_message(backend: Backend) {
    let (mut etcd, plan) = client(&backend).await;
    let lease = etcd.lease_grant(60, None).await.unwrap().id();
    // It sends the first one by itself and reads its reply.
    let (mut keeper, mut replies) = etcd.lease_keep_alive(lease).await.unwrap();

    let lost = plan
        .when(Rpc::LeaseKeepAlive)
        .then(Action::LoseReply(Ending::Silence));
    keeper.keep_alive().await.unwrap();
    assert!(
        tokio::time::timeout(SILENCE, replies.message())
            .await
            .is_err()
    );
    assert_eq!(lost.hits(), 1);

    let late = plan
        .when(Rpc::LeaseKeepAlive)
        .then(Action::DeliverLate(Ending::Silence));
    keeper.keep_alive().await.unwrap();
    late.met().await;
    late.deliver().await;

    keeper.keep_alive().await.unwrap();
    assert_eq!(replies.message().await.unwrap().unwrap().ttl(), 60);
    assert_eq!(plan.counts().of(Rpc::LeaseKeepAlive), 4);

    plan.when(Rpc::LeaseKeepAlive)
        .then(Action::DeliverLate(Ending::Reset));
    keeper.keep_alive().await.unwrap();
    assert!(replies.message().await.is_err());
    let on_lease = Some(PutOptions::new().with_lease(lease));
    etcd.put(key(&backend), "the lease lives", on_lease)
        .await
        .unwrap();
}

/// A watch of the key. What is written before it is made it would not tell.
async fn watching(etcd: &mut Client, backend: &Backend) -> WatchStream {
    let mut watch = etcd.watch(key(backend), None).await.unwrap();
    let made = watch.message().await.unwrap().expect("it is open");
    assert!(made.created() && made.events().is_empty(), "{made:?}");
    watch
}

async fn a_cut_of_the_whole_line_ends_what_is_open_and_lets_nothing_new_through(backend: Backend) {
    let (mut etcd, plan) = client(&backend).await;
    let lease = etcd.lease_grant(60, None).await.unwrap().id();
    let (mut keeper, mut replies) = etcd.lease_keep_alive(lease).await.unwrap();
    keeper.keep_alive().await.unwrap();
    assert_eq!(replies.message().await.unwrap().unwrap().ttl(), 60);
    let mut watch = watching(&mut etcd, &backend).await;
    etcd.put(key(&backend), "heard", None).await.unwrap();
    assert_eq!(watch.message().await.unwrap().unwrap().events().len(), 1);

    let cut = plan.cut_all();
    assert!(watch.message().await.is_err(), "the watch goes on");
    assert!(
        replies.message().await.is_err(),
        "the stream of keepalives goes on"
    );
    etcd.put(key(&backend), "cut", None).await.unwrap_err();
    etcd.watch(key(&backend), None).await.unwrap_err();
    etcd.lease_keep_alive(lease).await.unwrap_err();
    assert_eq!(
        value(&backend, &key(&backend)).await.as_deref(),
        Some("heard")
    );

    cut.iter().for_each(Injected::lift);
    let mut watch = watching(&mut etcd, &backend).await;
    etcd.put(key(&backend), "healed", None).await.unwrap();
    assert_eq!(watch.message().await.unwrap().unwrap().events().len(), 1);
    etcd.lease_keep_alive(lease).await.unwrap();
}

engines! {
    a_cut_of_the_whole_line_ends_what_is_open_and_lets_nothing_new_through,
    a_lost_reply_leaves_the_write_and_tells_the_caller_nothing,
    a_late_delivery_reaches_etcd_after_the_caller_has_left_and_not_before,
    a_held_request_arrives_even_if_its_sender_has_left,
    a_cut_and_a_loss_are_told_apart_by_their_errors_and_write_nothing,
    only_calls_that_contain_the_bytes_are_met_and_all_are_counted,
    keepalives_are_met_message_by_message,
}
