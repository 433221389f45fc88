#!/usr/bin/env bash
# Runs what depends on etcd against several versions of it: the tests of the store, those of etcd in production, the promises, what
# may be left behind, and the embedded engine beside etcd; then an upgrade of a cluster from each of them to the next. `path` is the etcd in PATH; the others are built from
# etcd's Go modules, once, and should rise by one minor version each.
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
built=()
for version in "${VERSIONS[@]}"; do
    if [ "$version" = path ]; then
        programs+=("$(command -v etcd)")
    else
        program=$(scripts/etcd-build.sh "$version")
        programs+=("$program")
        built+=("$program")
    fi
done

cargo test --locked --no-run --test store --test etcd --test promises --test leaks --test differential

code=0
results=()
for at in "${!VERSIONS[@]}"; do
    program=${programs[$at]}
    said=$("$program" --version | sed -n 1p)
    echo "etcd-matrix: $said ($program)"
    for binary in store etcd promises leaks differential; do
        arguments=()
        [ "$binary" = promises ] && arguments=("${filters[@]}")
        outcome=passed
        TEST_ETCD=$program cargo test --locked --test "$binary" -- "${arguments[@]}" || outcome=FAILED
        [ "$outcome" = passed ] || code=1
        results+=("$(printf '%-24s %-10s %s' "$said" "$binary" "$outcome")")
    done
done

if [ ${#built[@]} -gt 1 ]; then
    all=$(IFS=:; echo "${built[*]}")
    echo "etcd-matrix: an upgrade through $all"
    outcome=passed
    TEST_ETCD_UPGRADES=$all cargo test --locked --test etcd -- upgrades:: || outcome=FAILED
    [ "$outcome" = passed ] || code=1
    results+=("$(printf '%-24s %-10s %s' "an upgrade of all built" etcd "$outcome")")
fi
printf '%s\n' "${results[@]}"
exit "$code"
