//! `exec`: runs a command for only as long as a resource is held.

mod alarm;
mod answers;
mod child;
mod guard;
mod keeping;
mod limits;
mod program;
mod round;
mod run;
mod signals;
mod start;
mod terminal;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use uuid::Uuid;

pub(super) use self::guard::GuardArgs;
pub(super) use self::start::StartArgs;
pub(super) use self::terminal::TerminalArgs;

use self::answers::{Codes, Ending, not_granted};
use self::limits::Limits;
use self::program::Program;
use self::round::{Answer, Wanted, say_waiting};
use self::run::Run;
use self::signals::Signals;
use self::terminal::Terminal;
use super::address::{self, Address};
use super::exit::Exit;
use super::output::say;
use super::session::{CallTimeout, Output, PrintingArgs, Session, SessionArgs, span};
use super::trouble::Trouble;
use super::wait::WaitArgs;
use super::{ResourceArgs, values};
use crate::engine::Boottime;
use crate::proto::v1::intent::Content;
use crate::proto::v1::{Intent, ReserveRequest, Resource};

/// How it ends, as `--help` tells it.
pub(super) const HELP: &str = "\
CMD finds FENCEPOST_HELD_TOKEN (pass it to your stores), FENCEPOST_HELD_RESERVATION, FENCEPOST_HELD_KIND, FENCEPOST_HELD_ID, \
FENCEPOST_ADDR and, with --once, FENCEPOST_HELD_ATTEMPT in its environment.

Exit codes: that of CMD, 128 + N if signal N ended it; with --once and a KEY that was run before, that of the first run. Or
   2  the command line cannot be understood
  10  not run, ask again later: somebody else holds the resource, or is running the KEY (--busy-code chooses another code for these
      two); or it is too early for the --event
  11  not run: refused, and asking again will not help
  12  the reservation was lost: CMD was stopped, or ended too late
  14  not run: the KEY, or another operation of the resource, was begun and its end is not known, so a person decides
      (fencepost resolve)
  65  not run: the request can never work
  69  not run: no sidecar answers, or it cannot take the request now
  70  any other error
  75  it is not known whether the resource was granted, or whether the end of CMD was stored
 126  CMD cannot be run; nothing was reserved
 127  there is no CMD; nothing was reserved";

/// The most that is shown of the command's and the machine's name where a holder's name is made up, in bytes each. With all that stands
/// beside them that is less than a holder's name may have.
const SHOWN_BYTES_MAX: usize = 100;

/// How often a sidecar that is not there is looked for by who waits.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What becomes of an operation whose command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnFailure {
    /// Nobody knows what it did, so a person decides whether it may run again
    Ask,
    /// It may run again, 5 times in all; then a person decides
    Rerun,
    /// It is done, with that exit code; signals are no exit codes, and a person decides
    Record,
}

/// Runs a command.
#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// A further resource of the same reservation, of which all are taken or none; may be repeated, up to 15 times (a comma is a part
    /// of the id); not with --once
    #[arg(long, env = "FENCEPOST_ALSO", value_name = "KIND/ID", value_parser = values::resource)]
    also: Vec<Resource>,
    /// How long the reservation outlives this command if that is killed, and how long the sidecar may be silent before CMD is stopped
    #[arg(
        long,
        env = "FENCEPOST_TTL",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = span,
        allow_hyphen_values = true
    )]
    ttl: Duration,
    /// How long CMD may take to end once it is told to (SIGTERM), before it is killed; at most a third of --ttl [default: a sixth of --ttl, at most 10s]
    #[arg(long, env = "FENCEPOST_GRACE", value_name = "DURATION", value_parser = span)]
    grace: Option<Duration>,
    /// Run CMD only if it has never been run under this KEY for this resource, on whatever machine
    // Not FENCEPOST_ONCE: that is the switch of `reserve` and `transition`.
    #[arg(long, env = "FENCEPOST_ONCE_KEY", value_name = "KEY")]
    once: Option<String>,
    /// With --once, where the kind has a machine: the event that CMD carries out. It is judged before CMD is run, and its move is made
    /// when CMD has ended with 0; whether a KEY whose CMD failed may run again says the machine (`interrupted`)
    #[arg(long, env = "FENCEPOST_EVENT", value_name = "EVENT", requires = "once")]
    event: Option<String>,
    /// With --event: an identity value that the event matches or sets; may be repeated
    #[arg(long, env = "FENCEPOST_IDENTITY", value_name = "NAME=VALUE", value_parser = values::pair, requires = "event")]
    identity: Vec<(String, String)>,
    /// With --once: what becomes of the KEY if CMD ends with another code than 0
    #[arg(
        long,
        env = "FENCEPOST_ON_FAILURE",
        default_value = "ask",
        value_enum,
        requires = "once"
    )]
    on_failure: OnFailure,
    /// What to exit with if somebody else holds the resource, or is running the KEY, such as 0 for a cron job [default: 10]
    #[arg(long, env = "FENCEPOST_BUSY_CODE", value_name = "CODE")]
    busy_code: Option<u8>,
    /// What to exit with if the KEY was run before [default: the exit code of the first run]
    #[arg(
        long,
        env = "FENCEPOST_DONE_CODE",
        value_name = "CODE",
        requires = "once"
    )]
    done_code: Option<u8>,
    /// Shown to people who ask who holds it [default: CMD, this machine's name and the process id]
    #[arg(long, env = "FENCEPOST_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    /// Where the sidecar listens: host:port or http://host:port
    #[arg(long, env = "FENCEPOST_ADDR", default_value = address::DEFAULT, value_parser = Address::parse)]
    addr: Address,
    /// How long to wait for an answer, with its unit: 10s, 500ms
    #[arg(long, env = "FENCEPOST_TIMEOUT", default_value = "10s", value_name = "DURATION", value_parser = CallTimeout::parse)]
    timeout: CallTimeout,
    /// What to run, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl ExecArgs {
    /// Runs the command, and ends as it did.
    pub(super) async fn run(self) -> Result<u8, Trouble> {
        let ending = self.ending().await?;
        if let Some(said) = ending.said {
            say(&format!("fencepost: {said}\n"));
        }
        Ok(ending.code)
    }

    async fn ending(mut self) -> Result<Ending, Trouble> {
        self.fits_together()?;
        values::hint_at_commas(&self.also);
        let limits = Limits::new(self.grace, self.ttl)?;
        let program = match Program::find(std::mem::take(&mut self.command)) {
            Ok(program) => program,
            Err(unrunnable) => return Ok(unrunnable.into()),
        };
        let mut signals = Signals::listen()
            .map_err(|error| Trouble::failed(format!("cannot listen to signals: {error}")))?;
        let terminal = Terminal::open();
        let wanted = tokio::select! {
            wanted = self.wanted(&program) => wanted?,
            signal = signals.next_to_end(&terminal) => return Ok(Ending::quiet(signals::code(signal))),
        };
        let granted = tokio::select! {
            granted = wanted.reserve() => granted?,
            signal = signals.next_to_end(&terminal) => {
                wanted.take_back().await;
                return Ok(Ending::quiet(signals::code(signal)));
            }
        };
        let round = match granted {
            Answer::Granted(round) => round,
            Answer::Not(decision) => {
                let codes = Codes {
                    busy: self.busy_code,
                    done: self.done_code,
                };
                let key = self.once.as_deref();
                return Ok(not_granted(&decision, &wanted.resource(), key, codes));
            }
        };
        let run = Run {
            wanted,
            round,
            program,
            limits,
            once: self.once.map(|key| (key, self.on_failure)),
            addr: self.addr.to_string(),
        };
        Box::pin(run.carry_out(signals, terminal)).await
    }

    /// What no sidecar needs to be asked for.
    fn fits_together(&self) -> Result<(), Trouble> {
        self.resource.clone().named()?;
        if let Some(key) = &self.once {
            values::not_empty("the KEY of --once", key)?;
        }
        if self.once.is_some() && !self.also.is_empty() {
            return Err(Trouble::usage(
                "--also cannot go with --once: a KEY belongs to one resource, and its end would end the reservation of the others \
                 only in part. Hold the others around it: fencepost exec KIND ID --also KIND/ID -- fencepost exec KIND ID --once KEY -- CMD",
            ));
        }
        if self.event.is_some() && self.on_failure == OnFailure::Rerun {
            return Err(Trouble::usage(
                "--on-failure rerun cannot go with --event: the machine says whether the event may run again (`interrupted: rerun`)",
            ));
        }
        Ok(())
    }

    async fn wanted(&self, program: &Program) -> Result<Wanted, Trouble> {
        let session = SessionArgs {
            addr: self.addr.clone(),
            printing: PrintingArgs {
                timeout: self.timeout,
                output: Output::Table,
            },
        };
        let ttl = prost_types::Duration::try_from(self.ttl)
            .map_err(|_| Trouble::usage("--ttl is too long; the most is 24h"))?;
        let identity = values::unique("--identity", &self.identity)?;
        let intent = self.once.as_ref().map(|key| Intent {
            operation_id: key.clone(),
            event: self.event.clone().unwrap_or_default(),
            identity,
            // What is run is not compared: a new version of a job is still that job.
            content: Some(Content::Raw(bytes::Bytes::new())),
            rerun_if_interrupted: self.on_failure == OnFailure::Rerun,
            ..Intent::default()
        });
        let request = ReserveRequest {
            resource: Some(self.resource.clone().named()?),
            also: self.also.clone(),
            request_id: Uuid::new_v4().to_string(),
            ttl: Some(ttl),
            holder: self.holder.clone().unwrap_or_else(|| holder(program)),
            intent,
            ..ReserveRequest::default()
        };
        self.wait.to_wire()?;
        let (session, wait) = self.connected(&session).await?;
        Ok(Wanted {
            session,
            request,
            wait,
        })
    }

    /// A connection, and how long may be waited once there is one. Who waits does so for a sidecar, too.
    async fn connected(&self, to: &SessionArgs) -> Result<(Session, Duration), Trouble> {
        let until = Boottime::now().plus(self.wait.span());
        let mut told = false;
        loop {
            let trouble = match Session::open(to).await {
                Ok(session) if told => return Ok((session, until.left())),
                Ok(session) => return Ok((session, self.wait.span())),
                Err(trouble) => trouble,
            };
            let left = until.left();
            if trouble.exit != Exit::Unavailable || left.is_zero() {
                return Err(trouble);
            }
            if !told {
                told = true;
                say_waiting(&trouble.message, left);
            }
            tokio::time::sleep(CONNECT_AGAIN_AFTER.min(left)).await;
        }
    }
}

/// For people who ask who is in their way.
fn holder(program: &Program) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (name, machine) = (cut(&program.name()), cut(machine.trim()));
    format!("{name} on {machine}, process {}", std::process::id())
}

/// Its beginning, in whole characters.
fn cut(text: &str) -> String {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= SHOWN_BYTES_MAX).last();
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

/// This very program, also if its file has been replaced meanwhile.
fn itself() -> PathBuf {
    "/proc/self/exe".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_holder_has_a_length_that_is_taken() {
        let long = "é".repeat(SHOWN_BYTES_MAX);
        assert_eq!(cut(&long).len(), SHOWN_BYTES_MAX);
        assert_eq!(cut("short"), "short");
        let words = vec![std::env::current_exe().unwrap().into_os_string()];
        let program = Program::find(words).unwrap();
        assert!(holder(&program).len() <= 256);
    }
}
