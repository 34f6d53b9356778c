"""Words: functions, types and syntax of SQL that only some servers take.

Sits in `settings`: pure apart from reading the packaged `words.toml` once.

`find_words` looks for them in SQL, in the sources of migrations and in a server's error message.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Literal

import msgspec

from flushlab.record.machine import Flavor
from flushlab.settings.catalog import version_of

_UNREAD = re.compile(
    r"/\*(?!!(?:[0-4]\d{4}|50[0-6]\d\d)\b).*?\*/|(?:^|(?<=\s))(?:--\s|#).*?$"
    r"|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"",
    re.DOTALL | re.MULTILINE,
)
"""Comments and string literals. The other flavor, and older servers, skip a comment `/*!50700 … */`."""

Text = Literal["sql", "source", "message"]


class SqlWord(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a server takes from a version on.

    Attributes:
        pattern, key: what finds it; the key is in every text that the pattern matches.
        raw: it stands in comments too.
        anywhere: it has no other meaning in files that are not SQL.
        since: the first version of each flavor that takes it; a flavor that is missing refuses it.
        whose: the flavor that writes it, although both take it; else empty.
    """

    says: str
    pattern: re.Pattern[str]
    key: str
    message: re.Pattern[str] | None
    raw: bool
    anywhere: bool
    since: dict[Flavor, tuple[int, ...]]
    whose: Flavor | Literal[""] = ""

    def taken_by(self, flavor: Flavor, version: tuple[int, ...]) -> bool:
        return flavor in self.since and version >= self.since[flavor]


class SqlWordEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    says: str = ""
    pattern: str = ""
    key: str = ""
    names: tuple[str, ...] = ()
    message: str = ""
    raw: bool = False
    anywhere: bool = False
    mysql: str = ""
    mariadb: str = ""
    whose: Flavor | Literal[""] = ""
    try_: str = msgspec.field(name="try")
    setup: str = ""
    undo: str = ""
    source: str

    def words(self) -> Iterator[SqlWord]:
        since: dict[Flavor, tuple[int, ...]] = {}
        since |= {"mysql": version_of(self.mysql)} if self.mysql else {}
        since |= {"mariadb": version_of(self.mariadb)} if self.mariadb else {}
        calls = [(name, rf"\b{name}\b`?(?=\s*\(| does not exist)", name) for name in self.names]
        for says, pattern, key in calls or [(self.says, self.pattern, self.key or self.says)]:
            yield SqlWord(
                says=says,
                pattern=re.compile(pattern, re.IGNORECASE | re.MULTILINE),
                key=key.lower(),
                message=re.compile(self.message) if self.message else None,
                raw=self.raw,
                anywhere=self.anywhere or bool(calls),
                since=since,
                whose=self.whose,
            )


@functools.cache
def load_entries() -> tuple[SqlWordEntry, ...]:
    text = (resources.files("flushlab.settings") / "words.toml").read_text(encoding="utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["word"], list[SqlWordEntry]))


@functools.cache
def load_words() -> tuple[SqlWord, ...]:
    return tuple(word for entry in load_entries() for word in entry.words())


def find_words(text: str, kind: Text = "sql") -> list[SqlWord]:
    lower = text.lower()
    if kind == "message":
        return [one for one in load_words() if _in_message(one, text, lower)]
    near = [one for one in load_words() if one.key in lower and (one.anywhere or kind == "sql")]
    read = _UNREAD.sub(_shortened, text) if kind == "sql" and near else text
    return [one for one in near if one.pattern.search(text if one.raw else read)]


def _in_message(word: SqlWord, text: str, lower: str) -> bool:
    if word.message is not None and word.message.search(text):
        return True
    return word.anywhere and word.key in lower and word.pattern.search(text) is not None


def _shortened(match: re.Match[str]) -> str:
    return "''" if match[0][0] in "'\"" else " "
