"""Profiles of the Rust core in Cargo.toml."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tests_run_with_assertions_in_every_crate_of_the_workspace() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    manifests = [ROOT / member / "Cargo.toml" for member in cargo["workspace"]["members"]]
    crates = [tomllib.loads(path.read_text(encoding="utf-8"))["package"]["name"] for path in manifests]
    of_tests = cargo["profile"]["test"]["package"]
    checked = {
        name
        for name, profile in of_tests.items()
        if profile.get("debug-assertions") and profile.get("overflow-checks")
    }
    assert checked >= set(crates)
