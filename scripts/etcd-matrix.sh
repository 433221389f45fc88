#!/usr/bin/env bash
# Runs what depends on etcd against several versions of it: the tests of the store, those of etcd in production, the promises, and what
# may be left behind. `path` is the etcd in PATH; the others are built from etcd's Go module, once.
#   etcd-matrix.sh [VERSION…]
set -euo pipefail
cd "$(dirname "$0")/.."

VERSIONS=("$@")
[ ${#VERSIONS[@]} -gt 0 ] || VERSIONS=(path 3.5.35 3.6.16 3.7.3)
# Modules of the promises that never ask an etcd; there is none so far. All others are run, also those that are new, which
# `cargo test --test tidy` looks after.
NOT_ETCDS=()

filters=(--skip ::embedded::)
for module in "${NOT_ETCDS[@]}"; do filters+=(--skip "$module::"); done

# All before any: a version that cannot be built must not be found out after an hour of tests.
programs=()
for version in "${VERSIONS[@]}"; do
    if [ "$version" = path ]; then
        programs+=("$(command -v etcd)")
    else
        programs+=("$(scripts/etcd-build.sh "$version")")
    fi
done

cargo test --locked --no-run --test store --test etcd --test promises --test leaks

code=0
results=()
for at in "${!VERSIONS[@]}"; do
    program=${programs[$at]}
    said=$("$program" --version | sed -n 1p)
    echo "etcd-matrix: $said ($program)"
    for binary in store etcd promises leaks; do
        arguments=()
        [ "$binary" = promises ] && arguments=("${filters[@]}")
        outcome=passed
        TEST_ETCD=$program cargo test --locked --test "$binary" -- "${arguments[@]}" || outcome=FAILED
        [ "$outcome" = passed ] || code=1
        results+=("$(printf '%-24s %-10s %s' "$said" "$binary" "$outcome")")
    done
done
printf '%s\n' "${results[@]}"
exit "$code"
