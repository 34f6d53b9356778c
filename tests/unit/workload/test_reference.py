"""docs/reference/workloads.md names every option of every workload with its default and its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.workload.options import OptionInfo
from flushlab.workload.parse import workload_options
from flushlab.workload.tables import OLTP_NAMES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "workloads.md"
WORKLOADS = {
    "oltp": "oltp_read_write",
    "upsert": "upsert",
    "data": "data",
    "txn": "txn:x.toml",
    "sql": "sql:x.sql",
    "command": "command: x",
}


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").partition("## Options")[2].partition("\n## ")[0].splitlines()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")
    ]
    assert table
    return table


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_option_is_described_with_its_default_and_limits(name: str) -> None:
    described = {row[0].strip("`"): row for row in rows() if f"`{name}`" in row[1].split(", ")}
    options = workload_options(WORKLOADS[name])
    assert described.keys() == options.keys()
    for option in options.values():
        _, _, default, values = described[option.name]
        due = f"{option.default:g}" if isinstance(option.default, float | int) else option.default
        assert default == due
        for limit in limits(option):
            assert limit in values


def test_every_workload_of_sysbench_takes_the_same_options() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in OLTP_NAMES:
        assert workload_options(name) == workload_options("oltp_read_write")
        assert f"`{name}`" in page


def limits(option: OptionInfo) -> tuple[str, ...]:
    if option.kind == "word":
        return option.words
    if option.kind == "switch":
        return ("off" if option.default == "on" else "on",)
    if option.name == "rate":
        return (f"{option.high:.12g}",)
    return (f"{option.low:.12g} to {option.high:.12g}",) if option.kind in ("integer", "number") else ()
