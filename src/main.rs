//! The `fencepost` binary.

use std::process::ExitCode;

/// Each call makes dozens of small allocations, most of them in libraries; this takes about half the time for them, and gives
/// memory back after a peak.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fencepost::cli::main()
}
