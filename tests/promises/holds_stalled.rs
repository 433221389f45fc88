//! A sidecar that stood still never lets its holders believe too long.

use std::time::Duration;

use fencepost::engine::Boottime;
use fencepost::proto::v1;
use fencepost::proto::v1::hold_response::News;
use prost_types::Duration as ProtoDuration;

use super::fence::{OVER_WITHIN, SHORTEST_SECONDS};
use crate::support::ask::{fresh_request, fresh_resource, reserve_for};
use crate::support::backend::Backend;
use crate::support::bounded;
use crate::support::etcd::Etcd;
use crate::support::process::Process;
use crate::support::until;

const SHORTEST: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_stood_still_tells_the_loss_and_no_renewal_past_the_next_grant() {
    bounded(Box::pin(stood_still())).await;
}

async fn stood_still() {
    let backend = Backend::real().await;
    let etcd = Etcd::shared().await;
    let process = Process::serve(etcd.url(), backend.prefix(), &[]).await;
    let other = backend.sidecar().await;
    let mut client = process.client();
    let resource = fresh_resource();
    let ask = v1::ReserveRequest {
        resource: Some(v1::Resource {
            kind: resource.kind().to_string(),
            id: resource.id().to_owned(),
        }),
        request_id: format!("{:?}", fresh_request()),
        ttl: Some(ProtoDuration {
            seconds: i64::from(SHORTEST_SECONDS),
            nanos: 0,
        }),
        ..v1::ReserveRequest::default()
    };
    let granted = client.reserve(ask).await.expect("it is free").into_inner();
    let granted = granted.reservation.expect("a reservation");
    let opened = Boottime::now();
    let asked = v1::HoldRequest {
        reservation_ids: vec![granted.reservation_id.clone()],
        release_on_close: false,
    };
    let mut news = client.hold(asked).await.expect("it opens").into_inner();
    let first = news.message().await.expect("the stream goes on");
    let Some(News::Renewed(first)) = first.and_then(|told| told.news) else {
        panic!("it is held");
    };
    process.pause();
    // Its time passes, and another has it.
    let wish = reserve_for(&resource, SHORTEST_SECONDS);
    let next = until("another has it", OVER_WITHIN, || async {
        let reserved = other.try_reserve(&wish).await.expect("it is judged");
        reserved.grant
    })
    .await;
    let granted_by = Boottime::now();
    assert!(
        i128::from(next.token.get()) > i128::from(granted.token),
        "{next:?}"
    );
    tokio::time::sleep((opened.plus(4 * SHORTEST)).left()).await;
    process.resume();
    let mut renewals = vec![first];
    let lost = loop {
        let told = tokio::time::timeout(OVER_WITHIN, news.message()).await;
        let told = told.expect("news in time").expect("the stream goes on");
        match told.expect("the loss comes first").news {
            Some(News::Renewed(renewed)) => renewals.push(renewed),
            Some(News::Expiring(_)) => {}
            Some(News::Lost(lost)) => break lost,
            None => panic!("news without news"),
        }
    };
    // What was told before it stood still, too.
    for renewed in renewals {
        let safe_for = renewed.safe_for.expect("a span");
        let safe_for = Duration::try_from(safe_for).expect("not negative");
        let believed = opened.plus(safe_for);
        assert!(
            believed <= granted_by,
            "{safe_for:?}: {believed:?} > {granted_by:?}"
        );
    }
    assert_eq!(lost.verdict(), v1::Verdict::Fenced, "{lost:?}");
    // Whoever had it next is named if etcd was heard.
    let live = lost.now.map_or(0, |now| now.live_token);
    assert!(live == 0 || i128::from(live) == i128::from(next.token.get()));
    let told = news.message().await;
    assert!(matches!(told, Ok(None) | Err(_)), "{told:?}");
}
