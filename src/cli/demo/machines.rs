//! The example machines, put in force where the scenes are played.

use std::path::Path;

use bytes::Bytes;

use super::super::admin;
use super::super::session::{CallTimeout, root_cause, with_timeout};
use super::super::trouble::plain;
use super::law::{EXAMPLES, Example, Law, renamed};
use crate::config::MachineFile;
use crate::domain::machine::Machine;
use crate::proto::v1::operator_service_client::OperatorServiceClient;
use crate::proto::v1::{ApplyMachineRequest, MachineOutcome};

/// Stands for no admin socket.
const NO_SOCKET: &str = "none";

/// The examples as a sidecar takes them at its start.
pub(super) fn as_filed() -> Vec<MachineFile> {
    let file = |Example { name, source }| MachineFile {
        name: name.to_owned(),
        source: Bytes::from_static(source.as_bytes()),
        warnings: Vec::new(),
    };
    EXAMPLES.map(file).into()
}

/// Puts the examples in force under kinds of the demo's own. The error says why they are not, as the rest of a sentence.
pub(super) async fn apply(socket: &Path, timeout: CallTimeout) -> Result<(), String> {
    if socket.as_os_str() == NO_SOCKET {
        return Err("there is no admin socket to apply them over".into());
    }
    let place = plain(&socket.display().to_string());
    let channel = admin::channel(socket).await.map_err(|error| {
        let why = root_cause(&error);
        format!("nobody answers at the admin socket {place} ({why}); name it with --admin-socket")
    })?;
    let mut client = OperatorServiceClient::new(channel);
    for Example { name, source } in EXAMPLES {
        let read = Machine::read(source.as_bytes()).machine;
        let kind = read.map(|machine| machine.definition().kind.value.to_string());
        let kind = Law::UnderOwnKinds.kind(&kind.unwrap_or_default());
        let source = renamed(source, &kind)
            .ok_or_else(|| format!("{name} cannot be taken for the kind {kind}"))?;
        let request = ApplyMachineRequest {
            source: source.into(),
        };
        let answered = client.apply_machine(with_timeout(request, timeout)).await;
        let answer = answered
            .map_err(|status| format!("{place} refused them: {}", plain(status.message())))?
            .into_inner();
        match answer.outcome() {
            MachineOutcome::Installed | MachineOutcome::Same => {}
            MachineOutcome::Lower => {
                return Err(format!("a higher version is in force for {kind}"));
            }
            MachineOutcome::Refused | MachineOutcome::Unspecified => {
                let why = answer.findings.iter().find(|finding| finding.error);
                let why = why.map_or_else(String::new, |finding| format!(": {}", finding.what));
                return Err(plain(&format!("{kind} was refused{why}")));
            }
        }
    }
    Ok(())
}
