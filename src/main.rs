//! The `fencepost` binary.

use std::process::ExitCode;

/// Each call allocates some dozens of times, which the C library's allocator makes a quarter of what a call costs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fencepost::cli::main()
}
