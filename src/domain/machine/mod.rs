//! Machines: what may happen to resources of a kind, written as a YAML file.
//!
//! A file is read, checked as a whole, and becomes a [`Machine`]; there is none that lint has an error about.

mod definition;
mod diff;
mod disposition;
mod facts;
mod fields;
mod finding;
mod graph;
mod in_force;
mod lineage;
mod lint;
mod nearest;
mod place;
mod read;
mod read_event;
mod succession;
mod values;
mod yaml;

pub use definition::{
    CLAIM_SECONDS, Definition, DigestRule, EVENT_IDENTITY_NAMES_MAX, EVENTS_MAX, Effect, Event,
    FILE_BYTES_MAX, Interrupted, LIST_ITEMS_MAX, MACHINE_IDENTITY_NAMES_MAX, MachineVersion,
    OnRefusal, Origin, OtherRound, Otherwise, POINTER_BYTES_MAX, RETENTION, RETRY_WINDOW, Receipt,
    STATES_MAX, SecondKey, State, Successors, Upstream, WhileHeld, Words,
};
pub use diff::{Change, Difference, difference};
pub use disposition::{Disposition, Refusal};
pub use facts::MachineHash;
pub use finding::{FINDINGS_MAX, Finding, Rule, Severity};
pub use in_force::{EventInForce, InForce, Starts};
pub use lineage::{KeptUntil, Lineage, Renaming, SUCCESSORS_MAX};
pub use place::{At, Place};
pub use succession::{Filed, Succession, Title, succession};
pub use yaml::DEPTH_MAX;

use self::finding::Findings;
use self::graph::Graph;

/// A machine that lint has no error about.
#[derive(Clone, Debug)]
pub struct Machine {
    definition: Definition,
    graph: Graph,
    hash: MachineHash,
}

/// What became of a file.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The machine; `None` if a finding is an error.
    pub machine: Option<Machine>,
    /// All that was found, in the order of the file.
    pub findings: Vec<Finding>,
}

impl Machine {
    /// Reads and checks the content of a file.
    pub fn read(bytes: &[u8]) -> Reading {
        let mut findings = Findings::default();
        let definition = read::read(bytes, &mut findings);
        if let Some(definition) = &definition {
            lint::lint(definition, &mut findings);
        }
        let sound = definition.filter(|_| !findings.has_errors());
        Reading {
            machine: sound.map(|definition| Self {
                graph: Graph::new(&definition),
                hash: facts::hash(&definition),
                definition,
            }),
            findings: findings.into_sorted(),
        }
    }

    /// Takes the content of a file that was sound when it was put in force. Rules that lint has learned since do not count:
    /// what is in force stays in force. `None`: it cannot be read at all.
    pub fn in_force(bytes: &[u8]) -> Option<Self> {
        let mut findings = Findings::default();
        let definition = read::read(bytes, &mut findings)?;
        (!findings.has_errors()).then(|| Self {
            graph: Graph::new(&definition),
            hash: facts::hash(&definition),
            definition,
        })
    }

    /// What the file says.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The hash of what it says.
    pub fn hash(&self) -> MachineHash {
        self.hash
    }

    /// What becomes of an event: of a resource that does not exist first, then in each state in the order of the file.
    pub fn dispositions<'a>(&'a self, event: &'a Event) -> Vec<Disposition<'a>> {
        disposition::column(&self.definition, &self.graph, event)
    }
}

#[cfg(test)]
mod tests;
