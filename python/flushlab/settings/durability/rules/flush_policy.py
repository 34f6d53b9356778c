"""flush-policy: when a commit's redo reaches the operating system and the disk."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes


def _find(situation: Situation) -> Iterator[Effect]:
    policy = situation.value("innodb_flush_log_at_trx_commit")
    # The background flush looks once a second at most, so that a timeout of 0 is no better than 1.
    window_s = float(max(1, int(situation.value("innodb_flush_log_at_timeout") or 0)))
    lost = f"about {window_s:g} s of acknowledged commits may be lost (not a strict bound)"
    if policy == 0:
        yield Effect(on="process_crash", level="window", text=lost, window_s=window_s)
    else:
        yield Effect(
            on="process_crash", level="nothing_lost", text="nothing is lost: commits are in the log file"
        )
    if policy in (1, 3):
        yield from on_crashes(
            "nothing_lost", "nothing is lost if the device honors flushes: commits are synced"
        )
    else:
        yield from on_crashes("window", lost, window_s)


FLUSH_POLICY = Rule(
    name="flush-policy",
    source="https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html"
    "#sysvar_innodb_flush_log_at_trx_commit; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-system-variables",
    find=_find,
)
