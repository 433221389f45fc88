//! Machines.

use std::time::Duration;

use super::operation::version_number;
use super::{at_most, field};
use crate::domain::ids::{EventName, Kind, StateName};
use crate::domain::invalid::Invalid;
use crate::domain::machine::{
    DigestRule, FILE_BYTES_MAX, Filed, KeptUntil, Lineage, MachineHash, MachineVersion, Renaming,
    SUCCESSORS_MAX,
};
use crate::proto::store_v1 as pb;

pub(super) fn to_message(filed: &Filed) -> pb::Machine {
    debug_assert!(filed.lineage.names() <= SUCCESSORS_MAX);
    let renamings = filed.lineage.versions().map(|(version, names)| {
        let states = names.states.iter();
        let events = names.events.iter();
        pb::Renaming {
            version: version.get(),
            states: states
                .map(|(name, successor)| renamed(name.as_str(), successor.as_str()))
                .collect(),
            events: events
                .map(|(name, successor)| {
                    let successor = successor.as_ref().map_or("", EventName::as_str);
                    renamed(name.as_str(), successor)
                })
                .collect(),
            digests: names
                .digests
                .iter()
                .map(|(event, rule)| former(event, rule))
                .collect(),
            kept_s: names.kept.map_or(0, |kept| kept.retention.as_secs()),
            kept_until_ms: names.kept.map_or(0, |kept| kept.until_ms),
        }
    });
    pb::Machine {
        kind: filed.kind.as_str().to_owned(),
        version: version_number(Some(filed.version)),
        hash: bytes::Bytes::copy_from_slice(filed.hash.as_bytes()),
        source: filed.source.clone(),
        time_ms: filed.time_ms,
        renamings: renamings.collect(),
    }
}

pub(super) fn from_message(message: pb::Machine) -> Result<Filed, Invalid> {
    at_most("source", message.source.len(), FILE_BYTES_MAX)?;
    let renamings = message.renamings.iter().map(renaming);
    let lineage = Lineage::of(renamings.collect::<Result<Vec<_>, _>>()?);
    at_most("renamings", lineage.names(), SUCCESSORS_MAX)?;
    let hash: Result<[u8; 32], _> = message.hash.as_ref().try_into();
    Ok(Filed {
        kind: field("kind", Kind::parse(&message.kind))?,
        version: version("version", message.version)?,
        hash: hash
            .map(MachineHash::from_bytes)
            .map_err(|_| Invalid::new("hash is not 32 bytes long"))?,
        source: message.source,
        time_ms: message.time_ms,
        lineage,
    })
}

fn renamed(name: &str, successor: &str) -> pb::Renamed {
    pb::Renamed {
        name: name.to_owned(),
        successor: successor.to_owned(),
    }
}

fn former(event: &EventName, rule: &DigestRule) -> pb::FormerDigest {
    let (rule, pointers) = match rule {
        DigestRule::Whole => (0, &[][..]),
        DigestRule::Include(pointers) => (1, &pointers[..]),
        DigestRule::Exclude(pointers) => (2, &pointers[..]),
        DigestRule::None => (3, &[][..]),
    };
    pb::FormerDigest {
        event: event.as_str().to_owned(),
        rule,
        pointers: pointers.to_vec(),
    }
}

fn renaming(message: &pb::Renaming) -> Result<(MachineVersion, Renaming), Invalid> {
    let mut names = Renaming::default();
    for renamed in &message.states {
        let name = field("renamings.states.name", StateName::parse(&renamed.name))?;
        let successor = StateName::parse(&renamed.successor);
        let successor = field("renamings.states.successor", successor)?;
        names.states.insert(name, successor);
    }
    for renamed in &message.events {
        let name = field("renamings.events.name", EventName::parse(&renamed.name))?;
        let successor = if renamed.successor.is_empty() {
            None
        } else {
            let successor = EventName::parse(&renamed.successor);
            Some(field("renamings.events.successor", successor)?)
        };
        names.events.insert(name, successor);
    }
    for former in &message.digests {
        let event = field("renamings.digests.event", EventName::parse(&former.event))?;
        let pointers = former.pointers.clone();
        let rule = match (former.rule, pointers.is_empty()) {
            (0, true) => DigestRule::Whole,
            (1, _) => DigestRule::Include(pointers),
            (2, _) => DigestRule::Exclude(pointers),
            (3, true) => DigestRule::None,
            _ => return Err(Invalid::new("renamings.digests.rule is none that there is")),
        };
        names.digests.insert(event, rule);
    }
    names.kept = (message.kept_s > 0).then(|| KeptUntil {
        retention: Duration::from_secs(message.kept_s),
        until_ms: message.kept_until_ms,
    });
    Ok((version("renamings.version", message.version)?, names))
}

fn version(name: &str, number: u32) -> Result<MachineVersion, Invalid> {
    MachineVersion::new(number).ok_or_else(|| Invalid::new(format!("{name} is 0")))
}
