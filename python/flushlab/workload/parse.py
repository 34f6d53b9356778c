"""From `--workload` to a Workload."""

from __future__ import annotations

import difflib
from typing import Literal

import msgspec

from flushlab.errors import UsageError
from flushlab.workload.command import CommandWorkload
from flushlab.workload.oltp import NAMES, OltpWorkload
from flushlab.workload.protocol import Workload

_MAX_THREADS = 4096


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The options that shape an OLTP workload; see `OltpWorkload`."""

    threads: int = 16
    tables: int = 8
    table_size: int = 10_000
    transport: Literal["socket", "tcp"] = "socket"
    rand_type: Literal["special", "uniform"] = "special"
    rate: float = 0.0


def parse_workload(text: str, shape: Shape) -> Workload:
    """The workload that the user named.

    Raises:
        UsageError: no such workload, or a shape that makes no sense.
    """
    if text.startswith("command:"):
        command = text.removeprefix("command:").strip()
        if not command:
            raise UsageError(
                "--workload 'command:' names no command", hint="write --workload 'command: ./load.sh'"
            )
        return CommandWorkload(command=command)
    if text not in NAMES:
        near = difflib.get_close_matches(text, NAMES, n=1)
        raise UsageError(
            f"there is no workload {text!r}",
            hint=(f"did you mean {near[0]}? " if near else "")
            + f"there are {', '.join(NAMES)} and 'command: …'",
        )
    for option, value, most in (
        ("--threads", shape.threads, _MAX_THREADS),
        ("--tables", shape.tables, 10_000),
        ("--table-size", shape.table_size, 1_000_000_000),
    ):
        if not 1 <= value <= most:
            raise UsageError(f"{option} {value} is out of range", hint=f"it takes 1 to {most}")
    if shape.rate < 0:
        raise UsageError(f"--rate {shape.rate} is negative", hint="0 means as fast as possible")
    return OltpWorkload(name=text, **msgspec.structs.asdict(shape))
