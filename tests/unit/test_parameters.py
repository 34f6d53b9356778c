"""No function outside the generated API takes more parameters than a caller can keep apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import flushlab

MOST = 8
PACKAGE = Path(flushlab.__file__).parent


def functions() -> Iterator[tuple[str, int]]:
    """Every function of the package as `file:name`, with the number of its parameters, `self` left out."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                words = node.args
                named = [*words.posonlyargs, *words.args, *words.kwonlyargs, words.vararg, words.kwarg]
                names = [one.arg for one in named if one is not None]
                taken = len(names) - (names[:1] in (["self"], ["cls"]))
                yield f"{file.relative_to(PACKAGE)}:{node.name}", taken


def test_functions_take_at_most_eight_parameters() -> None:
    assert [name for name, taken in functions() if taken > MOST] == []
