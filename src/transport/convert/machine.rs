//! Machines, from and to the wire.

use crate::domain::ids::Kind;
use crate::domain::machine::{Filed, Finding, MachineVersion, Severity, Title};
use crate::engine::{Applied, Fault};
use crate::proto::v1 as pb;

use super::{at, refused, span};

/// Reads a kind.
pub(crate) fn kind(text: &str) -> Result<Kind, Fault> {
    at("kind", Kind::parse(text))
}

/// Reads which machine is asked for.
pub(crate) fn which(
    request: &pb::GetMachineRequest,
) -> Result<(Kind, Option<MachineVersion>), Fault> {
    let number = u32::try_from(request.version).map_err(|_| {
        let reason = format!("is {}; versions count from 1", request.version);
        refused("version", reason)
    })?;
    Ok((kind(&request.kind)?, MachineVersion::new(number)))
}

/// There is no such machine.
pub(crate) fn none(kind: &Kind, version: Option<MachineVersion>) -> Fault {
    Fault::NoSuchMachine {
        what: match version {
            None => format!("no machine is in force for kind {kind}"),
            Some(version) => format!("version {version} of kind {kind} was never in force"),
        },
    }
}

/// Writes what became of a file.
pub(crate) fn applied((applied, findings): (Applied, Vec<Finding>)) -> pb::ApplyMachineResponse {
    let (outcome, machine) = match &applied {
        Applied::Installed(filed) => (pb::MachineOutcome::Installed, Some(filed)),
        Applied::Same(filed) => (pb::MachineOutcome::Same, Some(filed)),
        Applied::Lower(filed) => (pb::MachineOutcome::Lower, Some(filed)),
        Applied::Refused => (pb::MachineOutcome::Refused, None),
    };
    pb::ApplyMachineResponse {
        outcome: outcome.into(),
        machine: machine.map(without_file),
        findings: findings.into_iter().map(finding).collect(),
    }
}

/// Writes a machine.
pub(crate) fn whole(filed: &Filed) -> pb::Machine {
    pb::Machine {
        source: filed.source.clone(),
        ..without_file(filed)
    }
}

fn without_file(filed: &Filed) -> pb::Machine {
    listed(&filed.title())
}

/// Writes a machine, as in a list.
pub(crate) fn listed(title: &Title) -> pb::Machine {
    let hash = title.hash.as_bytes().iter();
    pb::Machine {
        kind: title.kind.as_str().to_owned(),
        version: i32::try_from(title.version.get()).unwrap_or(i32::MAX),
        hash: hash.map(|byte| format!("{byte:02x}")).collect(),
        create_time: Some(span::timestamp(title.time_ms)),
        source: bytes::Bytes::new(),
    }
}

fn finding(finding: Finding) -> pb::MachineFinding {
    let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    pb::MachineFinding {
        line: number(finding.place.line),
        column: number(finding.place.column),
        error: finding.severity == Severity::Error,
        rule: finding.rule.to_string(),
        what: finding.what,
        fix: finding.fix,
    }
}
