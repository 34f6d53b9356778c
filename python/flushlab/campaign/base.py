"""Base: what a campaign compares with: the user's option file, and the settings as a server has them.

Sits in `campaign`, above server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from flushlab.build.verbose_help import verbose_help
from flushlab.campaign.data import Data, bytes_of
from flushlab.campaign.target import Target
from flushlab.campaign.watcher import Watcher
from flushlab.errors import StartFailed, UsageError
from flushlab.record import Launch, SourceText, Value
from flushlab.server import DataDirectory, Sandbox
from flushlab.server.sandbox.base_file import fit_here, read_base_file, whole
from flushlab.server.sandbox.refusal import refusal
from flushlab.settings.admission import LeftOut, admit, told
from flushlab.settings.catalog import canonical
from flushlab.settings.configuration import Configuration
from flushlab.settings.fit import Fit, lines
from flushlab.settings.given import parse_settings
from flushlab.settings.helptext import read_help
from flushlab.workload import source_text


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
    if target.on_paper:
        return _foretold(base, target, also)
    if target.external is not None:
        names = target.catalog.names(target.build.flavor, target.build.version)
        return target.external.read_back({*names, *also})
    watcher.say(f"reading {target.build.name}'s settings back")
    known = target.catalog.names(target.build.flavor, target.build.version)
    try:
        with Sandbox.start(
            target.build,
            settings=base,
            arguments=launch.arguments,
            data=DataDirectory(target.volume.data_root),
            progress=watcher.say,
        ) as server:
            return server.read_back({*known, *also})
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, target.build) from error


def _foretold(base: Mapping[str, Value], target: Target, also: Iterable[str]) -> dict[str, Value]:
    """The same without a server: the defaults of the catalog, and for others the binary's own help."""
    build, configuration = target.build, Configuration(base, target.identity)
    names = target.catalog.names(build.flavor, build.version)
    known = {name: value for name in names if (value := configuration.value(name)) is not None}
    strange = {*also} - {*names}
    told = read_help(verbose_help(build).text).values if strange else {}
    return {**known, **{name: told[name] for name in strange if name in told}, **base}


def persisted_settings(data: Data | None, target: Target, watcher: Watcher) -> dict[str, Value]:
    """Settings that the user's data bring along, where they may enter a sandbox.

    That is what SET PERSIST set on a data directory's server, and what shapes the files of a backup. It holds
    there above every option file, so it is part of the base. The watcher is told what it is.

    Raises:
        StorageError: the data set cannot be read.
    """
    if data is None:
        return {}
    dataset = data.dataset.path
    admitted, settings = admit(data.dataset.settings()), dict[str, Value]()
    left_out = list(admitted.left_out)
    for name, value in admitted.settings.items():
        try:
            settings |= parse_settings(
                {name: value},
                target.build.flavor,
                target.build.version,
                target.catalog,
                nodes=target.nodes,
            )
        except UsageError as error:
            left_out.append(LeftOut(name=name, why=error.message))
    if settings:
        words = ", ".join(f"{name}={value}" for name, value in settings.items())
        watcher.warn(f"{dataset}: its own settings, added to the base: {words}")
    if left_out:
        watcher.warn(f"{dataset}: its own settings, left out: {told(left_out)}")
    return settings


def file_settings(path: Path | None, target: Target, watcher: Watcher) -> dict[str, Value]:
    """Settings of the user's option file that may enter a sandbox; the watcher is told of the others."""
    if path is None:
        return {}
    file = read_base_file(path, target.build, target.identity)
    for note in file.notes:
        watcher.warn(note)
    settings = dict(file.settings)
    for name, value in file.settings.items():
        here = Configuration({}, target.identity).here(name)
        if here is not None and (why := here.unfit(value, target.nodes)):
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


def hidden_options(names: Iterable[str], values: Mapping[str, Value], target: Target) -> frozenset[str]:
    """Those of the names that the server takes as options, though none of its variables is called so.

    Args:
        names: of settings.
        values: the server's variables.
        target: the server.
    """
    strange = {name for name in map(canonical, names) if name not in values and name not in target.catalog}
    if not strange or target.external is not None:
        return frozenset()
    return read_help(verbose_help(target.build).text).names & strange


def require_scalable(memory: str | None, *sources: object) -> None:
    """Finds out whether there is anything that `--memory` can scale.

    Args:
        memory: that the server may use, or None.
        sources: option files, and data with settings of their own; those that are None are not given.

    Raises:
        UsageError: there is a limit, and nothing that it is for.
    """
    if memory is not None and not any(sources):
        raise UsageError(
            f"--memory {memory} scales an option file, and there is none",
            hint="give one with --base, or set innodb_buffer_pool_size",
        )


def fitted(
    settings: Mapping[str, Value],
    target: Target,
    watcher: Watcher,
    *,
    memory: str | None,
    exact: bool,
    connections: int,
    data: Data | None,
) -> Fit:
    """A production server's settings as this machine can hold them; the watcher is told what was scaled.

    Raises:
        UsageError: as `fit_here`.
    """
    found = fit_here(
        settings,
        target.identity,
        target.volume.data_root,
        memory=memory,
        exact=exact,
        connections=connections,
        data_bytes=bytes_of(data),
    )
    for line in lines(found, "--memory changes it, --exact refuses it"):
        watcher.say(line)
    return found
