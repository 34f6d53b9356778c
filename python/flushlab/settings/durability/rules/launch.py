"""launch: what no variable shows: --debug-no-sync and preloaded libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from flushlab.settings.catalog import canonical
from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes

_OFF = {"0", "OFF", "FALSE", "NO"}
_ALLOCATOR = re.compile(r"lib(jemalloc|tcmalloc|tcmalloc_minimal|mimalloc)\b.*\.so.*")
_NO_SYNC_LIBRARY = re.compile(r"lib(eatmydata|nosync)\b.*\.so.*")


def _syncs_off(arguments: tuple[str, ...]) -> bool:
    """Whether the last spelling of --debug-no-sync switches it on."""
    off = False
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        name = canonical(name).removeprefix("loose_")
        if name == "debug_no_sync":
            off = value.upper() not in _OFF
        elif name in ("skip_debug_no_sync", "disable_debug_no_sync"):
            off = False
    return off


def _find_debug(situation: Situation) -> Iterator[Effect]:
    if situation.is_on("debug_no_sync") or _syncs_off(situation.launch.arguments):
        text = "the data directory may be beyond repair: --debug-no-sync turns off all syncs"
        yield from on_crashes("at_risk", text)
        yield Effect(on="torn_page", level="at_risk", text=text)


def _find_preload(situation: Situation) -> Iterator[Effect]:
    libraries = re.split(r"[:\s]+", (situation.launch.preload or "").strip())
    for library in filter(None, libraries):
        name = PurePath(library).name
        if _ALLOCATOR.fullmatch(name):
            continue
        if _NO_SYNC_LIBRARY.fullmatch(name):
            text = f"the data directory may be beyond repair: the preloaded {name} makes syncs do nothing"
            yield from on_crashes("at_risk", text)
            yield Effect(on="torn_page", level="at_risk", text=text)
        else:
            yield from on_crashes("unknown", f"the preloaded library {name} may change what syncs do")


DEBUG_NO_SYNC = Rule(
    name="launch",
    source="https://mariadb.com/docs/server/server-management/starting-and-stopping-mariadb/mariadbd-options"
    "#debug-no-sync",
    find=_find_debug,
)
PRELOAD = Rule(
    name="launch",
    source="https://man7.org/linux/man-pages/man8/ld.so.8.html; https://www.flamingspork.com/projects/libeatmydata/",
    find=_find_preload,
)
