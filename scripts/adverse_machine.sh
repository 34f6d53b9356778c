#!/usr/bin/env bash
# scripts/adverse_machine.sh KIND COMMAND…: runs a command, and all that it starts, on a machine that is worse than this one.
#   neighbour   half of the processors are kept busy by somebody else
#   one-core    one processor
#   slow-syncs  50 ms more for each fsync and fdatasync
#   clock       a wall clock that jumps every five seconds by up to four minutes
# The last two need root: they preload a library into everything, in a mount namespace of their own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kind=${1:-}
[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
shift

preloaded() { # preloaded DEFINITION COMMAND…
  [ "$(id -u)" = 0 ] || { echo "error: $kind needs root" >&2; exit 2; }
  folder=$(mktemp -d /tmp/adverse-XXXXXX)
  chmod 755 "$folder"
  trap 'rm -rf "$folder"' EXIT
  cc -O2 -Wall -Wextra -shared -fPIC "-D$1" -o "$folder/adverse.so" "$here/adverse_machine.c"
  shift
  mkdir "$folder/etc"
  # Programs read /etc/ld.so.preload whatever their environment is: servers are given one of their own.
  unshare --mount --propagation private bash -euc '
    folder=$1; shift
    mount -t tmpfs tmpfs "$folder/etc"
    mkdir "$folder/etc/upper" "$folder/etc/work"
    echo "$folder/adverse.so" >"$folder/etc/upper/ld.so.preload"
    mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc/upper,workdir=$folder/etc/work" /etc
    exec "$@"' adverse "$folder" "$@"
}

case $kind in
  neighbour)
    for ((core = 0; core < ($(nproc) + 1) / 2; core++)); do
      taskset -c "$core" "$BASH" -c "while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 1000000; i++)); do :; done; done" &
    done
    trap 'kill $(jobs -p)' EXIT
    "$@" ;;
  one-core) exec taskset -c 0 "$@" ;;
  slow-syncs) preloaded ADVERSE_SYNC_MS=50 "$@" ;;
  clock) preloaded ADVERSE_CLOCK "$@" ;;
  *) echo "error: unknown kind $kind" >&2; sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
