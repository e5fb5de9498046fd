#!/bin/sh
# A pod of the example on this machine, until Ctrl-C: a replica and its sidecar. README.md beside it says what for.
#
# pod.sh NAME UID ADDRESS [GENERATION]
set -eu

[ $# -ge 3 ] || {
    echo "usage: $0 NAME UID ADDRESS [GENERATION], for example: $0 replica-a-0 uid-0 127.0.0.2" >&2
    exit 2
}
examples=$(dirname "$0")
export POD_NAME="$1" POD_UID="$2" POD_IP="$3" GENERATION="${4:-1}"

python3 "$examples/replica.py" "$POD_IP:2101" &
replica=$!
setsid sidecar run "$examples/sidecar.yaml" & # out of Ctrl-C's reach: one signal drains, and a second would cut
sidecar=$!

trap 'kill "$replica" "$sidecar" 2>/dev/null || true; wait' EXIT
trap exit HUP INT TERM
wait "$sidecar"
