#!/usr/bin/env bash
# Licenses and known vulnerabilities of crates and of Python packages: `make supply`.
# A database that cannot be reached leaves its check undone: exit code 3, or 0 with ADVISORIES=skip.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cargo.sh
. scripts/cargo.sh
tools=target/tools
undone=()

say() { printf 'supply: %s\n' "$*" >&2; }

"$tools/bin/cargo-deny" --locked check licenses bans sources
.venv/bin/python scripts/licenses.py

if "$tools/bin/cargo-deny" --locked fetch db; then
  "$tools/bin/cargo-deny" --locked check --disable-fetch advisories
else
  undone+=("advisories of crates")
fi

report=$(mktemp)
trap 'rm -f "$report"' EXIT
if "$tools/bin/pip-audit" --strict --no-deps --disable-pip -r constraints.txt --progress-spinner off >"$report" 2>&1; then
  say "$(tail -n 1 "$report")"
elif grep -q 'known vulnerabilit' "$report"; then
  cat "$report" >&2
  exit 1
else
  tail -n 3 "$report" >&2
  undone+=("advisories of Python packages")
fi

[ "${#undone[@]}" = 0 ] || {
  printf 'supply: not checked: %s (the reason is above)\n' "${undone[@]}" >&2
  [ "${ADVISORIES:-}" = skip ] || exit 3
}
