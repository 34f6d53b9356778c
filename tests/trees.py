"""Whole directory trees as values, to compare them before and after, and random ones."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

DIGEST = "0123456789abcdef" * 4
TOKEN = DIGEST[:32]

NAMES = (
    *("mysql", "k", "k.json", "k.restart", ".k.1.1.being-written", "builds", "run", "snapshots", "templates"),
    *(
        "locks",
        "store.sqlite",
        "apt",
        "matplotlib",
        "lost+found",
        DIGEST,
        "manifest.json",
        "build.json",
        "data",
    ),
    *(
        "report.html",
        "tune.json",
        "series.json",
        "my.cnf",
        "settings.sql",
        "flushlab-mine.zip",
        "result.json",
    ),
    *(f"flushlab-{DIGEST}.zip", ".flushlab", f".flushlab-{TOKEN}", ".flushlab-written.json", "flushlab"),
    *("flushlab-trial-00000000", "flushlab-1-1-1", ".data.restoring", "odd\nname", "spa ce"),
)
"""Names that flushlab uses, and names that look as if it did."""

CONTENTS = (
    *(b"", b"precious", b"{}", b"[]", b"SQLite format 3\0"),
    json.dumps({"flushlab": "1", "what": "sandbox", "name": "k", "token": TOKEN}).encode(),
    json.dumps({"schema": "flushlab.written/1", "files": {}}).encode(),
)

Tree = Mapping[str, "bytes | str | Tree"]
"""By name: a file's content, a link's target or a folder's tree."""


def trees() -> st.SearchStrategy[Tree]:
    """Random trees with many of the names, so that a use of the folder meets some."""
    leaves = st.one_of(
        st.sampled_from(CONTENTS),
        st.sampled_from(("nowhere", "../outside", "../outside/file", ".", "mysql", "/dev/null")),
    )
    folders = st.dictionaries(st.sampled_from(NAMES), leaves, max_size=3)
    entries = st.one_of(folders, leaves)
    return st.one_of(
        st.dictionaries(st.sampled_from(NAMES), entries, max_size=2),
        st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)).flatmap(
            lambda there: st.fixed_dictionaries(
                {name: entries for name, is_there in zip(NAMES, there, strict=True) if is_there}
            )
        ),
    )


def plant(folder: Path, what: Tree) -> None:
    """Makes a tree in a folder, which is made too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in what.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        elif isinstance(content, str):
            (folder / name).symlink_to(content)
        else:
            plant(folder / name, content)


OCCUPANTS = ("folder", "empty folder", "file", "link", "dangling link")


def occupy(place: Path, other: Path, occupant: str) -> None:
    """Puts one of the OCCUPANTS in a place; `other` is a folder with content, which is moved or linked to."""
    if occupant == "folder":
        other.rename(place)
    elif occupant == "empty folder":
        place.mkdir()
    elif occupant == "file":
        place.write_text("mine")
    else:
        place.symlink_to(other if occupant == "link" else other.with_name("nowhere"))


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder by its relative path: kind and mode, with content or target."""
    return {path.relative_to(folder).as_posix(): _entry(path) for path in _below(folder)}


def _below(folder: Path) -> list[Path]:
    return [Path(root, name) for root, folders, files in os.walk(folder) for name in (*folders, *files)]


def _entry(path: Path) -> tuple[object, ...]:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISREG(facts.st_mode):
        return ("file", stat.S_IMODE(facts.st_mode), path.read_bytes())
    return ("folder" if stat.S_ISDIR(facts.st_mode) else "special", stat.S_IMODE(facts.st_mode))
