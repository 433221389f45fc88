//! `proto`: writes the interface out, for stubs in other languages.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::output;
use super::trouble::Trouble;

/// The interface as it was compiled into this binary.
const FILES: [(&str, &str); 3] = [
    (
        "coordination.proto",
        include_str!("../../proto/fencepost/v1/coordination.proto"),
    ),
    (
        "decision.proto",
        include_str!("../../proto/fencepost/v1/decision.proto"),
    ),
    (
        "operator.proto",
        include_str!("../../proto/fencepost/v1/operator.proto"),
    ),
];

/// Writes the interface out.
#[derive(Debug, Args)]
pub(super) struct ProtoArgs {
    /// Where to write fencepost/v1/*.proto; created if it is not there
    dir: PathBuf,
    /// Overwrite files that differ
    #[arg(long, env = "FENCEPOST_FORCE")]
    force: bool,
}

impl ProtoArgs {
    /// Looks at every file before it writes one.
    pub(super) fn run(&self) -> Result<Exit, Trouble> {
        let folder = self.dir.join("fencepost").join("v1");
        let mut to_write = Vec::new();
        for (name, text) in FILES {
            let path = folder.join(name);
            match fs::read(&path) {
                Ok(there) if there == text.as_bytes() => {}
                Ok(_) if !self.force => {
                    return Err(Trouble::usage(format!(
                        "{} is there and differs; nothing was written: --force overwrites it",
                        path.display()
                    )));
                }
                Ok(_) => to_write.push((path, text)),
                Err(error) if error.kind() == ErrorKind::NotFound => to_write.push((path, text)),
                Err(error) => {
                    return Err(Trouble::failed(format!(
                        "cannot read {}: {error}",
                        path.display()
                    )));
                }
            }
        }
        fs::create_dir_all(&folder).map_err(|error| {
            Trouble::failed(format!("cannot create {}: {error}", folder.display()))
        })?;
        let mut said = String::new();
        for (path, text) in to_write {
            fs::write(&path, text).map_err(|error| {
                Trouble::failed(format!("cannot write {}: {error}", path.display()))
            })?;
            said.push_str(&format!("wrote {}\n", path.display()));
        }
        if said.is_empty() {
            said.push_str("every file is there already\n");
        }
        output::write(&said)?;
        Ok(Exit::Good)
    }
}
