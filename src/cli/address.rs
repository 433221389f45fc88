//! Where a sidecar listens.

use std::fmt;

use http::Uri;

/// Where a sidecar listens unless told otherwise.
pub(super) const DEFAULT: &str = "http://127.0.0.1:7411";

/// The port that goes without saying.
const PORT_DEFAULT: u16 = 7411;

/// Where a sidecar listens: `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    authority: String,
    port: u16,
}

impl Address {
    /// Takes `host:port`, `host`, or either after `http://`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "give host:port, such as 127.0.0.1:7411";
        if text.trim().is_empty() {
            return Err(format!("is empty; {FORM}"));
        }
        let rest = match text.split_once("://") {
            None => text,
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(
                    "TLS is not supported yet; the sidecar listens on loopback, use http://".into(),
                );
            }
            Some((scheme, _)) => return Err(format!("{scheme}:// is not http://; {FORM}")),
        };
        let uri: Uri = format!("http://{rest}")
            .parse()
            .map_err(|error| format!("is not an address ({error}); {FORM}"))?;
        if uri.path() != "/" || uri.query().is_some() {
            return Err(format!("has a path; {FORM}"));
        }
        let host = uri.host().unwrap_or_default();
        let bad_port = uri.authority().is_some_and(|authority| {
            authority.as_str().contains('@')
                || (uri.port_u16().is_none() && authority.as_str() != host)
        });
        if host.is_empty() || bad_port {
            return Err(format!("is not an address; {FORM}"));
        }
        let port = uri.port_u16().unwrap_or(PORT_DEFAULT);
        Ok(Self {
            authority: format!("{host}:{port}"),
            port,
        })
    }

    /// Its host and port.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_may_come_with_or_without_a_scheme() {
        let forms = [
            ("http://127.0.0.1:7411", "http://127.0.0.1:7411"),
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("localhost", "http://localhost:7411"),
            ("http://localhost/", "http://localhost:7411"),
            ("[::1]:9", "http://[::1]:9"),
        ];
        for (text, url) in forms {
            assert_eq!(Address::parse(text).unwrap().to_string(), url, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for text in [
            "",
            " ",
            "tcp://10.0.0.1:7411",
            "https://h:1",
            "h:port",
            "h:1/path",
            "h:99999",
            "http://",
            ":7411",
            "user@h:1",
            "h:",
        ] {
            let refusal = Address::parse(text).unwrap_err();
            assert!(refusal.len() > 10, "{text}: {refusal}");
        }
    }
}
