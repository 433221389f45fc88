//! Measures Fencepost beside what its users would pick instead. `make bench` builds and runs it; docs/performance.md says
//! what each row does.
#![allow(
    clippy::disallowed_methods,
    reason = "a stopwatch is what this is; nothing here outlives a suspend"
)]

mod child;
mod cluster;
mod drive;
mod line;
mod ours;
mod pair;
mod peers;
mod report;
mod requests;
mod rows;
mod servers;
mod setting;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use drive::Span;
use pair::Effort;
use report::{Line, Report};
use servers::{Etcd, Sidecar};
use work::Fresh;

/// What failed, in words.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Where the data of all servers goes unless told otherwise: a disk, where `/tmp` is often memory.
const DATA_DEFAULT: &str = "/var/tmp";
/// How many lines of a sidecar's log are shown when something went wrong.
const LOG_LINES_SHOWN: usize = 20;

const FULL: Effort = Effort {
    rounds: 5,
    span: Span {
        warm_up: Duration::from_millis(500),
        measured: Duration::from_millis(1_500),
    },
};
const QUICK: Effort = Effort {
    rounds: 3,
    span: Span {
        warm_up: Duration::from_millis(200),
        measured: Duration::from_millis(500),
    },
};

/// Measures Fencepost beside what its users would pick instead.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Only these rows.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Row>,
    /// Short turns, few rounds, less stored: to see that all works, not to quote.
    #[arg(long)]
    quick: bool,
    /// How many seconds the row `holds` holds, instead of its own time.
    #[arg(long)]
    held_seconds: Option<u64>,
    /// Connections from the callers to the sidecar, and as many to etcd and Redis by hand.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// The directory, on a real disk, below which all servers keep their data.
    #[arg(long, default_value = DATA_DEFAULT)]
    data: PathBuf,
    /// Where the JSON goes.
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// Transition beside one etcd transaction a call, at 1, 8, 64, 256 callers.
    Transition,
    /// Transition beside a Lua script on Redis.
    Redis,
    /// Transition beside a transaction on PostgreSQL.
    Postgres,
    /// One hot resource beside compare-and-swap on one key.
    Hot,
    /// One caller beside one raw etcd transaction.
    Single,
    /// Replay beside a linearizable get.
    Replay,
    /// Reserve and Release beside lease, put, delete, revoke.
    Hold,
    /// A busy resource handed on with many who wait: requests to etcd, latency.
    HandOff,
    /// Many reservations held for long: losses, memory, CPU.
    Holds,
    /// The same through a member that does not lead, 1 ms away from the one that does.
    HoldsApart,
    /// The line to etcd cut: how long until holders hear of their loss.
    Loss,
    /// Transition beside nested transactions straight to etcd.
    Ceiling,
    /// Fence and Renew.
    Fence,
    /// Memory, threads, CPU and writes when idle, start.
    Footprint,
    /// At 10 thousand, 100 thousand and 1 million stored operations.
    Growth,
    /// Where the time of one Transition goes.
    Breakdown,
}

/// What every row needs.
struct Bench {
    quick: bool,
    held_for: Option<Duration>,
    effort: Effort,
    connections: usize,
    data: PathBuf,
    /// Resources that no row has used yet.
    fresh: Fresh,
    // Above `etcd`: it goes first.
    sidecar: Sidecar,
    etcd: Etcd,
}

impl Bench {
    async fn ours(&self) -> Outcome<ours::Connections> {
        ours::Connections::open(&self.sidecar.address, self.connections).await
    }

    async fn by_etcd(&self) -> Outcome<peers::by_etcd::Connections> {
        peers::by_etcd::Connections::open(&self.etcd.url, self.connections, "/by-hand/").await
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Processes are started by this future, which stays on the main thread; see `child`.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be started");
    match runtime.block_on(measure_unless_told_to_stop(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Told to stop, it still ends what it started and removes what it wrote.
async fn measure_unless_told_to_stop(arguments: &Arguments) -> Outcome<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        measured = measure(arguments) => measured,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminated.recv() => Err("told to stop".into()),
    }
}

async fn measure(arguments: &Arguments) -> Outcome<()> {
    if arguments.connections == 0 {
        return Err("--connections is 0; the least is 1".into());
    }
    let begun = Instant::now();
    let directory = data_directory(&arguments.data)?;
    let data = directory.path().to_owned();
    let etcd = Etcd::start(&data, "etcd").await?;
    let bench = Bench {
        quick: arguments.quick,
        held_for: arguments.held_seconds.map(Duration::from_secs),
        effort: if arguments.quick { QUICK } else { FULL },
        connections: arguments.connections,
        sidecar: Sidecar::start(&data, &etcd, "/fencepost/").await?,
        data,
        fresh: Fresh::default(),
        etcd,
    };
    let mut lines = Vec::new();
    for row in Row::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(row) {
            continue;
        }
        let name = format!("{row:?}").to_lowercase();
        eprintln!("bench: {name} …");
        let measured = rows::run(*row, &bench, &mut lines).await;
        measured.map_err(|error| {
            let logs = bench.sidecar.process.logs();
            let all: Vec<&str> = logs.lines().collect();
            let last = all.len().saturating_sub(LOG_LINES_SHOWN);
            let shown = all[last..].join("\n");
            format!("{name}: {error}\nthe sidecar's log ends with:\n{shown}")
        })?;
        bench_stays_up(&bench)?;
    }
    let report = Report {
        setting: setting::of(&bench),
        lines,
        seconds: begun.elapsed().as_secs_f64(),
    };
    report.print()?;
    report.write_json(&arguments.json)
}

/// A sidecar that complained, or left, has not been measured well, even if every call was answered.
fn bench_stays_up(bench: &Bench) -> Outcome<()> {
    let logs = bench.sidecar.process.logs();
    // What is known against this version of etcd is told at the start, and has nothing to do with what is measured.
    let of_version = |line: &&str| !line.contains("fencepost::server::etcd_version");
    let complaint = logs.lines().filter(of_version).find(|line| {
        [" WARN ", " ERROR "]
            .iter()
            .any(|level| line.contains(level))
    });
    match complaint {
        Some(complaint) => Err(format!("the sidecar complained: {complaint}").into()),
        None => Ok(()),
    }
}

/// A directory of its own, on a real disk, that every user may pass through: PostgreSQL runs as another one.
fn data_directory(below: &Path) -> Outcome<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let kind = setting::file_system(below);
    if matches!(kind.as_str(), "tmpfs" | "ramfs") {
        return Err(format!(
            "{} is in memory ({kind}), where a flush costs nothing; name a directory on a disk by --data",
            below.display()
        )
        .into());
    }
    let directory = tempfile::Builder::new()
        .prefix("fencepost-bench-")
        .tempdir_in(below)?;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// Rows push their lines here as they come, and say them.
fn push(lines: &mut Vec<Line>, line: Line) {
    eprintln!("bench:   {}", line.brief());
    lines.push(line);
}
