//! What is measured and what it runs on: each a process of its own, on loopback or a socket, with its data below one
//! directory on one disk.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::child::{Ending, Process, as_user};

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often it is asked meanwhile.
const ASK: Duration = Duration::from_millis(20);
/// How often the ready line of a sidecar is looked for; its start is measured.
const ASK_SIDECAR: Duration = Duration::from_micros(500);
/// etcd refuses writes beyond this many bytes; the default is too small for a million records and their history.
const ETCD_QUOTA_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Where Debian keeps the versions of PostgreSQL.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";
/// PostgreSQL refuses to run as root; its Debian package makes this user.
const POSTGRES_USER: &str = "postgres";

/// A member of etcd, as it comes: every write is flushed to the disk.
pub(crate) struct Etcd {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl Etcd {
    pub(crate) async fn start(data: &Path, name: &str) -> Outcome<Self> {
        let peer = free_url()?;
        let mut etcd = Self::launch(data, name, [&peer, &peer], &format!("{name}={peer}"))?;
        etcd.ready().await?;
        Ok(etcd)
    }

    /// Starts a member that its peers reach at the second of these addresses.
    pub(crate) fn launch(
        data: &Path,
        name: &str,
        [listens, advertised]: [&str; 2],
        members: &str,
    ) -> Outcome<Self> {
        let url = free_url()?;
        let arguments = [
            format!("--name={name}"),
            format!("--data-dir={}", data.join(name).display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={listens}"),
            format!("--initial-advertise-peer-urls={advertised}"),
            format!("--initial-cluster={members}"),
            format!("--quota-backend-bytes={ETCD_QUOTA_BYTES}"),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let log = data.join(format!("log-{name}"));
        let program = found("etcd", &[])?;
        Ok(Self {
            process: Process::start(&program, &arguments, None, &log, Ending::Terminate)?,
            url,
        })
    }

    /// Waits until it answers.
    pub(crate) async fn ready(&mut self) -> Outcome<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            self.process
                .check_runs()
                .map_err(|error| format!("etcd: {error}"))?;
            // A linearizable read: only a member with a leader answers it.
            if let Ok(mut client) = self.client().await
                && client.get("ready", None).await.is_ok()
            {
                return Ok(());
            }
            not_yet("etcd", give_up, &self.process)?;
            tokio::time::sleep(ASK).await;
        }
    }

    pub(crate) async fn client(&self) -> Outcome<etcd_client::Client> {
        Ok(etcd_client::Client::connect([&self.url], None).await?)
    }
}

/// A sidecar: the release binary beside this one.
pub(crate) struct Sidecar {
    pub(crate) process: Process,
    pub(crate) address: String,
    /// From its start to its ready line.
    pub(crate) ready_after: Duration,
}

impl Sidecar {
    pub(crate) async fn start(data: &Path, etcd: &Etcd, prefix: &str) -> Outcome<Self> {
        Self::start_at(data, &etcd.url, prefix).await
    }

    /// On an etcd that is reached there.
    pub(crate) async fn start_at(data: &Path, etcd: &str, prefix: &str) -> Outcome<Self> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let arguments = [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--etcd-endpoints={etcd}"),
            format!("--etcd-prefix={prefix}"),
            format!(
                "--admin-socket={}",
                data.join(format!("{}.sock", &unique[..8])).display()
            ),
        ];
        let log = data.join(format!("log-sidecar-{unique}"));
        let begun = Instant::now();
        let mut process =
            Process::start(&Self::program()?, &arguments, None, &log, Ending::Terminate)?;
        let give_up = begun + READY_WITHIN;
        loop {
            let said = process.stdout();
            let ready = said.lines().find_map(|line| line.strip_prefix("ready on "));
            if let Some(address) = ready {
                return Ok(Self {
                    address: address.trim().to_owned(),
                    ready_after: begun.elapsed(),
                    process,
                });
            }
            process
                .check_runs()
                .map_err(|error| format!("fencepost: {error}"))?;
            not_yet("fencepost", give_up, &process)?;
            tokio::time::sleep(ASK_SIDECAR).await;
        }
    }

    /// The binary that is measured.
    pub(crate) fn program() -> Outcome<PathBuf> {
        let path = std::env::current_exe()?.with_file_name("fencepost");
        if path.is_file() {
            Ok(path)
        } else {
            Err(format!("{} is missing; `make bench` builds it", path.display()).into())
        }
    }
}

/// Redis that acknowledges only what it has flushed.
pub(crate) struct Redis {
    pub(crate) process: Process,
    pub(crate) client: redis::Client,
}

impl Redis {
    pub(crate) async fn start(data: &Path) -> Outcome<Self> {
        let directory = data.join("redis");
        std::fs::create_dir(&directory)?;
        let port = free_port()?;
        let arguments = [
            ["--port", &port.to_string()],
            ["--bind", "127.0.0.1"],
            ["--dir", &directory.to_string_lossy()],
            ["--appendonly", "yes"],
            ["--appendfsync", "always"],
            // The log is what makes it durable; snapshots beside it would only disturb.
            ["--save", ""],
        ]
        .concat()
        .iter()
        .map(|text| (*text).to_owned())
        .collect::<Vec<_>>();
        let program = found("redis-server", &[])?;
        let log = data.join("log-redis");
        let mut redis = Self {
            process: Process::start(&program, &arguments, None, &log, Ending::Terminate)?,
            client: redis::Client::open(format!("redis://127.0.0.1:{port}/"))?,
        };
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            redis
                .process
                .check_runs()
                .map_err(|error| format!("redis-server: {error}"))?;
            if redis
                .client
                .get_multiplexed_async_connection()
                .await
                .is_ok()
            {
                return Ok(redis);
            }
            not_yet("redis-server", give_up, &redis.process)?;
            tokio::time::sleep(ASK).await;
        }
    }
}

/// PostgreSQL whose commits are flushed before they are answered, reached through its socket.
pub(crate) struct Postgres {
    pub(crate) process: Process,
    config: tokio_postgres::Config,
}

impl Postgres {
    pub(crate) async fn start(data: &Path) -> Outcome<Self> {
        let directory = data.join("postgres");
        std::fs::create_dir(&directory)?;
        let user = if is_root()? {
            run(Command::new("chown").arg(POSTGRES_USER).arg(&directory))?;
            Some(POSTGRES_USER)
        } else {
            None
        };
        let cluster = directory.join("cluster");
        let mut initdb = Command::new("setpriv");
        if let Some(user) = user {
            initdb.args(as_user(user));
        }
        initdb
            .arg(postgres_program("initdb")?)
            .args([
                "--auth=trust",
                "--username=bench",
                "--encoding=UTF8",
                "--no-locale",
                "-D",
            ])
            .arg(&cluster)
            .current_dir(&directory);
        run(&mut initdb)?;
        let arguments = [
            "-D".to_owned(),
            cluster.display().to_string(),
            "-k".to_owned(),
            directory.display().to_string(),
            "-c".to_owned(),
            // No port at all: what is measured is reached by its socket.
            "listen_addresses=".to_owned(),
            "-c".to_owned(),
            "synchronous_commit=on".to_owned(),
            "-c".to_owned(),
            "fsync=on".to_owned(),
            "-c".to_owned(),
            "shared_buffers=256MB".to_owned(),
            "-c".to_owned(),
            // A checkpoint in the middle of a round would measure the checkpoint.
            "max_wal_size=4GB".to_owned(),
        ];
        let log = data.join("log-postgres");
        let program = postgres_program("postgres")?;
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(&directory)
            .user("bench")
            .dbname("postgres");
        let mut postgres = Self {
            process: Process::start(&program, &arguments, user, &log, Ending::Interrupt)?,
            config,
        };
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            postgres
                .process
                .check_runs()
                .map_err(|error| format!("postgres: {error}"))?;
            if postgres.client().await.is_ok() {
                return Ok(postgres);
            }
            not_yet("postgres", give_up, &postgres.process)?;
            tokio::time::sleep(ASK).await;
        }
    }

    /// A connection of its own.
    pub(crate) async fn client(&self) -> Outcome<tokio_postgres::Client> {
        let (client, connection) = self.config.connect(tokio_postgres::NoTls).await?;
        // It ends with the client; what goes wrong on it shows in the client's calls.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

fn not_yet(name: &str, give_up: Instant, process: &Process) -> Outcome<()> {
    if Instant::now() < give_up {
        return Ok(());
    }
    let waited = READY_WITHIN.as_secs();
    Err(format!(
        "{name} did not get ready within {waited} s:\n{}",
        process.logs()
    )
    .into())
}

/// An address that was free a moment ago.
pub(crate) fn free_url() -> Outcome<String> {
    Ok(format!("http://127.0.0.1:{}", free_port()?))
}

/// A port that was free a moment ago.
fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_root() -> Outcome<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

fn run(command: &mut Command) -> Outcome<()> {
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(format!("{command:?} failed ({}):\n{said}", done.status).into())
}

fn postgres_program(name: &str) -> Outcome<PathBuf> {
    let versions = std::fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten();
    let mut directories: Vec<PathBuf> = versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    directories.sort();
    directories.reverse();
    found(name, &directories)
}

/// A program, in PATH or in one of these directories.
fn found(name: &str, beside: &[PathBuf]) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path)
        .chain(beside.iter().cloned())
        .map(|directory| directory.join(name));
    candidates
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| format!("there is no {name} here; `make bench` installs it").into())
}
