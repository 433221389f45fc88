//! Finding and reading machine files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::trouble::{Trouble, plain};
use crate::domain::machine::{FILE_BYTES_MAX, Machine, Reading};

/// Most machine files that one command looks at.
const FILES_MAX: usize = 1024;

/// A file and what became of it.
pub(super) struct MachineFile {
    pub(super) name: String,
    pub(super) reading: Reading,
}

impl MachineFile {
    pub(super) fn read(path: &Path) -> Result<Self, Trouble> {
        let mut bytes = Vec::new();
        // One byte more than the limit is enough to see that it is broken.
        let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
        File::open(path)
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(|error| unreadable(path, &error))?;
        Ok(Self {
            name: plain(&path.display().to_string()),
            reading: Machine::read(&bytes),
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
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
            let file = entry.map_err(|error| unreadable(path, &error))?.path();
            let yaml = file
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml");
            if yaml && !file.is_dir() {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(Trouble::usage(format!(
                "{} has no *.yaml or *.yml file: name the files, or their directory",
                path.display()
            )));
        }
        inside.sort();
        files.append(&mut inside);
    }
    if files.len() > FILES_MAX {
        return Err(Trouble::usage(format!(
            "{} files are meant; the limit is {FILES_MAX}: name them in several calls",
            files.len()
        )));
    }
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::usage(format!("cannot read {}: {error}", path.display()))
}
