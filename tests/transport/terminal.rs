//! The command line where nobody reads what it says, or where what it is given is no text.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use crate::sidecar::{Sidecar, fencepost, wait};

/// The end of a pipe whose reader has gone.
fn nobody_reads() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn a_reader_that_has_gone_changes_no_exit_code() {
    let sidecar = Sidecar::dev();
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.yaml");
    std::fs::write(&bad, "kind: [").unwrap();
    let (bad, url) = (bad.to_str().unwrap(), sidecar.url());
    let ended: [(&[&str], i32); 9] = [
        (&["--help"], 0),
        (&["machine", "check", "--help"], 0),
        (&["no-such-command"], 2),
        (&["inspect", "order", "1", "--addr", &url], 0),
        (&["inspect", "order", "1", "--addr", &url, "-o", "json"], 0),
        (&["inspect", "no kind", "1", "--addr", &url], 65),
        (&["inspect", "order", "1", "--addr", "127.0.0.1:1"], 69),
        (&["machine", "show", bad], 65),
        (&["machine", "diff", bad, bad], 65),
    ];
    for (words, exit) in ended {
        let mut command = fencepost(dir.path());
        command.args(words);
        command.stdout(nobody_reads()).stderr(nobody_reads());
        let status = wait(&mut command.spawn().unwrap());
        assert_eq!(status.code(), Some(exit), "{words:?}: {status}");
    }
}

#[test]
fn a_word_that_is_no_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = fencepost(dir.path());
    let no_text = OsStr::from_bytes(b"a\xffb");
    command.args(["inspect", "order"]).arg(no_text);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(wait(&mut command.spawn().unwrap()).code(), Some(2));
}

#[test]
fn a_sidecar_serves_whatever_it_is_called_and_whether_or_not_its_log_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let no_text = OsStr::from_bytes(b"a\xffb");
    let mut command = fencepost(dir.path());
    command
        .arg0(no_text)
        .args(["dev", "--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::piped()).stderr(nobody_reads());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address: SocketAddr = line["ready on ".len()..].trim().parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running && answer.contains(" 404 "), "{answer}");
}
