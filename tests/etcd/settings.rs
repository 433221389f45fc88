//! What is wrong with the settings for etcd is told at once, before a port opens.

use std::process::{Command, Stdio};

use super::certificates::Authority;

/// Runs `fencepost serve`, which is to end by itself; answers its exit code and what it wrote.
pub(crate) async fn refused(etcd: &str, more: &[&str]) -> (Option<i32>, String) {
    let runtime_dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .env_clear()
        .env("XDG_RUNTIME_DIR", runtime_dir.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--etcd-endpoints", etcd])
        .args(more)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(!told.contains("ready on"), "{told}");
    (output.status.code(), told)
}

#[tokio::test]
async fn every_file_that_cannot_be_used_is_named_with_the_reason() {
    let authority = Authority::new("ours");
    let (certificate, _) = authority.write("one", &authority.identity("one", &[]));
    let (_, other_key) = authority.write("two", &authority.identity("two", &[]));
    let empty = authority.path("empty");
    std::fs::write(&empty, "\n").unwrap();
    let [ca, certificate, other_key, empty] =
        [authority.ca(), certificate, other_key, empty].map(|path| path.display().to_string());
    let missing = authority.path("missing").display().to_string();
    let tls = "https://127.0.0.1:1";
    let cases: &[(&str, &[&str], &[&str])] = &[
        (tls, &[], &["--etcd-endpoints", "needs --etcd-ca"]),
        (
            "http://127.0.0.1:1",
            &["--etcd-ca", &ca, "--etcd-server-name", "etcd"],
            &[
                "2 problems",
                "--etcd-ca ",
                "--etcd-server-name",
                "give https://",
            ],
        ),
        (
            tls,
            &[
                "--etcd-ca",
                &missing,
                "--etcd-cert",
                &empty,
                "--etcd-key",
                &missing,
            ],
            &[
                "2 problems",
                "--etcd-ca ",
                "--etcd-key",
                "cannot be read: No such file",
            ],
        ),
        (
            tls,
            &[
                "--etcd-ca",
                &empty,
                "--etcd-cert",
                &empty,
                "--etcd-key",
                &empty,
            ],
            &[
                "3 problems",
                "no certificate in PEM form",
                "no private key in PEM form",
            ],
        ),
        (
            tls,
            &[
                "--etcd-ca",
                &ca,
                "--etcd-cert",
                &certificate,
                "--etcd-key",
                &other_key,
            ],
            &["1 problem", "--etcd-key", "not the key of the certificate"],
        ),
        (
            tls,
            &["--etcd-ca", &ca, "--etcd-cert", &certificate],
            &["--etcd-cert", "needs its key, in --etcd-key"],
        ),
        (
            tls,
            &["--etcd-ca", &ca, "--etcd-server-name", "not a name"],
            &["--etcd-server-name", "give a host name"],
        ),
        (
            "https://127.0.0.1:1,http://127.0.0.1:2",
            &["--etcd-ca", &ca],
            &["--etcd-endpoints", "either all calls"],
        ),
        (
            "http://127.0.0.1:1",
            &["--etcd-user", "fencepost"],
            &["--etcd-user", "needs --etcd-password-file"],
        ),
        (
            "http://127.0.0.1:1",
            &["--etcd-password-file", &ca],
            &["--etcd-password-file", "needs --etcd-user"],
        ),
        (
            "http://127.0.0.1:1",
            &["--etcd-user", "fencepost", "--etcd-password-file", &empty],
            &["--etcd-password-file", "which is empty"],
        ),
        // Together with what is wrong elsewhere.
        (
            tls,
            &[
                "--etcd-ca",
                &missing,
                "--etcd-timeout",
                "30",
                "--etcd-user",
                "x",
            ],
            &["3 problems", "--etcd-ca ", "--etcd-timeout", "--etcd-user"],
        ),
    ];
    for (etcd, more, reasons) in cases {
        let (code, told) = refused(etcd, more).await;
        assert_eq!(code, Some(78), "{more:?}: {told}");
        for reason in *reasons {
            assert!(told.contains(reason), "{reason:?} of {more:?}: {told}");
        }
    }
}
