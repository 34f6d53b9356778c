"""Refusal: what users are told of settings that a server did not start with. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from flushlab.build.build import Build
from flushlab.errors import NoMemory, UnknownSetting, UsageError
from flushlab.record import Value
from flushlab.server.log import MEMORY_HINT, no_memory
from flushlab.settings.catalog import Catalog


def refusal(
    reason: str, settings: Mapping[str, Value], catalog: Catalog, build: Build
) -> UnknownSetting | UsageError | NoMemory:
    """The error for settings that the server refused, with the nearest known names as a hint."""
    if (line := no_memory(reason)) is not None:
        return NoMemory(f"{build.name} did not get enough memory: {line}", hint=MEMORY_HINT)
    unknown = "unknown variable" in reason or "unknown option" in reason
    strange = [name for name in settings if name not in catalog]
    for name in strange if unknown else ():
        try:
            catalog.setting(name)
        except UnknownSetting as error:
            return error  # nobody knows it
    known = catalog.names(build.flavor, build.version)
    near = [match for name in strange for match in difflib.get_close_matches(name, known, n=2)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`flushlab settings` lists the known settings"
    return UsageError(f"{build.name} refused the settings: {reason}", hint=hint)
