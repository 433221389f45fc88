//! On what it was measured.

use std::path::Path;
use std::process::Command;

use crate::Bench;
use crate::report::Setting;

pub(crate) fn of(bench: &Bench) -> Setting {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    Setting {
        quick: bench.quick,
        rounds: bench.effort.rounds,
        connections: bench.connections,
        cpus,
        processor: model.to_owned(),
        kernel: said("uname", &["-r"]),
        file_system: file_system(&bench.data),
        etcd: said("etcd", &["--version"]),
        redis: said("redis-server", &["--version"]),
        postgres: said("psql", &["--version"]),
    }
}

/// The kind of the file system that a path lies on.
pub(crate) fn file_system(path: &Path) -> String {
    said("stat", &["-f", "-c", "%T", &path.to_string_lossy()])
}

/// The first line of what a program says.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.unwrap_or_default();
    let line = line.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        format!("no {program}")
    } else {
        line.to_owned()
    }
}
