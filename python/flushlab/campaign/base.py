"""Base: what a campaign compares with: the user's option file, and the settings as a server has them.

Sits in `campaign`, above server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flushlab.campaign.base_file import read_base_file
from flushlab.campaign.target import Target
from flushlab.campaign.watcher import Watcher
from flushlab.errors import StartFailed
from flushlab.record import Launch, Value
from flushlab.server import Sandbox
from flushlab.server.refusal import refusal


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
        raise refusal(error.refusal, target.build) from error


def file_settings(path: Path | None, target: Target, watcher: Watcher) -> dict[str, Value]:
    """Settings of the user's option file that may enter a sandbox; the watcher is told of the others."""
    if path is None:
        return {}
    file = read_base_file(path, target.build, target.identity)
    for note in file.notes:
        watcher.warn(note)
    return file.settings
