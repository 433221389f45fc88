//! The shape of the code, kept by a test: the arrows between the layers, the sizes of files, and what must not be written.
//!
//! Each rule is a function from files to findings. It is held against the tree, and against a bad sample of its own, so that
//! a rule that has stopped biting is noticed.
#![allow(missing_docs)]

use std::path::Path;
use std::process::Command;

/// Most lines of a file below `src`.
const LINES_MAX: usize = 450;

/// The layers, lowest first. A module may name those before it, and itself.
const LAYERS: [&str; 8] = [
    "domain",
    "store",
    "engine",
    "transport",
    "config",
    "observe",
    "server",
    "cli",
];
/// Stands alone; only who starts a sidecar names it.
const EMBEDDED: &str = "embedded";
const NAME_EMBEDDED: [&str; 2] = ["server", "cli"];
/// Generated; it names nothing.
const PROTO: &str = "proto";
/// Runs the tests on several versions of etcd, and the list of those promises that it leaves out.
const MATRIX: &str = "scripts/etcd-matrix.sh";
const LEFT_OUT: &str = "NOT_ETCDS=(";
/// What a test starts that asks an etcd.
const ASKS_ETCD: [&str; 4] = ["Backend", "Cluster::", "Etcd::", "Process::serve"];

/// A file by its path from the root of the project, with `/`.
#[derive(Clone, Debug)]
struct File {
    path: String,
    text: String,
}

impl File {
    fn sample(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The module right below the crate; `None` outside `src` and for the roots themselves.
    fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        let first = below.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "lib" | "main")).then_some(name)
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_source(&self) -> bool {
        self.is_rust() && self.path.starts_with("src/")
    }

    /// Whether the whole file is a test.
    fn is_test(&self) -> bool {
        let named = |part: &str| part == "tests" || part == "tests.rs";
        self.path.split('/').any(named)
    }

    /// Its lines without comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate();
        numbered.map(|(at, line)| (at + 1, without_comment(line)))
    }

    /// The same, up to the tests at its end.
    fn code_that_ships(&self) -> impl Iterator<Item = (usize, &str)> {
        let whole_file = self.is_test();
        let ships = move |(_, line): &(usize, &str)| !whole_file && !line.contains("#[cfg(test)]");
        self.code().take_while(ships)
    }

    fn finding(&self, line: usize, what: impl AsRef<str>) -> String {
        format!("{}:{line}: {}", self.path, what.as_ref())
    }
}

fn without_comment(line: &str) -> &str {
    let comment = line.match_indices("//").find(|(at, _)| {
        let before = line.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with(char::is_whitespace)
    });
    match comment {
        Some((at, _)) => line.get(..at).unwrap_or_default(),
        None => line,
    }
}

/// All files that git tracks, which is what others get; generated and local ones are nobody's business.
fn tracked() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "-z"]).current_dir(root).output();
    let paths: Vec<String> = match listed {
        Ok(listed) if listed.status.success() => {
            let all = String::from_utf8_lossy(&listed.stdout).into_owned();
            let all = all.split('\0').filter(|path| !path.is_empty());
            all.map(str::to_owned).collect()
        }
        // A source archive has no history.
        _ => ["src", "tests", "proto", "scripts", "examples"]
            .iter()
            .flat_map(|directory| below(root, directory))
            .collect(),
    };
    let read = |path: String| {
        // A file that is deleted but still listed, or is no text, has nothing to say here.
        let text = std::fs::read_to_string(root.join(&path)).ok()?;
        Some(File { path, text })
    };
    let files: Vec<File> = paths.into_iter().filter_map(read).collect();
    assert!(files.len() > 20, "the tree was not found");
    files
}

fn below(root: &Path, directory: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(directory)) else {
        return Vec::new();
    };
    let inner = |entry: std::fs::DirEntry| {
        let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            below(root, &path)
        } else {
            vec![path]
        }
    };
    entries.flatten().flat_map(inner).collect()
}

/// The modules right below the crate that a line of a file names, by `crate::`, by the crate's name or by `super::`s.
fn named_modules(file: &File, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let outside = file.path == "src/main.rs";
    let roots = if outside {
        ["fencepost::", "fencepost::"]
    } else {
        ["crate::", "fencepost::"]
    };
    for root in roots {
        for (at, _) in line.match_indices(root) {
            found.extend(first_names(line.get(at + root.len()..).unwrap_or_default()));
        }
    }
    // As many `super::`s as the file is deep lead to the crate.
    let climb = "super::".repeat(depth(file));
    if !climb.is_empty() {
        for (at, _) in line.match_indices(&climb) {
            let rest = line.get(at + climb.len()..).unwrap_or_default();
            found.extend(first_names(rest));
        }
    }
    let known = |name: &String| LAYERS.contains(&name.as_str()) || name == EMBEDDED;
    found.retain(known);
    found.dedup();
    found
}

/// `a::b` begins with a; `{a::b, c}` with a and c.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        let letters = text.trim_start().chars();
        letters
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let Some(group) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let mut names = vec![name(group)];
    let mut depth = 0_usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => names.push(name(group.get(at + 1..).unwrap_or_default())),
            _ => {}
        }
    }
    names
}

/// How many modules a file lies below the crate.
fn depth(file: &File) -> usize {
    let Some(below) = file.path.strip_prefix("src/") else {
        return 0;
    };
    let parts = below.split('/').count();
    if below.ends_with("/mod.rs") {
        parts - 1
    } else {
        parts
    }
}

fn arrows(files: &[File]) -> Vec<String> {
    let rank = |module: &str| LAYERS.iter().position(|layer| *layer == module);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_source()) {
        let Some(module) = file.module() else {
            continue;
        };
        if module != PROTO && module != EMBEDDED && rank(module).is_none() {
            found.push(file.finding(1, "its module has no place among the layers of this test"));
            continue;
        }
        // An import may be broken over lines; a group belongs to its first one.
        let text: Vec<&str> = file.code().map(|(_, line)| line).collect();
        for (at, line) in joined_imports(&text) {
            for named in named_modules(file, &line) {
                let allowed = if module == named {
                    true
                } else if module == EMBEDDED || module == PROTO {
                    false
                } else if named == EMBEDDED {
                    NAME_EMBEDDED.contains(&module)
                } else {
                    rank(&named) < rank(module)
                };
                if !allowed {
                    found.push(file.finding(at, format!("{module} must not name {named}")));
                }
            }
            if module == EMBEDDED && line.contains("crate::proto") {
                found.push(file.finding(at, "embedded stands alone"));
            }
        }
    }
    found
}

/// Lines, with each `use` that goes over several of them joined into its first.
fn joined_imports(lines: &[&str]) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in lines.iter().enumerate() {
        let begins = line.trim_start().starts_with("use ") || line.contains(" use ");
        match joined.last_mut() {
            Some((_, last)) if open => last.push_str(line.trim()),
            _ => joined.push((at + 1, (*line).to_owned())),
        }
        open = (open || begins) && !line.contains(';');
    }
    joined
}

fn etcd_client_in_its_place(files: &[File]) -> Vec<String> {
    let elsewhere =
        |file: &&File| file.is_source() && !matches!(file.module(), Some("store") | Some(EMBEDDED));
    words_in(
        files,
        elsewhere,
        &["etcd_client"],
        "only store and embedded name it",
    )
}

fn the_domain_is_pure(files: &[File]) -> Vec<String> {
    let words = [
        "tokio",
        "tonic",
        "etcd_client",
        "SystemTime",
        "Instant::now",
    ];
    let domain = |file: &&File| file.module() == Some("domain");
    words_in(
        files,
        domain,
        &words,
        "the domain knows no runtime, network or clock",
    )
}

fn protobuf_is_read_in_its_place(files: &[File]) -> Vec<String> {
    // What a request says is read where it is parsed; the rest of the transport only hands it on.
    const FIELDS: [&str; 17] = [
        ".intent",
        ".operation_id",
        ".identity",
        ".content",
        ".from_states",
        ".to_state",
        ".initial_state",
        ".sets",
        ".request_id",
        ".reservation_id",
        ".holder",
        ".even_if_ended",
        ".page_size",
        ".page_token",
        ".result",
        ".token",
        ".ttl",
    ];
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_source()) {
        let converts = file.path.starts_with("src/transport/convert");
        let reads = converts || matches!(file.module(), Some("cli" | PROTO));
        let hands_on = file.module() == Some("transport");
        if reads {
            continue;
        }
        for (at, line) in file.code_that_ships() {
            let descriptors = line.contains("FILE_DESCRIPTOR_SET");
            if !hands_on && !descriptors && line.contains("proto::v1") {
                found.push(file.finding(at, "only transport and cli name the interface"));
            }
            let field = FIELDS.iter().find(|field| {
                let mut after = line.match_indices(*field).map(|(at, _)| {
                    let rest = line.get(at + field.len()..).unwrap_or_default();
                    !rest.starts_with(|c: char| c.is_alphanumeric() || "_(:".contains(c))
                });
                after.any(|is_field| is_field)
            });
            if let Some(field) = field.filter(|_| hands_on) {
                found.push(file.finding(at, format!("{field} is read outside convert")));
            }
        }
    }
    found
}

fn keys_are_spelled_in_one_file(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_source()) {
        let layer = matches!(file.module(), Some("store" | "engine" | "domain"));
        if !layer || file.path == "src/store/keys.rs" {
            continue;
        }
        for (at, line) in file.code_that_ships() {
            let spelled = literals(line).into_iter().find(|text| {
                let parts = text.contains("/{") || text.contains("}/");
                let path = text.starts_with('/') && text.len() > 1;
                path || parts && line.contains("format!")
            });
            if let Some(text) = spelled {
                found.push(file.finding(at, format!("{text:?} looks like a key")));
            }
        }
    }
    found
}

/// The string literals of a line, as they are written.
fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begun = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match (c, begun) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            ('"', None) => begun = Some(at + 1),
            ('"', Some(from)) => {
                found.extend(line.get(from..at));
                begun = None;
            }
            _ => {}
        }
    }
    found
}

fn no_file_is_too_long(files: &[File]) -> Vec<String> {
    let long = |file: &&File| file.is_source() && file.text.lines().count() > LINES_MAX;
    let tell = |file: &File| {
        let lines = file.text.lines().count();
        file.finding(lines, format!("{lines} lines; the most is {LINES_MAX}"))
    };
    files.iter().filter(long).map(tell).collect()
}

fn nothing_is_left_open(files: &[File]) -> Vec<String> {
    // Put together here, so that this file does not find itself.
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("XX", "X:"),
        concat!("#[", "ignore"),
    ];
    let mut found = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.is_rust() || file.path.ends_with(".proto"))
    {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                found.push(file.finding(at + 1, format!("{word} is left open")));
            }
        }
    }
    found
}

fn no_error_is_swallowed_into_internal(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_source()) {
        for (at, line) in file.code_that_ships() {
            let internal = line.contains("Status::internal") || line.contains("Code::Internal");
            let any = ["_ =>", "to_string())", "|_|", "map_err(Status::internal"];
            if internal && any.iter().any(|pattern| line.contains(pattern)) {
                found.push(file.finding(at, "a catch-all; name the errors in the table"));
            }
        }
    }
    found
}

fn nothing_tells_of_one_machine(files: &[File]) -> Vec<String> {
    let places = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
        concat!("/wo", "rk/"),
        concat!("C:", "\\"),
        concat!("index.crates", ".io"),
        concat!("static.crates", ".io"),
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("npmjs", ".org"),
        concat!("proxy.golang", ".org"),
        concat!("arti", "factory"),
        concat!(".inter", "nal/"),
        concat!(".lo", "cal/"),
    ];
    let mut found = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(place) = places.iter().find(|place| line.contains(*place)) {
                found.push(file.finding(at + 1, format!("{place} is a place of one machine")));
            }
        }
    }
    found
}

fn every_test_file_claims_something(files: &[File]) -> Vec<String> {
    let is_test = |file: &&File| {
        let tested = file.path.strip_prefix("tests/").unwrap_or_default();
        let name = tested.rsplit('/').next().unwrap_or_default();
        tested.ends_with(".rs") && name != "main.rs" && file.text.contains("test]\n")
            || tested.starts_with("promises/") && name != "main.rs"
    };
    let claims = ["assert", "prop_assert", "panic!(", "judged(", "replayed("];
    let silent = |file: &&File| !claims.iter().any(|claim| file.text.contains(claim));
    let tell = |file: &File| file.finding(1, "tests without a claim");
    files
        .iter()
        .filter(is_test)
        .filter(silent)
        .map(tell)
        .collect()
}

fn every_promise_is_kept_on_each_version_of_etcd(files: &[File]) -> Vec<String> {
    let Some(script) = files.iter().find(|file| file.path == MATRIX) else {
        return vec![format!("{MATRIX} is missing")];
    };
    let mut found = Vec::new();
    let mut left_out = None;
    for (at, line) in script.text.lines().enumerate() {
        let filters = line.contains("filters=(") || line.contains("filters+=(");
        if filters && !line.contains("=(--skip ") {
            found.push(script.finding(
                at + 1,
                "chooses promises; leave out those that need no etcd",
            ));
        }
        if let Some((names, _)) = line
            .strip_prefix(LEFT_OUT)
            .and_then(|rest| rest.split_once(')'))
        {
            left_out = Some((at + 1, names));
        }
    }
    let Some((at, names)) = left_out else {
        found.push(script.finding(1, format!("{LEFT_OUT}…) is not where it is looked for")));
        return found;
    };
    let promises: Vec<(&str, &File)> = files
        .iter()
        .filter_map(|file| {
            let name = file.path.strip_prefix("tests/promises/")?;
            Some((name.strip_suffix(".rs")?, file))
        })
        .collect();
    for name in names.split_whitespace() {
        match promises.iter().find(|(promise, _)| *promise == name) {
            None => found.push(script.finding(at, format!("there are no promises {name}"))),
            Some((_, file)) if ASKS_ETCD.iter().any(|asks| file.text.contains(asks)) => {
                found.push(script.finding(at, format!("{name} is left out, and asks an etcd")));
            }
            Some(_) => {}
        }
        // They are left out by name, and so is what ends like it.
        let ends_like_it =
            |(promise, _): &&(&str, &File)| *promise != name && promise.ends_with(name);
        for (promise, _) in promises.iter().filter(ends_like_it) {
            found.push(script.finding(at, format!("{promise} is left out with {name}")));
        }
    }
    found
}

fn words_in(
    files: &[File],
    which: impl Fn(&&File) -> bool,
    words: &[&str],
    why: &str,
) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(which) {
        for (at, line) in file.code() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                found.push(file.finding(at, format!("{word}: {why}")));
            }
        }
    }
    found
}

type Rule = fn(&[File]) -> Vec<String>;

/// It finds nothing in the tree, something in each bad sample, and nothing in each good one.
#[track_caller]
fn keeps(rule: Rule, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    let held = |(path, text): &(&str, &str)| rule(&[File::sample(path, text)]);
    for sample in bad {
        assert!(!held(sample).is_empty(), "it does not bite on {sample:?}");
    }
    for sample in good {
        assert_eq!(held(sample), [""; 0], "it bites on {sample:?}");
    }
    let found = rule(&tracked());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn arrows_between_layers_only_go_down() {
    keeps(
        arrows,
        &[
            ("src/domain/a.rs", "use crate::store::Store;"),
            (
                "src/domain/deep/a.rs",
                "let x = super::super::super::engine::Engine;",
            ),
            ("src/store/a.rs", "use crate::engine::{Engine, Fault};"),
            ("src/store/mod.rs", "use super::transport::Door;"),
            (
                "src/engine/a.rs",
                "use crate::{domain::ids, transport::door};",
            ),
            (
                "src/engine/a.rs",
                "use crate::{\n    domain::ids,\n    cli,\n};",
            ),
            ("src/transport/a.rs", "fn f() { crate::server::run() }"),
            ("src/server/a.rs", "pub(crate) use crate::cli::Cli;"),
            ("src/embedded/a.rs", "use crate::domain::ids::Nonce;"),
            ("src/embedded/a.rs", "use crate::proto::v1;"),
            ("src/store/a.rs", "use crate::embedded::Engine;"),
            ("src/drawer.rs", ""),
        ],
        &[
            ("src/engine/a.rs", "use crate::{domain::ids, store::Store};"),
            (
                "src/store/a.rs",
                "// as crate::engine does\nuse super::super::domain::ids;",
            ),
            ("src/server/a.rs", "use crate::embedded::Engine;"),
            ("src/main.rs", "fencepost::cli::main()"),
            ("src/embedded/a.rs", "use super::store::Store;"),
        ],
    );
}

#[test]
fn only_the_store_and_the_embedded_engine_name_the_etcd_client() {
    keeps(
        etcd_client_in_its_place,
        &[
            ("src/server/a.rs", "use etcd_client::Channel;"),
            ("src/main.rs", "fn f(_: etcd_client::Error) {}"),
        ],
        &[
            ("src/store/a.rs", "use etcd_client::Txn;"),
            ("src/lib.rs", "//! Only `store` names `etcd_client`."),
        ],
    );
}

#[test]
fn the_domain_knows_no_runtime_no_network_and_no_clock() {
    keeps(
        the_domain_is_pure,
        &[
            ("src/domain/a.rs", "use tokio::sync::Mutex;"),
            ("src/domain/a.rs", "let now = std::time::SystemTime::now();"),
            ("src/domain/b/c.rs", "Instant::now()"),
            ("src/domain/a.rs", "impl From<E> for tonic::Status {}"),
        ],
        &[("src/engine/a.rs", "use tokio::sync::Mutex;")],
    );
}

#[test]
fn protobuf_fields_are_read_where_requests_are_parsed_and_in_the_commands() {
    keeps(
        protobuf_is_read_in_its_place,
        &[
            ("src/engine/a.rs", "use crate::proto::v1::Decision;"),
            ("src/transport/grpc.rs", "let id = request.operation_id;"),
            ("src/transport/a.rs", "let text = &intent.content;"),
            ("src/server/a.rs", "use crate::proto::v1 as pb;"),
        ],
        &[
            (
                "src/transport/convert/ask.rs",
                "use crate::proto::v1 as pb; a.intent",
            ),
            ("src/cli/a.rs", "use crate::proto::v1::Decision; a.token"),
            (
                "src/server/a.rs",
                "register(crate::proto::v1::FILE_DESCRIPTOR_SET)",
            ),
            ("src/transport/a.rs", "headers.content_type; ask.token()"),
        ],
    );
}

#[test]
fn keys_are_spelled_in_one_file_only() {
    keeps(
        keys_are_spelled_in_one_file,
        &[
            ("src/store/a.rs", r#"let key = format!("{prefix}/{id}");"#),
            ("src/engine/a.rs", r#"get("/fencepost/r")"#),
        ],
        &[
            (
                "src/store/keys.rs",
                r#"let key = format!("{prefix}/{id}");"#,
            ),
            ("src/store/a.rs", r#"let text = "bytes/second";"#),
            ("src/store/a.rs", "#[cfg(test)]\nmod tests { f(\"/x/\") }"),
            ("src/store/tests.rs", r#"f("/fencepost/")"#),
        ],
    );
}

#[test]
fn no_file_has_more_lines_than_can_be_read_at_once() {
    let longest = "\n".repeat(LINES_MAX);
    let longer = "\n".repeat(LINES_MAX + 1);
    keeps(
        no_file_is_too_long,
        &[("src/a.rs", &longer)],
        &[("src/a.rs", &longest), ("Cargo.lock", &longer)],
    );
}

#[test]
fn nothing_is_left_for_later() {
    keeps(
        nothing_is_left_open,
        &[
            ("src/a.rs", concat!("fn f() { todo", "!() }")),
            (
                "src/a.rs",
                concat!("fn f() { unimplemented", "!(\"later\") }"),
            ),
            ("tests/a.rs", concat!("#[", "ignore = \"slow\"]")),
            ("src/a.rs", concat!("// FIX", "ME: later")),
            ("proto/a.proto", concat!("// TO", "DO")),
        ],
        &[("src/a.rs", "fn f() {}")],
    );
}

#[test]
fn no_error_becomes_internal_without_having_been_named() {
    keeps(
        no_error_is_swallowed_into_internal,
        &[
            ("src/transport/a.rs", "_ => Status::internal(\"no\"),"),
            (
                "src/transport/a.rs",
                "Err(e) => Status::internal(e.to_string())",
            ),
            (
                "src/transport/a.rs",
                ".map_err(|_| Status::internal(\"x\"))",
            ),
        ],
        &[(
            "src/transport/a.rs",
            "Fault::Corrupt => (Code::Internal, Reason::Corrupt),",
        )],
    );
}

#[test]
fn no_tracked_file_tells_of_the_machine_it_was_written_on() {
    keeps(
        nothing_tells_of_one_machine,
        &[
            ("README.md", concat!("cd /ho", "me/ann/fencepost")),
            (
                "scripts/a.sh",
                concat!("pip install -i https://pypi", ".org/simple x"),
            ),
            ("a.toml", concat!("url = \"https://index.crates", ".io/\"")),
        ],
        &[("README.md", "cd fencepost && make run")],
    );
}

#[test]
fn every_file_of_tests_claims_something() {
    keeps(
        every_test_file_claims_something,
        &[
            ("tests/a.rs", "#[test]\nfn it_runs() { run(); }"),
            (
                "tests/promises/a.rs",
                "async fn it_runs(backend: Backend) {}",
            ),
        ],
        &[
            (
                "tests/a.rs",
                "#[test]\nfn it_is_one() { assert_eq!(run(), 1); }",
            ),
            ("tests/support/ask.rs", "pub fn ask() {}"),
        ],
    );
}

#[test]
fn every_promise_that_asks_an_etcd_is_kept_on_each_version_of_it() {
    let rule = every_promise_is_kept_on_each_version_of_etcd;
    let tree = |script: &str| {
        let asks = "async fn it_is_so(backend: Backend) { assert!(true); }";
        let samples = [
            (MATRIX, script),
            ("tests/promises/files.rs", "#[test]\nfn it_is_so() {}"),
            ("tests/promises/queue.rs", asks),
            ("tests/promises/spare_files.rs", asks),
            ("tests/promises/words.rs", "#[test]\nfn it_is_so() {}"),
        ];
        samples.map(|(path, text)| File::sample(path, text))
    };
    for bad in [
        "filters=(--skip ::embedded::)",
        "NOT_ETCDS=(words)\nfilters=(queue::)",
        "NOT_ETCDS=(words)\nfilters=(--skip ::embedded::)\nfilters+=(\"$module::real\")",
        "NOT_ETCDS=(words no_more)",
        "NOT_ETCDS=(words queue)",
        "NOT_ETCDS=(files)",
    ] {
        assert!(!rule(&tree(bad)).is_empty(), "it does not bite on {bad:?}");
    }
    let good = "NOT_ETCDS=(words)\nfilters=(--skip ::embedded::)\nfilters+=(--skip \"$module::\")";
    assert_eq!(rule(&tree(good)), [""; 0]);
    let found = rule(&tracked());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
