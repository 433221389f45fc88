//! The commands.

pub mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A coordination sidecar: Reserve, Transition and Fence, kept in etcd
#[derive(Debug, Parser)]
#[command(name = "fencepost", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar on etcd
    Serve(Box<serve::ServeArgs>),
    /// Run the sidecar on a store in memory; nothing survives its end
    Dev(Box<serve::DevArgs>),
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("fencepost: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::serve(*args).await,
            Command::Dev(args) => serve::dev(*args).await,
        }
    })
}
