"""Plugins: options that load a plugin or leave it out, `--PLUGIN[=ON|OFF|FORCE|FORCE_PLUS_PERMANENT]`. Pure.

Sits in `settings`, pure apart from reading `plugins.txt` once. `--verbose --help` lists the options of those
that are built in; those of a loadable one exist once a file or a table loads its library.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Literal, NamedTuple, cast

from flushlab.record.server import Flavor
from flushlab.settings.catalog import version_of

Way = Literal["built-in", "loadable"]


class _Place(NamedTuple):
    """Where a plugin is: from one version on, before another one."""

    way: Way
    flavor: Flavor
    since: tuple[int, ...]
    until: tuple[int, ...] | None

    def __str__(self) -> str:
        since = f" since {'.'.join(map(str, self.since))}" if self.since else ""
        return self.flavor + since + (f" before {'.'.join(map(str, self.until))}" if self.until else "")

    def holds(self, flavor: Flavor, version: tuple[int, ...]) -> bool:
        return (
            flavor == self.flavor and self.since <= version and (self.until is None or version < self.until)
        )


def plugin_named(option: str, flavor: Flavor, version: tuple[int, ...]) -> Way | None:
    """How this server has the plugin that the option loads; None if the option is no plugin's there.

    Every such option is taken with `plugin_` in front, too.
    """
    return next((one.way for one in _places(option) if one.holds(flavor, version)), None)


def plugin_ended(option: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
    """The version in which that flavor dropped the plugin; None if it has it still, or never had it."""
    if plugin_named(option, flavor, version):
        return None
    ends = [one.until for one in _places(option) if one.flavor == flavor and one.until]
    return max((end for end in ends if end <= version), default=None)


def plugin_where(option: str) -> str:
    """The versions that have the plugin: `mysql since 8.4 before 9.0`; empty if the option is no plugin's."""
    return ", ".join(map(str, _places(option)))


def _places(option: str) -> tuple[_Place, ...]:
    return _plugins().get(option) or _plugins().get(option.removeprefix("plugin_"), ())


@functools.cache
def _plugins() -> dict[str, tuple[_Place, ...]]:
    text = (resources.files("flushlab.settings") / "plugins.txt").read_text(encoding="utf-8")
    found: dict[str, tuple[_Place, ...]] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] != "#":
            found[words[0]] = tuple(_place(word) for word in words[1:])
    return found


def _place(word: str) -> _Place:
    """`built-in:mysql@8.4..9.0`; a flavor alone stands for all of its versions."""
    way, _, where = word.partition(":")
    flavor, _, versions = where.partition("@")
    since, _, until = versions.partition("..")
    end = version_of(until) if until else None
    return _Place(cast(Way, way), cast(Flavor, flavor), version_of(since) if since else (), end)
