//! Certificates for one test, in a directory of its own.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, and where its certificate lies.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let directory = TempDir::with_prefix("fencepost-tls-").unwrap();
        let authority = Self { issuer, directory };
        std::fs::write(authority.path("ca.pem"), authority.pem()).unwrap();
        authority
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names, for a subject of this common name.
    pub(crate) fn identity(&self, common_name: &str, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A file in its directory.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Writes a certificate and its key as `<name>.pem` and `<name>.key`.
    pub(crate) fn write(&self, name: &str, identity: &Identity) -> (PathBuf, PathBuf) {
        let certificate = self.path(&format!("{name}.pem"));
        let key = self.path(&format!("{name}.key"));
        std::fs::write(&certificate, &identity.certificate).unwrap();
        std::fs::write(&key, &identity.key).unwrap();
        (certificate, key)
    }

    /// The flags of an etcd that shows a certificate for these names, and takes whoever comes.
    pub(crate) fn open_etcd_flags(&self, names: &[&str]) -> Vec<String> {
        let (certificate, key) = self.write("etcd", &self.identity("etcd", names));
        vec![
            format!("--cert-file={}", certificate.display()),
            format!("--key-file={}", key.display()),
        ]
    }

    /// The flags of one that takes only clients whom this authority vouches for.
    pub(crate) fn etcd_flags(&self, names: &[&str]) -> Vec<String> {
        let mut flags = self.open_etcd_flags(names);
        flags.extend([
            format!("--trusted-ca-file={}", self.ca().display()),
            "--client-cert-auth".to_owned(),
        ]);
        flags
    }
}
