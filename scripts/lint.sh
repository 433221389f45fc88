#!/usr/bin/env bash
# Everything that judges without running: format, lints, docs, the interface.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet
.tools/venv/bin/buf lint
