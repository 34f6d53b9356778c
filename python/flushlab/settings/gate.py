"""Gate: which lines of the user's option file reach a sandbox's server as they are written. Pure.

Sits in `settings`, on `admission` and `option_names`. A server takes one option under many spellings: dashes,
prefixes that stack, and in MariaDB abbreviations. A word passes only if every option that it may mean to the
server is admitted, and if its value holds no path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from flushlab.errors import UsageError
from flushlab.record.server import Flavor
from flushlab.settings.admission import A_PATH, UNKNOWN, kept_out
from flushlab.settings.catalog import canonical
from flushlab.settings.option_names import load_option_names

PREFIX = re.compile(r"(skip|disable|enable|maximum|loose)_")
BINARY_LOG = "binlog"
"""Base name of a sandbox's binary logs."""

_OPTION = re.compile(r"--[^\s=-].*", re.DOTALL)
_LOG_BIN = re.compile(r"(loose_)*log_bin")


def inside(word: str) -> str:
    """The word with the sandbox's own file for the user's, where the option only names one; else the word."""
    option, _, text = word.partition("=")
    if A_PATH.search(text) and _LOG_BIN.fullmatch(canonical(option.removeprefix("--"))):
        return f"{option}={BINARY_LOG}"
    return word


def barred(word: str, flavor: Flavor, version: tuple[int, ...]) -> str:
    """Why a word of the user's may not reach a server; empty if it may."""
    option, _, text = word.partition("=")
    if not _OPTION.fullmatch(option):
        return UNKNOWN
    if A_PATH.search(word):
        return "file locations"
    for name, known in _meanings(canonical(option.removeprefix("--")), flavor, version):
        why = kept_out(name, text)
        if why and (known or why != UNKNOWN):
            return why
    return ""


def require_admitted_words(words: Iterable[str], flavor: Flavor, version: tuple[int, ...]) -> None:
    """Refuses words of the user's that may not reach a server.

    Raises:
        UsageError: names the first one, without its value.
    """
    for word in words:
        if why := barred(word, flavor, version):
            raise UsageError(f"{word.partition('=')[0]} cannot be given to a sandbox ({why})")


def _meanings(spelled: str, flavor: Flavor, version: tuple[int, ...]) -> Iterator[tuple[str, bool]]:
    """The options that a name may mean, and whether the server may have them: one that no listed server has
    only stops the start."""
    names = load_option_names()
    while True:
        if names.knows(spelled, flavor, version):
            yield spelled, True
        else:
            longer = names.starting_with(spelled, flavor, version)
            yield from ((name, True) for name in longer)
            if spelled not in longer:
                yield spelled, spelled in names.names()
        match = PREFIX.match(spelled)
        if match is None:
            return
        spelled = spelled[match.end() :]
