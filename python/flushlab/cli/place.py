"""From the options of a command to the place where its trials run: build, data root, disk limit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from flushlab.build import find_build
from flushlab.build.build import Build
from flushlab.cli.output import console
from flushlab.datadir import DataRoot, LimitedDisk, limit_disk
from flushlab.errors import NoMemory, UnknownSetting, UsageError
from flushlab.process import reap
from flushlab.record import SslMode, Value
from flushlab.server.log import MEMORY_HINT, no_memory
from flushlab.settings.catalog import Catalog, load_catalog
from flushlab.workload import Shape, Timing
from flushlab.workload.options import RAND_TYPE, SSL_MODE, TRANSPORT
from flushlab.workload.parse import flag
from flushlab.workload.upsert import KEY

if TYPE_CHECKING:
    from flushlab.suite.profile import Kind

MIN_SECONDS, MAX_SECONDS = 0.5, 86_400.0
_SPARE_CONNECTIONS = 50
_DEFAULT_MAX_CONNECTIONS = 151


@dataclass(frozen=True)
class Place:
    """Where trials run."""

    build: Build
    catalog: Catalog
    data_root: DataRoot
    disk_limit: LimitedDisk | None


@contextmanager
def open_place(
    server: str, *, basedir: Path | None, data_root: Path | None, disk_iops: int | None
) -> Iterator[Place]:
    """Finds the build (obtains it if needed), opens the data root, makes the disk slow if asked to.

    Raises:
        BuildNotFound, StorageError, HarnessError: as their makers say.
    """
    for reaped in reap():
        console.print(f"[dim]removed what an earlier run left behind: {reaped}[/]")
    build = find_build(server, basedir=basedir, progress=say)
    root = DataRoot.open(data_root)
    if disk_iops is None:
        yield Place(build=build, catalog=load_catalog(), data_root=root, disk_limit=None)
        return
    say(f"limiting the disk to {disk_iops} writes/s and measuring what it gives")
    with limit_disk(root, disk_iops) as limit:
        say(f"the disk gives {limit.record.measured_write_iops:.0f} writes/s ({limit.record.way})")
        yield Place(build=build, catalog=load_catalog(), data_root=root, disk_limit=limit)


def say(text: str) -> None:
    """A line of progress."""
    console.print(f"[dim]{text}[/]", markup=True)


def parse_settings(assignments: Iterable[str], build: Kind, catalog: Catalog) -> dict[str, Value]:
    """Settings of `--set NAME=VALUE`, typed by the catalog where it knows them.

    Raises:
        UsageError: not of the form NAME=VALUE, or given twice.
        UnknownSetting: known, but not in this version.
        ValueOutOfRange: the type or the range does not allow it.
    """
    settings: dict[str, Value] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not separator or not name:
            raise UsageError(
                f"--set {assignment!r} is not NAME=VALUE", hint="for example --set sync_binlog=1"
            )
        if name in settings:
            raise UsageError(f"--set names {name} twice", hint="give each setting once")
        settings[name] = parse_value(name, text.strip(), build, catalog)
    return settings


def parse_value(name: str, text: str, build: Kind, catalog: Catalog) -> Value:
    """A value as the catalog types it; as it stands for a setting that only the server knows.

    Raises:
        UnknownSetting: known, but not in this version.
        ValueOutOfRange: the type or the range does not allow it.
    """
    if name in catalog:
        return catalog.require(name, build.flavor, build.version).parse(text)
    return int(text) if text.lstrip("-").isdigit() else text


def refusal(
    reason: str, settings: Mapping[str, Value], catalog: Catalog, build: Build
) -> UnknownSetting | UsageError | NoMemory:
    """The error for settings that the server refused, with the nearest known names as a hint."""
    if (line := no_memory(reason)) is not None:
        return NoMemory(f"{build.name} found too little memory: {line}", hint=MEMORY_HINT)
    unknown = "unknown variable" in reason or "unknown option" in reason
    strange = [name for name in settings if name not in catalog]
    for name in strange if unknown else ():
        try:
            catalog.setting(name)
        except UnknownSetting as error:
            return error  # nobody knows it
    known = catalog.names(build.flavor, build.version)
    near = [match for name in strange for match in difflib.get_close_matches(name, known, n=2)]
    hint = f"did you mean {' or '.join(near)}?" if near else "flushlab settings lists what is known"
    return UsageError(f"{build.name} refused the settings: {reason}", hint=hint)


def parse_shape(
    *,
    threads: int,
    tables: int,
    table_size: int,
    transport: str,
    rand_type: str | None,
    rate: float,
    rows: int | None = None,
    key: str | None = None,
    hit_ratio: float | None = None,
    commit: str | None = None,
    ssl_mode: str | None = None,
    ssl_ca: Path | None = None,
    options: Mapping[str, Value] | None = None,
) -> Shape:
    """The options of a workload as flags give them; the workload judges them, but for their words.

    Raises:
        UsageError: a word that is none of the allowed ones.
    """
    words = {
        option.name: option.check(word, flag)
        for option, word in (
            (TRANSPORT, transport),
            (RAND_TYPE, rand_type),
            (KEY, key),
            (SSL_MODE, ssl_mode),
        )
        if word is not None
    }
    return Shape(
        threads=threads,
        tables=tables,
        table_size=table_size,
        transport=cast(Literal["socket", "tcp"], words["transport"]),
        rand_type=rand_type,
        rate=rate,
        rows=rows,
        key=cast(Literal["unique", "primary"] | None, words.get("key")),
        hit_ratio=hit_ratio,
        commit=commit,
        ssl_mode=cast(SslMode | None, words.get("ssl_mode")),
        ssl_ca=str(ssl_ca.expanduser().absolute()) if ssl_ca else None,
        options=options or {},
    )


def connection_arguments(threads: int) -> tuple[str, ...]:
    """Arguments that let this many connections in, where the default would not."""
    wanted = threads + _SPARE_CONNECTIONS
    return (f"--max-connections={wanted}",) if wanted > _DEFAULT_MAX_CONNECTIONS else ()


def parse_timing(seconds: float) -> Timing:
    """The timing of a window of this length.

    Raises:
        UsageError: no window, or one longer than a day.
    """
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise UsageError(
            f"--seconds {seconds:g} is out of range", hint=f"it takes {MIN_SECONDS:g} to {MAX_SECONDS:g}"
        )
    return Timing(seconds=seconds)
