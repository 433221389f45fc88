//! TLS towards etcd, and the user as whom the sidecar logs in. The files are read and checked at the start.

use std::path::PathBuf;

use super::setting::{
    ETCD_CA, ETCD_CERT, ETCD_ENDPOINTS, ETCD_KEY, ETCD_PASSWORD_FILE, ETCD_SERVER_NAME, ETCD_USER,
    Reading, Setting,
};
use super::values::is_encrypted;
use crate::store::{Login, Tls, TlsFile, TlsFiles};

/// Inside, `None`: no TLS is used. Outside: something is wrong, and was noted. Without sound endpoints nothing is known of them.
pub(super) fn tls(reading: &mut Reading<'_>, endpoints: Option<&[String]>) -> Option<Option<Tls>> {
    let [authorities, certificate, key, server_name] =
        [&ETCD_CA, &ETCD_CERT, &ETCD_KEY, &ETCD_SERVER_NAME]
            .map(|setting| reading.read(setting, given));
    let (authorities, certificate) = (authorities?, certificate?);
    let (key, server_name) = (key?, server_name?);
    let encrypted = endpoints.map(|all| all.iter().any(|url| is_encrypted(url)));
    let mut sound = true;
    let mut wrong = |setting: &Setting, reason: &str| {
        reading.fault(setting, reason);
        sound = false;
    };
    if encrypted == Some(true) && authorities.is_none() {
        wrong(
            &ETCD_ENDPOINTS,
            "has addresses with https://, which needs --etcd-ca: the file with the certificate of the authority that vouches for etcd",
        );
    }
    if encrypted == Some(false) {
        let settings = [
            (&ETCD_CA, &authorities),
            (&ETCD_CERT, &certificate),
            (&ETCD_KEY, &key),
            (&ETCD_SERVER_NAME, &server_name),
        ];
        for (setting, _) in settings.iter().filter(|(_, given)| given.is_some()) {
            wrong(
                setting,
                "is for TLS, but the addresses in --etcd-endpoints begin with http://; give https://",
            );
        }
    }
    match (&certificate, &key) {
        (Some(_), None) => wrong(&ETCD_CERT, "needs its key, in --etcd-key"),
        (None, Some(_)) => wrong(&ETCD_KEY, "needs its certificate, in --etcd-cert"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let Some(authorities) = authorities else {
        return sound.then_some(None);
    };
    let files = TlsFiles {
        authorities: PathBuf::from(authorities),
        identity: certificate
            .zip(key)
            .map(|(certificate, key)| (PathBuf::from(certificate), PathBuf::from(key))),
        server_name,
    };
    match Tls::load(files) {
        Ok(tls) => sound.then_some(Some(tls)),
        Err(faults) => {
            for fault in faults {
                let setting = match fault.file {
                    TlsFile::Authorities => &ETCD_CA,
                    TlsFile::Certificate => &ETCD_CERT,
                    TlsFile::Key => &ETCD_KEY,
                    TlsFile::ServerName => &ETCD_SERVER_NAME,
                };
                reading.fault(setting, fault.reason);
            }
            None
        }
    }
}

/// Inside, `None`: nobody logs in. Outside: something is wrong, and was noted.
pub(super) fn login(reading: &mut Reading<'_>) -> Option<Option<Login>> {
    let user = reading.read(&ETCD_USER, given);
    let file = reading.read(&ETCD_PASSWORD_FILE, given);
    match (user?, file?) {
        (None, None) => Some(None),
        (Some(_), None) => {
            reading.fault(
                &ETCD_USER,
                "needs --etcd-password-file, the file with the password: it is taken neither from the command line nor from the \
                 environment, where others could read it",
            );
            None
        }
        (None, Some(_)) => {
            reading.fault(
                &ETCD_PASSWORD_FILE,
                "needs --etcd-user, whose password it is",
            );
            None
        }
        (Some(user), Some(file)) => {
            let login = Login {
                user,
                password_file: PathBuf::from(file),
            };
            match login.check() {
                Ok(()) => Some(Some(login)),
                Err(reason) => {
                    reading.fault(&ETCD_PASSWORD_FILE, reason);
                    None
                }
            }
        }
    }
}

fn given(text: &str) -> Result<Option<String>, String> {
    Ok((!text.is_empty()).then(|| text.to_owned()))
}
