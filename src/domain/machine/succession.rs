//! Which machine may follow which: versions only rise, and what one drops is accounted for.

use bytes::Bytes;

use super::definition::MachineVersion;
use super::diff::difference;
use super::facts::MachineHash;
use super::finding::{Finding, Findings, Rule};
use super::in_force::InForce;
use super::lineage::{Lineage, SUCCESSORS_MAX};
use super::{Machine, Place};
use crate::domain::ids::Kind;

/// A machine as it is kept: the file, and what was known when it was put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// Of which kind.
    pub kind: Kind,
    /// Its version.
    pub version: MachineVersion,
    /// The hash of what it says.
    pub hash: MachineHash,
    /// The file.
    pub source: Bytes,
    /// When it was applied, in milliseconds since 1970.
    pub time_ms: u64,
    /// What its versions so far say of names that earlier ones had.
    pub lineage: Lineage,
}

/// A machine as it is listed, without its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// Of which kind.
    pub kind: Kind,
    /// Its version.
    pub version: MachineVersion,
    /// The hash of what it says.
    pub hash: MachineHash,
    /// When it was applied, in milliseconds since 1970.
    pub time_ms: u64,
}

impl Filed {
    /// What a list shows of it.
    pub fn title(&self) -> Title {
        Title {
            kind: self.kind.clone(),
            version: self.version,
            hash: self.hash,
            time_ms: self.time_ms,
        }
    }

    /// Makes it ready for judging. The error says why this Fencepost cannot read it.
    pub fn open(&self) -> Result<InForce, String> {
        let Some(machine) = Machine::in_force(&self.source) else {
            return Err(format!(
                "version {} has keys or values that this version of Fencepost does not know",
                self.version
            ));
        };
        if machine.hash() != self.hash {
            return Err(format!(
                "version {} says {} here and {} where it was applied: another version of Fencepost wrote it",
                self.version,
                machine.hash(),
                self.hash
            ));
        }
        Ok(InForce::new(machine, self.lineage.clone()))
    }
}

/// What is to become of a machine file that is offered.
#[derive(Clone, Debug)]
pub enum Succession {
    /// It is put in force.
    Install(Box<Filed>),
    /// It is in force already.
    Same,
    /// A higher version is in force, and stays.
    Lower,
    /// It may not follow what is in force. Places are those of the file offered.
    Refused(Vec<Finding>),
}

/// Whether a machine may follow what is in force.
pub fn succession(
    in_force: Option<&Filed>,
    offered: &Machine,
    source: &Bytes,
    time_ms: u64,
) -> Succession {
    let definition = offered.definition();
    let (version, hash) = (definition.version.value, offered.hash());
    let place = definition.version.place;
    let lineage = match in_force {
        None => Lineage::default().followed_by(offered),
        Some(known) if known.version > version => return Succession::Lower,
        Some(known) if known.version == version && known.hash == hash => return Succession::Same,
        Some(known) => {
            let law = known.open();
            let findings = match &law {
                Ok(law) => difference(law.machine(), offered).findings,
                Err(why) => alone(
                    place,
                    format!("what is in force cannot be compared with this file: {why}"),
                    "apply it through a sidecar that can read both",
                ),
            };
            if !findings.is_empty() {
                return Succession::Refused(findings);
            }
            let lineage = known.lineage.clone().followed_by(offered);
            match law {
                Ok(law) => lineage.remembering(law.machine(), offered).raising(
                    law.machine(),
                    offered,
                    time_ms,
                ),
                Err(_) => lineage,
            }
        }
    };
    if lineage.names() > SUCCESSORS_MAX {
        return Succession::Refused(alone(
            place,
            format!(
                "all versions of {} together rename {} states and events, or change what of their contents counts",
                definition.kind.value,
                lineage.names()
            ),
            format!("the limit is {SUCCESSORS_MAX}; keep names, or begin another kind"),
        ));
    }
    Succession::Install(Box::new(Filed {
        kind: definition.kind.value.clone(),
        version,
        hash,
        source: source.clone(),
        time_ms,
        lineage,
    }))
}

fn alone(place: Place, what: String, fix: impl Into<String>) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.error(Rule::Version, place, what, fix);
    findings.into_sorted()
}
