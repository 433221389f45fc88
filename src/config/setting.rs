//! A setting is a flag, a variable and a default. Flags win over variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its flag.
    pub flag: &'static str,
    /// Its environment variable.
    pub variable: &'static str,
    /// What it is otherwise.
    pub default: &'static str,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $flag:literal, $variable:literal, $default:literal;)*) => {
        $($(#[$doc])* pub const $name: Setting = Setting {
            flag: $flag,
            variable: $variable,
            default: $default,
        };)*
        /// Every variable that `serve` and `dev` read.
        pub(super) const VARIABLES: &[&str] = &[$($variable),*];
    };
}

settings! {
    /// Where applications reach the sidecar.
    LISTEN: "--listen", "FENCEPOST_LISTEN", "127.0.0.1:7411";
    /// The members of etcd.
    ETCD_ENDPOINTS: "--etcd-endpoints", "FENCEPOST_ETCD_ENDPOINTS", "http://127.0.0.1:2379";
    /// What every key begins with.
    ETCD_PREFIX: "--etcd-prefix", "FENCEPOST_ETCD_PREFIX", "/fencepost/";
    /// How long one call to etcd may take.
    ETCD_TIMEOUT: "--etcd-timeout", "FENCEPOST_ETCD_TIMEOUT", "5s";
    /// Certificates of the authorities that may vouch for etcd.
    ETCD_CA: "--etcd-ca", "FENCEPOST_ETCD_CA", "";
    /// The sidecar's certificate towards etcd.
    ETCD_CERT: "--etcd-cert", "FENCEPOST_ETCD_CERT", "";
    /// The key of that certificate.
    ETCD_KEY: "--etcd-key", "FENCEPOST_ETCD_KEY", "";
    /// The name that etcd's certificate must have.
    ETCD_SERVER_NAME: "--etcd-server-name", "FENCEPOST_ETCD_SERVER_NAME", "";
    /// As whom the sidecar logs in to etcd.
    ETCD_USER: "--etcd-user", "FENCEPOST_ETCD_USER", "";
    /// Where the password of that user lies.
    ETCD_PASSWORD_FILE: "--etcd-password-file", "FENCEPOST_ETCD_PASSWORD_FILE", "";
    /// How long the start waits for etcd.
    ETCD_WAIT: "--etcd-wait", "FENCEPOST_ETCD_WAIT", "30s";
    /// How long the stop waits for calls under way.
    DRAIN_LIMIT: "--drain-limit", "FENCEPOST_DRAIN_LIMIT", "10s";
    /// Where operators reach the sidecar.
    ADMIN_SOCKET: "--admin-socket", "FENCEPOST_ADMIN_SOCKET", "";
    /// How long finished operations are replayable.
    RETENTION: "--retention", "FENCEPOST_RETENTION", "96h";
    /// How long incidents are kept.
    INCIDENT_RETENTION: "--incident-retention", "FENCEPOST_INCIDENT_RETENTION", "30d";
    /// After how long untouched a resource is forgotten.
    FORGET: "--forget", "FENCEPOST_FORGET", "never";
    /// The directory of machine files that are put in force at the start.
    MACHINES: "--machines", "FENCEPOST_MACHINES", "";
    /// The form of log lines.
    LOG_FORMAT: "--log-format", "FENCEPOST_LOG_FORMAT", "text";
    /// What is logged.
    LOG_LEVEL: "--log-level", "FENCEPOST_LOG_LEVEL", "info";
}

/// What was given.
#[derive(Debug, Default)]
pub struct Sources {
    flags: Vec<(Setting, String)>,
    environment: BTreeMap<OsString, OsString>,
}

impl Sources {
    /// The flags of a command line, and an environment.
    pub fn new(
        flags: impl IntoIterator<Item = (Setting, Option<String>)>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        Self {
            flags: flags
                .into_iter()
                .filter_map(|(setting, given)| given.map(|text| (setting, text)))
                .collect(),
            environment: environment.into_iter().collect(),
        }
    }

    /// The environment.
    pub fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    /// The value of a setting, and who says so. A variable that is set but empty counts as absent: that is how templates
    /// say "not set".
    fn get(&self, setting: &Setting) -> Result<(&'static str, &str), Fault> {
        let flag = self.flags.iter().find(|(given, _)| given == setting);
        if let Some((_, text)) = flag {
            return Ok((setting.flag, text));
        }
        let variable = self.environment.get(&OsString::from(setting.variable));
        match variable.filter(|value| !value.is_empty()) {
            Some(value) => match value.to_str() {
                Some(text) => Ok((setting.variable, text)),
                None => Err(Fault {
                    source: setting.variable,
                    reason: "is not UTF-8".to_owned(),
                }),
            },
            None => Ok((setting.flag, setting.default)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    source: &'static str,
    reason: String,
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = match self.0.len() {
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        write!(f, "{problems} in the configuration; nothing was started")?;
        let width = self.0.iter().map(|fault| fault.source.len()).max();
        for fault in &self.0 {
            write!(
                f,
                "\n  {:width$}  {}",
                fault.source,
                fault.reason,
                width = width.unwrap_or(0)
            )?;
        }
        Ok(())
    }
}

/// Reads settings one by one and goes on after a fault, so that all are reported at once.
pub(super) struct Reading<'a> {
    sources: &'a Sources,
    faults: Vec<Fault>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(sources: &'a Sources) -> Self {
        Self {
            sources,
            faults: Vec::new(),
        }
    }

    pub(super) fn read<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let read = self
            .sources
            .get(setting)
            .and_then(|(source, text)| parse(text).map_err(|reason| Fault { source, reason }));
        match read {
            Ok(value) => Some(value),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    /// As `read`, of what may have several faults.
    pub(super) fn read_all<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, Vec<String>>,
    ) -> Option<T> {
        let (source, text) = match self.sources.get(setting) {
            Ok(got) => got,
            Err(fault) => {
                self.faults.push(fault);
                return None;
            }
        };
        let faults = |reason| Fault { source, reason };
        parse(text)
            .map_err(|reasons| self.faults.extend(reasons.into_iter().map(faults)))
            .ok()
    }

    /// Notes what is wrong with settings together, and whoever gave the one that is to blame.
    pub(super) fn fault(&mut self, setting: &Setting, reason: impl Into<String>) {
        let source = self
            .sources
            .get(setting)
            .map_or(setting.flag, |(source, _)| source);
        self.faults.push(Fault {
            source,
            reason: reason.into(),
        });
    }

    pub(super) fn into_faults(self) -> Faults {
        Faults(self.faults)
    }
}
