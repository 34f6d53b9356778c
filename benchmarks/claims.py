"""The shipped plan `insert-on-duplicate`, so that each of its seven claims is decided in twenty minutes.

Arms that act in the commit path are measured in turns, those that show later on fresh servers, and those
that commit by the clock in turns of their own, because these must be long. So the plan runs in parts, each
with its base and control; a limited disk cannot be shared, so there all run on fresh servers.

    python benchmarks/claims.py --server mysql@8.0 --json claims.jsonl
    python benchmarks/claims.py --server mysql@8.0 --disk-iops 120 --json claims.jsonl

Prints rows of the tables in docs/guides/series-measured.md. With `--json` each part leaves a line in the
file, and what stands there is not run again. Set FLUSHLAB_ZFS_ROOT for the arms on ZFS. Bar: every claim is
confirmed or refuted, or its interval lies within 2.5 % of its ratio. The last part has no claims.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

import msgspec

import flushlab
from flushlab.campaign.facts import ArmFacts, SeriesFacts
from flushlab.plan.shipped import find_plan
from flushlab.record import Comparison, Ratio

PLAN = "insert-on-duplicate"
PRECISE = 0.025


class Part(NamedTuple):
    """Arms that are measured together, by the first letters of their names.

    Attributes:
        name: of the part.
        arms: those names.
        best: whether all that proved faster is measured together, too.
        fresh: on fresh servers.
        blocks, seconds: as of `flushlab series`.
    """

    name: str
    arms: tuple[str, ...]
    best: bool
    fresh: bool
    blocks: int
    seconds: float


PARTS = (
    Part("in turns", ("B", "D", "F", "G", "H", "K", "L"), best=False, fresh=False, blocks=5, seconds=8.0),
    Part("by the clock", ("C", "G"), best=True, fresh=False, blocks=5, seconds=10.0),
    Part("shows later", ("I", "J", "J2"), best=False, fresh=True, blocks=5, seconds=10.0),
    Part("without a claim", ("A", "M", "N", "O", "P"), best=False, fresh=True, blocks=5, seconds=10.0),
)
LIMITED = Part("limited disk", ("*",), best=True, fresh=True, blocks=5, seconds=8.0)


class Row(msgspec.Struct, frozen=True):
    """An arm or a claim, and what was found."""

    what: str
    found: str
    decided: bool = True


class Found(msgspec.Struct, frozen=True):
    """What a part found."""

    part: str
    arms: tuple[Row, ...]
    claims: tuple[Row, ...]
    minutes: float
    others: str


def plan_of(part: Part) -> str:
    """The shipped plan with the part's arms and their claims alone."""
    head, *tables = re.split(r"(?m)^(?=\[\[)", Path(find_plan(PLAN)).read_text())
    kept = [table for table in tables if _belongs(tomllib.loads(table), part)]
    return f"best = {str(part.best).lower()}\n{head}{''.join(kept)}"


def _belongs(table: dict[str, list[dict[str, str]]], part: Part) -> bool:
    if part.arms == ("*",):
        return True
    if "arm" in table:
        return table["arm"][0]["name"].split()[0] in part.arms
    (claim,) = table["claim"]
    if claim["arm"] == "best":
        return part.best
    return claim["arm"].split()[0] in part.arms and not (part.best and claim["arm"].split()[0] == "G")


def run(part: Part, server: str, disk_iops: int | None, scale: float) -> Found:
    """Runs a part."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{PLAN}.toml")
        file.write_text(plan_of(part))
        facts = flushlab.series(
            file,
            server=server,
            blocks=part.blocks,
            seconds=part.seconds * scale,
            disk_iops=disk_iops,
            fresh=part.fresh,
            progress=_say,
        )
    assert facts.interleaved is not part.fresh, facts.why_fresh
    return Found(
        part=f"{part.name}, {server}{f', {disk_iops} writes/s' if disk_iops else ''}",
        arms=tuple(_rows(facts)),
        claims=tuple(
            Row(
                what=claim.text,
                found=f"{claim.answer}{f' ({claim.ratio.estimate:.2f})' if claim.ratio else ''}",
                decided=claim.answer in ("confirmed", "refuted") or _narrow(claim.ratio),
            )
            for claim in facts.claims
        ),
        minutes=round((time.monotonic() - began) / 60, 1),
        others=facts.others.words if facts.others else "",
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _rows(facts: SeriesFacts) -> list[Row]:
    rows = [Row(arm.name, _words(arm)) for arm in facts.arms]
    rows.append(Row("control", _ratio(facts.control)))
    base = "no figure" if facts.base_figure is None else f"{facts.base_figure:,.0f} {facts.unit}"
    return [*rows, Row("the base itself", base)]


def _words(arm: ArmFacts) -> str:
    return _ratio(arm.comparison) if arm.comparison else arm.outcome


def _ratio(found: Comparison | None) -> str:
    if found is None:
        return "no figure"
    text = f"{found.ratio.estimate:.2f} [{found.ratio.low:.2f}, {found.ratio.high:.2f}]"
    return text if found.verdict == "no difference found" else f"**{text}**"


def _narrow(ratio: Ratio | None) -> bool:
    return ratio is not None and (ratio.high - ratio.low) / 2 <= PRECISE * ratio.estimate


def main() -> int:
    """Runs what is left to run; 1 if a claim is not decided."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mysql@8.0")
    parser.add_argument("--disk-iops", type=int, help="limit the disk to so many writes/s (root, cgroups)")
    parser.add_argument("--scale", type=float, default=1.0, help="measure so many times as long")
    parser.add_argument("--json", type=Path, help="a line per part; those that are there are not run again")
    given = parser.parse_args()
    lines = given.json.read_bytes().splitlines() if given.json and given.json.exists() else []
    kept = {one.part: one for one in (msgspec.json.decode(line, type=Found) for line in lines)}
    decided = True
    for part in (LIMITED,) if given.disk_iops else PARTS:
        name = f"{part.name}, {given.server}{f', {given.disk_iops} writes/s' if given.disk_iops else ''}"
        found = kept.get(name) or run(part, given.server, given.disk_iops, given.scale)
        if given.json and name not in kept:
            with given.json.open("ab") as file:
                file.write(msgspec.json.encode(found) + b"\n")
        rows = [f"| {row.what} | {row.found} |\n" for row in (*found.arms, *found.claims)]
        sys.stdout.write(f"{name}, {found.minutes} min, {found.others}\n{''.join(rows)}")
        sys.stdout.flush()
        decided &= all(row.decided for row in found.claims)
    return int(not decided)


if __name__ == "__main__":
    sys.exit(main())
