//! Finding a command as a shell does, before anything is reserved for it.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::super::trouble::plain;

/// What a shell answers for a command that is there and cannot be run.
const NOT_EXECUTABLE: u8 = 126;
/// What a shell answers for a command that is not there.
const NOT_FOUND: u8 = 127;
/// Where commands are looked for if the environment does not say.
const PATH_DEFAULT: &str = "/usr/local/bin:/bin:/usr/bin";

/// A command that can be run.
#[derive(Debug)]
pub(super) struct Program {
    /// Its file.
    pub(super) path: PathBuf,
    /// Its name as given, and its arguments.
    pub(super) words: Vec<OsString>,
}

/// A command that cannot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unrunnable {
    /// What a shell would end with.
    pub(super) code: u8,
    /// Why.
    pub(super) message: String,
}

impl Program {
    /// Looks for it in the directories of PATH, or where it says it is.
    pub(super) fn find(words: Vec<OsString>) -> Result<Self, Unrunnable> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into());
        let name = words.first().map(OsString::as_os_str).unwrap_or_default();
        let path = look(name, &path)?;
        Ok(Self { path, words })
    }

    /// Its name for people.
    pub(super) fn name(&self) -> String {
        let name = self.words.first().map(OsString::as_os_str);
        plain(&name.unwrap_or_default().to_string_lossy())
    }

    /// Why the kernel did not take it.
    pub(super) fn refused(&self, error: &Error) -> Unrunnable {
        Unrunnable {
            code: if error.kind() == ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_EXECUTABLE
            },
            message: format!("{} cannot be run: {error}", self.name()),
        }
    }
}

fn look(name: &OsStr, path: &OsStr) -> Result<PathBuf, Unrunnable> {
    let places: Vec<PathBuf> = if name.is_empty() {
        Vec::new()
    } else if name.as_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else {
        // An empty part is the directory that one is in, and must not turn into a name without a slash.
        let here = |part: PathBuf| {
            if part.as_os_str().is_empty() {
                ".".into()
            } else {
                part
            }
        };
        std::env::split_paths(path)
            .map(|part| here(part).join(name))
            .collect()
    };
    if let Some(found) = places.iter().find(|place| runnable(place)) {
        return Ok(found.clone());
    }
    let shown = plain(&name.to_string_lossy());
    if places.iter().any(|place| place.exists()) {
        return Err(Unrunnable {
            code: NOT_EXECUTABLE,
            message: format!("{shown} is no program that may be run"),
        });
    }
    Err(Unrunnable {
        code: NOT_FOUND,
        message: format!("there is no command {shown}"),
    })
}

fn runnable(place: &Path) -> bool {
    let file = std::fs::metadata(place);
    file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_or_refused_as_by_a_shell() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let good = file("good", 0o755);
        let plain = file("plain", 0o644);
        let path = std::env::join_paths(["/nonexistent".as_ref(), dir.path()]).unwrap();
        let code = |name: &OsStr| look(name, &path).unwrap_err().code;
        assert_eq!(look("good".as_ref(), &path), Ok(good.clone()));
        assert_eq!(look(good.as_os_str(), "".as_ref()), Ok(good));
        assert_eq!(code("plain".as_ref()), NOT_EXECUTABLE);
        assert_eq!(code(plain.as_os_str()), NOT_EXECUTABLE);
        assert_eq!(code(dir.path().as_os_str()), NOT_EXECUTABLE);
        assert_eq!(code("missing".as_ref()), NOT_FOUND);
        assert_eq!(code("".as_ref()), NOT_FOUND);
        assert_eq!(code("/nonexistent/x".as_ref()), NOT_FOUND);
    }
}
