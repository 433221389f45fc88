use crate::sidecar::{Sidecar, output};

#[test]
fn all_faults_are_told_at_once_with_their_sources() {
    let (code, told) = output(
        &[
            "serve",
            "--etcd-timeout",
            "30",
            "--listen",
            "0.0.0.0:7411",
            "--log-format",
            "xml",
        ],
        &[
            ("FENCEPOST_ETCD_ENDPOINTS", "https://a:2379"),
            ("FENCEPOST_ETCD_WAIT", "soon"),
            ("FENCEPOST_DRAIN_LIMIT", "-1s"),
            // The flag wins, so this is not a fault.
            ("FENCEPOST_LISTEN", "nonsense"),
        ],
    );
    assert_eq!(code, Some(78), "{told}");
    for (source, reason) in [
        ("--etcd-timeout", "needs a unit, such as 30s"),
        ("--listen", "no authentication"),
        ("--log-format", "text or json"),
        ("FENCEPOST_ETCD_ENDPOINTS", "needs --etcd-ca"),
        ("FENCEPOST_ETCD_WAIT", "soon"),
        ("FENCEPOST_DRAIN_LIMIT", "-1s"),
    ] {
        let line = told
            .lines()
            .find(|line| line.trim_start().starts_with(source));
        assert!(
            line.is_some_and(|line| line.contains(reason)),
            "{source}: {told}"
        );
    }
    assert!(told.contains("6 problems"), "{told}");
    assert!(!told.contains("FENCEPOST_LISTEN"), "{told}");
}

#[test]
fn an_address_beyond_loopback_is_refused_with_the_reason() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7411"] {
        let (code, told) = output(&["dev", "--listen", address], &[]);
        assert_eq!(code, Some(78), "{told}");
        assert!(told.contains("only loopback"), "{told}");
    }
}

#[test]
fn a_flag_that_nobody_knows_is_a_fault_of_usage() {
    let (code, told) = output(&["dev", "--lisen", "127.0.0.1:0"], &[]);
    assert_eq!(code, Some(2), "{told}");
}

#[test]
fn variables_of_kubernetes_neither_break_nor_confuse_the_start() {
    let sidecar = Sidecar::dev_with(
        &[],
        &[
            ("FENCEPOST_PORT", "tcp://10.0.0.1:7411"),
            ("FENCEPOST_SERVICE_HOST", "10.0.0.1"),
            ("FENCEPOST_SERVICE_PORT", "7411"),
            ("FENCEPOST_SERVICE_PORT_GRPC", "7411"),
            ("FENCEPOST_PORT_7411_TCP", "tcp://10.0.0.1:7411"),
            ("FENCEPOST_PORT_7411_TCP_PROTO", "tcp"),
            ("FENCEPOST_PORT_7411_TCP_PORT", "7411"),
            ("FENCEPOST_PORT_7411_TCP_ADDR", "10.0.0.1"),
            // Set but empty is how templates say "not set".
            ("FENCEPOST_DRAIN_LIMIT", ""),
            ("FENCEPOST_LISEN", "127.0.0.1:1"),
        ],
    );
    sidecar.signal(rustix::process::Signal::TERM);
    let (status, _, log, _) = sidecar.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0]
            .contains("FENCEPOST_LISEN is not read by anything; did you mean FENCEPOST_LISTEN?"),
        "{log}"
    );
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left_behind() {
    let first = Sidecar::dev();
    let taken = first.address.to_string();
    let (code, told) = output(&["dev", "--listen", &taken], &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&taken) && told.contains("--listen"), "{told}");
}

#[test]
fn logs_in_json_are_json_and_text_without_a_terminal_has_no_colours() {
    let sidecar = Sidecar::dev_with(&["--log-format", "json"], &[]);
    sidecar.signal(rustix::process::Signal::TERM);
    let (_, _, log, _) = sidecar.ended();
    let ready: Vec<serde_json::Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &serde_json::Value| line["message"] == "ready")
        .collect();
    assert_eq!(ready.len(), 1, "{log}");

    let sidecar = Sidecar::dev_with(&["--log-level", "debug"], &[]);
    sidecar.signal(rustix::process::Signal::TERM);
    let (_, _, log, _) = sidecar.ended();
    assert!(log.contains("ready") && !log.contains('\u{1b}'), "{log}");
}
