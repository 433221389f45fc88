#!/usr/bin/env bash
# Runs every test, then sums up what the test binaries said one by one. The exit code is that of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Most tests wait, for a lease to end or a line to break: a thread for each core would leave the cores idle.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-3}"

code=0
cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || code=$?

# What failed is said once more where the output ends, however much other binaries said after it.
sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
    /^---- .* stdout ----$/ { failed = 1 }
    /^failures:$/ { failed = 0 }
    failed' | tail -n 200

sed 's/\x1b\[[0-9;]*m//g' "$log" | awk -v code="$code" '
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
        }
    }
    END {
        # A test binary that died or did not build has no summary of its own; it must not look like success.
        if (code != 0 && failed == 0) print "cargo test ended with " code ": a test did not build, or was cut short"
        if (passed + failed == 0) { print "no test ran"; exit 1 }
        print passed + 0 " passed, " failed + 0 " failed"
    }' || code=1
exit "$code"
