//! Machine files as the commands name and read them.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::super::trouble::{Trouble, plain};
use crate::config::{in_directory, read_file};
use crate::domain::machine::{Machine, Reading};

/// Most machine files that one command looks at.
const FILES_MAX: usize = 1024;

/// A file and what became of it.
pub(super) struct MachineFile {
    pub(super) name: String,
    pub(super) source: Bytes,
    pub(super) reading: Reading,
}

impl MachineFile {
    pub(super) fn read(path: &Path) -> Result<Self, Trouble> {
        let source = read_file(path).map_err(Trouble::usage)?;
        Ok(Self {
            name: plain(&path.display().to_string()),
            reading: Machine::read(&source),
            source,
        })
    }

    /// One finding a line.
    pub(super) fn findings(&self) -> String {
        let lines = self.reading.findings.iter();
        lines
            .map(|finding| format!("{}:{finding}\n", self.name))
            .collect()
    }
}

/// The files that are meant: those named, and those in the directories named, in the order of their names.
pub(super) fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Trouble> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.append(&mut in_directory(path).map_err(Trouble::usage)?);
        } else {
            files.push(path.clone());
        }
    }
    if files.len() > FILES_MAX {
        return Err(Trouble::usage(format!(
            "{} files are meant; the limit is {FILES_MAX}: name them in several calls",
            files.len()
        )));
    }
    Ok(files)
}
