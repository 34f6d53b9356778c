"""Candidate: values worth trying for one setting (or for settings that only make sense together)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flushlab.record.arm import Value


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the base that `tune` may try.

    Attributes:
        settings: the names and values that change together, usually one.
        group: the mechanism that it works on: `commit`, `redo`, `binlog`, `flushing`, `pool`,
            `doublewrite`, `ddl`; screening merges by group when the budget is short.
        why: possible gain, in one sentence.
        needs_steady_state: its effect can only be credited in windows that outlast the redo log.
    """

    settings: Mapping[str, Value]
    group: str
    why: str
    needs_steady_state: bool = False
