//! Three members of etcd, a way apart from each other.

use std::path::Path;
use std::time::Duration;

use crate::Outcome;
use crate::line::Line;
use crate::servers::{Etcd, free_url};

const MEMBERS: usize = 3;

pub(crate) struct Cluster {
    pub(crate) members: Vec<Etcd>,
    /// What the members reach each other over.
    _lines: Vec<Line>,
}

impl Cluster {
    /// Members whose messages to each other take so long, each way.
    pub(crate) async fn start(data: &Path, name: &str, apart: Duration) -> Outcome<Self> {
        let mut listens = Vec::new();
        let mut lines = Vec::new();
        for _ in 0..MEMBERS {
            let url = free_url()?;
            lines.push(Line::of_length(&url, apart)?);
            listens.push(url);
        }
        let names: Vec<_> = (0..MEMBERS).map(|at| format!("{name}-{at}")).collect();
        let all = names.iter().zip(&lines);
        let all: Vec<_> = all
            .map(|(name, line)| format!("{name}={}", line.url))
            .collect();
        let all = all.join(",");
        let mut members = Vec::new();
        for ((name, listens), line) in names.iter().zip(&listens).zip(&lines) {
            members.push(Etcd::launch(data, name, [listens, &line.url], &all)?);
        }
        for member in &mut members {
            member.ready().await?;
        }
        Ok(Self {
            members,
            _lines: lines,
        })
    }

    /// A member that does not lead.
    pub(crate) async fn follower(&self) -> Outcome<&Etcd> {
        for member in &self.members {
            let status = member.client().await?.status().await?;
            let id = status.header().map_or(0, |header| header.member_id());
            if status.leader() != id {
                return Ok(member);
            }
        }
        Err("every member says that it leads".into())
    }
}
