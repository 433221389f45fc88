//! What the README shows is run as it stands there, against a sidecar for development; the limits that ARCHITECTURE.md and the
//! interface tell are those of the code.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

#[allow(
    unused_imports,
    unused_macros,
    reason = "nothing here runs on both engines"
)]
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fencepost::server::{Running, start_dev_under};
use support::process::Process;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

fn reference() -> String {
    std::fs::read_to_string(root().join("docs/reference.md")).unwrap()
}

/// What follows a mark in the README or the reference: the inside of the code block, or the table.
fn marked(name: &str) -> String {
    let both = readme() + &reference();
    let mark = format!("<!-- tested: {name} -->\n");
    let (_, rest) = both
        .split_once(&mark)
        .unwrap_or_else(|| panic!("neither README.md nor docs/reference.md has a mark {mark}"));
    // A block in a list stands two spaces in.
    let rest = rest.trim_start_matches(' ');
    match rest.strip_prefix("```sh\n") {
        Some(block) => block.split_once("```").unwrap().0.to_owned(),
        None => rest.split_once("\n\n").unwrap().0.to_owned(),
    }
}

/// The Python with the example's packages.
fn python() -> PathBuf {
    let python = root().join(".tools/venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing: `scripts/need.sh test` (part of `make test`) makes it",
        python.display()
    );
    python
}

async fn shell(script: String) -> String {
    let run = move || {
        Command::new("bash")
            .arg("-euc")
            .arg(script)
            .current_dir(root())
            .output()
            .unwrap()
    };
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::task::spawn_blocking(run).await.unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(
        status.success(),
        "{text}{}",
        String::from_utf8_lossy(&stderr)
    );
    text
}

/// A sidecar, and the README's lines with its port in place of the usual one.
struct Sidecar(Running);

impl Sidecar {
    async fn start() -> Self {
        // As `make run` starts it.
        let machines = root().join("machines");
        let machines = fencepost::config::sound_machines(machines.to_str().unwrap()).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        Self(start_dev_under(listen, &machines).await.unwrap())
    }

    async fn run(&self, name: &str) -> String {
        let script = marked(name);
        let usual = "127.0.0.1:7411";
        let script = script
            .replace(usual, &self.0.addr().to_string())
            .replace("target/debug/fencepost", env!("CARGO_BIN_EXE_fencepost"));
        shell(format!("export FENCEPOST_ADDR={}\n{script}", self.0.addr())).await
    }
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A copy of the examples with stubs generated beside them, as the README says. In `examples/python` itself there may be
/// stubs for another version of the packages, made by somebody who followed the README.
async fn examples() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["webhook.py", "worker.py"] {
        let original = root().join("examples/python").join(name);
        std::fs::copy(original, copy.path().join(name)).unwrap();
    }
    let script = marked("stubs");
    let (_, generate) = script.split_once("grpc_tools.protoc").unwrap();
    let (generate, run) = generate.split_once(".tools/example/bin/python").unwrap();
    assert_eq!(run.trim(), "examples/python/webhook.py");
    let generate = generate.replace("examples/python", copy.path().to_str().unwrap());
    shell(format!(
        "{} -m grpc_tools.protoc{generate}",
        python().display()
    ))
    .await;
    copy
}

/// Starts the handler.
async fn webhook(sidecar: &Sidecar, examples: &Path) -> (Ends, String) {
    let mut child = Command::new(python())
        .arg(examples.join("webhook.py"))
        .env("FENCEPOST_ADDR", sidecar.0.addr().to_string())
        .env("WEBHOOK_PORT", "0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let ends = Ends(child);
    let first_line = tokio::task::spawn_blocking(|| BufReader::new(out).lines().next());
    let said = first_line
        .await
        .unwrap()
        .expect("the example says where it listens")
        .unwrap();
    let port = said.rsplit_once(':').unwrap().1.to_owned();
    (ends, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_line_and_the_command_do_the_same() {
    let sidecar = Sidecar::start().await;
    let applied = sidecar.run("place").await;
    assert!(applied.contains("ADVICE_ACKNOWLEDGE"), "{applied}");
    assert!(applied.contains("VERDICT_APPLIED"), "{applied}");
    let replayed = sidecar.run("place-command").await;
    assert!(replayed.contains("ACKNOWLEDGE"), "{replayed}");
    assert!(replayed.contains("REPLAYED"), "{replayed}");
    sidecar.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_handler_books_once_answers_alike_and_refuses_a_changed_content() {
    let sidecar = Sidecar::start().await;
    let examples = examples().await;
    sidecar.run("place").await;
    let (_webhook, port) = webhook(&sidecar, examples.path()).await;
    let pay = marked("pay").replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    for _ in 0..3 {
        assert_eq!(shell(pay.clone()).await, "booked 200\n");
    }
    // The machine says that this sender keeps retrying on a "no".
    let changed = shell(pay.replace("49.90", "99.90")).await;
    assert_eq!(changed, " 200\n");
    let other_attempt = pay.replace("evt-77", "evt-78").replace("\"p1\"", "\"p9\"");
    assert_eq!(shell(other_attempt).await, " 200\n");
    let nonsense = shell(pay.replace("{\"id\"", "[\"id\"")).await;
    assert!(nonsense.ends_with(" 400\n"), "{nonsense}");
    sidecar.0.stop().await;
    let alone = shell(pay).await;
    assert!(alone.ends_with(" 503\n"), "{alone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_worker_moves_once_and_leaves_the_resource_free() {
    let sidecar = Sidecar::start().await;
    let examples = examples().await;
    let sidecar_at = format!("export FENCEPOST_ADDR={}", sidecar.0.addr());
    let work = format!(
        "{sidecar_at}\n{} {}/worker.py parcel 7",
        python().display(),
        examples.path().display()
    );
    assert!(readme().contains("says `ADVICE_ACKNOWLEDGE shelf 9`"));
    for _ in 0..2 {
        assert_eq!(shell(work.clone()).await, "ADVICE_ACKNOWLEDGE shelf 9\n");
    }
    let inspect = format!("{} inspect parcel 7", env!("CARGO_BIN_EXE_fencepost"));
    let left = shell(format!("{sidecar_at}\n{inspect}")).await;
    assert!(left.contains("shelved") && left.contains("free"), "{left}");
    sidecar.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claim_shown_is_completed_once_and_replayed() {
    let sidecar = Sidecar::start().await;
    let said = sidecar.run("claim").await;
    let mut places = [
        "charge the card now",
        "APPLIED",
        "receipt 78",
        "REPLAYED",
        "receipt 78",
    ]
    .into_iter()
    .scan(said.as_str(), |rest, part| {
        let (_, after) = rest.split_once(part)?;
        *rest = after;
        Some(part)
    });
    assert_eq!(places.by_ref().count(), 5, "{said}");
    sidecar.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_shown_run_while_held_and_once() {
    let sidecar = Sidecar::start().await;
    let said = sidecar.run("exec").await;
    assert!(said.starts_with("migrating under token "), "{said}");
    assert_eq!(sidecar.run("exec once").await, "backing up\n");
    sidecar.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_commands_run_as_shown_and_the_machine_shown_is_sound() {
    let script = marked("machines");
    let said =
        shell(script.replace("target/debug/fencepost", env!("CARGO_BIN_EXE_fencepost"))).await;
    for part in [
        "machines/seat.yaml: good",
        "SUPERSEDED",
        "stateDiagram-v2",
        "the two say the same",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let readme = readme();
    let (_, rest) = readme.split_once("```yaml\n").unwrap();
    let (yaml, _) = rest.split_once("```").unwrap();
    let reading = fencepost::domain::machine::Machine::read(yaml.as_bytes());
    assert!(
        reading.machine.is_some() && reading.findings.is_empty(),
        "{:?}",
        reading.findings
    );
    let typo = yaml.replace("matches: [payment_attempt_id]", "matches: [payment_id]");
    let found = fencepost::domain::machine::Machine::read(typo.as_bytes()).findings;
    let line = found[0].to_string();
    let shown = readme.replace("matches\n  payment_id", "matches payment_id");
    let (told, _) = line.split_once("; fix: ").unwrap();
    assert!(shown.contains(told), "{line}");
}

// What operators ask goes over the admin socket, which only a process has.
#[tokio::test(flavor = "multi_thread")]
async fn the_operators_lines_run_as_shown() {
    let machines = root().join("machines");
    let sidecar = Process::dev(&["--machines", machines.to_str().unwrap()]).await;
    let run = async |name: &str| {
        let script = marked(name)
            .replace("127.0.0.1:7411", sidecar.address())
            .replace("target/debug/fencepost", env!("CARGO_BIN_EXE_fencepost"));
        let socket = sidecar.admin_socket();
        let (address, socket) = (sidecar.address(), socket.display());
        shell(format!(
            "export FENCEPOST_ADDR={address} FENCEPOST_ADMIN_SOCKET={socket}\n{script}"
        ))
        .await
    };
    run("place").await;
    let said = run("explain").await;
    for part in [
        "order/1001 is in state pending_payment since move 1 of 1.",
        "SUPERSEDED, for the resource has made this move already: place.",
        "\"try-1\" was decided at ",
        "Nothing waits for a person.",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = run("apply").await;
    for part in ["in force already: order version 1", "the two say the same"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    in_this_order(
        &run("resolve").await,
        &[
            "was released",
            "INTERRUPTED",
            "exit code 10",
            "RESOLVED",
            "APPLIED",
        ],
    );
    in_this_order(
        &run("timeline").await,
        &["its tokens", "its tokens", "ended"],
    );
}

fn in_this_order(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} is missing in its place: {said}"));
        rest = after;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reservation_shown_is_renewed_fenced_and_released() {
    let sidecar = Sidecar::start().await;
    in_this_order(
        &sidecar.run("round").await,
        &["RENEWED", "LIVE", "was released", "ABANDON", "exit code 12"],
    );
    sidecar.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_digest_lines_run_as_shown() {
    let script = marked("digest");
    let said =
        shell(script.replace("target/debug/fencepost", env!("CARGO_BIN_EXE_fencepost"))).await;
    let mut lines = said.lines();
    assert!(lines.next().unwrap().starts_with("json-v1 "), "{said}");
    assert!(
        lines.next().unwrap().ends_with(" vectors, 0 wrong"),
        "{said}"
    );
}

#[test]
fn the_handler_shown_is_the_one_that_runs() {
    let example = std::fs::read_to_string(root().join("examples/python/webhook.py")).unwrap();
    let (_, rest) = example.split_once("# [core]\n").unwrap();
    let (core, _) = rest.split_once("# [/core]").unwrap();
    assert!(
        readme().contains(&format!("```python\n{core}```")),
        "README.md shows another handler than {core}"
    );
    let lines = core.lines().count();
    assert!((6..=15).contains(&lines), "a handler of {lines} lines");
}

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(words)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_configuration_table_names_every_flag_and_variable_and_no_other() {
    let words = |text: &str, accept: fn(&str) -> bool| -> BTreeSet<String> {
        text.split(|sign: char| !(sign.is_ascii_alphanumeric() || "-_".contains(sign)))
            .filter(|word| accept(word))
            .map(str::to_owned)
            .collect()
    };
    let flag = |word: &str| {
        word.starts_with("--") && word.len() > 3 && !["--help", "--version"].contains(&word)
    };
    let variable = |word: &str| word.starts_with("FENCEPOST_");
    let table = marked("configuration");
    let serve = help(&["serve", "--help"]);
    assert_eq!(words(&table, flag), words(&serve, flag));
    assert_eq!(words(&table, variable), words(&serve, variable));
    let dev: String = table
        .lines()
        .filter(|line| !line.contains("`serve` only"))
        .collect();
    assert_eq!(words(&dev, flag), words(&help(&["dev", "--help"]), flag));
}

#[test]
fn the_table_of_exit_codes_is_that_of_the_help() {
    // A meaning goes on in the next line where the help is wrapped.
    let help = help(&["--help"]);
    let (_, told) = help.split_once("Exit codes:").unwrap();
    let mut codes: Vec<(u8, String)> = Vec::new();
    for line in told.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.split_first() {
            Some((first, rest)) if first.parse::<u8>().is_ok() => {
                codes.push((first.parse().unwrap(), rest.join(" ")));
            }
            Some(_) => {
                let (_, meaning) = codes.last_mut().unwrap();
                *meaning = format!("{meaning} {}", words.join(" "));
            }
            None => {}
        }
    }
    let table = marked("exit codes").replace('`', "");
    let shown: Vec<(u8, String)> = table
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")
        })
        .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning.to_owned())))
        .collect();
    assert_eq!(shown, codes);
    assert_eq!(shown.len(), 18);
}

/// Every code that the sources end a process with by a number of their own.
#[test]
fn the_table_of_exit_codes_has_every_code_of_the_code() {
    let table = marked("exit codes");
    let told = |code: u64| table.contains(&format!("\n| {code} | "));
    let exits = std::fs::read_to_string(root().join("src/cli/exit.rs")).unwrap();
    let (_, numbers) = exits.split_once("fn number(self) -> u8").unwrap();
    let (numbers, _) = numbers.split_once("\n    }\n").unwrap();
    let numbers = numbers.lines().filter_map(|line| {
        let (_, number) = line.trim_end_matches(',').split_once("=> ")?;
        number.parse::<u64>().ok()
    });
    let mut codes: Vec<u64> = numbers.collect();
    assert_eq!(codes.len(), 12);
    codes.extend(["EXIT_FAILED", "EXIT_CONFIG"].map(constant));
    // Signals: interrupt, abort, terminate.
    codes.extend([2, 6, 15].map(|signal| constant("SIGNAL_EXIT_BASE") + signal));
    for code in codes {
        assert!(told(code), "{code} is missing in {table}");
    }
}

#[test]
fn every_file_that_the_readme_and_the_reference_link_is_there_and_every_section() {
    let sections = |text: &str| -> Vec<String> {
        let titles = text.lines().filter_map(|line| line.strip_prefix("## "));
        let titles = titles.map(|title| title.to_lowercase().replace(' ', "-"));
        titles.collect()
    };
    for (place, text) in [
        (root().to_owned(), readme()),
        (root().join("docs"), reference()),
    ] {
        for link in text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap())
            .filter(|link| !link.starts_with("https://"))
        {
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let file = place.join(file);
            assert!(file.exists(), "{link}");
            if !section.is_empty() {
                let there = sections(&std::fs::read_to_string(&file).unwrap());
                assert!(there.contains(&section.to_owned()), "{link}: {there:?}");
            }
        }
    }
}

#[test]
fn the_unit_for_systemd_names_what_there_is_and_lets_a_stop_come_to_its_end() {
    let unit = root().join("examples/systemd/fencepost.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let all = |name: &str| -> Vec<String> {
        let lines = unit.lines();
        lines
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(all("ExecStart"), ["/usr/local/bin/fencepost serve"]);
    assert_eq!(all("RestartPreventExitStatus"), ["78"]);
    let set = all("Environment");
    let set: std::collections::BTreeMap<_, _> = set
        .iter()
        .map(|line| line.split_once('=').unwrap())
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let read = fencepost::config::Sources::new([], set.clone());
    let config = fencepost::config::Config::serve(&read).unwrap();
    assert!(fencepost::config::unknown_variables(&set).is_empty());
    let stop = all("TimeoutStopSec").remove(0);
    let stop: u64 = stop.strip_suffix('s').unwrap().parse().unwrap();
    // As README says, it ends within two seconds after that.
    assert!(stop >= config.drain_limit.as_secs() + 2 * 2, "{stop}");
    let socket = std::path::PathBuf::from("/run/fencepost/admin.sock");
    assert_eq!(config.admin, fencepost::config::AdminSocket::At(socket));
    assert_eq!(all("RuntimeDirectory"), ["fencepost"]);
    assert!(readme().contains("examples/systemd/fencepost.service"));
}

/// The value of a constant, as its source says it: a product of whole numbers. `layer.NAME` where several have the name.
fn constant(name: &str) -> u64 {
    let (layer, name) = name.split_once('.').unwrap_or(("", name));
    let said = sources().into_iter().filter_map(|(path, text)| {
        path.strip_prefix(root().join("src").join(layer)).ok()?;
        let (_, rest) = text.split_once(&format!("const {name}: "))?;
        let (_, value) = rest.split_once(" = ")?;
        Some(value.split_once(';')?.0.to_owned())
    });
    let said: BTreeSet<String> = said.collect();
    assert_eq!(said.len(), 1, "constants named {name}: {said:?}");
    let value = said.first().unwrap();
    // Duration::from_secs(10), NonZeroUsize::new(10_000).expect("…")
    let within = value
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let value = within.map_or(value.as_str(), |(inside, _)| inside);
    let factors = value
        .split('*')
        .map(|factor| factor.trim().replace('_', ""));
    factors
        .map(|factor| {
            factor
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} = {value}"))
        })
        .product()
}

/// Every file below `src`.
fn sources() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    let mut directories = vec![root().join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                texts.push((path, text));
            }
        }
    }
    texts
}

/// `{NAME}` becomes the value of that constant, `{NAME/1024}` that part of it, with commas between thousands.
fn filled(template: &str) -> String {
    let mut parts = template.split(['{', '}']);
    let mut text = parts.next().unwrap().to_owned();
    while let (Some(name), Some(rest)) = (parts.next(), parts.next()) {
        let (name, part) = name.split_once('/').unwrap_or((name, "1"));
        let digits = (constant(name) / part.parse::<u64>().unwrap()).to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text.push_str(rest);
    }
    text
}

#[test]
fn the_limits_of_the_architecture_are_those_of_the_code() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, limits) = architecture.split_once("## Limits\n\n").unwrap();
    let rows: Vec<&str> = limits
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .collect();
    let told = [
        "| kind, state, identity name | {NAME_BYTES_MAX} bytes of `A-Za-z0-9_.-` |",
        "| resource id; operation id; identity value; holder | {RESOURCE_ID_BYTES_MAX}; {OPERATION_ID_BYTES_MAX}; \
         {IDENTITY_VALUE_BYTES_MAX}; {HOLDER_BYTES_MAX} bytes |",
        "| identity names in a request; on a resource | {IDENTITY_NAMES_MAX}; {IDENTITY_NAMES_REMEMBERED_MAX} |",
        "| replaced values remembered for each name | {REPLACED_VALUES_MAX} |",
        "| states a resource may have been in | {STATES_REMEMBERED_MAX} |",
        "| `from_states` | {FROM_STATES_MAX} |",
        "| content | {CONTENT_BYTES_MAX/1048576} MiB (only its digest is kept), {LEVELS_MAX} levels of JSON |",
        "| result | body {RESULT_BODY_BYTES_MAX/1024} KiB, {HEADERS_MAX} headers of {domain.HEADERS_BYTES_MAX/1024} KiB together |",
        "| reservation TTL | {TTL_SECONDS_MIN} s to {TTL_SECONDS_MAX/3600} h, {TTL_SECONDS_DEFAULT} s if absent |",
        "| resources in one reservation | {TOGETHER_MAX} |",
        "| rounds whose end is remembered | the last and {PAST_ROUNDS_MAX} before it |",
        "| rounds of which it is remembered what they claimed | the last, {PAST_CLAIMS_MAX} before it, and those whose claim is still open |",
        "| attempts that begin without a person, with `rerun_if_interrupted` | {CLAIM_ATTEMPTS_MAX} |",
        "| open operations of one resource | {OPEN_OPERATIONS_MAX}, and {OPEN_BYTES_MAX/1024} KiB of them together |",
        "| operations remembered after they were given back | {RETURNED_OPERATIONS_MAX} |",
        "| reason and name of whoever resolves | {REASON_BYTES_MAX}; {HOLDER_BYTES_MAX} bytes |",
        "| requests folded into one commit | {FOLD_REQUESTS_MAX} |",
        "| requests waiting in one lane; reservations of several that wait for it | {LANE_QUEUE_MAX}; {LANE_QUEUE_MAX} |",
        "| `wait`; calls that wait | {WAIT_MAX} s; {WAITERS_MAX}, one that waits for several resources counted for each; a further one is answered at once |",
        "| entries of queues made, or removed, by one write; how long removals fail before their session is let run out; its TTL | \
         {WAITERS_PER_WRITE_MAX}; {REMOVED_WITHIN} s; {SESSION_SECONDS} s |",
        "| resources remembered between calls | {LANES_DEFAULT}, each with {KEPT_APART_BYTES_MAX/1024} KiB of operations \
         from keys of their own, {KEPT_BYTES_MAX/1048576} MiB of these together |",
        "| calls of several steps (Reserve, Renew, Release) under way, those included whose callers have left | {WORKS_MAX} |",
        "| calls under way, those included whose answers were not taken yet; bytes of their messages; of answers over \
         {SMALL_ANSWER_BYTES_MAX/1024} KiB that were not taken | {CALLS_UNDER_WAY_MAX}; {BYTES_HELD_MAX/1048576} MiB; \
         {ANSWER_BYTES_MAX/1048576} MiB |",
        "| how long an answer, or a connection that writes, may wait to be read | {ANSWER_TAKEN_WITHIN} s, looked at {LOOKS} times; then the \
         connection is closed |",
        "| connections; calls under way on one of HTTP/2 | {CONNECTIONS_MAX} at each door, further ones wait to be accepted; \
         {server.STREAMS_MAX} |",
        "| how long a connection may be silent at first; take over the headers of an HTTP/1.1 request, or idle; be silent over HTTP/2 | \
         {GREETING_LIMIT} s; {HEADERS_LIMIT} s; {server.PING_INTERVAL} s, and {server.PING_LIMIT} s for the answer to a ping |",
        "| how long a message may take to arrive | until its call's deadline: {DEADLINE_DEFAULT} s if its caller names none, \
         {DEADLINE_MAX} s at most; half a second once the sidecar stops |",
        "| streams open: Hold, Watch; Health.Watch, reflection, at each door; all on one connection | {HOLD_STREAMS_MAX}, \
         {WATCH_STREAMS_MAX}; {HEALTH_WATCHES_MAX}, {REFLECTIONS_MAX}; {STREAMS_PER_CONNECTION_MAX} |",
        "| questions for the health (Health.Check) at once, at each door; how long one may take to arrive | {HEALTH_CHECKS_MAX}; \
         {HEALTH_CHECK_WITHIN} s |",
        "| reservations held: by one stream; at once | {HELD_PER_STREAM_MAX}; {HELD_MAX} |",
        "| renewals tried at once | {RENEWALS_TRIED_MAX} |",
        "| states that wait for whoever watches | {STATES_WAITING_MAX}, then the newest alone |",
        "| contents over 64 KiB digested at once | {SLOW_DIGESTS_MAX} |",
        "| parts of a content that a rule names | {LIST_ITEMS_MAX} JSON Pointers of {POINTER_BYTES_MAX} bytes |",
        "| fields of a content: kept, compared, named | {FIELDS_KEPT_MAX}, {FIELDS_COMPARED_MAX}, {FIELDS_TOLD_MAX} |",
        "| results kept as evidence in one incident; shown at once | {EVIDENCE_PIECES_MAX}, of {EVIDENCE_BYTES_MAX/1048576} MiB together, the rest counted; {EVIDENCE_SHOWN_MAX} |",
        "| reason for closing an incident | {REASON_BYTES_MAX} bytes |",
        "| page of incidents | {PAGE_SIZE_MAX}, {PAGE_SIZE_DEFAULT} if not said; {PAGE_BYTES_MAX/1048576} MiB; {KEYS_PER_PAGE_MAX} stored values looked at |",
        "| incidents whose repetitions wait to be written | {INCIDENTS_COUNTED_MAX} |",
        "| page of machines | {PAGE_SIZE_MAX}, {PAGE_SIZE_DEFAULT} if not said; {MACHINE_BYTES_READ_MAX/1048576} MiB read for it |",
        "| retention; that of incidents | 1 min to 10 years, 96 h and 30 days if absent; incidents not shorter than operations |",
        "| kinds and events counted apart | {COUNT_ROWS_MAX}, the rest together |",
        "| operations of one resource whose deliveries are counted between two writes | {UNSAVED_COUNTS_MAX} |",
        "| resources swept at once; operations of one swept in one commit | {SWEPT_AT_ONCE_MAX}; {SWEPT_OPERATIONS_MAX} |",
        "| a story: operations, incidents, calls that wait, names in a sentence; operations in keys of their own looked at | \
         {OPERATIONS_TOLD_MAX}, {INCIDENTS_TOLD_MAX}, {WAITERS_TOLD_MAX}, {NAMES_TOLD_MAX}; {APART_LOOKED_AT_MAX} |",
        "| reservations removed in one transaction when a timeline is started; starts shown | {REMOVED_AT_ONCE}; \
         {STARTS_TOLD_MAX} |",
        "| base of a timeline | 2^53 - 1 - 2^46 |",
        "| machine file | {FILE_BYTES_MAX/1024} KiB, {STATES_MAX} states, {EVENTS_MAX} events |",
        "| kinds with a machine in force; names and former digest rules that all versions of one remember | {MACHINES_MAX}; {SUCCESSORS_MAX} |",
        "| a TLS file; a password | {TLS_FILE_BYTES_MAX/1048576} MiB; {PASSWORD_BYTES_MAX} bytes |",
        "| times that a request is sent again while etcd has too much to do | {TURNED_AWAY_MAX} |",
        "| log lines of one kind of trouble, or warnings of libraries; of one that goes on, such as an etcd that does not answer | {LINES_MAX} a second; {LINES_MAX}, \
         then one in {TROUBLE_LINE_EVERY} s until it was calm for {TROUBLE_CALM} s; the rest counted |",
        "| `exec`: grace if none is given; at most; killed before the bound; by its guard | a sixth of the TTL, {GRACE_DEFAULT_MAX} s; \
         a third; {KILL_MARGIN} ms; {GUARD_MARGIN} ms |",
    ];
    assert_eq!(rows, told.map(filled));
}

#[test]
fn the_limits_of_the_reference_are_those_of_the_code() {
    let table = marked("limits");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    let told = [
        "| kind, state, event, name of an identity value | 1 to {NAME_BYTES_MAX} characters out of `A-Za-z0-9_.-` | INVALID_ARGUMENT |",
        "| id of a resource | 1 to {RESOURCE_ID_BYTES_MAX} bytes of UTF-8 | INVALID_ARGUMENT |",
        "| operation id; identity value; `holder` | {OPERATION_ID_BYTES_MAX}; {IDENTITY_VALUE_BYTES_MAX}; {HOLDER_BYTES_MAX} bytes | INVALID_ARGUMENT |",
        "| `identity`, `sets` in a request; `from_states` | {IDENTITY_NAMES_MAX}; {FROM_STATES_MAX} | INVALID_ARGUMENT |",
        "| identity names on one resource, states it was ever in | {IDENTITY_NAMES_REMEMBERED_MAX}, {STATES_REMEMBERED_MAX} | RESOURCE_EXHAUSTED (LIMIT_MET) |",
        "| content | {CONTENT_BYTES_MAX/1048576} MiB; JSON of {LEVELS_MAX} levels | INVALID_ARGUMENT; send a digest of your own instead |",
        "| digest of your own | {GIVEN_BYTES_MIN} to {GIVEN_BYTES_MAX} bytes | INVALID_ARGUMENT |",
        "| result: body; headers; each header's name; content type; code | {RESULT_BODY_BYTES_MAX/1024} KiB; {HEADERS_MAX} of {domain.HEADERS_BYTES_MAX/1024} KiB together; {HEADER_NAME_BYTES_MAX} bytes; {CONTENT_TYPE_BYTES_MAX} bytes; 0 to {CODE_MAX} | INVALID_ARGUMENT, before anything is written |",
        "| message over gRPC; body over HTTP | {MESSAGE_BYTES_MAX}; {JSON_BODY_BYTES_MAX} bytes | RESOURCE_EXHAUSTED (LIMIT_MET), HTTP 429 |",
        "| time that a call may take | {DEADLINE_DEFAULT} s if its caller does not say, {DEADLINE_MAX} s at most, both on top of `wait` | DEADLINE_EXCEEDED, or the outcome is unknown |",
        "| `ttl` of a reservation | {TTL_SECONDS_MIN} s to {TTL_SECONDS_MAX/3600} h, {TTL_SECONDS_DEFAULT} s if absent | INVALID_ARGUMENT |",
        "| resources in one reservation | {TOGETHER_MAX} | INVALID_ARGUMENT |",
        "| `wait`; calls that wait at one sidecar | {WAIT_MAX/60} min; {WAITERS_MAX} | INVALID_ARGUMENT; one more is answered at once |",
        "| attempts that begin without a person, with `rerun_if_interrupted` | {CLAIM_ATTEMPTS_MAX} | INTERRUPTED: a person decides |",
        "| open operations of one resource | {OPEN_OPERATIONS_MAX}, {OPEN_BYTES_MAX/1024} KiB together | RESOURCE_EXHAUSTED (LIMIT_MET): resolve them |",
        "| calls under way at one sidecar, or answered and not read; bytes of their messages | {CALLS_UNDER_WAY_MAX}; {BYTES_HELD_MAX/1048576} MiB | RESOURCE_EXHAUSTED (OVERLOADED), with a time to ask again |",
        "| bytes of answers that were not read, of those over {SMALL_ANSWER_BYTES_MAX/1024} KiB | {ANSWER_BYTES_MAX/1048576} MiB | ABORTED (UNKNOWN_OUTCOME): ask again with the same ids |",
        "| how long an answer may wait to be read to its end, or a connection take nothing that is written to it | {ANSWER_TAKEN_WITHIN} s | the connection is closed, within 10 s more, and with it the Hold and Watch streams on it |",
        "| how long an HTTP/2 connection may be silent before it is asked whether it is there, and then | {server.PING_INTERVAL} s; {server.PING_LIMIT} s | it is closed; a Hold on it ends as its caller chose, however long the TTL |",
        "| requests that wait for one resource | {LANE_QUEUE_MAX} | RESOURCE_EXHAUSTED (OVERLOADED), with a time to ask again |",
        "| connections to one sidecar | {CONNECTIONS_MAX} | one more waits until another ends; the log tells of it |",
        "| streams open: Hold, Watch, Health.Watch, reflection; all on one connection | {HOLD_STREAMS_MAX}, {WATCH_STREAMS_MAX}, {HEALTH_WATCHES_MAX}, {REFLECTIONS_MAX}; {STREAMS_PER_CONNECTION_MAX} | RESOURCE_EXHAUSTED (OVERLOADED), with a time to ask again |",
        "| reservations held by one Hold; by one sidecar | {HELD_PER_STREAM_MAX}; {HELD_MAX} | INVALID_ARGUMENT; RESOURCE_EXHAUSTED (OVERLOADED), with a time to ask again |",
        "| states that wait for whoever watches | {STATES_WAITING_MAX} | the newest alone, with `gap` |",
        "| results kept as evidence in one incident | {EVIDENCE_PIECES_MAX}, {EVIDENCE_BYTES_MAX/1048576} MiB together | `result_not_kept` |",
        "| `differing_fields` | {FIELDS_TOLD_MAX} of {POINTER_BYTES_MAX} bytes | the part above them is named |",
        "| `reason`; who resolves, closes, or starts a timeline | {REASON_BYTES_MAX}; {HOLDER_BYTES_MAX} bytes | INVALID_ARGUMENT |",
        "| page of incidents, of machines | {PAGE_SIZE_MAX}, {PAGE_SIZE_DEFAULT} if not said | a next page |",
        "| machine file; kinds with a machine | {FILE_BYTES_MAX/1024} KiB, {STATES_MAX} states, {EVENTS_MAX} events; {MACHINES_MAX} | refused, with a finding |",
        "| `--retention` | 1 minute to 10 years, 96 hours if not said | the sidecar does not start: exit code 78 |",
        "| `--etcd-endpoints`; `--etcd-prefix`; `--admin-socket` | {ENDPOINTS_MAX} URLs; {PREFIX_BYTES_MAX} bytes; {SOCKET_PATH_BYTES_MAX} bytes | the sidecar does not start: exit code 78 |",
        "| what a command reads of `@FILE` or standard input | {READ_BYTES_MAX/1048576} MiB | exit code 2 |",
        "| `--timeout` of a command | 1 ms to {TIMEOUT_MAX} s | exit code 2 |",
    ];
    // These two are sums.
    let messages = |row: &str| {
        let one = |row: &str, name: &str, value: usize| {
            let (millions, rest) = (value / 1_000_000, value % 1_000_000);
            let commas = format!("{millions},{:03},{:03}", rest / 1000, rest % 1000);
            row.replace(&format!("{{{name}}}"), &commas)
        };
        let row = one(
            row,
            "MESSAGE_BYTES_MAX",
            fencepost::transport::MESSAGE_BYTES_MAX,
        );
        let json = fencepost::transport::JSON_BODY_BYTES_MAX;
        one(&row, "JSON_BODY_BYTES_MAX", json)
    };
    let told = told.map(|row| filled(&messages(row)));
    assert_eq!(rows, told);
}

#[test]
fn the_limits_that_the_interface_tells_are_those_of_the_code() {
    let told = |name: &str| {
        let path = root().join("proto/fencepost/v1").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        // Comments as running text.
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("// "));
        lines.collect::<Vec<_>>().join(" ")
    };
    let files = [
        (
            told("decision.proto"),
            &[
                "1 to {NAME_BYTES_MAX} characters out of A-Z a-z 0-9 _ . -",
                "1 to {RESOURCE_ID_BYTES_MAX} bytes of UTF-8 without NUL",
                "At most {RESULT_BODY_BYTES_MAX} bytes; over it the request is refused before anything is written",
                "At most {FIELDS_TOLD_MAX}, each of at most {POINTER_BYTES_MAX} bytes",
                "An incident keeps {EVIDENCE_PIECES_MAX} results, of {EVIDENCE_BYTES_MAX/1048576} MiB together",
                "beyond {FIELDS_KEPT_MAX} values the members of the outermost object are compared",
                "0 to {CODE_MAX}. 0: none",
                "At most {CONTENT_TYPE_BYTES_MAX} bytes. Absent: none.",
                "At most {HEADERS_MAX}, in the order sent, {domain.HEADERS_BYTES_MAX} bytes of names and values together.",
                "Required. 1 to {HEADER_NAME_BYTES_MAX} bytes. string name",
            ][..],
        ),
        (
            told("coordination.proto"),
            &[
                "1 to {OPERATION_ID_BYTES_MAX} bytes of UTF-8, not blank",
                "At most {IDENTITY_NAMES_MAX}; names of 1 to {NAME_BYTES_MAX} characters like Resource.kind, values of 1 to \
                 {IDENTITY_VALUE_BYTES_MAX} bytes.",
                "At most {CONTENT_BYTES_MAX/1048576} MiB; only its digest is kept.",
                "more than {LEVELS_MAX} levels are refused",
                "{GIVEN_BYTES_MIN} to {GIVEN_BYTES_MAX} bytes, compared exactly",
                "At most {FROM_STATES_MAX}; each 1 to {NAME_BYTES_MAX} characters",
                "as replaced. At most {IDENTITY_NAMES_MAX}, limits as in Intent.identity.",
                "{TTL_SECONDS_MIN} s to {TTL_SECONDS_MAX/3600} h, rounded up to whole seconds. Absent: \
                 {TTL_SECONDS_DEFAULT} s, unless",
                "At most {HOLDER_BYTES_MAX} bytes. Absent: the address of the caller.",
                "up to {CLAIM_ATTEMPTS_MAX} attempts are granted, and then a person decides.",
                "A call without a deadline gets one of {DEADLINE_DEFAULT} s.",
                "at most {WAIT_MAX/60} min, longer is refused",
                "Beyond {WAITERS_MAX} calls that wait at one sidecar",
                "of which at most {STREAMS_PER_CONNECTION_MAX} may be streams",
                "Required: 1 to {HELD_PER_STREAM_MAX} live reservations, each once",
                "the caller was more than {STATES_WAITING_MAX} states behind",
            ][..],
        ),
        (
            told("operator.proto"),
            &[
                "1 to {PAGE_SIZE_MAX}. 0: {PAGE_SIZE_DEFAULT}. Larger: {PAGE_SIZE_MAX}.",
                "when it has grown to {PAGE_BYTES_MAX/1048576} MiB, and under a filter when {KEYS_PER_PAGE_MAX} stored values",
                "at most {EVIDENCE_SHOWN_MAX} pieces of its evidence",
                "At most {REASON_BYTES_MAX} bytes, not blank.",
                "Who closes it, for people. At most {HOLDER_BYTES_MAX} bytes.",
                "in their order; at most {COUNT_ROWS_MAX}.",
                "It tells of the last {OPERATIONS_TOLD_MAX} operations (of those in keys of their own, at most \
                 {APART_LOOKED_AT_MAX} are looked at), of {INCIDENTS_TOLD_MAX} incidents about them, and of the first \
                 {WAITERS_TOLD_MAX} calls that wait",
                "Empty: of none in particular. At most {OPERATION_ID_BYTES_MAX} bytes.",
                "Who says so, for people; 1 to {HOLDER_BYTES_MAX} bytes.",
                "Why, for people; 1 to {REASON_BYTES_MAX} bytes, not blank.",
            ][..],
        ),
    ];
    for (text, phrases) in files {
        for phrase in phrases {
            let phrase = filled(phrase);
            assert!(text.contains(&phrase), "no comment says {phrase:?}");
        }
    }
}

#[test]
fn the_table_of_rules_is_that_of_the_code() {
    let code = std::fs::read_to_string(root().join("src/domain/decision.rs")).unwrap();
    let (_, names) = code.split_once("rule_names! {\n").unwrap();
    let mut names: Vec<&str> = names
        .lines()
        .take_while(|line| *line != "}")
        .map(|line| line.split('"').nth(1).unwrap())
        .collect();
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = architecture.split_once("## Rules\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let mut told: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .map(|(name, _)| name)
        .filter(|name| *name != "rule" && !name.starts_with('-'))
        .collect();
    names.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, names);
}
