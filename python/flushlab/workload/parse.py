"""From a workload's name and options to a Workload; the registry of workloads."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.workload import oltp, sql, upsert
from flushlab.workload.command import CommandWorkload
from flushlab.workload.oltp import OltpWorkload
from flushlab.workload.options import OptionInfo, Spelling, settle
from flushlab.workload.protocol import Workload
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.upsert import UpsertWorkload

_COMMAND = "command:"
_OPTIONS: Mapping[str, tuple[OptionInfo, ...]] = {
    **dict.fromkeys(oltp.NAMES, oltp.OPTIONS),
    upsert.NAME: upsert.OPTIONS,
    sql.PREFIX: sql.OPTIONS,
    _COMMAND: (),
}
"""Every workload, or the prefix of its name, with the options that it takes."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a workload as flags give them; None: not given, the workload's own default."""

    threads: int = 16
    tables: int = 8
    table_size: int = 10_000
    transport: Literal["socket", "tcp"] = "socket"
    rand_type: Literal["special", "uniform"] | None = None
    rate: float = 0.0
    rows: int | None = None
    key: Literal["unique", "primary"] | None = None
    hit_ratio: float | None = None
    commit: str | None = None


_SHARED = ("threads", "tables", "table_size", "transport", "rand_type", "rate")
"""Options that flags give to every workload, whether it takes them or not."""


def workload_options(name: str) -> Mapping[str, OptionInfo]:
    """The options that a workload takes, by their names.

    Raises:
        UsageError: there is no such workload.
    """
    return {option.name: option for option in _OPTIONS[_kind(name)]}


def build_workload(
    name: str,
    options: Mapping[str, Value],
    *,
    folder: Path | None = None,
    spelling: Spelling = str,
) -> Workload:
    """A workload by its name, with its options.

    Args:
        name: as it stands in a plan or behind `--workload`.
        options: by their names; what is absent has its default.
        folder: what the name of a script is relative to; None: the present one.
        spelling: how messages spell an option.

    Raises:
        UsageError: no such workload, an option that it does not take, a value that an option does not, or
            a script that cannot be read.
    """
    kind = _kind(name)
    settled = settle(kind.removesuffix(":"), _OPTIONS[kind], options, spelling)
    if kind == _COMMAND:
        return _command(name)
    if kind == sql.PREFIX:
        transport: Literal["socket", "tcp"] = "tcp" if settled["transport"] == "tcp" else "socket"
        return SqlWorkload.read(name, folder or Path(), transport)
    if kind == upsert.NAME:
        upsert.parse_commit(str(settled["commit"]), spelling)
        return msgspec.convert(settled, UpsertWorkload)
    return msgspec.convert({"name": name, **settled}, OltpWorkload)


def parse_workload(text: str, shape: Shape) -> Workload:
    """The workload behind `--workload`, with the options of its flags.

    Options that flags give to every workload are left out where the workload does not take them.

    Raises:
        UsageError: no such workload, or a shape that makes no sense.
    """
    known = workload_options(text)
    given = {
        name: value
        for name, value in msgspec.structs.asdict(shape).items()
        if value is not None and (name in known or name not in _SHARED)
    }
    return build_workload(text, given, spelling=flag)


def settled_name(name: str) -> str:
    """The workload's name as a stored request keeps it: a script by its absolute path, since a campaign may
    be resumed from another directory."""
    if _kind(name) != sql.PREFIX:
        return name
    file = Path(name.removeprefix(sql.PREFIX).strip()).expanduser()
    return f"{sql.PREFIX}{file.absolute()}"


def flag(name: str) -> str:
    """An option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def _kind(name: str) -> str:
    """The key of `_OPTIONS` for a workload."""
    for kind in _OPTIONS:
        if name == kind or (kind.endswith(":") and name.startswith(kind)):
            return kind
    near = difflib.get_close_matches(name, _OPTIONS, n=1)
    raise UsageError(
        f"there is no workload {name!r}",
        hint=(f"did you mean {near[0]}? " if near else "")
        + f"there are {', '.join(oltp.NAMES)}, {upsert.NAME}, sql:FILE and 'command: …'",
    )


def _command(name: str) -> CommandWorkload:
    command = name.removeprefix(_COMMAND).strip()
    if not command:
        raise UsageError(
            "--workload 'command:' names no command", hint="write --workload 'command: ./load.sh'"
        )
    return CommandWorkload(command=command)


def fingerprint(workload: Workload) -> str:
    """Changes with anything that the workload is made of, the content of its file included."""
    return hashlib.sha256(msgspec.json.encode(workload)).hexdigest()
