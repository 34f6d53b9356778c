"""docs/reference/environment.md has every environment variable that the code reads or sets, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import flushlab
from flushlab.server.remote import login
from tests.unit.documents import DOCS

PACKAGE = Path(flushlab.__file__).parent
PAGE = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
LISTED = {
    name
    for cell in re.findall(r"^\| (.+?) \|", PAGE, re.M)
    for name in re.findall(r"`(_?[A-Z][A-Za-z_]+)`", cell)
}


def constants(tree: ast.Module) -> dict[str, str]:
    """The strings that a module gives names to."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    found[target.id] = node.value.value
    return found


def is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def read_in(tree: ast.Module) -> set[str]:
    """The names of variables that a module reads; `?` for one that is known at run time only."""
    known = constants(tree)
    keys: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environment(node.value):
            keys.append(node.slice)
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            keys.append(node.left)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and is_environment(node.func.value)
        ):
            keys.append(node.args[0])
    return {
        str(key.value) if isinstance(key, ast.Constant) else known.get(getattr(key, "id", ""), "?")
        for key in keys
    }


def test_every_variable_that_the_code_reads_is_listed() -> None:
    read = {
        str(file.relative_to(PACKAGE)): names
        for file in sorted(PACKAGE.rglob("*.py"))
        if "environ" in (text := file.read_text(encoding="utf-8")) and (names := read_in(ast.parse(text)))
    }
    at_run_time = {file for file, names in read.items() if "?" in names}
    # `${NAME}` of a plan, XDG's two, and those of MySQL's clients
    assert at_run_time == {"campaign/pool/room.py", "machine/home.py", "server/remote/login.py"}
    named = {name for names in read.values() for name in names} - {"?"}
    assert len(named) >= 10
    at_run_time_named = {"XDG_CACHE_HOME", "XDG_STATE_HOME", *login._ENVIRONMENT.values()}
    assert named | at_run_time_named <= LISTED


def test_every_variable_that_is_listed_is_in_the_code() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    made = {f"FLUSHLAB_{name}" for name in ("HOST", "PORT", "SOCKET", "USER", "DATABASE", "URL", "JDBC_URL")}
    assert len(LISTED) > 30
    assert LISTED - made <= set(re.findall(r"\w+", source))
