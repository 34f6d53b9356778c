"""User settings: the user's option file, and what the user's data bring along, as servers here may have them.

Sits in `campaign.pool`; for servers that flushlab starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from flushlab.build.build import Build
from flushlab.campaign.data import Data
from flushlab.campaign.watcher import Watcher
from flushlab.record import ServerIdentity, SourceText, Value
from flushlab.server.sandbox.base_file import read_base_file, whole
from flushlab.settings.admission import admit_for, describe_left_out
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import Fit, Shrunk
from flushlab.workload.parse import source_text

HOW_TO_SCALE = "--memory changes it, --no-scale refuses it"


def persisted_settings(data: Data | None, identity: ServerIdentity, watcher: Watcher) -> dict[str, Value]:
    """Settings that the user's data bring along, where they may enter a sandbox.

    That is what SET PERSIST set on a data directory's server, and what shapes the files of a backup. It holds
    there above every option file, so it is part of the base. The watcher reports it.

    Raises:
        StorageError: the data set cannot be read.
    """
    if data is None:
        return {}
    dataset = data.dataset.path
    found = admit_for(data.dataset.settings(), identity.flavor, identity.version, nodes=identity.nodes)
    if found.settings:
        words = ", ".join(f"{name}={value}" for name, value in found.settings.items())
        watcher.warn(f"{dataset}: its own settings, added to the base: {words}")
    if found.left_out:
        watcher.warn(f"{dataset}: its own settings, left out: {describe_left_out(found.left_out)}")
    return dict(found.settings)


def file_settings(
    path: Path | None, build: Build, identity: ServerIdentity, watcher: Watcher
) -> dict[str, Value]:
    """Settings of the user's option file that may enter a sandbox; the watcher reports the others."""
    if path is None:
        return {}
    found = read_base_file(path, build, identity)
    for note in found.notes:
        watcher.warn(note)
    settings = dict(found.settings)
    for name, value in found.settings.items():
        here = Configuration({}, identity).here(name)
        if here is not None and (why := here.unfit(value, identity.nodes)):
            watcher.warn(f"{path}: left out: {why}")
            del settings[name]
    return settings


def texts_of(files: Iterable[Path | None]) -> tuple[SourceText, ...]:
    """The option files of a campaign with what they include; not of a pipe, which can be read only once."""
    found = dict[str, str]()
    for file in files:
        if file is not None and file.is_file():
            found |= whole(file.absolute())
    return tuple(source_text("option file", path, text.encode()) for path, text in found.items())


def called(file: Path | None, server: str | None) -> str:
    """What messages call an option file.

    Args:
        file: None: no option file.
        server: its name; empty if there is only one; None: neither has to be named.
    """
    if server is None:
        return ""
    return f"{server}: {file or 'the base'}" if server else str(file or "")


def fit_alike(
    files: Mapping[Path | None, Mapping[str, Value]], fit: Callable[..., Fit]
) -> dict[Path | None, Fit]:
    """Settings of each file as `fit` makes this machine hold them, all scaled by the same factor.

    Raises:
        UsageError: as `fit_here`.
    """
    fits = {file: fit(settings) for file, settings in files.items()}
    least = min(fits, key=lambda file: fits[file].factor)
    shrunk = Shrunk(f"{least}", fits[least].factor)
    return {
        file: one if one.factor == shrunk.factor else fit(files[file], like=shrunk)
        for file, one in fits.items()
    }
