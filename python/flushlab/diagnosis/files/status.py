"""Source: SHOW GLOBAL STATUS, once or as often as `mysqladmin extended-status -i` prints it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flushlab.diagnosis.files.pairs import are, blocks, joined
from flushlab.diagnosis.files.told import Source, Told

_ALWAYS = "uptime"
_USUAL = frozenset(
    (
        *("aborted_clients", "bytes_sent", "com_select", "com_insert", "connections", "handler_commit"),
        *("innodb_data_fsyncs", "innodb_buffer_pool_reads", "innodb_log_waits", "innodb_row_lock_waits"),
        *("questions", "threads_connected", "threads_running", "uptime"),
    )
)
_CONSTANT = "innodb_page_size"


def parse(text: str) -> Told:
    """The statuses of a text."""
    found = [block for block in blocks(text) if are(block, _USUAL)]
    if not found and (both := joined(text)) is not None:
        found = [block for block in both if are(block, _USUAL)]
    return Told(statuses=tuple(_absolute(found)), timeless=sum(_ALWAYS not in block for block in found))


def _absolute(blocks: Sequence[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """`mysqladmin --relative` prints differences after the first status: even the size of a page is 0."""
    sums: dict[str, str] = {}
    for block in blocks:
        is_relative = bool(sums) and sums.get(_CONSTANT, "0") != "0" and block.get(_CONSTANT) == "0"
        sums = (
            {name: _added(sums.get(name), text) for name, text in block.items()} if is_relative else {**block}
        )
        yield sums


def _added(before: str | None, difference: str) -> str:
    try:
        return str(int(before or "0") + int(difference))
    except ValueError:
        return before or difference


SOURCE = Source(
    name="SHOW GLOBAL STATUS", marks=("Aborted_", "Com_", "Innodb_", "INNODB_", "Threads_"), parse=parse
)
