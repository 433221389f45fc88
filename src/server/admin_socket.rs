//! The admin socket: a file that only our own user can open, in a directory that nobody else can change.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tokio::net::UnixListener;
use tracing::warn;

use crate::config::{AdminSocket, admin_socket_path};

/// What a directory of ours allows: its owner everything, others nothing.
const DIRECTORY_MODE: u32 = 0o700;
/// What the socket allows: its owner to connect.
const SOCKET_MODE: u32 = 0o600;
/// Bits that let others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The bit with which others may write, but not move or remove what is ours, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub enum AdminSocketError {
    /// Somebody answers there.
    #[error(
        "the admin socket {} is in use by a running sidecar; give another with --admin-socket, or `none`",
        .0.display()
    )]
    InUse(PathBuf),
    /// A file is there that is no socket.
    #[error("{} is not a socket, and is left alone; give another path with --admin-socket, or `none`", .0.display())]
    NotASocket(PathBuf),
    /// There is no such directory, and it was named by hand.
    #[error(
        "the directory {} of the admin socket is not there; make it (mkdir -m 700 -p), or give another path with \
         --admin-socket, or `none`",
        .0.display()
    )]
    NoDirectory(PathBuf),
    /// What stands in the way to it is no directory.
    #[error(
        "{} is not a directory, so no admin socket can be made in it; give another path with --admin-socket, or `none`",
        .0.display()
    )]
    NotADirectory(PathBuf),
    /// This user may not.
    #[error(
        "user {user} may not {what} {}: give it the right (the directory of the admin socket should be its own, with mode \
         700), or give another path with --admin-socket, or `none`",
        path.display()
    )]
    Forbidden {
        /// Who.
        user: u32,
        /// What it may not do with that.
        what: &'static str,
        /// With what.
        path: PathBuf,
    },
    /// Others could put their own socket there.
    #[error(
        "others than this user may change {}; give a path in a directory of your own with --admin-socket, or `none`",
        .0.display()
    )]
    SharedDirectory(PathBuf),
    /// The operating system refuses.
    #[error("cannot make the admin socket {}: {source}; give another path with --admin-socket, or `none`", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl AdminSocketError {
    /// Whether there is no directory where the socket was to be, so that the next start would end so, too.
    pub(super) fn is_misplaced(&self) -> bool {
        matches!(self, Self::NoDirectory(_) | Self::NotADirectory(_))
    }
}

/// An admin socket that listens.
pub(super) struct AdminListener {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the socket when it is dropped, unless another has taken its place.
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let still_ours = fs::symlink_metadata(&self.path).is_ok_and(|it| it.ino() == self.inode);
        if still_ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %error, "cannot remove the admin socket");
        }
    }
}

impl AdminListener {
    /// Makes the socket, if there is to be one.
    pub(super) fn bind(wanted: &AdminSocket, port: u16) -> Result<Option<Self>, AdminSocketError> {
        let path = match wanted {
            AdminSocket::None => return Ok(None),
            AdminSocket::Default => admin_socket_path(port),
            AdminSocket::At(path) => path.clone(),
        };
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        if *wanted == AdminSocket::Default {
            make_directory(&directory)?;
        }
        own_directory(&directory, &path)?;
        free_the_place(&path)?;
        bind_closed_to_others(&path).map(Some).map_err(|source| {
            if is_forbidden(&source) {
                forbidden("write in", &directory)
            } else {
                AdminSocketError::Refused { path, source }
            }
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn forbidden(what: &'static str, path: &Path) -> AdminSocketError {
    AdminSocketError::Forbidden {
        user: geteuid().as_raw(),
        what,
        path: path.to_owned(),
    }
}

/// Makes the directory in which the socket is if nothing else is said. One that was named by hand is not made: a slip of the
/// pen would leave a socket that nobody finds.
fn make_directory(directory: &Path) -> Result<(), AdminSocketError> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if is_forbidden(&error) => Err(forbidden("make", directory)),
        // What it would be in is not there either.
        Err(_) => Err(AdminSocketError::NoDirectory(directory.to_owned())),
    }
}

/// Checks that only this user (or root) can change what is in the directory.
fn own_directory(directory: &Path, socket: &Path) -> Result<(), AdminSocketError> {
    let refused = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotFound {
            AdminSocketError::NoDirectory(directory.to_owned())
        } else if source.kind() == io::ErrorKind::NotADirectory {
            AdminSocketError::NotADirectory(directory.to_owned())
        } else if is_forbidden(&source) {
            forbidden("look into", directory)
        } else {
            AdminSocketError::Refused {
                path: socket.to_owned(),
                source,
            }
        }
    };
    // A link that somebody else placed must not lead us elsewhere; one of our own may.
    let found = fs::symlink_metadata(directory).map_err(refused)?;
    let target = fs::metadata(directory).map_err(refused)?;
    if !target.is_dir() {
        return Err(AdminSocketError::NotADirectory(directory.to_owned()));
    }
    let trusted = |owner: u32| owner == geteuid().as_raw() || owner == 0;
    let shared = target.mode() & WRITABLE_BY_OTHERS != 0 && target.mode() & STICKY == 0;
    if !trusted(found.uid()) || !trusted(target.uid()) || shared {
        return Err(AdminSocketError::SharedDirectory(directory.to_owned()));
    }
    Ok(())
}

/// Removes what a sidecar that was killed left behind.
fn free_the_place(path: &Path) -> Result<(), AdminSocketError> {
    let refused = |source| AdminSocketError::Refused {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(AdminSocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(AdminSocketError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(refused)
        }
        // Whoever listens there, or listened, is another user.
        Err(error) if is_forbidden(&error) => Err(forbidden("connect to", path)),
        Err(error) => Err(refused(error)),
    }
}

/// A socket is born as open as the umask allows, so it is made under another name in a directory that is closed to others,
/// and moved to its place with its final mode.
fn bind_closed_to_others(path: &Path) -> io::Result<AdminListener> {
    let nursery = path.with_extension(format!("{}", std::process::id()));
    DirBuilder::new().mode(DIRECTORY_MODE).create(&nursery)?;
    let young = nursery.join("s");
    let made = (|| {
        let listener = UnixListener::bind(&young)?;
        fs::set_permissions(&young, Permissions::from_mode(SOCKET_MODE))?;
        let inode = fs::symlink_metadata(&young)?.ino();
        fs::rename(&young, path)?;
        Ok(AdminListener {
            listener,
            file: SocketFile {
                path: path.to_owned(),
                inode,
            },
        })
    })();
    let _ = fs::remove_file(&young);
    let _ = fs::remove_dir(&nursery);
    made
}
