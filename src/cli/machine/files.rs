//! Machine files as the commands name and read them.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::super::trouble::{Trouble, plain};
use crate::config::{in_directory, read_file, read_source};
use crate::domain::machine::{Machine, Reading};

/// Stands for what is piped in.
const STANDARD_INPUT: &str = "-";
/// Most machine files that one command looks at.
const FILES_MAX: usize = 1024;

/// A file and what became of it.
pub(super) struct MachineFile {
    pub(super) name: String,
    pub(super) source: Bytes,
    pub(super) reading: Reading,
}

impl MachineFile {
    /// `-`: standard input, so that what is in force can be piped in.
    pub(super) fn read(path: &Path) -> Result<Self, Trouble> {
        let (name, source) = if path == Path::new(STANDARD_INPUT) {
            let source = read_source(std::io::stdin().lock())
                .map_err(|error| Trouble::usage(format!("cannot read standard input: {error}")))?;
            ("(standard input)".to_owned(), source)
        } else {
            let source = read_file(path).map_err(Trouble::usage)?;
            (plain(&path.display().to_string()), source)
        };
        Ok(Self {
            name,
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
