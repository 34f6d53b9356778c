"""Sources: the texts of a workload, read when it is, so that reports show what ran."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from flushlab.record import SourceKind, SourceText
from flushlab.redact import option_file_without_passwords, without_passwords
from flushlab.workload import sql, txn
from flushlab.workload.command import CommandWorkload
from flushlab.workload.command_files import files_named
from flushlab.workload.protocol import Workload
from flushlab.workload.sql import SqlWorkload
from flushlab.workload.txn import TxnWorkload

MOST_BYTES = 128 << 10
"""Longer texts are not stored: a page and a JSON document are read by people and sent around."""

_MOST_SCRIPTS = 8
_SCRIPTS = frozenset(
    f".{one}"
    for one in ("bash", "groovy", "jmx", "js", "lua", "php", "pl", "py", "rb", "sh", "sql", "tcl", "ts")
)
"""Of shells, languages and load generators: names of files that hold what runs."""


def source_text(kind: SourceKind, name: str, content: bytes) -> SourceText:
    """A text as reports show it."""
    try:
        text = content.decode() if len(content) <= MOST_BYTES and b"\0" not in content else None
    except UnicodeDecodeError:
        text = None
    hide = option_file_without_passwords if kind == "option file" else without_passwords
    shown = None if text is None else hide(text)
    # A digest of the whole would let whoever reads the rest try out passwords.
    digested = content if shown in (None, text) else (shown or "").encode()
    return SourceText(
        kind=kind, name=name, size_bytes=len(content), sha256=hashlib.sha256(digested).hexdigest(), text=shown
    )


def sources_of(workload: Workload) -> tuple[SourceText, ...]:
    """The texts that a workload runs: its transactions and their setup, its script, or the scripts that its
    command names by their paths."""
    return tuple(_sources(workload))


def _sources(workload: Workload) -> Iterator[SourceText]:
    if isinstance(workload, TxnWorkload):
        yield source_text(
            "transactions", workload.name.removeprefix(txn.PREFIX).strip(), workload.source.encode()
        )
        if workload.setup_file:
            yield source_text("setup", workload.setup_file, workload.setup.encode())
    elif isinstance(workload, SqlWorkload):
        yield source_text("script", workload.name.removeprefix(sql.PREFIX).strip(), workload.script)
    elif isinstance(workload, CommandWorkload):
        yield from _scripts(workload)


def _scripts(workload: CommandWorkload) -> Iterator[SourceText]:
    # What an option or a redirection gets is data, and may be a secret.
    whole = (one for one in files_named(workload.command, Path(workload.folder)) if one.word.is_whole)
    small = (one for one in whole if one.path.stat().st_size <= MOST_BYTES and os.access(one.path, os.R_OK))
    found = ((word.text, path.read_bytes()) for word, path in small if _is_script(path))
    for name, content in islice(found, _MOST_SCRIPTS):
        if (source := source_text("script", name, content)).text:
            yield source


def _is_script(path: Path) -> bool:
    """Whether a file is a program by its name or its mode: others are data, and may be a secret."""
    return path.suffix.lower() in _SCRIPTS or os.access(path, os.X_OK)
