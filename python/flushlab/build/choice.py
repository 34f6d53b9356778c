"""Choice: the server that the user's files are for, where none is named, and caveats about a named one.

Build layer. A `Sign` is what a file says about servers: the release that a dump comes from, the options of an
option file, the words of migrations. Which server they choose depends on them, and not on what is installed,
unless a release of the dump's own series is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from flushlab.build.build import Build
from flushlab.build.find import list_builds
from flushlab.errors import UsageError
from flushlab.record.machine import Flavor, server_name
from flushlab.settings.option_names import load_option_names
from flushlab.settings.words import SqlWord

Version = tuple[int, ...]

SERVERS: tuple[tuple[Flavor, Version], ...] = (
    ("mariadb", (10, 11, 19)),
    ("mysql", (8, 0, 15)),
    ("mysql", (9, 7, 4)),
    ("mariadb", (11, 8, 9)),
    ("mariadb", (11, 4, 5)),
    ("mysql", (5, 7, 22)),
)
"""What can be fetched, the default first, by the release that its name stands for while no later one is
installed."""
_FATAL, _OPTION, _RELEASE, _WORD, _OTHER_VERSION, _WRITTEN = 1000.0, 10.0, 5.0, 3.0, 2.0, 1.0
"""What it costs that a server does not take a sign. From `_WORD` on, it speaks against a server."""
_HINT = "give a server of that release: --server TARBALL, or --basedir (docs/how-to/production-version.md)"


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    cost: Callable[[Flavor, Version], float]


class BuildChoice(NamedTuple):
    server: str
    why: str = ""

    @property
    def line(self) -> str:
        why = f"because {self.why}" if self.why else "the default"
        return f"server: {self.server}, {why}; --server NAME chooses another"


def of_release(file: str, origin: str, *, data_directory: bool = False) -> Sign:
    name, _, text = origin.partition(" ")
    wrote: Flavor = "mariadb" if name == "MariaDB" else "mysql"
    release = tuple(int(part) for part in text.split(".") if part.isdecimal())

    def cost(flavor: Flavor, version: Version) -> float:
        if data_directory and not _starts_on(wrote, release, flavor, version):
            return _FATAL
        if flavor != wrote:
            return _RELEASE
        if release[:2] in ((), version[:2]):
            return 0.0
        return (0.1 if version > release else 1.0) + 0.1 * abs(version[0] - release[0])

    return Sign(text=f"{file} comes from {origin}", cost=cost)


def _starts_on(wrote: Flavor, release: Version, flavor: Flavor, version: Version) -> bool:
    """True if a server starts on another's data directory, as the five builds do.

    MySQL 8.0 and later take the next major version at most
    (https://dev.mysql.com/doc/refman/9.7/en/upgrade-paths.html).
    """
    if wrote == "mariadb" or flavor == "mariadb":
        return flavor == "mariadb" and (wrote == "mariadb" or () < release < (8,))
    if not release:
        return True
    if release < (8,):
        return version[:2] == release[:2]
    nearest = version[0] - release[0] <= (1 if release >= (8, 4) else 0)
    return version >= release and nearest


def of_options(file: str, names: Iterable[str], *, mariadb: bool = False) -> Iterator[Sign]:
    known = load_option_names()
    told = [name for name in dict.fromkeys(names) if name in known.names()]

    def lacks(name: str, flavor: Flavor, version: Version) -> float:
        takers, removal = {one.flavor for one in known.takers.get(name, ())}, known.removals.get(name)
        # MariaDB passes over options of MySQL, and over its own former ones, which are InnoDB's.
        own = name.startswith("innodb_") or "mysql" not in takers
        if known.knows(name, flavor, version) is not False or (own and known.ignores(name, flavor, version)):
            return 0.0
        had = flavor in takers or (removal is not None and flavor in removal.since)
        return _OTHER_VERSION if had else _OPTION

    def cost(flavor: Flavor, version: Version) -> float:
        written = _WRITTEN if mariadb and flavor == "mysql" else 0.0
        return sum(lacks(name, flavor, version) for name in told) + written

    most = {name: max(lacks(name, *one) for one in SERVERS) for name in told}
    some = [name for name in told if most[name] == _OPTION] or [name for name in told if most[name]]
    if mariadb and max(most.values(), default=0.0) < _OPTION:
        yield Sign(text=f"{file} has groups of MariaDB", cost=cost)
    elif some:
        more = f" and {len(some) - 3} more" if len(some) > 3 else ""
        yield Sign(text=f"{file} sets {', '.join(some[:3])}{more}", cost=cost)


def of_word(file: str, word: SqlWord) -> Sign:
    def cost(flavor: Flavor, version: Version) -> float:
        if not word.taken_by(flavor, version):
            return _WORD
        return _WRITTEN if word.whose not in ("", flavor) else 0.0

    return Sign(text=f"{file} has {described(word)}", cost=cost)


def described(word: SqlWord) -> str:
    if word.raw and word.whose:
        return f"{word.says} (written by {spelled(word.whose)})"
    numbers = ((one, version[:2] if version[2:] == (0,) else version) for one, version in word.since.items())
    since = " or ".join(f"{spelled(one)} {'.'.join(map(str, version))}" for one, version in numbers)
    return f"{word.says} ({since} and later)"


def spelled(flavor: Flavor) -> str:
    return {"mariadb": "MariaDB", "mysql": "MySQL"}[flavor]


def choose(signs: Sequence[Sign], servers: Sequence[tuple[Flavor, Version]] = ()) -> BuildChoice | None:
    if not signs:
        return None
    servers = servers or candidates()
    total = {one: sum(sign.cost(*one) for sign in signs) for one in servers}
    best = min(servers, key=lambda one: (total[one], one[0] != servers[0][0]))
    if total[best] >= _FATAL:
        sign = next(one for one in signs if one.cost(*best) >= _FATAL)
        raise UsageError(f"no server that flushlab can fetch starts on the data: {sign.text}", hint=_HINT)
    first = next(one for one in servers if one[0] == best[0])
    others = [one for one in servers if one[0] != best[0]]

    def reason(against: Sequence[tuple[Flavor, Version]]) -> Iterator[str]:
        costs = [(min(sign.cost(*one) for one in against), sign) for sign in signs] if against else []
        costs = [(cost - sign.cost(*best), sign) for cost, sign in costs]
        yield from (sign.text for cost, sign in sorted(costs, key=lambda one: -one[0])[:1] if cost > 0)

    why = [*reason(others), *reason([first] if best != first else [])]
    if not why and best == servers[0]:
        return None
    return BuildChoice(server_name(best[0], best[1][:2]), " and ".join(dict.fromkeys(why or [signs[0].text])))


def other(signs: Sequence[Sign], flavor: Flavor, version: Version) -> str:
    choice = choose(signs)
    return choice.server if choice and choice.server != server_name(flavor, version[:2]) else ""


def caveats(signs: Sequence[Sign], build: Build) -> list[str]:
    """A clause for each sign that speaks against a server; a UsageError if it cannot start on the data."""
    found = []
    for sign in signs:
        cost = sign.cost(build.flavor, build.version)
        if cost >= _FATAL:
            instead = other([sign], build.flavor, build.version)
            raise UsageError(
                f"{sign.text}, and {build.name} does not start on it", hint=f"use --server {instead}"
            )
        if cost >= _WORD:
            found.append(f"{sign.text}, but the server is {build.name}")
    return found


def candidates() -> list[tuple[Flavor, Version]]:
    newest = {(one.flavor, one.version[:2]): one.version for one in reversed(list_builds())}
    known = [(flavor, newest.pop((flavor, version[:2]), version)) for flavor, version in SERVERS]
    return known + [(flavor, version) for (flavor, _), version in newest.items()]
