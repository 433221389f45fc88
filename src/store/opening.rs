//! Opening a stream of keepalives at one member.

use std::time::Duration;

use etcd_client::proto::PbLeaseKeepAliveRequest;
use etcd_client::{Error, LeaseKeepAliveStream, LeaseKeeper};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::failure::meaning_of;
use super::session::{Member, Session};
use crate::domain::record::LeaseId;

/// An open stream.
pub(super) struct Stream<'s> {
    pub(super) member: &'s Member,
    pub(super) requests: mpsc::Sender<PbLeaseKeepAliveRequest>,
    pub(super) replies: LeaseKeepAliveStream,
}

/// Why there is none.
pub(super) enum Unopened {
    /// The lease that was to open it is gone.
    Gone,
    /// Nothing was heard in time.
    Silent,
    Failed(Error),
}

/// Opens a stream by a lease, within a limit. The answer to the opening is not passed on. Who is not known to the member is told
/// to it, and asks once more.
pub(super) async fn open_at<'s>(
    session: &Session,
    member: &'s Member,
    lease: LeaseId,
    limit: Duration,
) -> Result<Stream<'s>, Unopened> {
    let token = session.token();
    let mut client = member.lease.clone();
    let mut opened = timeout(limit, client.keep_alive(lease.0)).await;
    if let Ok(Err(error)) = &opened
        && let meaning = meaning_of(error)
        && meaning.is_about_who_asks()
        && session.be_known(member, token, meaning).await.is_ok()
    {
        opened = timeout(limit, client.keep_alive(lease.0)).await;
    }
    match opened {
        Ok(Ok((LeaseKeeper { sender, .. }, replies))) => Ok(Stream {
            member,
            requests: sender,
            replies,
        }),
        // The client's word for a TTL of 0.
        Ok(Err(Error::LeaseKeepAliveError(reason))) if reason == "lease not found" => {
            Err(Unopened::Gone)
        }
        Ok(Err(error)) => Err(Unopened::Failed(error)),
        Err(_) => Err(Unopened::Silent),
    }
}
