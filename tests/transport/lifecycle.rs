use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Stdio;
use std::time::Duration;

use fencepost::engine::Boottime;
use rustix::process::Signal;

use crate::sidecar::{Sidecar, fencepost, output, wait};

/// How long a stop may take here: no call is under way, so only connections are waited for.
const STOP_BOUND: Duration = Duration::from_secs(5);

#[test]
fn a_signal_ends_the_sidecar_with_0_and_removes_its_socket() {
    for signal in [Signal::TERM, Signal::INT] {
        let sidecar = Sidecar::dev();
        let socket = sidecar.admin_socket();
        assert!(socket.exists());
        sidecar.signal(signal);
        let (status, took, log, runtime_dir) = sidecar.ended();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(took < STOP_BOUND, "{took:?}");
        assert_eq!(std::fs::read_dir(runtime_dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn idle_and_half_open_connections_do_not_hold_up_the_stop() {
    let sidecar = Sidecar::dev_with(&["--drain-limit", "1h"], &[]);
    let silent = sidecar.connect();
    let mut half_greeting = sidecar.connect();
    half_greeting.write_all(b"PRI * HT").unwrap();
    let mut half_request = sidecar.connect();
    half_request
        .write_all(b"POST /fencepost.v1.CoordinationService/Fence HTTP/1.1\r\nhost: x\r\n")
        .unwrap();
    let mut half_body = sidecar.connect();
    half_body
        .write_all(
            b"POST /fencepost.v1.CoordinationService/Fence HTTP/1.1\r\nhost: x\r\n\
              content-type: application/json\r\nconnect-timeout-ms: 60000\r\ncontent-length: 9\r\n\r\n{",
        )
        .unwrap();
    let mut kept_alive = sidecar.connect();
    kept_alive
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut some = [0; 16];
    kept_alive.read_exact(&mut some).unwrap();
    let mut http2 = sidecar.connect();
    // The greeting, and empty settings.
    http2
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    http2.read_exact(&mut some[..9]).unwrap();

    sidecar.signal(Signal::TERM);
    let (status, took, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(took < STOP_BOUND, "{took:?}\n{log}");
    drop((
        silent,
        half_greeting,
        half_request,
        half_body,
        kept_alive,
        http2,
    ));
}

#[test]
fn the_admin_socket_is_closed_to_others() {
    let sidecar = Sidecar::dev();
    let found = std::fs::symlink_metadata(sidecar.admin_socket()).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.mode() & 0o777, 0o600);

    // Nothing else is left beside it.
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("admin.sock");
    let _sidecar = Sidecar::dev_with(&["--admin-socket", path.to_str().unwrap()], &[]);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn the_directory_of_the_usual_admin_socket_is_made_and_closed_to_others() {
    let sidecar = Sidecar::dev_with(&[], &[("XDG_RUNTIME_DIR", "")]);
    let user = rustix::process::geteuid().as_raw();
    let directory = std::path::PathBuf::from(format!("/tmp/fencepost-{user}"));
    assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);
    let socket = directory.join(format!("fencepost-{}.sock", sidecar.address.port()));
    assert!(socket.exists());
    sidecar.signal(Signal::TERM);
    let (status, ..) = sidecar.ended();
    assert_eq!(status.code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn where_no_admin_socket_can_be_made_the_reason_and_the_way_out_are_told_and_nothing_is_made() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let missing = home.path().join("missing");
    let below = missing.join("below");
    let long = "x".repeat(200);
    // The directory, what is said of it, and how the start ends. Where it is not there, the next start would end so, too.
    let cases = [
        (
            missing.as_path(),
            "is not there; make it (mkdir -m 700 -p)",
            78,
        ),
        (
            below.as_path(),
            "is not there; make it (mkdir -m 700 -p)",
            78,
        ),
        (file.as_path(), "is not a directory", 78),
        // Nobody may write there, not even root.
        (std::path::Path::new("/sys"), "may not write in", 1),
        (std::path::Path::new(&long), "a socket takes at most", 78),
    ];
    for command in ["dev", "serve"] {
        for (directory, why, code) in cases {
            let socket = directory.join("admin.sock");
            let socket = socket.to_str().unwrap();
            let words = [command, "--listen", "127.0.0.1:0", "--admin-socket", socket];
            let (ended, told) = output(&words, &[]);
            assert_eq!(ended, Some(code), "{words:?}: {told}");
            assert!(told.contains(why), "{words:?}: {told}");
            assert!(told.contains("--admin-socket"), "{words:?}: {told}");
            if directory.to_str() != Some(&long) {
                let named = directory.to_str().unwrap();
                assert!(told.contains(named), "{words:?}: {told}");
                assert!(told.contains("or `none`"), "{words:?}: {told}");
            }
        }
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_socket_left_by_a_killed_sidecar_is_replaced_and_a_live_one_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("admin.sock");
    let path = path.to_str().unwrap();
    let first = Sidecar::dev_with(&["--admin-socket", path], &[]);
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--admin-socket", path];
    let (code, told) = output(&arguments, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("in use by a running sidecar"), "{told}");

    first.killed();
    assert!(std::path::Path::new(path).exists());
    let second = Sidecar::dev_with(&["--admin-socket", path], &[]);
    std::os::unix::net::UnixStream::connect(path).unwrap();
    drop(second);
}

#[test]
fn a_file_that_is_no_socket_or_a_directory_of_others_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notes");
    std::fs::write(&path, "precious").unwrap();
    let arguments = |path: &std::path::Path| {
        ["dev", "--listen", "127.0.0.1:0", "--admin-socket"]
            .map(str::to_owned)
            .into_iter()
            .chain([path.to_str().unwrap().to_owned()])
            .collect::<Vec<_>>()
    };
    let run = |path: &std::path::Path| {
        let arguments = arguments(path);
        output(
            &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
            &[],
        )
    };
    let (code, told) = run(&path);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let open = home.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&open, mode).unwrap();
    let (code, told) = run(&open.join("admin.sock"));
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("others"), "{told}");
}

#[test]
fn none_makes_no_socket() {
    let sidecar = Sidecar::dev_with(&["--admin-socket", "none"], &[]);
    assert_eq!(
        std::fs::read_dir(sidecar.runtime_dir.path())
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_reader_that_is_gone_does_not_stop_the_start() {
    let runtime_dir = tempfile::tempdir().unwrap();
    let mut child = fencepost(runtime_dir.path())
        .args(["dev", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let begun = Boottime::now();
    while std::fs::read_dir(runtime_dir.path()).unwrap().count() == 0 {
        assert!(Boottime::now().since(begun) < STOP_BOUND && child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait(&mut child).code(), Some(0));
}
