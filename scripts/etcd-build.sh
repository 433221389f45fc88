#!/usr/bin/env bash
# Builds one version of etcd from its Go modules and prints where the program lies; one that is there is not built again. Beside it
# lies etcdutl of the same version, which restores backups with raised revisions.
#   etcd-build.sh 3.6.16
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${1:?say which version, such as 3.6.16}
HOME_OF_ALL=$PWD/.tools/etcd
DIRECTORY=$HOME_OF_ALL/$VERSION

say() { echo "etcd-build: $*" >&2; }

# Where a program lies, and its package. `go install` refuses modules that replace others, as etcd's do; a module that only requires
# them does not.
build() { # program, package, module
    local program=$DIRECTORY/$1 package=$2 module=$3 source=$DIRECTORY/source
    [ ! -x "$program" ] || return 0
    if ! command -v go >/dev/null; then
        say "$1 $VERSION is not built yet, and there is no Go to build it with:"
        say "install Go 1.26 or newer (https://go.dev/dl), then run this again"
        exit 1
    fi
    say "building $1 $VERSION; this takes some minutes, once"
    rm -rf "$source"
    mkdir -p "$source"
    (
        cd "$source"
        go mod init fencepost.dev/etcd >&2
        go get "$package@v$VERSION" >&2
        # The version is set in the source and needs no flags; two at a time leave a small machine usable.
        CGO_ENABLED=0 go build -p 2 -trimpath -o "$program.new" "$package"
    ) || {
        say "$1 $VERSION could not be built from $module; see what Go said above"
        exit 1
    }
    mv "$program.new" "$program"
    rm -rf "$source"
}

build etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3
build etcdutl go.etcd.io/etcd/etcdutl/v3 go.etcd.io/etcd/etcdutl/v3
echo "$DIRECTORY/etcd"
