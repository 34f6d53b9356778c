"""Guarantees in words: what each failure costs, failures of the same cost together. Pure; in `report`."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.settings.durability import FLOOR

FAILURES = {
    "process_crash": "mysqld crashes",
    "os_crash": "the OS crashes",
    "power_loss": "the power fails",
    "torn_page": "a page is torn",
    "replication": "replicas",
    FLOOR: "the floor",
}


def grouped(guarantees: Mapping[str, str]) -> dict[str, str]:
    """What is kept, by the failures of which it holds: `the OS crashes, the power fails`."""
    failures: dict[str, list[str]] = {}
    for failure, own in FAILURES.items():
        if failure in guarantees:
            failures.setdefault(guarantees[failure], []).append(own)
    return {", ".join(own): text for text, own in failures.items()}


def changed(own: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Those that are not the base's."""
    return {failure: text for failure, text in own.items() if base.get(failure) != text}
