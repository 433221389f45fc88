//! Flags and environment, checked as a whole before anything is opened.

mod admin_socket;
mod etcd_access;
mod machines;
mod setting;
mod values;
mod variables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::retention::Keeping;
use crate::store::{Login, Prefix, Tls};

pub use admin_socket::admin_socket_path;
pub use machines::{MachineFile, in_directory, read_file, read_source, sound as sound_machines};
use setting::{
    ADMIN_SOCKET, DRAIN_LIMIT, ETCD_ENDPOINTS, ETCD_PREFIX, ETCD_TIMEOUT, ETCD_WAIT, FORGET,
    INCIDENT_RETENTION, LISTEN, LOG_FORMAT, LOG_LEVEL, MACHINES, RETENTION, Reading,
};
pub use setting::{Faults, Setting, Sources};
pub use variables::{told_by_exec as variables_of_exec, unknown as unknown_variables};

/// The settings, by the name that flags and variables share.
pub mod settings {
    pub use super::setting::{
        ADMIN_SOCKET, DRAIN_LIMIT, ETCD_CA, ETCD_CERT, ETCD_ENDPOINTS, ETCD_KEY,
        ETCD_PASSWORD_FILE, ETCD_PREFIX, ETCD_SERVER_NAME, ETCD_TIMEOUT, ETCD_USER, ETCD_WAIT,
        FORGET, INCIDENT_RETENTION, LISTEN, LOG_FORMAT, LOG_LEVEL, MACHINES, RETENTION,
    };
}

/// Everything a sidecar is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where applications reach it; loopback only.
    pub listen: SocketAddr,
    /// Where operators reach it.
    pub admin: AdminSocket,
    /// How long calls under way may take once it stops.
    pub drain_limit: Duration,
    /// How long what is kept.
    pub keeping: Keeping,
    /// Machine files that are put in force at the start; each is sound.
    pub machines: Vec<MachineFile>,
    /// How it logs.
    pub log: Log,
    /// Where decisions are kept.
    pub backend: Backend,
}

/// Where decisions are kept.
#[derive(Clone, Debug)]
pub enum Backend {
    /// In etcd.
    Etcd(Etcd),
    /// In memory: for development, nothing survives.
    Memory,
}

/// How etcd is reached.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// One URL for each member: all with `https://` if there is TLS, else all with `http://`.
    pub endpoints: Vec<String>,
    /// TLS, if it is used.
    pub tls: Option<Tls>,
    /// The user as whom the sidecar logs in, if by password.
    pub login: Option<Login>,
    /// What every key begins with.
    pub prefix: Prefix,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long the start waits for a first answer.
    pub wait: Duration,
}

/// Where operators reach a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSocket {
    /// Where [`admin_socket_path`] says.
    Default,
    /// Here.
    At(PathBuf),
    /// Nowhere.
    None,
}

/// How a sidecar logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// In which form.
    pub format: LogFormat,
    /// What, as directives such as `info` or `fencepost=debug,info`.
    pub level: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

impl Config {
    /// For `serve`.
    pub fn serve(sources: &Sources) -> Result<Self, Faults> {
        let mut reading = Reading::of(sources);
        let endpoints = reading.read(&ETCD_ENDPOINTS, values::endpoints);
        let prefix = reading.read(&ETCD_PREFIX, |text| {
            Prefix::parse(text).map_err(|invalid| invalid.to_string())
        });
        let timeout = reading.read(&ETCD_TIMEOUT, values::etcd_timeout);
        let wait = reading.read(&ETCD_WAIT, values::etcd_wait);
        let tls = etcd_access::tls(&mut reading, endpoints.as_deref());
        let login = etcd_access::login(&mut reading);
        let etcd = match (endpoints, prefix, timeout, wait, tls, login) {
            (Some(endpoints), Some(prefix), Some(timeout), Some(wait), Some(tls), Some(login)) => {
                Some(Etcd {
                    endpoints,
                    tls,
                    login,
                    prefix,
                    timeout,
                    wait,
                })
            }
            _ => None,
        };
        Self::shared(reading, etcd.map(Backend::Etcd))
    }

    /// For `dev`.
    pub fn dev(sources: &Sources) -> Result<Self, Faults> {
        Self::shared(Reading::of(sources), Some(Backend::Memory))
    }

    fn keeping(reading: &mut Reading<'_>) -> Option<Keeping> {
        let operations = reading.read(&RETENTION, values::retention);
        // What is kept beside operations, and for their sake, is kept no shorter.
        let least = operations.unwrap_or_default();
        let incidents = reading.read(&INCIDENT_RETENTION, |text| {
            values::no_shorter_than_retention(text, least)
        });
        let forget = reading.read(&FORGET, |text| values::forget(text, least));
        Some(Keeping {
            operations: operations?,
            incidents: incidents?,
            forget: forget?,
        })
    }

    fn shared(mut reading: Reading<'_>, backend: Option<Backend>) -> Result<Self, Faults> {
        let listen = reading.read(&LISTEN, values::listen);
        let admin = reading.read(&ADMIN_SOCKET, values::admin_socket);
        let drain_limit = reading.read(&DRAIN_LIMIT, values::drain_limit);
        let keeping = Self::keeping(&mut reading);
        let format = reading.read(&LOG_FORMAT, values::log_format);
        let level = reading.read(&LOG_LEVEL, values::log_level);
        let machines = reading.read_all(&MACHINES, machines::sound);
        let read = (
            listen,
            admin,
            drain_limit,
            keeping,
            machines,
            format,
            level,
            backend,
        );
        let (
            Some(listen),
            Some(admin),
            Some(drain_limit),
            Some(keeping),
            Some(machines),
            Some(format),
            Some(level),
            Some(backend),
        ) = read
        else {
            return Err(reading.into_faults());
        };
        Ok(Self {
            listen,
            admin,
            drain_limit,
            keeping,
            machines,
            log: Log { format, level },
            backend,
        })
    }
}
