"""Source: SHOW ENGINE INNODB STATUS, of every version since MySQL 5.0 and of MariaDB. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from flushlab.diagnosis.files.told import Source, Told
from flushlab.diagnosis.monitor import Latch, Monitor
from flushlab.telemetry.live.questions import OpenTransaction

_BEGIN, _END = "INNODB MONITOR OUTPUT", "END OF INNODB MONITOR OUTPUT"
_NUMBERS = {
    "lsn": r"^Log sequence number\s+(\d{1,20}(?: \d{1,20})?)\s*$",
    "checkpoint": r"^Last checkpoint at\s+(\d{1,20}(?: \d{1,20})?)\s*$",
    "checkpoint_max_age": r"^Max checkpoint age\s+(\d{1,20})",
    "history_length": r"^History list length (\d{1,18})",
    "pages": r"^Buffer pool size\s+(\d{1,18})\s*$",
    "free_pages": r"^Free buffers\s+(\d{1,18})",
    "dirty_pages": r"^Modified db pages\s+(\d{1,18})",
    "averaged_s": r"^Per second averages calculated from the last (\d{1,9}) second",
}
_FIELDS = {name: re.compile(text, re.MULTILINE) for name, text in _NUMBERS.items()}
_ROWS = re.compile(
    r"^(\d{1,12}\.\d+) inserts/s, (\d{1,12}\.\d+) updates/s, (\d{1,12}\.\d+) deletes/s", re.MULTILINE
)
_PENDING = {
    "reads": re.compile(r"^Pending normal aio reads:\s*(\[[\d, ]*\]|\d{1,9})", re.MULTILINE),
    "writes": re.compile(r"aio writes:\s*(\[[\d, ]*\]|\d{1,9})"),
    "syncs of the redo log": re.compile(r"Pending flushes \(fsync\) log: (\d{1,9})"),
    "syncs of data files": re.compile(r"Pending flushes \(fsync\) log: \d{1,9}; buffer pool: (\d{1,9})"),
    "page flushes to find a free page": re.compile(r"^Pending writes:.*single page (\d{1,9})", re.MULTILINE),
}
_LATCH = re.compile(r"^--Thread \d+ has waited at (\S+) line (\d+) for (\d{1,9}(?:\.\d+)?) sec", re.MULTILINE)
_LATCH_NAME = re.compile(r"'&?([^'\n]{1,60})'|Mutex (\w{1,60}) created|created in file (\S{1,80})")
_OPEN = re.compile(r"^---TRANSACTION ([^,\n]+), ACTIVE (?:\([^)\n]*\) )?(\d{1,9}) sec", re.MULTILINE)
_PREPARED = re.compile(r"^---TRANSACTION [^,\n]+, ACTIVE \(PREPARED\) (\d{1,9}) sec", re.MULTILINE)
_THREAD = re.compile(r"(?:MySQL|MariaDB) thread id (\d{1,18})")
_ROW_LOCKS = re.compile(r"(\d{1,18}) row lock")
_UNDO = re.compile(r"undo log entries (\d{1,18})")
_NEXT_SECTION = re.compile(r"\n(?:LATEST [A-Z ]+|TRANSACTIONS)\n")
_CUT = "... truncated..."
_SECTIONS = ("\nTRANSACTIONS\n", "\nLOG\n", "\nROW OPERATIONS\n")


def parse(text: str) -> Told:
    """The outputs of a text."""
    if text.count("\\n") > text.count("\n"):  # mysql --batch writes line ends as two characters
        text = text.replace("\\n", "\n")
    return Told(monitors=tuple(_monitor(one) for one in _outputs(text.replace("\r\n", "\n"))))


def _outputs(text: str) -> Iterator[str]:
    """Each from its first line to its last, or to the next one's first."""
    places = [match.start() for match in re.finditer(_BEGIN, text)]
    before = _END.removesuffix(_BEGIN)
    begins = [at for at in places if not text.startswith(before, at - len(before))]
    for at, following in pairwise([*begins, len(text)]):
        yield text[at:following]


def _monitor(text: str) -> Monitor:
    found = {name: _number(match[1]) for name, field in _FIELDS.items() if (match := field.search(text))}
    rates = _ROWS.search(text)
    pending = {name: _sum(match[1]) for name, field in _PENDING.items() if (match := field.search(text))}
    return Monitor(
        **found,
        rows_per_s=sum(map(float, rates.groups())) if rates and found.get("averaged_s") else None,
        pending={name: count for name, count in pending.items() if count},
        latches=_latches(_semaphores(text)),
        transactions=tuple(_transactions(text)),
        committing=tuple(int(match[1]) for match in _PREPARED.finditer(text)),
        whole=_END in text and _CUT not in text and all(section in text for section in _SECTIONS),
    )


def _number(text: str) -> int:
    """A number; before MySQL 5.1 with InnoDB plugin, an LSN is two halves of 32 bits."""
    high, _, low = text.partition(" ")
    return (int(high) << 32) + int(low) if low else int(high)


def _sum(text: str) -> int:
    """A count, or one per thread."""
    return sum(int(part) for part in re.findall(r"\d{1,9}", text))


def _semaphores(text: str) -> str:
    """The section of that name: what follows has statements of clients in it."""
    _, _, behind = text.partition("\nSEMAPHORES\n")
    return _NEXT_SECTION.split(behind, maxsplit=1)[0]


def _latches(text: str) -> tuple[Latch, ...]:
    found = defaultdict[str, list[float]](list)
    waits = list(_LATCH.finditer(text))
    for match in waits:
        following = text.find("\n--", match.end())
        end = min(following if following >= 0 else len(text), match.end() + 300)
        named = _LATCH_NAME.search(text, match.end(), end)
        place = f"{match[1]} line {match[2]}"
        name = (named[1] or named[2] or f"latch of {named[3]}") if named else place
        found[name].append(float(match[3]))
    every = [Latch(name=name, waiting=len(one), longest_s=max(one)) for name, one in found.items()]
    return tuple(sorted(every, key=lambda one: (-one.waiting, one.name)))


def _transactions(text: str) -> Iterator[OpenTransaction]:
    """Those that are open; a deadlock's stand above the list."""
    begins = text.find("LIST OF TRANSACTIONS FOR EACH SESSION")
    listed = text[begins:] if begins >= 0 else ""
    starts = list(_OPEN.finditer(listed))
    for match in starts:
        end = listed.find("\n---", match.end())
        body = listed[match.start() : end if end >= 0 else len(listed)]
        thread, locked, undo = _THREAD.search(body), _ROW_LOCKS.search(body), _UNDO.search(body)
        if thread is not None:
            yield OpenTransaction(
                thread=int(thread[1]),
                waits="\nLOCK WAIT" in body,
                age_s=int(match[2]),
                rows_locked=int(locked[1]) if locked else 0,
                rows_modified=int(undo[1]) if undo else 0,
            )


SOURCE = Source(name="SHOW ENGINE INNODB STATUS", marks=(_BEGIN,), parse=parse)
