//! Machine files that are put in force before the first call is answered.

use std::fmt;
use std::time::Duration;

use tracing::warn;

use crate::config::MachineFile;
use crate::domain::machine::{Finding, Severity};
use crate::engine::{Applied, Boottime, Caller, Engine, Fault};

/// How long the start tries to put one machine in force while etcd does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits between tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Why the machines are not in force: a line for each reason.
#[derive(Debug)]
pub struct MachinesError(Vec<String>);

impl std::error::Error for MachinesError {}

impl fmt::Display for MachinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the machine files cannot be put in force")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Puts them in force, as far as they are new.
pub(super) async fn put_in_force(
    engine: &Engine,
    files: &[MachineFile],
) -> Result<(), MachinesError> {
    let mut refused = Vec::new();
    for MachineFile {
        name,
        source,
        warnings,
    } in files
    {
        for warning in warnings {
            warn!("{warning}");
        }
        let arrived = Boottime::now();
        let caller = Caller {
            arrived,
            deadline: arrived.plus(PATIENCE),
        };
        let applied = loop {
            match engine.apply_machine(source.clone(), caller).await {
                Ok(applied) => break applied,
                Err(fault) if caller.deadline.left() < PAUSE => {
                    return Err(MachinesError(vec![format!("{name}: {fault}")]));
                }
                Err(fault @ (Fault::LimitMet { .. } | Fault::CorruptRecord)) => {
                    return Err(MachinesError(vec![format!("{name}: {fault}")]));
                }
                Err(fault) => {
                    warn!(file = %name, %fault, "a machine is not in force yet; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        match applied {
            (Applied::Installed(_) | Applied::Same(_), _) => {}
            (Applied::Lower(known), _) => {
                warn!(
                    file = %name, kind = %known.kind, in_force = %known.version,
                    "this machine file is ignored: a higher version is in force"
                );
            }
            (Applied::Refused, findings) => {
                let errors = findings.iter().filter(|finding| is_error(finding));
                refused.extend(errors.map(|finding| format!("{name}:{finding}")));
            }
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(MachinesError(refused))
    }
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}
