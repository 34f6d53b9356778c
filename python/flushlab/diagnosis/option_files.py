"""Option files: those that a server on this machine starts with, read as it reads them.

The command line tells which; without a word there, the usual ones, and those that the server names itself.
Files are only read, and a file that cannot be read is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from flushlab.machine import is_open_to_all
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import canonical
from flushlab.settings.check import Checked, check
from flushlab.settings.optionfile import option_value

USUAL_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf")
"""Of the servers of distributions and vendors, in reading order."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a server starts with.

    Attributes:
        files: that were read, in reading order; included files are not listed.
        unread: files that this user may not read.
        checked: the files together.
        arguments: settings of the command line.
    """

    files: tuple[str, ...]
    unread: tuple[str, ...]
    checked: Checked
    arguments: Mapping[str, Value]


def read_start(
    words: Sequence[str], identity: ServerIdentity, named: Iterable[str], root: Path = Path("/")
) -> Start:
    """Reads the files.

    Args:
        words: of the command line.
        identity: the server.
        named: files that the server says that values came from.
        root: the server's, as this process sees it.
    """
    options = dict(_options(words))  # these take their value behind `=` alone, before all others
    given = options.get("defaults_file")
    if "no_defaults" in options:
        wanted: list[str] = []
    elif given:
        wanted = [given]
    else:
        extra = options.get("defaults_extra_file")
        wanted = [*USUAL_FILES, *([extra] if extra else [])]
    texts, unread = dict[str, str](), list[str]()

    def read(path: Path) -> str | None:
        try:
            return None if is_open_to_all(path) else path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError:
            unread.append(_inside(path, root))
            return None

    def load(target: str, directory: bool) -> Iterator[tuple[str, str]]:
        path = root / target.lstrip("/")
        paths = sorted(one for one in path.iterdir() if one.suffix == ".cnf") if directory else [path]
        for one in paths:
            if (text := read(one)) is not None:
                seen.add(_inside(one, root))
                yield _inside(one, root), text

    def checked_with(files: Iterable[str]) -> Checked:
        found = {name: text for name in files if (text := read(root / name.lstrip("/"))) is not None}
        texts.update(found)
        seen.update(found)
        whole = "".join(f"!include {name}\n" for name in found)
        suffix = options.get("defaults_group_suffix", "")
        return check(whole, identity, path="", loader=load, suffix=suffix)

    seen = set[str]()
    checked = checked_with(wanted)
    if "no_defaults" not in options and not given:
        further = [name for name in dict.fromkeys(named) if name.startswith("/") and name not in seen]
        if further:
            checked = checked_with([*texts, *further])
    arguments = check("[mysqld]\n" + "".join(_lines(words)), identity, path="").settings
    return Start(
        files=tuple(texts), unread=tuple(dict.fromkeys(unread)), checked=checked, arguments=arguments
    )


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options of a command line, behind the name of its program."""
    for word in _behind_program(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield canonical(name), value if equals else "ON"


def _lines(words: Sequence[str]) -> Iterator[str]:
    """The options as lines of an option file; a value may be the next word."""
    for word, following in itertools.pairwise((*_behind_program(words), "--")):
        if word.startswith("--") and not canonical(word[2:]).startswith("defaults_"):
            name, equals, value = word[2:].partition("=")
            if not equals and not following.startswith("-"):
                equals, value = "=", following
            yield f"{name}{equals}{option_value(value) if value else ''}\n"


def _behind_program(words: Sequence[str]) -> Sequence[str]:
    for number, word in enumerate(words):
        if Path(word).name.startswith(("mysqld", "mariadbd")):
            return words[number + 1 :]
    return ()


def _inside(path: Path, root: Path) -> str:
    return f"/{path.relative_to(root)}"
