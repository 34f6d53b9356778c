"""Base: what a campaign compares with: the user's option file, and the settings as a server has them.

Sits in `campaign`, above server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flushlab.campaign.target import Target
from flushlab.campaign.watcher import Watcher
from flushlab.errors import StartFailed, UsageError
from flushlab.record import Launch, Value
from flushlab.server import Sandbox
from flushlab.server.placement import PLACED
from flushlab.server.refusal import refusal
from flushlab.settings import optionfile

_FILES = ("_file", "_dir", "_error")
"""Options with these endings name files of the user's own server."""


def read_base(
    base: Mapping[str, Value], target: Target, launch: Launch, watcher: Watcher, also: Iterable[str] = ()
) -> dict[str, Value]:
    """The catalogued settings as a server with this base has them, computed defaults included.

    Args:
        base: settings to start with.
        target: the build and the data root.
        launch: arguments of the server.
        watcher: told what takes long.
        also: names of further variables; those that the server does not have are left out.

    Raises:
        UsageError: the server refuses the base.
    """
    watcher.say(f"reading {target.build.name}'s settings back")
    known = target.catalog.names(target.build.flavor, target.build.version)
    try:
        with Sandbox.start(
            target.build,
            settings=base,
            arguments=launch.arguments,
            data_root=target.volume.data_root,
            progress=watcher.say,
        ) as server:
            return server.read_back({*known, *also})
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, base, target.catalog, target.build) from error


def file_settings(path: Path | None, target: Target, watcher: Watcher) -> dict[str, Value]:
    """Settings of the user's option file; those that place a server are flushlab's to choose."""
    if path is None:
        return {}
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="--base takes an option file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text file", hint="--base takes an option file") from error
    identity = target.identity
    file = optionfile.parse(text, identity, target.catalog, path=str(path), loader=_included(path))
    found = optionfile.typed(file, identity, target.catalog)
    ours = sorted(name for name in found.others if name in PLACED or name.endswith(_FILES))
    if ours:
        watcher.warn(f"{path}: {', '.join(ours)} say where a server is, not how it works: left out")
    return {**found.settings, **{name: text for name, text in found.others.items() if name not in ours}}


def _included(path: Path) -> optionfile.Loader:
    """Reads what an option file includes, relative to it."""

    def load(target: str, is_directory: bool) -> list[tuple[str, str]]:
        place = path.parent / target
        try:
            files = sorted(place.glob("*.cnf")) if is_directory else [place]
            return [(str(file), file.read_text()) for file in files]
        except OSError as error:
            raise UsageError(f"{place}, included by {path}, cannot be read: {error.strerror}") from error

    return load
