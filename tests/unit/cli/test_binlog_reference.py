"""docs/reference/binlog.md names every field of the document, every rule, verdict, limit and kind of tail."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from flushlab import _core
from flushlab.cli.binlog import REFUSALS, SCHEMA, TAILS

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs" / "reference" / "binlog.md").read_text()


def test_fields_are_named(tmp_path: Path) -> None:
    _core.write_sample_binlog(str(tmp_path), "9.7.4", "t", 1, 1_000_000, False)
    file = tmp_path / "binlog.000001"
    file.write_bytes(file.read_bytes()[:-1])
    (report,) = msgspec.json.decode(_core.check_binlogs([str(file)]))
    table = REFERENCE[REFERENCE.index("## JSON") :]
    named = set(re.findall(r"`([a-z_]+)(?:\[\])?`", table))
    assert f"`{SCHEMA}`" in table
    for field in {*report, *report["rows"], *report["tail"]}:
        assert field in named, field


def test_rules_and_kinds_are_named() -> None:
    source = (ROOT / "crates" / "binlog" / "src" / "check" / "report.rs").read_text()
    rules = re.findall(r'Self::\w+ => "([a-z-]+)"', source)
    assert len(rules) == 13
    variants = source[source.index("enum LimitKind {") : source.index("impl LimitKind")]
    limits = [
        re.sub(r"(?<!^)([A-Z])", r"-\1", name).lower()
        for name in re.findall(r"^    ([A-Z]\w+),", variants, re.M)
    ]
    assert len(limits) == 8
    for word in (*rules, *TAILS, *limits, "whole", *REFUSALS):
        assert f"`{word}`" in REFERENCE, word
