//! Putting machines in force, and showing which are.

use bytes::Bytes;
use tracing::{info, warn};

use super::clock::wall_clock_ms;
use super::facade::{Caller, Engine, question_failed};
use super::fault::Fault;
use super::laws::{Counted, MACHINES_MAX};
use super::pace::Pace;
use super::ticket::{Progress, UNKNOWN_RETRY};
use crate::domain::ids::{EventName, Kind};
use crate::domain::machine::{Filed, Finding, Machine, MachineVersion, Succession, succession};
use crate::store::{MachineList, MachinePage, StoreError};

/// How often it is tried again because others put machines of the same kind in force meanwhile.
const OVERTAKEN_MAX: usize = 16;

/// What has become of a machine file that was offered.
#[derive(Clone, Debug)]
pub enum Applied {
    /// It was put in force.
    Installed(Filed),
    /// It is in force already, whatever the layout of the file.
    Same(Filed),
    /// A higher version is in force, and stays: this one.
    Lower(Filed),
    /// It has errors, or may not follow what is in force.
    Refused,
}

impl Engine {
    /// Puts a machine file in force, if it is sound and may follow what is. Answers also what lint and the comparison found.
    pub async fn apply_machine(
        &self,
        source: Bytes,
        caller: Caller,
    ) -> Result<(Applied, Vec<Finding>), Fault> {
        self.admit(caller)?;
        let reading = Machine::read(&source);
        let mut findings = reading.findings;
        let Some(machine) = reading.machine else {
            return Ok((Applied::Refused, findings));
        };
        let engine = self.clone();
        let progress = Progress::default();
        let sent = progress.clone();
        let work = async move { engine.install(&machine, source, &sent).await };
        let (applied, more) = self.finish(caller, &progress, work).await?;
        findings.extend(more);
        Ok((applied, findings))
    }

    async fn install(
        &self,
        machine: &Machine,
        source: Bytes,
        progress: &Progress,
    ) -> Result<(Applied, Vec<Finding>), Fault> {
        let kind = &machine.definition().kind.value;
        let store = &self.shared.store;
        let mut pace = Pace::new();
        // What was sent and has no answer: found in force, it is ours.
        let mut unanswered: Option<Filed> = None;
        let mut overtaken = 0;
        while overtaken < OVERTAKEN_MAX {
            let known = match store.machine(kind).await {
                Ok(known) => known,
                // Whether it was done is not known, so that nothing may be said about it yet.
                Err(_) if unanswered.is_some() && !self.shared.tasks.ended() => {
                    pace.wait().await;
                    continue;
                }
                Err(_) if unanswered.is_some() => return Err(unknown()),
                Err(error) => return Err(question_failed(&error)),
            };
            let (known, since) =
                known.map_or((None, None), |(filed, since)| (Some(filed), Some(since)));
            let filed = match succession(known.as_ref(), machine, &source, wall_clock_ms()) {
                Succession::Install(filed) => filed,
                Succession::Same => {
                    let applied = match known {
                        Some(known) if unanswered.as_ref() == Some(&known) => {
                            Applied::Installed(known)
                        }
                        Some(known) => Applied::Same(known),
                        None => Applied::Refused,
                    };
                    return Ok((applied, Vec::new()));
                }
                Succession::Lower => {
                    if let Some(known) = &known {
                        warn!(
                            %kind, offered = %machine.definition().version.value, in_force = %known.version,
                            "a machine file is ignored: a higher version is in force"
                        );
                    }
                    return Ok((known.map_or(Applied::Refused, Applied::Lower), Vec::new()));
                }
                Succession::Refused(findings) => return Ok((Applied::Refused, findings)),
            };
            if known.is_none() {
                let count = store.machine_count().await;
                if count.map_err(|e| question_failed(&e))? >= MACHINES_MAX {
                    let what = "too many kinds have a machine in force";
                    return Err(Fault::LimitMet {
                        what,
                        limit: MACHINES_MAX,
                    });
                }
            }
            if !progress.send() {
                return Err(Fault::DeadlinePassed);
            }
            // Sent again under the same guard until one reply comes: then either it was applied, or what is in force shows it.
            let installed = loop {
                match store.install_machine(&filed, since).await {
                    Ok(installed) => break installed,
                    Err(error @ StoreError::Indeterminate { .. }) => {
                        warn!(%error, "whether a machine was put in force is unknown; settling it");
                        unanswered = Some((*filed).clone());
                        if self.shared.tasks.ended() {
                            return Err(unknown());
                        }
                        pace.wait().await;
                    }
                    // What was sent is over. The next look shows it if it was applied.
                    Err(StoreError::Full { .. }) if unanswered.is_none() => {
                        unanswered = Some((*filed).clone());
                        break false;
                    }
                    Err(error @ StoreError::Full { .. }) => return Err(question_failed(&error)),
                    Err(_) if unanswered.is_some() && !self.shared.tasks.ended() => {
                        pace.wait().await;
                    }
                    Err(_) if unanswered.is_some() => return Err(unknown()),
                    Err(error) => return Err(question_failed(&error)),
                }
            };
            if installed {
                info!(%kind, version = %filed.version, hash = %filed.hash, "a machine was put in force");
                return Ok((Applied::Installed(*filed), Vec::new()));
            }
            overtaken += 1;
        }
        Err(Fault::Overloaded {
            what: "others changed the machine of this kind before each try",
            limit: OVERTAKEN_MAX,
            retry_after: UNKNOWN_RETRY,
        })
    }

    /// What of a message's content counts, as far as is known here; for sure it is known where it is judged.
    pub fn counted(&self, kind: &Kind, event: Option<&EventName>) -> Counted {
        let timeline = self.shared.store.timeline();
        self.shared.laws.counted(kind, event, timeline)
    }

    /// Machines of a list behind `after`, at most `limit`, without their files.
    pub async fn machine_page(
        &self,
        list: MachineList,
        after: Option<Vec<u8>>,
        limit: usize,
        caller: Caller,
    ) -> Result<MachinePage, Fault> {
        let store = self.shared.store.clone();
        let page = async move {
            let found = store.machine_page(&list, after.as_deref(), limit).await;
            found.map_err(|e| question_failed(&e))
        };
        self.question(caller, page).await
    }

    /// The machine in force for a kind, or a version that was once; `None`: there is no such one.
    pub async fn machine(
        &self,
        kind: Kind,
        version: Option<MachineVersion>,
        caller: Caller,
    ) -> Result<Option<Filed>, Fault> {
        let store = self.shared.store.clone();
        let one = async move {
            match version {
                None => {
                    let found = store.machine(&kind).await;
                    found.map(|found| found.map(|(filed, _)| filed))
                }
                Some(version) => store.machine_version(&kind, version).await,
            }
            .map_err(|e| question_failed(&e))
        };
        self.question(caller, one).await
    }
}

fn unknown() -> Fault {
    Fault::UnknownOutcome {
        retry_after: UNKNOWN_RETRY,
    }
}
