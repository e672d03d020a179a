#!/bin/sh
# Builds etcd in the version of bench/go.mod's client into the folder given, which
# is then to be put on PATH. go install cannot: its go.mod has replace directives.
set -eu
go=${GO:-go}
[ $# = 1 ] || { echo "usage: bench/etcd.sh <folder>" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
version=$(sed -n 's#.*go.etcd.io/etcd/client/v3 \(v[^ ]*\).*#\1#p' "$(dirname "$0")/go.mod")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<MOD
module build

tool go.etcd.io/etcd/server/v3

require go.etcd.io/etcd/server/v3 $version
MOD
export GOWORK=off
"$go" mod tidy
"$go" build -o "$target/etcd" go.etcd.io/etcd/server/v3
"$target/etcd" --version
