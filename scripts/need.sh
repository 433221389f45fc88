#!/usr/bin/env bash
# Installs what is missing, and only that.
#   need.sh build   what `cargo build` needs: a linker and protoc
#   need.sh lint    and rustfmt, clippy, buf
#   need.sh test    and etcd, etcdctl, openssl, curl, Python with the packages of the example
#   need.sh matrix  what `cargo test` needs with etcd; Go, which builds other versions, is asked for and not installed
#   need.sh bench   what `cargo build` needs, etcd, and what is measured beside it: Redis, PostgreSQL
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.tools/venv
REQUIREMENTS=scripts/requirements.txt

say() { echo "need: $*" >&2; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "this needs root, and there is no sudo: run as root: $*"
        exit 1
    fi
}

# Debian starts a service as soon as it is installed. The tests start their own etcd, on free ports.
POLICY=/usr/sbin/policy-rc.d
POLICY_IS_OURS=
keep_services_down() {
    if [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
        as_root chmod 755 "$POLICY"
        POLICY_IS_OURS=yes
    fi
}
lift_policy() { [ -z "$POLICY_IS_OURS" ] || as_root rm -f "$POLICY"; }
trap lift_policy EXIT

UPDATED=
apt_install() {
    if ! command -v apt-get >/dev/null; then
        say "please install the equivalent of Debian's: $*"
        exit 1
    fi
    if [ -z "$UPDATED" ]; then
        as_root apt-get update -qq
        UPDATED=yes
    fi
    say "installing $*"
    keep_services_down
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

need() { # command, package
    command -v "$1" >/dev/null || apt_install "$2"
}

need_component() { # cargo subcommand, rustup component
    if ! cargo "$1" --version >/dev/null 2>&1; then
        say "cargo $1 is missing. With rustup: rustup component add $2"
        exit 1
    fi
}

need_build() {
    if ! command -v cargo >/dev/null; then
        say "cargo is missing. Install Rust (see rust-version in Cargo.toml), then run this again"
        exit 1
    fi
    command -v cc >/dev/null || apt_install gcc libc6-dev
    # Without its own .proto files (google/protobuf/…) protoc is of no use here.
    if ! command -v protoc >/dev/null; then
        apt_install protobuf-compiler libprotobuf-dev
    fi
}

need_python() {
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    # A stamp of the list that was installed, so that pip is asked only when the list changes.
    if ! cmp -s "$REQUIREMENTS" "$VENV/installed.txt"; then
        say "installing Python packages into $VENV"
        rm -rf "$VENV"
        python3 -m venv "$VENV"
        "$VENV/bin/pip" install --quiet --disable-pip-version-check -r "$REQUIREMENTS"
        cp "$REQUIREMENTS" "$VENV/installed.txt"
    fi
}

need_lint() {
    need_build
    need_component fmt rustfmt
    need_component clippy clippy
    need_python
}

need_etcd() {
    # Some shells leave /usr/sbin and friends out of PATH; etcd itself lies in /usr/bin.
    command -v etcd >/dev/null || apt_install etcd-server || apt_install etcd
    command -v etcd >/dev/null || { say "etcd was installed and is not found in PATH"; exit 1; }
}

need_etcdctl() {
    # Backups are made and restored with it.
    need etcdctl etcd-client
}

need_openssl() {
    # It makes the keys that etcd signs tokens with.
    need openssl openssl
}

need_test() {
    need_lint
    need_etcd
    need_etcdctl
    need_openssl
    need curl curl
}

need_matrix() {
    need_build
    need_etcd
    need_etcdctl
    need_openssl
    # Debian's Go is too old for the etcds of today.
    command -v go >/dev/null || say "there is NO GO here: only the etcd in PATH and those built before can be tested (https://go.dev/dl)"
}

need_bench() {
    need_build
    need_etcd
    need redis-server redis-server
    # Debian keeps the programs of each version of PostgreSQL in a directory of its own, outside PATH.
    command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt_install postgresql
    # It gives the processes that are measured their user, and ends them with the benchmark.
    need setpriv util-linux
}

case "${1:-}" in
build) need_build ;;
lint) need_lint ;;
test) need_test ;;
matrix) need_matrix ;;
bench) need_bench ;;
*)
    say "say one of: build, lint, test, matrix, bench"
    exit 2
    ;;
esac
