#!/usr/bin/env bash
# Leaves VENV/bin/flushlab. Uses what is here; as root on Debian installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 2; }

usable_python() {
  for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

python=$(usable_python) || { scripts/packages.sh python3 python3-venv; python=$(usable_python) ||
  fail "no Python 3.11 or newer with venv" "install python3 (3.11 or newer) and python3-venv"; }
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ "$(id -u)" != 0 ] || scripts/packages.sh ca-certificates
command -v cc >/dev/null || scripts/packages.sh gcc libc6-dev
# shellcheck source=scripts/cargo.sh
. scripts/cargo.sh || {
  if command -v rustup >/dev/null || [ -x "$HOME/.cargo/bin/rustup" ]; then
    fail "cargo is older than $want" "run: rustup update stable"
  fi
  scripts/packages.sh rustc-web cargo-web
  . scripts/cargo.sh || fail "no cargo of version $want or newer" "install Rust $want or newer"
}

[ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null || { rm -rf "$venv"; "$python" -m venv "$venv"; }
say "installing flushlab with its Rust core into $venv (a few minutes the first time)"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,fleet]'
"$venv/bin/flushlab" --version >&2
