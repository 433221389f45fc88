//! TLS towards etcd, from files that may change while the sidecar runs.
//!
//! The files are read at the start, and again for each new connection: a certificate that was replaced is used from the next
//! connection on, without a restart and without a clock that looks for it. What cannot be used (a file half-written, a key that
//! does not fit its certificate yet) leaves what was there before in use, and is told once.
//! A connection that is open stays open: TLS looks at certificates only when one is made.

mod connector;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(super) use connector::Connector;

/// Largest file that is read, in bytes. The bundle of all public authorities is a fifth of it.
const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// gRPC is spoken over HTTP/2 only.
const ALPN: &[u8] = b"h2";

/// Where the files lie, and under which name etcd is to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that may vouch for etcd, PEM.
    pub authorities: PathBuf,
    /// The sidecar's own certificate with those between it and its authority, and its key; PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that etcd's certificate must have. Absent: the host of each endpoint.
    pub server_name: Option<String>,
}

/// Which of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// That of the authorities.
    Authorities,
    /// That of the sidecar's certificate.
    Certificate,
    /// That of its key.
    Key,
    /// None: the name that etcd's certificate must have.
    ServerName,
}

/// What is wrong with one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// Which.
    pub file: TlsFile,
    /// Completes the sentence "FILE …".
    pub reason: String,
}

/// TLS towards etcd. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    config: Arc<ClientConfig>,
    /// What it was made of.
    made_of: Read,
    /// What could not be used and was told of already.
    told: Option<Unusable>,
}

/// The bytes of all files at one moment. Never shown: there is a key among them.
#[derive(Clone, PartialEq, Eq)]
struct Read {
    authorities: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Files that cannot be used: by their content, or, where that cannot be read, by what is wrong.
#[derive(PartialEq, Eq)]
enum Unusable {
    Content(Read),
    Unread(Vec<TlsFault>),
}

impl Tls {
    /// Reads and checks the files; all that is wrong with them at once.
    pub fn load(files: TlsFiles) -> Result<Self, Vec<TlsFault>> {
        let mut faults = Vec::new();
        if let Some(name) = &files.server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            faults.push(TlsFault {
                file: TlsFile::ServerName,
                reason: format!("is {name:?}; give a host name or an IP address"),
            });
        }
        let made = Read::now(&files).and_then(|read| Ok((read.config()?, read)));
        let config = made.map_err(|mut unusable| faults.append(&mut unusable));
        match config {
            Ok((config, made_of)) if faults.is_empty() => Ok(Self(Arc::new(Shared {
                files,
                state: Mutex::new(State {
                    config: Arc::new(config),
                    made_of,
                    told: None,
                }),
            }))),
            Ok(_) | Err(()) => Err(faults),
        }
    }

    /// What the next connection is made with. Reads the files, so it may block for as long as a disk does.
    fn for_a_connection(&self) -> Arc<ClientConfig> {
        let files = &self.0.files;
        let read = match Read::now(files) {
            Ok(read) => read,
            Err(faults) => {
                let unread = Unusable::Unread(faults.clone());
                return self.lock().unusable(files, unread, &faults);
            }
        };
        let mut state = self.lock();
        if read == state.made_of {
            return Arc::clone(&state.config);
        }
        match read.config() {
            Ok(config) => {
                state.config = Arc::new(config);
                state.made_of = read;
                state.told = None;
                tracing::info!("the TLS files for etcd were replaced; new connections use them");
                Arc::clone(&state.config)
            }
            Err(faults) => state.unusable(files, Unusable::Content(read), &faults),
        }
    }

    /// The name that etcd's certificate must have, for an endpoint with this host.
    fn name_for(&self, host: &str) -> Result<ServerName<'static>, String> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.0.files.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name)
            .map(|name| name.to_owned())
            .map_err(|_| format!("{name:?} is neither a host name nor an IP address"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells of files that cannot be used, once for each content or fault, and stays with what there is.
    fn unusable(
        &mut self,
        files: &TlsFiles,
        unusable: Unusable,
        faults: &[TlsFault],
    ) -> Arc<ClientConfig> {
        if self.told.as_ref() == Some(&unusable) {
            return Arc::clone(&self.config);
        }
        self.told = Some(unusable);
        for TlsFault { file, reason } in faults {
            let path = file.path(files).map(|path| path.display().to_string());
            let path = path.unwrap_or_default();
            tracing::warn!(
                file = path,
                reason,
                "a TLS file for etcd cannot be used; what was read before stays in use"
            );
        }
        Arc::clone(&self.config)
    }
}

impl TlsFile {
    fn path(self, files: &TlsFiles) -> Option<&Path> {
        let identity = files.identity.as_ref();
        match self {
            Self::Authorities => Some(&files.authorities),
            Self::Certificate => identity.map(|(certificate, _)| certificate.as_path()),
            Self::Key => identity.map(|(_, key)| key.as_path()),
            Self::ServerName => None,
        }
    }
}

impl Read {
    fn now(files: &TlsFiles) -> Result<Self, Vec<TlsFault>> {
        let mut faults = Vec::new();
        let mut read = |file: TlsFile| {
            let path = file.path(files)?;
            read_file(path)
                .map_err(|reason| faults.push(TlsFault { file, reason }))
                .ok()
        };
        let authorities = read(TlsFile::Authorities);
        let identity = files.identity.as_ref().map(|_| {
            let both = (read(TlsFile::Certificate), read(TlsFile::Key));
            both.0.zip(both.1)
        });
        match (authorities, identity) {
            (Some(authorities), None) => Ok(Self {
                authorities,
                identity: None,
            }),
            (Some(authorities), Some(Some(identity))) => Ok(Self {
                authorities,
                identity: Some(identity),
            }),
            (None, _) | (Some(_), Some(None)) => Err(faults),
        }
    }

    fn config(&self) -> Result<ClientConfig, Vec<TlsFault>> {
        let mut faults = Vec::new();
        let mut fault = |file, reason: String| faults.push(TlsFault { file, reason });
        let mut roots = RootCertStore::empty();
        match certificates(&self.authorities) {
            Ok(authorities) => {
                for authority in authorities {
                    if let Err(error) = roots.add(authority) {
                        fault(
                            TlsFile::Authorities,
                            format!("has a certificate that cannot be used: {error}"),
                        );
                    }
                }
            }
            Err(reason) => fault(TlsFile::Authorities, reason),
        }
        let identity = self.identity.as_ref().and_then(|(certificate, key)| {
            let chain = certificates(certificate)
                .map_err(|reason| fault(TlsFile::Certificate, reason))
                .ok();
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| fault(TlsFile::Key, "has no private key in PEM form".to_owned()))
                .ok();
            chain.zip(key)
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| vec![TlsFault::of(TlsFile::Authorities, &error)])?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => config
                .with_client_auth_cert(chain, key)
                .map_err(|error| vec![TlsFault::of(TlsFile::Key, &error)])?,
        };
        config.alpn_protocols.push(ALPN.to_vec());
        Ok(config)
    }
}

impl TlsFault {
    fn of(file: TlsFile, error: &tokio_rustls::rustls::Error) -> Self {
        let reason = if matches!(error, tokio_rustls::rustls::Error::InconsistentKeys(_)) {
            "is not the key of the certificate".to_owned()
        } else {
            format!("cannot be used: {error}")
        };
        Self { file, reason }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("is {shown}, which cannot be read: {error}");
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(TLS_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length > TLS_FILE_BYTES_MAX {
        return Err(format!(
            "is {shown}, which is larger than {TLS_FILE_BYTES_MAX} bytes"
        ));
    }
    Ok(bytes)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("has no certificate in PEM form".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("is damaged: {error}")),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.0.files).finish()
    }
}
