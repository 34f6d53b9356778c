"""InnoDB: SHOW ENGINE INNODB STATUS since MySQL 5.0, of MariaDB too, or sections of it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from flushlab.diagnosis.evidence import LOG_SYNCS, Latch, Monitor
from flushlab.diagnosis.files.told import Told, whole
from flushlab.telemetry.live.questions import OpenTransaction

_BEGIN, _END = "INNODB MONITOR OUTPUT", "END OF INNODB MONITOR OUTPUT"
_NUMBERS = {
    "lsn": r"^Log sequence number\s+(\d{1,20}(?: \d{1,20})?)\s*$",
    "flushed": r"^Log flushed up to\s+(\d{1,20}(?: \d{1,20})?)\s*$",
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
    LOG_SYNCS: re.compile(
        r"Pending flushes \(fsync\) log: (\d{1,9})|^(\d{1,9}) pending log flushes", re.MULTILINE
    ),
    "syncs of data files": re.compile(r"Pending flushes \(fsync\) log: \d{1,9}; buffer pool: (\d{1,9})"),
    "page flushes to find a free page": re.compile(r"^Pending writes:.*single page (\d{1,9})", re.MULTILINE),
}
_LATCH = re.compile(r"^--Thread \d+ has waited at (\S+) line (\d+) for (\d{1,9}(?:\.\d+)?) sec", re.MULTILINE)
_LATCH_NAME = re.compile(r"'&?([^'\n]{1,60})'|Mutex (\w{1,60}) created|created in file (\S{1,80})")
_OPEN = re.compile(
    r"^---TRANSACTION ([^,\n]{1,60}), ACTIVE (?:\(([^)\n]{0,40})\) )?(\d{1,9}) sec", re.MULTILINE
)
_FLUSHING = re.compile(r"^---TRANSACTION [^,\n]{1,60}, [^\n]{0,60} flushing log$", re.MULTILINE)
_MAIN_FLUSHES = re.compile(r"^[^\n]{0,100}?\bstate[:=] ?flushing log$", re.MULTILINE)
_THREAD = re.compile(
    r"(?:MySQL|MariaDB) thread id (\d{1,18})(?:[^\n]{0,100}?query id \d{1,20})?([^\n]*)\n?([^\n]*)"
)
_NO_STATEMENT = re.compile(r"\s*(?:---|Trx |TABLE LOCK|RECORD LOCK|$)")
_ROW_LOCKS = re.compile(r"(\d{1,18}) row lock")
_UNDO = re.compile(r"undo log entries (\d{1,18})")
_NEXT_SECTION = re.compile(r"\n(?:LATEST [A-Z ]+|TRANSACTIONS)\n")
_LIST = "LIST OF TRANSACTIONS FOR EACH SESSION"
_SECTIONS = ("SEMAPHORES", "TRANSACTIONS", "FILE I/O", "LOG", "BUFFER POOL AND MEMORY", "ROW OPERATIONS")
_INDENTED = re.compile(rf"^([ \t]+)(?:{'|'.join(_SECTIONS)}|{_LIST}:|---TRANSACTION .*)$", re.MULTILINE)
_TRAILING = re.compile(r"(?<![ \t\r])[ \t\r]+\n")
MARKS = (_BEGIN, "---TRANSACTION ", _LIST, "Log sequence number", "History list length", "--Thread ")
"""One of them is in whatever people cut out of an output."""


def parse(text: str) -> Told:
    if text.count("\\n") > text.count("\n"):  # mysql --batch writes line ends as two characters
        text = text.replace("\\n", "\n")
    text = "\n" + _TRAILING.sub("\n", text)
    if (indented := _INDENTED.search(text)) is not None:
        text = text.replace(f"\n{indented[1]}", "\n")
    # Each output goes from its first line to its last, or to the next one's first.
    before = _END.removesuffix(_BEGIN)
    places = [match.start() for match in re.finditer(_BEGIN, text)]
    begins = [at for at in places if not text.startswith(before, at - len(before))]
    monitors = [_monitor(text[at:end]) for at, end in pairwise([*begins, len(text)])]
    if not monitors and (part := _monitor(text)) != Monitor(absent=part.absent):
        monitors = [part]
    return Told(monitors=tuple(monitors), is_mariadb=bool(monitors) and "\nMariaDB thread id " in text)


def _monitor(text: str) -> Monitor:
    numbers = {name: _number(match[1]) for name, field in _FIELDS.items() if (match := field.search(text))}
    rates = _ROWS.search(text)
    pending = {
        name: sum(map(int, re.findall(r"\d{1,9}", match[match.lastindex or 0])))  # a count, or one per thread
        for name, field in _PENDING.items()
        if (match := field.search(text))
    }
    absent = [] if _BEGIN in text.replace(_END, "") else ["its first line"]
    absent += [name for name in ("TRANSACTIONS", "LOG", "ROW OPERATIONS") if f"\n{name}\n" not in text]
    absent += ["some transactions"] if "... truncated..." in text else []
    absent += [] if _END in text else ["its last line"]
    return Monitor(
        **numbers,
        rows_per_s=sum(map(float, rates.groups())) if rates and numbers.get("averaged_s") else None,
        pending={name: count for name, count in pending.items() if count},
        latches=_latches(text),
        transactions=tuple(_transactions(text)),
        flushing=len(_FLUSHING.findall(text)),
        main_flushes=_MAIN_FLUSHES.search(text) is not None,
        absent=tuple(absent),
    )


def _number(text: str) -> int:
    """A number; before MySQL 5.1 with InnoDB plugin, an LSN is two halves of 32 bits."""
    high, _, low = text.partition(" ")
    return (int(high) << 32) + int(low) if low else int(high)


def _latches(text: str) -> tuple[Latch, ...]:
    """Of the section SEMAPHORES alone: what follows has statements of clients in it."""
    text = _NEXT_SECTION.split(text.partition("\nSEMAPHORES\n")[2], maxsplit=1)[0]
    waits = defaultdict[str, list[float]](list)
    for match in _LATCH.finditer(text):
        following = text.find("\n--", match.end())
        end = min(following if following >= 0 else len(text), match.end() + 300)
        named = _LATCH_NAME.search(text, match.end(), end)
        place = f"{match[1]} line {match[2]}"
        name = (named[1] or named[2] or f"latch of {named[3]}") if named else place
        waits[name].append(float(match[3]))
    latches = [Latch(name=name, waiting=len(times), longest_s=max(times)) for name, times in waits.items()]
    return tuple(sorted(latches, key=lambda latch: (-latch.waiting, latch.name)))


def _transactions(text: str) -> Iterator[OpenTransaction]:
    begins = text.find(_LIST)
    listed = text[begins:] if begins >= 0 else "" if _BEGIN in text else text
    for match in list(_OPEN.finditer(listed)):
        end = listed.find("\n---", match.end())
        body = listed[match.start() : end if end >= 0 else len(listed)]
        thread, locked, undo = _THREAD.search(body), _ROW_LOCKS.search(body), _UNDO.search(body)
        yield OpenTransaction(
            id=whole(match[1].rpartition(" ")[2]),
            thread=int(thread[1]) if thread else 0,
            waits="\nLOCK WAIT" in body,
            idle=thread is None or _NO_STATEMENT.match(thread[3]) is not None,
            prepared=match[2] == "PREPARED",
            state=thread[2].strip() if thread else "",
            age_s=int(match[3]),
            rows_locked=int(locked[1]) if locked else 0,
            rows_modified=int(undo[1]) if undo else 0,
        )
