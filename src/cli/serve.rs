//! `serve` and `dev`: the sidecar itself.

use std::process::ExitCode;

use clap::Args;
use tracing::warn;

use super::output;
use crate::config::{Config, Faults, Setting, Sources, settings, unknown_variables};
use crate::observe::{logs, panics};
use crate::server;

/// The sidecar could not start, or broke down.
pub(super) const EXIT_FAILED: u8 = 1;
/// The configuration is wrong; `EX_CONFIG` of `sysexits.h`.
const EXIT_CONFIG: u8 = 78;

// Values are taken as text and checked together, so that every fault is reported at once, whichever source it comes from.

/// Runs on etcd.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// URLs of the etcd members, separated by commas [env: FENCEPOST_ETCD_ENDPOINTS] [default: http://127.0.0.1:2379]
    #[arg(long, value_name = "URLS")]
    etcd_endpoints: Option<String>,
    /// What every key in etcd begins with [env: FENCEPOST_ETCD_PREFIX] [default: /fencepost/]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,
    /// How long one call to etcd may take [env: FENCEPOST_ETCD_TIMEOUT] [default: 5s]
    #[arg(long, value_name = "DURATION")]
    etcd_timeout: Option<String>,
    /// PEM file of the authorities that may vouch for etcd; with it, URLs begin with https:// [env: FENCEPOST_ETCD_CA]
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<String>,
    /// PEM file of the sidecar's certificate towards etcd; read again for each connection [env: FENCEPOST_ETCD_CERT]
    #[arg(long, value_name = "FILE")]
    etcd_cert: Option<String>,
    /// PEM file of that certificate's key [env: FENCEPOST_ETCD_KEY]
    #[arg(long, value_name = "FILE")]
    etcd_key: Option<String>,
    /// Name that etcd's certificate must have [env: FENCEPOST_ETCD_SERVER_NAME] [default: the host of each URL]
    #[arg(long, value_name = "NAME")]
    etcd_server_name: Option<String>,
    /// User as whom the sidecar logs in to etcd [env: FENCEPOST_ETCD_USER]
    #[arg(long, value_name = "USER")]
    etcd_user: Option<String>,
    /// File with that user's password; read again for each login [env: FENCEPOST_ETCD_PASSWORD_FILE]
    #[arg(long, value_name = "FILE")]
    etcd_password_file: Option<String>,
    /// How long the start waits for etcd [env: FENCEPOST_ETCD_WAIT] [default: 30s]
    #[arg(long, value_name = "DURATION")]
    etcd_wait: Option<String>,
    #[command(flatten)]
    sidecar: SidecarArgs,
}

/// Runs on a store in memory.
#[derive(Clone, Debug, Args)]
pub struct DevArgs {
    #[command(flatten)]
    sidecar: SidecarArgs,
}

#[derive(Clone, Debug, Args)]
struct SidecarArgs {
    /// Loopback address and port for applications; port 0 takes a free one [env: FENCEPOST_LISTEN] [default: 127.0.0.1:7411]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Socket for operators, or `none` [env: FENCEPOST_ADMIN_SOCKET] [default: fencepost-PORT.sock in $XDG_RUNTIME_DIR or in
    /// /tmp/fencepost-UID]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// How long calls under way may take once the sidecar stops [env: FENCEPOST_DRAIN_LIMIT] [default: 10s]
    #[arg(long, value_name = "DURATION")]
    drain_limit: Option<String>,
    /// How long finished operations are replayable; no shorter than any sender goes on sending, 1m to 10 years
    /// [env: FENCEPOST_RETENTION] [default: 96h]
    #[arg(long, value_name = "DURATION")]
    retention: Option<String>,
    /// How long incidents are kept, open ones too; not shorter than --retention [env: FENCEPOST_INCIDENT_RETENTION]
    /// [default: 30d]
    #[arg(long, value_name = "DURATION")]
    incident_retention: Option<String>,
    /// After how long untouched a resource that has a state is forgotten, or `never`; not shorter than --retention
    /// [env: FENCEPOST_FORGET] [default: never]
    #[arg(long, value_name = "DURATION")]
    forget: Option<String>,
    /// Directory of machine files to put in force at the start, each *.yaml and *.yml in it; a lower version than the one in
    /// force is ignored [env: FENCEPOST_MACHINES] [default: none]
    #[arg(long, value_name = "DIR")]
    machines: Option<String>,
    /// Form of the log: text or json [env: FENCEPOST_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What is logged, such as debug or fencepost=debug,info [env: FENCEPOST_LOG_LEVEL] [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl SidecarArgs {
    fn flags(self) -> [(Setting, Option<String>); 9] {
        [
            (settings::LISTEN, self.listen),
            (settings::ADMIN_SOCKET, self.admin_socket),
            (settings::DRAIN_LIMIT, self.drain_limit),
            (settings::RETENTION, self.retention),
            (settings::INCIDENT_RETENTION, self.incident_retention),
            (settings::FORGET, self.forget),
            (settings::MACHINES, self.machines),
            (settings::LOG_FORMAT, self.log_format),
            (settings::LOG_LEVEL, self.log_level),
        ]
    }
}

/// Runs on etcd.
pub async fn serve(args: ServeArgs) -> ExitCode {
    let etcd = [
        (settings::ETCD_ENDPOINTS, args.etcd_endpoints),
        (settings::ETCD_PREFIX, args.etcd_prefix),
        (settings::ETCD_TIMEOUT, args.etcd_timeout),
        (settings::ETCD_CA, args.etcd_ca),
        (settings::ETCD_CERT, args.etcd_cert),
        (settings::ETCD_KEY, args.etcd_key),
        (settings::ETCD_SERVER_NAME, args.etcd_server_name),
        (settings::ETCD_USER, args.etcd_user),
        (settings::ETCD_PASSWORD_FILE, args.etcd_password_file),
        (settings::ETCD_WAIT, args.etcd_wait),
    ];
    run(etcd.into_iter().chain(args.sidecar.flags()), Config::serve).await
}

/// Runs on a store in memory.
pub async fn dev(args: DevArgs) -> ExitCode {
    run(args.sidecar.flags(), Config::dev).await
}

async fn run(
    flags: impl IntoIterator<Item = (Setting, Option<String>)>,
    read: fn(&Sources) -> Result<Config, Faults>,
) -> ExitCode {
    let sources = Sources::new(flags, std::env::vars_os());
    let config = match read(&sources) {
        Ok(config) => config,
        Err(faults) => {
            output::say(&format!("fencepost: {faults}\n"));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if let Err(error) = logs::start(&config.log) {
        output::say(&format!("fencepost: cannot log: {error}\n"));
        return ExitCode::from(EXIT_FAILED);
    }
    panics::abort_on_panic();
    for warning in unknown_variables(sources.environment()) {
        warn!("{warning}");
    }
    match server::run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("fencepost: {error}\n"));
            ExitCode::from(if error.is_misconfigured() {
                EXIT_CONFIG
            } else {
                EXIT_FAILED
            })
        }
    }
}
