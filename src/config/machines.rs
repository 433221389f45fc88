//! Machine files: finding and reading them, and what is wrong with them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::domain::ids::Kind;
use crate::domain::machine::{FILE_BYTES_MAX, Machine, Place, Reading, Severity};

/// Most machine files that are looked at together.
pub(crate) const FILES_MAX: usize = 1024;

/// A machine file as it was read.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// Its path, fit to be shown.
    pub name: String,
    /// Its content; at most one byte more than a machine file may have.
    pub source: Bytes,
    /// Warnings about it, each a line with file and place.
    pub warnings: Vec<String>,
}

/// The machine files of a directory: `*.yaml` and `*.yml`, in the order of their names. The error is a sentence.
pub fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable =
        |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let yaml = file
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml");
        if yaml && !file.is_dir() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!(
            "{} has no *.yaml or *.yml file: name the files, or their directory",
            directory.display()
        ));
    }
    if files.len() > FILES_MAX {
        return Err(format!(
            "{} has {} machine files; the limit is {FILES_MAX}",
            directory.display(),
            files.len()
        ));
    }
    files.sort();
    Ok(files)
}

/// Reads a file, no further than to see that it is too large. The error is a sentence.
pub fn read_file(path: &Path) -> Result<Bytes, String> {
    File::open(path)
        .and_then(read_source)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads a machine file from wherever it comes, no further than to see that it is too large.
pub fn read_source(from: impl std::io::Read) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    // One byte more than the limit is enough to see that it is broken.
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// All files of the directory, if each is sound and none is of the same kind as another; nothing named: none. Each error is a
/// line with file and place.
pub fn sound(directory: &str) -> Result<Vec<MachineFile>, Vec<String>> {
    if directory.is_empty() {
        return Ok(Vec::new());
    }
    let paths = in_directory(Path::new(directory)).map_err(|error| vec![error])?;
    let mut files = Vec::new();
    let mut errors = Vec::new();
    let mut kinds: BTreeMap<Kind, (String, Place)> = BTreeMap::new();
    for path in paths {
        let source = match read_file(&path) {
            Ok(source) => source,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let name = path.display().to_string().escape_debug().to_string();
        let Reading { machine, findings } = Machine::read(&source);
        let (wrong, odd): (Vec<_>, Vec<_>) = findings
            .iter()
            .partition(|finding| finding.severity == Severity::Error);
        errors.extend(wrong.iter().map(|finding| format!("{name}:{finding}")));
        if let Some(machine) = machine {
            let kind = &machine.definition().kind;
            match kinds.get(&kind.value) {
                Some((other, place)) => errors.push(format!(
                    "{name}:{}: {}[duplicate]: kind {} has a machine at {other}:{place} already; fix: keep one of them \
                     here",
                    kind.place,
                    Severity::Error,
                    kind.value,
                )),
                None => {
                    kinds.insert(kind.value.clone(), (name.clone(), kind.place));
                }
            }
        }
        files.push(MachineFile {
            warnings: odd
                .iter()
                .map(|finding| format!("{name}:{finding}"))
                .collect(),
            name,
            source,
        });
    }
    if errors.is_empty() {
        Ok(files)
    } else {
        Err(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: &str = "kind: door\nversion: 1\nretention: 1h\nstates: { open: {}, gone: { final: true } }\n\
                        events: { build: { creates: open }, raze: { from: [open], to: gone } }\n";

    fn errors(files: &[(&str, &[u8])]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let path = directory.path().display().to_string();
        let said = sound(&path).map(|files| files.len());
        let said = said.map_or_else(|errors| errors, |count| vec![format!("{count} sound")]);
        said.into_iter()
            .map(|line| line.replace(&format!("{path}/"), ""))
            .collect()
    }

    #[test]
    fn every_error_of_every_file_is_a_line_with_its_place() {
        assert_eq!(
            errors(&[("a.yaml", DOOR.as_bytes()), ("notes.txt", b"{")]),
            ["1 sound"]
        );
        let twice = errors(&[("a.yaml", DOOR.as_bytes()), ("b.yml", DOOR.as_bytes())]);
        assert_eq!(twice.len(), 1, "{twice:?}");
        assert!(
            twice[0].starts_with("b.yml:1:7: error[duplicate]: kind door"),
            "{twice:?}"
        );
        assert!(twice[0].contains("a.yaml:1:7"), "{twice:?}");
        let mark = [b"\xef\xbb\xbf", DOOR.as_bytes()].concat();
        let odd = DOOR.replace("[open]", "[opn]");
        let all = errors(&[
            ("1.yaml", &mark),
            ("2.yaml", odd.as_bytes()),
            ("3.yaml", b"kind: [\n"),
            ("4.yaml", &vec![b'x'; FILE_BYTES_MAX + 10]),
            ("5.yaml", b"kind: door\nsize: 3\n"),
            ("6.yaml", b"\xff"),
        ]);
        for (at, file) in ["1", "2", "3", "4", "5", "6"].iter().enumerate() {
            let start = format!("{file}.yaml:");
            let line = all.iter().find(|line| line.starts_with(&start));
            let line = line.unwrap_or_else(|| panic!("nothing about {file}: {all:#?}"));
            let place: Vec<&str> = line[start.len()..].splitn(3, ':').collect();
            assert!(place[0].parse::<u32>().is_ok(), "{at}: {line}");
            assert!(place[1].parse::<u32>().is_ok(), "{at}: {line}");
            assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn an_empty_or_absent_directory_is_an_error_and_none_named_is_none_meant() {
        assert!(errors(&[])[0].contains("has no *.yaml"));
        assert!(sound("/nowhere/at/all").unwrap_err()[0].contains("cannot read /nowhere"));
        assert!(sound("").unwrap().is_empty());
    }
}
