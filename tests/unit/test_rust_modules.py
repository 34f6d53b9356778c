"""The modules of each Rust crate use each other without circles.

A folder counts as one module beside its siblings, and its own modules are compared with each other. Its
`mod.rs` belongs to all of them: they may use it, and it them. The test sees `use`, paths inside code, and
names that `lib.rs` or a `mod.rs` passes on.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CRATES = sorted(path.parent for path in (Path(__file__).parents[2] / "crates").glob("*/src"))
Module = tuple[str, ...]

_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\[^\n]+?|[^'\\\n])'""",
    re.DOTALL,
)
_USE = re.compile(r"(?P<public>\bpub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]*);")
_INLINE = re.compile(r"(?<![\w:])(?:crate|self|super)(?:\s*::\s*\w+)+")


def _without_tests(code: str) -> str:
    """Leaves the items behind `#[cfg(test)]` out."""
    kept, *items = code.split("#[cfg(test)]")
    for item in items:
        depth = 0
        for place, character in enumerate(item):
            depth += (character == "{") - (character == "}")
            if depth == 0 and character in "};":
                kept += item[place + 1 :]
                break
    return kept


def _paths(tree: str) -> list[list[str]]:
    """The paths of a tree behind `use`, each with the name that it gets at its end."""
    head, braced, rest = tree.partition("{")
    if not braced:
        path, _, name = re.sub(r"\s*::\s*", "::", tree.strip()).partition(" as ")
        parts = path.split("::")
        if parts[-1] == "self":
            parts.pop()
        return [[*parts, name.strip() or parts[-1]]]
    depth, items = 0, [""]
    for character in rest[: rest.rindex("}")]:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [path for item in items if item.strip() for path in _paths(head.strip() + item.strip())]


class Crate:
    """The modules of a crate by their paths; `()` is `lib.rs`."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._used: dict[Module, list[list[str]]] = {}
        self._passed_on: dict[Module, dict[str, list[str]]] = {}
        for file, source in sources.items():
            path = file.removesuffix(".rs").split("/")
            module: Module = () if path == ["lib"] else tuple(path[:-1] if path[-1] == "mod" else path)
            code = _without_tests(_NO_CODE.sub(" ", source))
            imports = [(use["public"], path) for use in _USE.finditer(code) for path in _paths(use["tree"])]
            inline = _INLINE.findall(_USE.sub("", code))
            self._passed_on[module] = {name: path for public, (*path, name) in imports if public}
            self._used[module] = [path for _, (*path, _) in imports]
            self._used[module] += [re.sub(r"\s", "", path).split("::") for path in inline]

    def _target(self, origin: Module, path: list[str]) -> Module | None:
        """The module that has what a path names; None: another crate's."""
        at, parts = origin, list(path)
        if parts[0] == "crate":
            at, parts = (), parts[1:]
        while parts and parts[0] in ("self", "super"):
            at = at[:-1] if parts.pop(0) == "super" else at
        begun = at
        while parts and (*at, parts[0]) in self._used:
            at = (*at, parts.pop(0))
        if at == begun == origin and path[0] not in ("self", "super"):
            return None
        passed_on = self._passed_on[at].get(parts[0]) if parts else None
        return (passed_on and self._target(at, passed_on)) or at

    def circles(self) -> list[str]:
        """One circle of each folder that has any."""
        folders: dict[Module, dict[Module, set[Module]]] = {}
        for origin, paths in self._used.items():
            for target in filter(None, (self._target(origin, path) for path in paths)):
                shared = 0
                while origin[: shared + 1] == target[: shared + 1] and shared < min(len(origin), len(target)):
                    shared += 1
                if shared < min(len(origin), len(target)):
                    siblings = folders.setdefault(origin[:shared], {})
                    siblings.setdefault(origin[: shared + 1], set()).add(target[: shared + 1])
        found = []
        for siblings in folders.values():
            try:
                TopologicalSorter(siblings).prepare()
            except CycleError as error:
                found.append(" <- ".join("::".join(module) for module in error.args[1]))
        return found


def _crate(folder: Path) -> Crate:
    files = (folder / "src").rglob("*.rs")
    return Crate({str(file.relative_to(folder / "src")): file.read_text() for file in files})


@pytest.mark.parametrize("folder", CRATES, ids=lambda folder: folder.name)
def test_no_modules_use_each_other_in_a_circle(folder: Path) -> None:
    assert _crate(folder).circles() == []


@pytest.mark.parametrize(
    ("use", "seen"),
    [
        ("use crate::b::B;", True),
        ("use crate::{c, b::{B, x::Y as Z}};", True),
        ("pub(crate) use super::b::B;", True),
        ("fn f() -> crate::b::B { todo!() }", True),
        ("fn f<'a>(_: &'a str, _: char) { g('\"', super::b::B) }", True),
        ("use crate::B;", True),
        ("fn f() { crate::B::new() }", True),
        ("use crate::folder::inner::In;", True),
        ("use crate::folder::Passed;", True),
        ("use crate::c::C;", False),
        ("use std::b::B; use b::B;", False),
        ("// crate::b::B\n/* use crate::b::B; */", False),
        ('const A: &str = "\\"crate::b::B"; const B: &str = r#"crate::b"B"#;', False),
        ("#[cfg(test)]\nuse crate::b::B;", False),
        ("#[cfg(test)]\nmod tests { use crate::b::B; fn f() { crate::b::g() } }", False),
    ],
)
def test_every_form_of_a_use_is_seen_and_tests_are_not(use: str, seen: bool) -> None:
    crate = Crate({
        "lib.rs": "mod a; mod b; mod c; mod folder; pub use b::{B, Other};",
        "a.rs": use,
        "b.rs": "use crate::a::A;",
        "c.rs": "",
        "folder/mod.rs": "mod inner; pub use inner::In as Passed;",
        "folder/inner.rs": "use super::Passed; fn f() { crate::a::g() }",
    })  # fmt: skip
    assert bool(crate.circles()) == seen
