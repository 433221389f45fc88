//! Where the admin socket is, for the sidecar and for the commands that ask it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The admin socket of the sidecar on this port, unless it was told otherwise. The same for everything that one user runs:
/// in the user's runtime directory if there is one, else in a directory of the user's own below `/tmp`.
pub fn admin_socket_path(port: u16) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    directory(runtime.as_deref()).join(format!("fencepost-{port}.sock"))
}

fn directory(runtime: Option<&OsStr>) -> PathBuf {
    let runtime = runtime.map(Path::new).filter(|path| is_ours(path));
    match runtime {
        Some(path) => path.to_owned(),
        None => PathBuf::from(format!("/tmp/fencepost-{}", geteuid().as_raw())),
    }
}

/// Whether this is a directory of the user who runs us. After `su` or in a container the variable often names another's,
/// or one that does not exist.
fn is_ours(path: &Path) -> bool {
    path.is_absolute()
        && path
            .metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_directory_that_is_not_ours_is_passed_over() {
        let own = tempfile::tempdir().unwrap();
        assert_eq!(directory(Some(own.path().as_os_str())), own.path());
        let fallback = PathBuf::from(format!("/tmp/fencepost-{}", geteuid().as_raw()));
        for other in [None, Some(""), Some("relative"), Some("/nonexistent/run")] {
            assert_eq!(directory(other.map(OsStr::new)), fallback, "{other:?}");
        }
    }
}
