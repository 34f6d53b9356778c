"""Option names: which options servers take, beyond the catalog's settings.

Sits in `settings`: pure apart from reading two packaged files once. `option_names.txt` is made by
`scripts/option_names.py` from what servers print with `--verbose --help`; `tests/contract` compares them. It
knows a few releases; about one that lies between them it may be undecided. `removed_options.txt` says when an
option ended and what took its place.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple, cast

import msgspec

from flushlab.record.server import Flavor
from flushlab.settings.catalog import canonical, version_of

_TAKEN, _LIMITED, _IGNORED = "+", "^", "o"

NEAR = 0.8
"""How alike a name must be to be named as the one that was meant (difflib's ratio)."""
ALIKE, SAME = 0.6, 0.94
"""How alike each word of it must be; how alike the letters, where the words are not as many."""


class Release(NamedTuple):
    """A server whose options are listed."""

    flavor: Flavor
    version: tuple[int, ...]

    @classmethod
    def parse(cls, word: str) -> Release:
        """A release as lists name it: `mysql@8.0.15`."""
        flavor, _, version = word.partition("@")
        return cls(cast(Flavor, flavor), version_of(version))

    def __str__(self) -> str:
        return f"{self.flavor}@{'.'.join(map(str, self.version))}"

    @property
    def series(self) -> str:
        """`mysql 8.0`."""
        return f"{self.flavor} {'.'.join(map(str, self.version[:2]))}"


class Removal(NamedTuple):
    """The end of an option.

    Attributes:
        ends: the first version of each flavor that lacks it.
        successors: options that do its work, on servers that have them; NAME=VALUE where only one value does.
        note: what to know before the line is changed.
    """

    ends: Mapping[str, tuple[int, ...]]
    successors: tuple[str, ...]
    note: str = ""


class OptionNames:
    """Which release takes which options."""

    def __init__(
        self,
        releases: Sequence[Release],
        takers: Mapping[str, frozenset[Release]],
        ignorers: Mapping[str, frozenset[Release]] | None = None,
        removals: Mapping[str, Removal] | None = None,
        limited: Mapping[str, frozenset[Release]] | None = None,
    ) -> None:
        self.releases = tuple(releases)
        self._takers = takers
        self._ignorers = ignorers or {}
        self._removals = removals or {}
        self._limited = limited or {}

    def names(self) -> frozenset[str]:
        """All names that any listed release takes, or ignores."""
        return frozenset(self._takers) | frozenset(self._ignorers)

    def removed(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
        """The version in which that flavor dropped the option; None if it has it still, or never had it."""
        removal = self._removals.get(name)
        end = removal.ends.get(flavor) if removal else None
        return end if end is not None and version >= end else None

    def successors(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[str, ...]:
        """What that server has in the place of an option that ended."""
        removal = self._removals.get(name)
        found = removal.successors if removal else ()

        def has(option: str) -> bool:
            name = option.partition("=")[0]
            return "." in name or self.knows(name, flavor, version) is not False

        return tuple(one for one in found if has(one) or has(one.removeprefix("skip_")))

    def note(self, name: str) -> str:
        """What to know before a line with an option that ended is changed; empty if there is nothing."""
        removal = self._removals.get(name)
        return removal.note if removal else ""

    def ended(self) -> Mapping[str, Removal]:
        """All options that ended somewhere, by name."""
        return self._removals

    def ignored_by(self, release: Release) -> frozenset[str]:
        """The options that a listed release takes and does nothing with."""
        return frozenset(name for name, ignorers in self._ignorers.items() if release in ignorers)

    def ignores(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool:
        """Whether that server takes the option and does nothing with it, as the release before it does."""
        before = [one for one in self.releases if one.flavor == flavor and one.version <= version]
        return bool(before) and before[-1] in self._ignorers.get(name, frozenset())

    def limited_by(self, release: Release) -> frozenset[str]:
        """The options of a listed release that take `maximum_`."""
        return frozenset(name for name, limiters in self._limited.items() if release in limiters)

    def limits(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool | None:
        """Whether that server takes the option with `maximum_`; None if its listed neighbours differ."""
        takers = [one for one in self.releases if one.flavor == flavor and name in self.of(one)]
        before = [one for one in takers if one.version <= version][-1:]
        after = [one for one in takers if one.version >= version][:1]
        found = {one in self._limited.get(name, frozenset()) for one in (*before, *after)}
        return found.pop() if len(found) == 1 else None

    def of(self, release: Release) -> frozenset[str]:
        """The options of a listed release."""
        return frozenset(name for name, takers in self._takers.items() if release in takers)

    def knows(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool | None:
        """Whether that server takes the option; None if its neighbours differ or none is listed after it.

        A release between two listed ones has what both have, and lacks what neither has.
        """
        own = [one for one in self.releases if one.flavor == flavor]
        takers = self._takers.get(name, frozenset())
        before = [one for one in own if one.version <= version]
        after = [one for one in own if one.version >= version]
        if not before or not after:
            neighbour = before[-1] if before else after[0]
            return True if neighbour in takers else None
        if (before[-1] in takers) == (after[0] in takers):
            return before[-1] in takers
        removal = self._removals.get(name)
        end = removal.ends.get(flavor) if removal and before[-1] in takers else None
        return None if end is None else version < end

    def where(self, name: str) -> str:
        """The series that take it: `mysql 5.7, mysql 8.0`; empty if none does."""
        takers = self._takers.get(name, frozenset())
        return ", ".join(one.series for one in self.releases if one in takers)

    def near(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> str | None:
        """The most alike option of that server, if it is much alike and not one of more or fewer words."""
        known = [other for other in self._takers if self.knows(other, flavor, version)]
        near = difflib.get_close_matches(name, known, n=3, cutoff=NEAR)
        return next((other for other in near if _misspelled(name, other)), None)

    def starting_with(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[str, ...]:
        """The options of that server that begin so, those that it ignores among them."""
        return tuple(
            sorted(
                other
                for other in self.names()
                if other.startswith(name)
                and (
                    (other in self._takers and self.knows(other, flavor, version) is not False)
                    or self.ignores(other, flavor, version)
                )
            )
        )


def _misspelled(name: str, other: str) -> bool:
    """Whether one name is the other with wrong letters: `thread_concurrency` is an option of its own, and no
    `innodb_thread_concurrency` without its first word."""
    words, others = name.split("_"), other.split("_")
    if len(words) != len(others):
        return _alike("".join(words), "".join(others)) >= SAME
    return all(_alike(*pair) >= ALIKE for pair in zip(words, others, strict=True))


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


@functools.cache
def load_option_names() -> OptionNames:
    """The packaged lists; read once."""
    text = (resources.files("flushlab.settings") / "option_names.txt").read_text(encoding="utf-8")
    releases: list[Release] = []
    marked: dict[str, dict[str, frozenset[Release]]] = {_TAKEN + _LIMITED: {}, _LIMITED: {}, _IGNORED: {}}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "releases":
            releases = [Release.parse(word) for word in words[1:]]
            continue
        for mark, names in marked.items():
            found = frozenset(one for one, said in zip(releases, words[1], strict=True) if said in mark)
            if found:
                names[words[0]] = found
    return OptionNames(
        releases, marked[_TAKEN + _LIMITED], marked[_IGNORED], _read_removals(), marked[_LIMITED]
    )


def _read_removals() -> dict[str, Removal]:
    text = (resources.files("flushlab.settings") / "removed_options.txt").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        facts, _, note = line.partition(";")
        words = facts.split()
        if words and words[0] != "#":
            ends = [Release.parse(word) for word in words[1:] if "@" in word]
            successors = [word for word in words[1:] if "@" not in word and word != "-"]
            found[words[0]] = Removal(
                {one.flavor: one.version for one in ends}, tuple(successors), note.strip()
            )
    return found


def render(
    taken: Mapping[Release, frozenset[str]],
    ignored: Mapping[Release, frozenset[str]],
    limited: Mapping[Release, frozenset[str]],
) -> str:
    """The text of `option_names.txt`, releases by flavor and version."""
    releases = sorted(taken, key=lambda one: (one.flavor != "mysql", one.version))
    head = " ".join(map(str, releases))
    lines = [
        "# Made by scripts/option_names.py from `--verbose --help`: + taken, ^ with maximum_, too,"
        " o taken and ignored, . unknown.",
        f"releases {head}",
    ]
    for name in sorted(frozenset().union(*taken.values(), *ignored.values())):
        marks = (
            (_LIMITED if name in limited.get(one, ()) else _TAKEN)
            if name in taken[one]
            else _IGNORED
            if name in ignored.get(one, ())
            else "."
            for one in releases
        )
        lines.append(f"{name} {''.join(marks)}")
    return "\n".join(lines) + "\n"


_TABLE = "Variables (--variable-name=value)"
_OPTION = re.compile(r"^  (?:-[A-Za-z#?], )?--([a-z][a-zA-Z0-9_.-]+)", re.MULTILINE)
_SAID_IGNORED = re.compile(
    r"'([a-z0-9_-]+)' (?:was removed\. It does nothing now|is MySQL \S+ / \S+ compatible option)"
)
_ROW = re.compile(r"^([a-z][a-zA-Z0-9_.-]*)(?: +(.*))?$", re.MULTILINE)


class HelpText(msgspec.Struct, frozen=True, kw_only=True):
    """Options that a server takes, and its table `Value (after reading options)`.

    Attributes:
        names: as variables spell them, without `skip_`.
        values: as the table spells them (`TRUE`, `134217728`, `(No default value)`).
    """

    names: frozenset[str]
    values: dict[str, str]


def read_help(text: str) -> HelpText:
    """The options and values in the output of `--verbose --help`."""
    options, _, table = text.partition(_TABLE)
    rows = table.partition("\n---")[2].partition("\n")[2].partition("\n\n")[0]
    return HelpText(
        names=frozenset(canonical(match[1]) for match in _OPTION.finditer(options)),
        values={canonical(match[1]): (match[2] or "").strip() for match in _ROW.finditer(rows)},
    )


def read_ignored(complaints: str) -> frozenset[str]:
    """Options that MariaDB says it takes and does nothing with, for the sake of old option files."""
    return frozenset(canonical(match[1]) for match in _SAID_IGNORED.finditer(complaints))
