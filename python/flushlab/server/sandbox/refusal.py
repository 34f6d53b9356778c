"""Refusal: what users are told of settings that a server did not start with. Pure."""

from __future__ import annotations

from flushlab.build.build import Build
from flushlab.errors import NoMemory, UsageError
from flushlab.server.sandbox.log import MEMORY_HINT, no_memory


def refusal(reason: str, build: Build) -> UsageError | NoMemory:
    """The error for settings that the server refused, in its own words: unknown names never come this far."""
    if (line := no_memory(reason)) is not None:
        return NoMemory(f"{build.name} found too little memory: {line}", hint=MEMORY_HINT)
    return UsageError(
        f"{build.name} refused the settings: {reason}", hint="flushlab settings lists what is known"
    )
