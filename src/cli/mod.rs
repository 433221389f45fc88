//! The command line: one file per group of commands, one for what they share.

mod address;
mod admin;
mod counts;
mod demo;
mod digest;
mod exec;
mod exit;
mod explain;
mod files;
mod held;
mod hold;
mod incident_rows;
mod incidents;
mod intent;
mod json;
mod line;
mod listened;
mod machine;
mod output;
mod proto_dir;
mod question;
mod reservation;
mod resolve;
pub mod serve;
mod session;
mod table;
mod timeline;
mod transition;
mod trouble;
mod values;
mod wait;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use self::exit::{Exit, OF_A_SIDECAR};
use self::trouble::Trouble;
use crate::proto::v1::Resource;

/// A coordination sidecar: Reserve, Transition and Fence, kept in etcd
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, after_help = exit::all())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar on etcd
    #[command(after_help = OF_A_SIDECAR)]
    Serve(Box<serve::ServeArgs>),
    /// Run the sidecar on a store in memory; nothing survives its end
    #[command(after_help = OF_A_SIDECAR)]
    Dev(Box<serve::DevArgs>),
    /// Play the scenes that go wrong without a sidecar, and check how they come out
    #[command(after_help = demo::HELP)]
    Demo(demo::DemoArgs),
    /// Take a resource for a limited time, with a fencing token; with --operation, to run its effect once
    #[command(after_help = exit::of_a_question(&[10, 11, 12]))]
    Reserve(Box<reservation::ReserveArgs>),
    /// Make a live reservation last for its whole time again
    #[command(after_help = exit::of_a_question(&[12]))]
    Renew(reservation::RoundArgs),
    /// Hold reservations for as long as this command runs, and tell what becomes of them
    #[command(after_help = exit::of_a_question(&[12]))]
    Hold(hold::HoldArgs),
    /// Run a command for only as long as a resource is held; with --once, only if it has never been run
    #[command(after_help = exec::HELP)]
    Exec(Box<exec::ExecArgs>),
    /// Become the command of an `exec`
    #[command(hide = true, after_help = exit::of_its_own())]
    ExecStart(exec::StartArgs),
    /// Kill the command of an `exec` that is gone
    #[command(hide = true, after_help = exit::of_its_own())]
    ExecGuard(exec::GuardArgs),
    /// Give the terminal back after an `exec`
    #[command(hide = true, after_help = exit::of_its_own())]
    ExecTerminal(exec::TerminalArgs),
    /// End a reservation
    #[command(after_help = exit::of_a_question(&[]))]
    Release(reservation::ReleaseArgs),
    /// Judge a message and, if it may, commit its move and its result
    #[command(after_help = exit::of_a_question(&[10, 11, 12]))]
    Transition(Box<transition::TransitionArgs>),
    /// Ask whether a token is the live grant of a resource
    #[command(after_help = exit::of_a_question(&[12]))]
    Fence(question::FenceArgs),
    /// Ask what has become of an operation
    #[command(after_help = exit::of_a_question(&[10, 11, 13]))]
    Lookup(question::LookupArgs),
    /// Show a resource as it stands
    #[command(after_help = exit::of_a_question(&[]))]
    Inspect(question::InspectArgs),
    /// Show a resource as it stands, and each of its states from then on
    #[command(after_help = exit::of_a_question(&[]))]
    Watch(watch::WatchArgs),
    /// List, show and close what a person must judge, over the sidecar's admin socket
    #[command(after_help = exit::of_a_question(&[13]))]
    Incidents(Box<incidents::IncidentsArgs>),
    /// Make the digest of a content as the sidecar does; none is asked
    #[command(after_help = exit::of_files())]
    Digest(digest::DigestArgs),
    /// Tell what became of the messages that a sidecar was given, over its admin socket
    #[command(after_help = exit::of_a_question(&[]))]
    Counts(counts::CountsArgs),
    /// Tell the story of a resource, and why an operation was answered as it was, over the sidecar's admin socket
    #[command(after_help = exit::of_a_question(&[13]))]
    Explain(explain::ExplainArgs),
    /// Say what was found out about an operation that was interrupted, over the sidecar's admin socket
    #[command(after_help = exit::of_a_question(&[10, 11]))]
    Resolve(Box<resolve::ResolveArgs>),
    /// What is done with the store as a whole, over the sidecar's admin socket
    #[command(subcommand, after_help = exit::of_a_question(&[10]))]
    Admin(timeline::AdminCommand),
    /// Check, show, draw and compare machine files, and put them in force
    #[command(subcommand, after_help = exit::of_a_question(&[]))]
    Machine(machine::MachineCommand),
    /// Write the interface's proto files into a directory
    #[command(after_help = exit::of_writing())]
    Proto(proto_dir::ProtoArgs),
}

/// What is coordinated.
#[derive(Clone, Debug, Args)]
struct ResourceArgs {
    /// Kind of the resource, such as `order`
    kind: String,
    /// Id of the resource, such as `1001`; kept exactly as given
    id: String,
}

impl ResourceArgs {
    /// For the message.
    fn named(self) -> Result<Resource, Trouble> {
        values::not_empty("KIND (resource.kind)", &self.kind)?;
        values::not_empty("ID (resource.id)", &self.id)?;
        Ok(Resource {
            kind: self.kind,
            id: self.id,
        })
    }
}

/// How long the end waits for a file that is being read: a disk that does not answer is no reason to stay.
const LEFT_BEHIND_LIMIT: Duration = Duration::from_secs(1);

/// Reads the command line, does what it says, and says how it went.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match line::read(&words) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let is_a_sidecar = matches!(cli.command, Command::Serve(_) | Command::Dev(_));
    let cannot_start = |why: &str| {
        output::say(&format!("fencepost: cannot start: {why}\n"));
        if is_a_sidecar {
            serve::EXIT_FAILED.into()
        } else {
            Exit::Failed.into()
        }
    };
    if let Err(why) = files::enough() {
        return cannot_start(&why);
    }
    // One thread carries more than ten thousand calls a second; more cost more in waking each other, for a call hops between
    // tasks, than they bring. What takes long (large contents) runs on threads of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return cannot_start(&error.to_string()),
    };
    let exit = runtime.block_on(run(cli.command));
    runtime.shutdown_timeout(LEFT_BEHIND_LIMIT);
    exit
}

async fn run(command: Command) -> ExitCode {
    let ended = match command {
        Command::Serve(args) => return serve::serve(*args).await,
        Command::Dev(args) => return serve::dev(*args).await,
        Command::Demo(args) => args.run().await,
        Command::Reserve(args) => args.run().await,
        Command::Renew(args) => args.renew().await,
        Command::Hold(args) => args.run().await,
        Command::Exec(args) => match args.run().await {
            Ok(code) => return code.into(),
            Err(trouble) => Err(trouble),
        },
        Command::ExecStart(args) => args.run(),
        Command::ExecGuard(args) => args.run().await,
        Command::ExecTerminal(args) => args.run(),
        Command::Release(args) => args.run().await,
        Command::Transition(args) => args.run().await,
        Command::Fence(args) => args.run().await,
        Command::Lookup(args) => args.run().await,
        Command::Inspect(args) => args.run().await,
        Command::Watch(args) => args.run().await,
        Command::Incidents(args) => args.run().await,
        Command::Digest(args) => args.run(),
        Command::Counts(args) => args.run().await,
        Command::Explain(args) => args.run().await,
        Command::Resolve(args) => args.run().await,
        Command::Admin(command) => command.run().await,
        Command::Machine(command) => command.run().await,
        Command::Proto(args) => args.run(),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(Trouble { exit, message }) => {
            output::say(&format!("fencepost: {message}\n"));
            exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_variable_of_its_name_and_the_sidecar_knows_it() {
        let mut queue: Vec<clap::Command> = Cli::command().get_subcommands().cloned().collect();
        while let Some(command) = queue.pop() {
            let name = command.get_name();
            queue.extend(command.get_subcommands().cloned());
            for argument in command.get_arguments() {
                let Some(flag) = argument.get_long() else {
                    continue;
                };
                let mut variable = format!("FENCEPOST_{}", flag.to_uppercase().replace('-', "_"));
                match (name, flag) {
                    ("demo", "addr" | "admin-socket") => {
                        variable = variable.replacen("FENCEPOST_", "FENCEPOST_DEMO_", 1);
                    }
                    ("exec", "once") => variable = "FENCEPOST_ONCE_KEY".to_owned(),
                    _ => {}
                }
                // `serve` and `dev` read their variables together with all other settings.
                let told = argument
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let reads = argument.get_env().is_some_and(|env| *env == *variable)
                    || told.contains(&format!("[env: {variable}]"));
                assert!(reads, "--{flag} of `{name}` has no {variable}");
                let set = [(variable.into(), "x".into())].into();
                assert!(crate::config::unknown_variables(&set).is_empty(), "{set:?}");
            }
        }
    }

    #[test]
    fn every_command_says_what_it_is_for_and_how_it_ends_and_every_flag_what_it_means() {
        let mut queue: Vec<clap::Command> = Cli::command().get_subcommands().cloned().collect();
        while let Some(command) = queue.pop() {
            let name = command.get_name();
            let ends = command.get_after_help().map(ToString::to_string);
            let ends = ends.unwrap_or_default();
            assert!(ends.to_lowercase().contains("exit codes"), "`{name}`");
            assert!(command.get_about().is_some(), "`{name}`");
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{id} of `{name}`");
            }
            queue.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn no_flag_reads_what_exec_tells_its_command() {
        let told: Vec<&str> = crate::config::variables_of_exec().collect();
        assert_eq!(told.len(), 5);
        let mut queue = vec![Cli::command()];
        while let Some(command) = queue.pop() {
            for argument in command.get_arguments() {
                let name = argument.get_env().and_then(|name| name.to_str());
                let read = name.is_some_and(|name| told.contains(&name));
                assert!(!read, "{name:?} of `{}`", command.get_name());
            }
            queue.extend(command.get_subcommands().cloned());
        }
        for name in told {
            let set = [(name.into(), "x".into())].into();
            assert!(crate::config::unknown_variables(&set).is_empty(), "{set:?}");
        }
    }

    #[test]
    fn no_flag_reads_a_variable_that_a_kubernetes_service_named_fencepost_sets() {
        let mut queue = vec![Cli::command()];
        while let Some(command) = queue.pop() {
            for argument in command.get_arguments() {
                let name = argument
                    .get_env()
                    .and_then(|name| name.to_str())
                    .unwrap_or("");
                let linked =
                    name.starts_with("FENCEPOST_PORT") || name.starts_with("FENCEPOST_SERVICE_");
                assert!(!linked, "{name} of `{}`", command.get_name());
            }
            queue.extend(command.get_subcommands().cloned());
        }
    }
}
