//! How long it takes until a holder hears of its loss, when the sidecar's line to etcd is cut and stays so.

use std::time::{Duration, Instant};

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::hold_response::News;
use tokio::task::JoinSet;

use crate::line;
use crate::pair::Spread;
use crate::report::{Bar, Line};
use crate::servers::{Etcd, Sidecar};
use crate::{Bench, Outcome, ours, push};

const ROW: &str = "loss";
/// How long each reservation lasts, in seconds.
const TTL_SECONDS: i64 = 5;
/// Holders, each on a stream of its own.
const HOLDERS: usize = 20;
/// Until the line is cut: by then renewals no longer come together.
const HELD_FOR: Duration = Duration::from_secs(8);
/// A loss that does not come by then never comes.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let etcd = Etcd::start(&bench.data, "etcd-loss").await?;
    let line = line::Line::to(&etcd.url)?;
    let sidecar = Sidecar::start_at(&bench.data, &line.url, "/fencepost/").await?;
    let connections = ours::Connections::open(&sidecar.address, 1).await?;
    let mut holders = JoinSet::new();
    for _ in 0..HOLDERS {
        let mut client = connections.client(0);
        let reservation = ours::reserve(&mut client, &bench.fresh.next(), TTL_SECONDS).await?;
        let request = pb::HoldRequest {
            reservation_ids: vec![reservation.reservation_id],
            release_on_close: false,
        };
        let opened = Instant::now();
        let stream = client.hold(request).await?.into_inner();
        holders.spawn(tokio::time::timeout(
            HELD_FOR + TOLD_WITHIN,
            until_lost(stream, opened),
        ));
    }
    tokio::time::sleep(HELD_FOR).await;
    if let Some(ended) = holders.try_join_next() {
        ended???;
        return Err("a reservation was lost while the line was up".into());
    }
    let cut = Instant::now();
    line.cut();
    let (mut after, mut before_end) = (Vec::new(), Vec::new());
    while let Some(ended) = holders.join_next().await {
        let (lost, end) = ended???;
        after.push(lost.saturating_duration_since(cut).as_secs_f64() * 1e3);
        // Less than nothing if it came too late.
        let early = end.saturating_duration_since(lost).as_secs_f64();
        let late = lost.saturating_duration_since(end).as_secs_f64();
        before_end.push((early - late) * 1e3);
    }
    let what = |of: &str| format!("line to etcd cut, {HOLDERS} holds of {TTL_SECONDS} s: {of}");
    let once = |of: &str, figure, bar| Line::once(ROW, what(of), "ms", figure, bar);
    let (after, before_end) = (Spread::of(after), Spread::of(before_end));
    let ttl = TTL_SECONDS as f64 * 1e3;
    let within = Bar::AtMost { bar: ttl, aim: ttl };
    push(lines, once("until `lost`, p50", after.median(), None));
    push(
        lines,
        once("until `lost`, longest", after.most(), Some(within)),
    );
    let before = Bar::AtLeast {
        bar: 0.0,
        aim: 50.0,
    };
    let of = "least time between `lost` and the end of `safe_for`";
    push(lines, once(of, before_end.least(), Some(before)));
    Ok(())
}

/// When the loss was told, and until when the holder believed in its reservation.
async fn until_lost(
    mut stream: tonic::Streaming<pb::HoldResponse>,
    opened: Instant,
) -> Outcome<(Instant, Instant)> {
    let mut end = opened;
    while let Some(told) = stream.message().await? {
        match told.news {
            Some(News::Renewed(reservation)) => {
                let safe_for = reservation.safe_for.ok_or("a renewal without safe_for")?;
                end = opened + Duration::try_from(safe_for)?;
            }
            Some(News::Expiring(_)) => {}
            Some(News::Lost(_)) => return Ok((Instant::now(), end)),
            None => return Err("news without news".into()),
        }
    }
    Err("the stream ended without a loss".into())
}
