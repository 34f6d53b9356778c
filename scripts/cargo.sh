# Sourced: puts a cargo that is new enough first on PATH, or says why there is none.
# The oldest that will do stands in Cargo.toml (rust-version).

flushlab_cargo_ok() {
  local have
  have=$("$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ]
}

want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../Cargo.toml")
for candidate in cargo "$HOME/.cargo/bin/cargo" /usr/bin/cargo; do
  if flushlab_cargo_ok "$candidate"; then
    PATH="$(dirname "$(command -v "$candidate")"):$PATH"
    export PATH
    return 0
  fi
done
return 1
