"""engine: tables that name no engine have the default one, which may have no log to recover from."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes

_WITH_A_LOG = {"innodb", "rocksdb", "tokudb", "ndb", "ndbcluster", "columnstore", "s3"}
_EMPTY = {"memory", "heap", "blackhole"}


def _find(situation: Situation) -> Iterator[Effect]:
    engine = str(situation.value("default_storage_engine") or "InnoDB")
    if engine.lower() in _WITH_A_LOG:
        return
    text = f"tables that name no engine are {engine}, which has no redo log: they may be damaged or lose rows"
    if engine.lower() in _EMPTY:
        text = f"tables that name no engine are {engine}: their rows are gone"
    yield Effect(on="process_crash", level="at_risk", text=text)
    yield from on_crashes("at_risk", text)


ENGINE = Rule(
    name="engine",
    source="https://dev.mysql.com/doc/refman/8.0/en/myisam-storage-engine.html; "
    "https://mariadb.com/kb/en/aria-storage-engine/ (tables of users are not transactional)",
    find=_find,
)
