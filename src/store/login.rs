//! Logging in to etcd by name and password, and the token that calls carry.
//!
//! Nobody logs in ahead: etcd refuses a call without a valid token before it does anything, and then one caller logs in while
//! the others wait for its word. So an etcd without users is never asked, and one that forgets its tokens (they are lost after
//! five idle minutes, and when a member restarts) costs one more request.
//!
//! The password is read from its file for each login, and goes nowhere else. If etcd refuses it, the one that was taken last
//! is tried too: file and user may be changed in either order.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use etcd_client::Channel;
use etcd_client::proto::{PbAuthenticateRequest, PbAuthenticateResponse};
use http::HeaderValue;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service};

use super::failure::{Meaning, detail_of, meaning_of};

/// How long nobody tries again after etcd refused the password. Each try costs etcd a tenth of a second of work.
const REFUSED_REST: Duration = Duration::from_secs(1);
/// Largest password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// The header that etcd looks for.
const TOKEN_HEADER: &str = "token";
/// What etcd says to a login while it has no users.
const NOT_ENABLED: &str = "etcdserver: authentication is not enabled";
/// The service and the method of a login.
const AUTHENTICATE: [&str; 2] = ["etcdserverpb.Auth", "Authenticate"];

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub user: String,
    /// Where its password lies: the file's text, without spaces and line breaks at its end.
    pub password_file: PathBuf,
}

impl Login {
    /// Whether the file can be used now. The reason completes the sentence "FILE …".
    pub fn check(&self) -> Result<(), String> {
        Password::read(&self.password_file).map(|_| ())
    }
}

/// Never shown.
#[derive(Clone, PartialEq, Eq)]
struct Password(String);

impl Password {
    fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("is {shown}, which cannot be read: {error}"))?;
        let text = text.trim_end();
        if text.is_empty() {
            return Err(format!("is {shown}, which is empty"));
        }
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(format!(
                "is {shown}, which is longer than {PASSWORD_BYTES_MAX} bytes"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The token in use, and how many there were before it.
#[derive(Clone, Default)]
struct Token {
    number: u64,
    value: Option<HeaderValue>,
}

type Shared = Arc<RwLock<Token>>;

/// Who the sidecar is to etcd.
pub(super) struct Credentials {
    login: Login,
    token: Shared,
    turn: Mutex<Turn>,
}

#[derive(Default)]
struct Turn {
    /// The last password that etcd took.
    taken: Option<Password>,
    /// What the last try came to, and when, if it failed.
    failed: Option<(Instant, NoLogin)>,
    /// A read of the file that has not come to its end.
    reading: Option<JoinHandle<Result<Password, String>>>,
}

/// Why there is no new token.
#[derive(Clone, Debug)]
pub(super) struct NoLogin {
    /// Whether etcd refused the password; else the member could not be asked.
    pub(super) refused: bool,
    /// For the log.
    pub(super) detail: String,
}

impl Credentials {
    pub(super) fn new(login: Login) -> Self {
        Self {
            login,
            token: Shared::default(),
            turn: Mutex::default(),
        }
    }

    /// The user's name.
    pub(super) fn user(&self) -> &str {
        &self.login.user
    }

    /// A channel whose calls carry the token that is in use when they are made.
    pub(super) fn on(&self, channel: Channel) -> Channel {
        let carrying = Carrying {
            inner: channel,
            token: Arc::clone(&self.token),
        };
        Channel::Custom(BoxCloneSyncService::new(carrying))
    }

    /// Which token is in use.
    pub(super) fn number(&self) -> u64 {
        self.current().number
    }

    /// Makes sure that another token is in use than the one of this number, which etcd refused. Of several callers one logs in.
    pub(super) async fn renew(
        &self,
        refused: u64,
        endpoint: &str,
        channel: &Channel,
        limit: Duration,
    ) -> Result<(), NoLogin> {
        let asked = Instant::now();
        // Whoever has the turn may wait for a file and for two tries, and another before it.
        let Ok(mut turn) = timeout(limit, self.turn.lock()).await else {
            return Err(NoLogin {
                refused: false,
                detail: format!("{endpoint}: no login within {limit:?}, others are at it"),
            });
        };
        if self.number() != refused {
            return Ok(());
        }
        if let Some((failed_at, why)) = &turn.failed {
            let rest = if why.refused {
                REFUSED_REST
            } else {
                Duration::ZERO
            };
            // One who waited for another's failure takes its word.
            if *failed_at >= asked || failed_at.elapsed() < rest {
                return Err(why.clone());
            }
        }
        match self.log_in(&mut turn, endpoint, channel, limit).await {
            Ok(value) => {
                turn.failed = None;
                let mut token = self.token.write().unwrap_or_else(PoisonError::into_inner);
                token.number += 1;
                match &value {
                    Some(_) => {
                        tracing::info!(endpoint, user = %self.login.user, "logged in to etcd")
                    }
                    None => tracing::info!(endpoint, "etcd asks nobody for a login any more"),
                }
                token.value = value;
                Ok(())
            }
            Err(why) => {
                turn.failed = Some((Instant::now(), why.clone()));
                if why.refused {
                    tracing::warn!(detail = why.detail, "etcd refuses the login");
                }
                Err(why)
            }
        }
    }

    /// `None`: users were turned off since, and calls are taken without a token.
    async fn log_in(
        &self,
        turn: &mut Turn,
        endpoint: &str,
        channel: &Channel,
        limit: Duration,
    ) -> Result<Option<HeaderValue>, NoLogin> {
        let read = self.read(turn, limit).await;
        let mut unreadable = None;
        let mut to_try: Vec<Password> = Vec::new();
        match read {
            Ok(password) => to_try.push(password),
            Err(reason) => unreadable = Some(format!("the password file {reason}")),
        }
        to_try.extend(
            turn.taken
                .clone()
                .filter(|taken| to_try.first() != Some(taken)),
        );
        let mut last = NoLogin {
            refused: true,
            detail: unreadable.unwrap_or_default(),
        };
        for password in to_try {
            let asking = authenticate(channel, &self.login.user, &password);
            match timeout(limit, asking).await {
                Ok(Ok(reply)) => {
                    let mut value = HeaderValue::from_str(&reply.token).map_err(|_| NoLogin {
                        refused: true,
                        detail: format!("{endpoint}: its token is no header"),
                    })?;
                    value.set_sensitive(true);
                    turn.taken = Some(password);
                    return Ok(Some(value));
                }
                Ok(Err(status)) if status.message().starts_with(NOT_ENABLED) => return Ok(None),
                Ok(Err(status)) => {
                    let error = etcd_client::Error::GRpcStatus(status);
                    let no = matches!(meaning_of(&error), Meaning::No(_));
                    let said = detail_of(endpoint, &error);
                    last = NoLogin {
                        refused: no,
                        detail: format!(
                            "{said}; etcd was asked to log in user {:?} with the password in {}",
                            self.login.user,
                            self.login.password_file.display()
                        ),
                    };
                    if !no {
                        break;
                    }
                }
                Err(_) => {
                    last = NoLogin {
                        refused: false,
                        detail: format!("{endpoint}: no answer to a login within {limit:?}"),
                    };
                    break;
                }
            }
        }
        Err(last)
    }

    /// Reads the password. A file system may not answer, and nobody is to wait for it longer than for etcd; nor is more than one
    /// thread.
    async fn read(&self, turn: &mut Turn, limit: Duration) -> Result<Password, String> {
        let file = self.login.password_file.clone();
        let shown = file.display().to_string();
        let reading = turn
            .reading
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || Password::read(&file)));
        let Ok(read) = timeout(limit, reading).await else {
            return Err(format!("is {shown}, which cannot be read within {limit:?}"));
        };
        turn.reading = None;
        read.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn current(&self) -> Token {
        self.token
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.login).finish()
    }
}

async fn authenticate(
    channel: &Channel,
    user: &str,
    password: &Password,
) -> Result<PbAuthenticateResponse, tonic::Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(tonic::Status::from_error)?;
    let request = tonic::Request::new(PbAuthenticateRequest {
        name: user.to_owned(),
        password: password.0.clone(),
    });
    let [service, method] = AUTHENTICATE;
    let path = http::uri::PathAndQuery::try_from(["", service, method].join("/"));
    let path = path.expect("two names make a path");
    let reply = client.unary(request, path, ProstCodec::default()).await?;
    Ok(reply.into_inner())
}

/// A channel that puts the token in use on each call.
#[derive(Clone)]
struct Carrying {
    inner: Channel,
    token: Shared,
}

impl Service<http::Request<Body>> for Carrying {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &token.value {
            request.headers_mut().insert(TOKEN_HEADER, value.clone());
        }
        drop(token);
        self.inner.call(request)
    }
}
