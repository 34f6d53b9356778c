"""Makes option_names.txt and option_shapes.txt of flushlab.settings by asking builds with `--verbose --help`.

    .venv/bin/python scripts/option_names.py mysql@9.7 …    # adds or replaces these releases in minutes

A release that is listed already and not named stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flushlab.build import Build, find_build
from flushlab.build.inspect import Answer, verbose_help
from flushlab.settings.catalog import canonical
from flushlab.settings.option_names import (
    Kind,
    OptionShape,
    Release,
    load_option_names,
    load_option_shapes,
    read_help,
)

FOLDER = Path(__file__).parents[1] / "python" / "flushlab" / "settings"

_NO_VALUE_OF_ANYTHING = "zz~"
_NO_LIMIT = "Maximum value of"
_MEMBERS_AT_MOST = 64
_SYNTAX = re.compile(r"^  (?:-[A-Za-z#?], )?--([a-z][a-zA-Z0-9_.-]+)(\[?=)?", re.MULTILINE)
_ASKED_AT_ONCE = 2
_PLUGIN = re.compile(r"^  --([a-z][a-zA-Z0-9_.-]+)\[=name\]\s+Enable or disable \S+\s+plugin", re.MULTILINE)
_END_THE_PROGRAM = {"help", "version", "verbose", "print_defaults", "no_defaults"}
_CHARACTER_SETS = [
    "armscii8",
    "ascii",
    "big5",
    "binary",
    "cp1250",
    "cp1251",
    "cp1256",
    "cp1257",
    "cp850",
    "cp852",
    "cp866",
    "cp932",
    "dec8",
    "eucjpms",
    "euckr",
    "gb18030",
    "gb2312",
    "gbk",
    "geostd8",
    "greek",
    "hebrew",
    "hp8",
    "keybcs2",
    "koi8r",
    "koi8u",
    "latin1",
    "latin2",
    "latin5",
    "latin7",
    "macce",
    "macroman",
    "sjis",
    "swe7",
    "tis620",
    "ucs2",
    "ujis",
    "utf16",
    "utf16le",
    "utf32",
    "utf8",
    "utf8mb3",
    "utf8mb4",
]
"""Those that SHOW CHARACTER SET lists on any server here."""

_IGNORED = re.compile(
    r"'([a-z0-9_-]+)' (?:was removed\. It does nothing now|is MySQL \S+ / \S+ compatible option)"
)


def main(builds: list[str]) -> None:
    """Adds or replaces the releases of these builds."""
    known = load_option_names()
    taken = {release: known.of(release) for release in known.releases}
    ignored = listed(known.ignorers)
    limited = listed(known.limited)
    shapes = dict(load_option_shapes())
    for wanted in builds:
        build = find_build(wanted)
        series = (build.flavor, build.version[:2])
        for older in [one for one in taken if (one.flavor, one.version[:2]) == series]:
            del taken[older], ignored[older]
            shapes.pop(older, None)
        release = Release(build.flavor, build.version)
        taken[release] = read_help(verbose_help(build).text).names
        ignored[release] = ask_ignored(build, known.names() - taken[release])
        limited[release] = ask_limited(build, taken[release])
        shapes[release] = ask_shapes(build)
    (FOLDER / "option_names.txt").write_text(render(taken, ignored, limited), encoding="utf-8")
    (FOLDER / "option_shapes.txt").write_text(render_shapes(shapes), encoding="utf-8")


def listed(marked: Mapping[str, frozenset[Release]]) -> dict[Release, frozenset[str]]:
    """Options by name, with the releases that are marked, as the options of each release."""
    releases = load_option_names().releases
    return {one: frozenset(name for name, own in marked.items() if one in own) for one in releases}


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
            ("^" if name in limited.get(one, ()) else "+")
            if name in taken[one]
            else "o"
            if name in ignored.get(one, ())
            else "."
            for one in releases
        )
        lines.append(f"{name} {''.join(marks)}")
    return "\n".join(lines) + "\n"


def render_shapes(shapes: Mapping[Release, Mapping[str, OptionShape]]) -> str:
    """The text of `option_shapes.txt`, releases by flavor and version."""
    releases: Sequence[Release] = sorted(shapes, key=lambda one: (one.flavor != "mysql", one.version))
    lines = [
        "# Made by scripts/option_names.py, which asks each server; ? where the value may be left out.",
        f"releases {' '.join(map(str, releases))}",
    ]
    for name in sorted({name for of in shapes.values() for name in of}):
        for shape in sorted({str(of[name]) for of in shapes.values() if name in of}):
            marks = ("+" if str(shapes[one].get(name)) == shape else "." for one in releases)
            lines.append(f"{name} {''.join(marks)} {shape}")
    return "\n".join(lines) + "\n"


def read_ignored(complaints: str) -> frozenset[str]:
    """Options that MariaDB says it takes and does nothing with, for the sake of old option files."""
    return frozenset(canonical(match[1]) for match in _IGNORED.finditer(complaints))


def ask_shapes(build: Build, wanted: Iterable[str] | None = None) -> dict[str, OptionShape]:
    """The shape of each option that the build lists.

    Args:
        build: the build.
        wanted: ask for these alone.

    Raises:
        ServerError: as `verbose_help`.
    """
    listed = verbose_help(build).text
    lines = [(canonical(name), equals) for name, equals in _SYNTAX.findall(listed)]
    syntax, often = dict(reversed(lines)), Counter(name for name, _ in lines)
    told, plugins = read_help(listed), {canonical(name) for name in _PLUGIN.findall(listed)}
    plugins = {name for name in plugins if often[name] == 1}  # else the server has an option of that name
    names = sorted(told.names - _END_THE_PROGRAM if wanted is None else wanted)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as asking:
        shapes = asking.map(
            lambda name: (
                OptionShape(kind="plugin", optional=True)
                if name in plugins
                else _shape(build, name, syntax.get(name, ""), told.values.get(name, ""))
            ),
            names,
        )
        return dict(zip(names, shapes, strict=True))


def ask_limited(build: Build, names: Iterable[str]) -> frozenset[str]:
    """Those of the build's options that take `maximum_`, which sets the most that a session may choose.

    Raises:
        ServerError: as `verbose_help`.
    """
    asked = sorted(set(names) - _END_THE_PROGRAM)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as asking:
        answers = asking.map(lambda name: _ask(build, f"maximum_{name}", "1").complaints, asked)
        return frozenset(name for name, said in zip(asked, answers, strict=True) if _NO_LIMIT not in said)


def _shape(build: Build, name: str, equals: str, default: str) -> OptionShape:
    answer = _ask(build, name, _NO_VALUE_OF_ANYTHING)
    optional = equals != "="
    if name in ("character_set_server", "character_set_filesystem"):
        taken = [one for one in _CHARACTER_SETS if not _ask(build, name, one).refuses]
        return OptionShape(kind="word", optional=optional, values=tuple(taken))
    said = answer.complaints
    if "cannot take an argument" in said or "not take an argument" in said:
        return OptionShape(kind="bare", optional=not _ask(build, name).refuses)
    if "Unknown suffix" in said:
        negative = build.flavor == "mysql" or not _ask(build, name, "-1").refuses
        return OptionShape(kind="signed" if negative else "unsigned", optional=optional)
    if "Invalid decimal" in said:
        return OptionShape(kind="real", optional=optional)
    if "Error while setting value" in said:
        return _listed(build, name, optional, default)
    if not equals:
        becomes = "ON" if _value(answer, name) == "TRUE" else "OFF"
        return OptionShape(kind="boolean", optional=not _ask(build, name).refuses, values=(becomes,))
    return OptionShape(kind="text", optional=optional)


def _listed(build: Build, name: str, optional: bool, default: str) -> OptionShape:
    """An enumeration, or a set of members or of switches."""
    if re.fullmatch(r"(\w+=(on|off),?)+", default):
        return OptionShape(kind="switches", optional=optional, values=tuple(re.findall(r"(\w+)=", default)))
    first = _ask(build, name, "0")
    many = not first.refuses and not _value(first, name)
    values = tuple(_members(build, name, many))
    if not many and any("," in one for one in values):  # 0 is a name of its own: none of the members
        many, values = True, tuple(_members(build, name, many=True))
    kind: Kind = "text" if not values else "set" if many else "enumeration"
    return OptionShape(kind=kind, optional=optional, values=values)


def _members(build: Build, name: str, many: bool) -> Iterator[str]:
    for number in range(_MEMBERS_AT_MOST):
        answer = _ask(build, name, str(1 << number if many else number))
        value = "" if answer.refuses else _value(answer, name)
        if not value:
            return
        yield value.rpartition(",")[2] if many else value


def _value(answer: Answer, name: str) -> str:
    return read_help(answer.text).values.get(name, "").replace("(No default value)", "")


def _ask(build: Build, name: str, value: str | None = None) -> Answer:
    given = "" if value is None else f"={value}"
    return verbose_help(build, [f"--{name.replace('_', '-')}{given}"])


def ask_ignored(build: Build, names: Iterable[str]) -> frozenset[str]:
    """Those of the names that the build takes as options and does nothing with; only MariaDB has such.

    Raises:
        ServerError: as `verbose_help`.
    """
    if build.flavor != "mariadb":
        return frozenset()
    answer = verbose_help(build, [f"--loose-{name.replace('_', '-')}=1" for name in sorted(names)])
    return read_ignored(answer.complaints) & frozenset(names)


if __name__ == "__main__":
    main(sys.argv[1:])
