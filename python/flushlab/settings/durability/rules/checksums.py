"""checksums: without them a torn page or a torn redo block is not noticed."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes


def _find(situation: Situation) -> Iterator[Effect]:
    algorithm = situation.value("innodb_checksum_algorithm")
    if algorithm in ("none", "strict_none") or situation.value("innodb_checksums") == "OFF":
        yield Effect(on="torn_page", level="at_risk", text="torn pages go unnoticed: page checksums are off")
    if situation.value("innodb_log_checksums") == "OFF":
        yield from on_crashes("unknown", "recovery cannot detect a torn redo block: redo checksums are off")


CHECKSUMS = Rule(
    name="checksums",
    source="https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_checksum_algorithm",
    find=_find,
)
