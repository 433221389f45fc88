#!/usr/bin/env bash
# Everything that judges without running: format, lints, docs, the interface.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
# Docs are for those who work on it: private items are documented, and may be linked.
RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
    cargo doc --locked --no-deps --document-private-items --quiet
.tools/venv/bin/buf lint
