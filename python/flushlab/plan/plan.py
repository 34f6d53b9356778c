"""Plan: what a series asks for, as frozen values.

Sits in `plan`, a pure layer below `experiment`: nothing here opens a file or knows a server. A plan lists the
arms to compare. The code that runs a plan checks whether servers have the settings, folders the file system,
and workloads the options that the plan asks for. An error names the place in the file by `Plan.positions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from flushlab.errors import UsageError, nearest
from flushlab.record import BASE, BEST, CONTROL, Value
from flushlab.settings.floor import Floor
from flushlab.spec.parts import SAME_WORKLOAD, WorkloadSpec

COMPARE = "compare"
WINDOW_S = 10.0
COUNTED = ("redo syncs per commit", "binlog syncs per commit")
"""Quantities of a claim that are counted: their ratio says how many times as many, not how much faster."""
RESERVED = (BASE, CONTROL, BEST)
"""Names that every series gives to arms of its own."""


class ArmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One change under comparison.

    Attributes:
        defaults: settings of `on` that go back to the server's default; `*` is all of them.
        instead: tried in this order in place of `settings` where the version lacks one of these.
        file_system: what that place must be, like `zfs`; else the arm is skipped with the reason.
        record_size: bytes that its file system must write as one record.
        place: of its table among the plan's `positions`; empty: it came from no file.
    """

    name: str
    text: str = ""
    on: str = BASE
    settings: Mapping[str, Value] = {}
    defaults: tuple[str, ...] = ()
    instead: tuple[Mapping[str, Value], ...] = ()
    workload: WorkloadSpec = SAME_WORKLOAD
    data_root: str | None = None
    file_system: str | None = None
    record_size: int | None = None
    disk: str | None = None
    place: str = ""


def crossed(factors: Sequence[str]) -> dict[tuple[str, ...], str]:
    every = (one for count in range(len(factors) + 1) for one in itertools.combinations(factors, count))
    return {one: " + ".join(one) or BASE for one in every}


_Ratio = Annotated[float, Meta(gt=0, description="1 is as fast as before, 2 is twice as fast")]


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement about an arm that the series shall check. Exactly one of the three ratios is given.

    Attributes:
        expected: the ratio is this; above 1 is faster.
        quantity: quantity of the ratio: one of `COUNTED`; empty: the speed of the arms.
    """

    text: str
    arm: str
    against: str = BASE
    expected: _Ratio | None = None
    at_least: _Ratio | None = None
    at_most: _Ratio | None = None
    quantity: Literal["", "redo syncs per commit", "binlog syncs per commit"] = ""
    source: str = ""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """With the base's settings in force: one of `values`, if there are any, and none of `not_values`."""

    setting: str
    values: tuple[Value, ...] = ()
    not_values: tuple[Value, ...] = ()
    why: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One question, as a series of arms against a base.

    Attributes:
        base: the settings that arms are compared with; those that a version lacks are left out there.
        arms: in the file's order, after those of the factors.
        factors: names of changes that are crossed: every combination of them is one of `arms`, under the name
            that `crossed` has.
        floor: the weakest guarantees that may be recommended and be part of `best`; None: the base's.
        alternate: one running server, settings switched by SET GLOBAL between windows (all must be dynamic).
        positions: line and column, from 1, of all keys of the file by their paths, like `base.settings.NAME`,
            `workload.threads` or `arm.2.settings.NAME` (arms, factors, claims and requirements count from 0).
        path: of its file, as errors name it.
        folder: files that it names are relative to it; None: to the current one.
    """

    name: str
    title: str
    text: str = ""
    server: str | None = None
    cluster: int | None = None
    workload: WorkloadSpec
    base: Mapping[str, Value]
    arms: tuple[ArmPlan, ...]
    factors: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    requires: tuple[Requirement, ...] = ()
    blocks: int = 5
    window: float = WINDOW_S
    seed: int = 1
    floor: Floor | None = None
    best: bool = True
    alternate: bool = False
    base_name: str = BASE
    base_text: str = ""
    positions: Mapping[str, tuple[int, int]] = {}
    path: str = ""
    folder: Path | None = None
    source: str = ""

    def at(self, key: str) -> str:
        """`PATH:LINE:COL: `, or an empty string where the key came from no file."""
        position = self.positions.get(key)
        return f"{self.path}:{position[0]}:{position[1]}: " if position else ""

    @contextmanager
    def placed(self, key: str) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            raise UsageError(f"{self.at(key)}{error.message}", hint=error.hint) from error


def chosen(words: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """In the plan's order. Each word is a name, or how only one name begins; else UsageError."""
    found = {_meant(word, names) for word in words}
    return tuple(name for name in names if name in found)


def _meant(word: str, names: Sequence[str]) -> str:
    typed = word.strip().casefold()
    folded = {name: name.casefold() for name in names}
    exact = [name for name in names if name == word.strip()] or [n for n in names if folded[n] == typed]
    whole = [name for name in names if typed and folded[name].startswith(f"{typed} ")]
    begun = [name for name in names if typed and folded[name].startswith(typed)]
    for some in (exact, whole, begun):
        if len(some) == 1:
            return some[0]
    if begun:
        raise UsageError(f"--only {word!r} fits several arms", hint=f"name one of: {'; '.join(begun)}")
    near = nearest(word, names)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"the plan has: {'; '.join(names)}"
    raise UsageError(f"--only {word!r}: the plan has no such arm", hint=hint)
