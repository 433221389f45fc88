#!/usr/bin/env bash
# Builds one version of etcd from its Go module and prints where the program lies; one that is there is not built again.
#   etcd-build.sh 3.6.16
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${1:?say which version, such as 3.6.16}
HOME_OF_ALL=$PWD/.tools/etcd
PROGRAM=$HOME_OF_ALL/$VERSION/etcd
SOURCE=$HOME_OF_ALL/$VERSION/source

say() { echo "etcd-build: $*" >&2; }

if [ ! -x "$PROGRAM" ]; then
    if ! command -v go >/dev/null; then
        say "etcd $VERSION is not built yet, and there is no Go to build it with:"
        say "install Go 1.26 or newer (https://go.dev/dl), then run this again"
        exit 1
    fi
    say "building etcd $VERSION; this takes some minutes, once"
    rm -rf "$SOURCE"
    mkdir -p "$SOURCE"
    # A program of its own: `go install` refuses a module that replaces others, as etcd's does.
    cat >"$SOURCE/main.go" <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
    (
        cd "$SOURCE"
        go mod init fencepost.dev/etcd >&2
        go get "go.etcd.io/etcd/server/v3@v$VERSION" >&2
        go mod tidy >&2
        # The version is set in the source and needs no flags; two at a time leave a small machine usable.
        CGO_ENABLED=0 go build -p 2 -trimpath -o "$PROGRAM.new" .
    )
    mv "$PROGRAM.new" "$PROGRAM"
    rm -rf "$SOURCE"
fi
echo "$PROGRAM"
