"""Option names: which options servers take, beyond the catalog's settings.

Sits in `settings`: pure apart from reading the packaged `option_names.txt` once. That file is made by
`scripts/option_names.py` from what servers print with `--verbose --help`; `tests/contract` compares them.
It knows a few releases; about one that lies between them it may be undecided.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple, cast

from flushlab.record.server import Flavor
from flushlab.settings.catalog import version_of

_TAKEN, _IGNORED = "+", "o"

NEAR = 0.8
"""How alike a name must be to be named as the one that was meant (difflib's ratio)."""


class Release(NamedTuple):
    """A server whose options are listed."""

    flavor: Flavor
    version: tuple[int, ...]

    @property
    def series(self) -> str:
        """`mysql 8.0`."""
        return f"{self.flavor} {'.'.join(map(str, self.version[:2]))}"


class OptionNames:
    """Which release takes which options."""

    def __init__(
        self,
        releases: Sequence[Release],
        takers: Mapping[str, frozenset[Release]],
        ignorers: Mapping[str, frozenset[Release]] | None = None,
    ) -> None:
        self.releases = tuple(releases)
        self._takers = takers
        self._ignorers = ignorers or {}

    def names(self) -> frozenset[str]:
        """All names that any listed release takes, or ignores."""
        return frozenset(self._takers) | frozenset(self._ignorers)

    def ignored_by(self, release: Release) -> frozenset[str]:
        """The options that a listed release takes and does nothing with."""
        return frozenset(name for name, ignorers in self._ignorers.items() if release in ignorers)

    def ignores(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool:
        """Whether that server takes the option and does nothing with it, as the release before it does."""
        before = [one for one in self.releases if one.flavor == flavor and one.version <= version]
        return bool(before) and before[-1] in self._ignorers.get(name, frozenset())

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
        return None

    def where(self, name: str) -> str:
        """The series that take it: `mysql 5.7, mysql 8.0`; empty if none does."""
        takers = self._takers.get(name, frozenset())
        return ", ".join(one.series for one in self.releases if one in takers)

    def near(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> str | None:
        """The most alike option of that server, if it is much alike."""
        known = [other for other in self._takers if self.knows(other, flavor, version)]
        return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=NEAR)), None)

    def starting_with(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> str | None:
        """The only option of that server that begins so; None if there are none or several."""
        found = [
            other
            for other in self._takers
            if other.startswith(name) and self.knows(other, flavor, version) is not False
        ]
        return found[0] if len(found) == 1 else None


@functools.cache
def load_option_names() -> OptionNames:
    """The packaged list; read once."""
    text = (resources.files("flushlab.settings") / "option_names.txt").read_text(encoding="utf-8")
    releases: list[Release] = []
    marked: dict[str, dict[str, frozenset[Release]]] = {_TAKEN: {}, _IGNORED: {}}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "releases":
            releases = [_release(word) for word in words[1:]]
            continue
        for mark, names in marked.items():
            found = frozenset(one for one, said in zip(releases, words[1], strict=True) if said == mark)
            if found:
                names[words[0]] = found
    return OptionNames(releases, marked[_TAKEN], marked[_IGNORED])


def render(taken: Mapping[Release, frozenset[str]], ignored: Mapping[Release, frozenset[str]]) -> str:
    """The text of `option_names.txt`, releases by flavor and version."""
    releases = sorted(taken, key=lambda one: (one.flavor != "mysql", one.version))
    head = " ".join(f"{one.flavor}@{'.'.join(map(str, one.version))}" for one in releases)
    lines = [
        "# Made by scripts/option_names.py from `--verbose --help`: + taken, o taken and ignored, . unknown.",
        f"releases {head}",
    ]
    for name in sorted(frozenset().union(*taken.values(), *ignored.values())):
        marks = (
            _TAKEN if name in taken[one] else _IGNORED if name in ignored.get(one, ()) else "."
            for one in releases
        )
        lines.append(f"{name} {''.join(marks)}")
    return "\n".join(lines) + "\n"


def _release(word: str) -> Release:
    flavor, _, version = word.partition("@")
    return Release(cast(Flavor, flavor), version_of(version))
