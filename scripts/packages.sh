#!/usr/bin/env bash
# Installs Debian packages, as root; else says what to install.
set -euo pipefail

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  printf 'error: missing: %s\nhint: install them (Debian: apt-get install %s), or run make as root\n' "$*" "$*" >&2
  exit 2
fi
printf 'setup: installing %s\n' "$*" >&2
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
if ! install "$@" 2>/dev/null; then # the lists are old or absent
  apt-get update -qq >&2
  install "$@"
fi
