"""Which changes `scripts/mutants.py` makes to a module, and its judgement of those that survive."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import script

ROOT = Path(__file__).parents[2]
mutants = script("scripts/mutants.py")


def made(source: str) -> list[str]:
    return [mutants.changed(source, one) for one in mutants.mutants("m.py", source)]


@pytest.mark.parametrize(
    ("source", "due"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a in b", ["a not in b"]),
        ("a < b == c", ["a <= b == c", "a >= b == c", "a < b != c"]),
        ("a and b", ["a or b", "b", "a"]),
        ("not a", ["a"]),
        ("a + b", ["a - b"]),
        ("A | B | C", ["B | C", "A | C", "A | B"]),
        ("O_RDONLY | B", ["O_RDONLY"]),
        ("x = 2", ["x = 3"]),
        ("x = 0.5", ["x = 1.0"]),
        ("x = True", ["x = False"]),
        ("x = 'window'", ["x = 'window~'"]),
        ("x = 'words for people'", []),
        ("x = 'https://of.a/source'", []),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = a if b else c", ["x = a", "x = c"]),
        ("x += y", ["x = y", "pass"]),
        ("f(x)", ["pass"]),
        ("raise Wrong(2 + 2)", ["pass"]),
        ("if f(x):\n    pass", ["if not f(x):\n    pass"]),
        ("[a for a in b if a]", ["[a for a in b if not a]"]),
        ("def f() -> int:\n    return g()", ["def f() -> int:\n    return None"]),
    ],
)
def test_each_place_is_changed_in_its_ways(source: str, due: list[str]) -> None:
    assert [ast.unparse(ast.parse(one)) for one in made(source)] == [
        ast.unparse(ast.parse(one)) for one in due
    ]


@pytest.mark.parametrize(
    "source",
    [
        "assert a < b",
        "'''Docstring.'''",
        "import a",
        "x: dict[str, Literal['a']]",
        "Level = Literal['a', 'b']",
        "@cache(maxsize=3)\ndef f(a: Literal['a']) -> None:\n    pass",
        "__all__ = ['a']",
        "f'{a:g} {b!r}'",
    ],
)
def test_texts_types_and_assertions_are_left_alone(source: str) -> None:
    assert made(source) == []


def test_every_mutant_of_the_listed_modules_has_a_name_of_its_own_and_is_python() -> None:
    answers = mutants.read_answers(mutants.ANSWERS.read_text())
    found = mutants.choose(answers)
    assert len({one.name for one in found}) == len(found)
    for one in mutants.mutants("machine/ownership.py", path("machine/ownership.py").read_text()):
        ast.parse(mutants.changed(path("machine/ownership.py").read_text(), one))


def test_listed_tests_exist() -> None:
    answers = mutants.read_answers(mutants.ANSWERS.read_text())
    assert all((ROOT / one).is_file() for tests in answers.tests.values() for one in tests)


def path(module: str) -> Path:
    return ROOT / "python/flushlab" / module


def test_a_name_stays_where_lines_above_come_and_go() -> None:
    source = "def f(a):\n    return a + 1\n"
    (one, *_), (other, *_) = (
        mutants.mutants("m.py", source),
        mutants.mutants("m.py", f"import x\n\n\n{source}"),
    )
    assert one.name == other.name == "m.py f: return a + 1 → return None"


def new_codes(source: str) -> dict[str, str | None]:
    """For each replacement, the function whose code has it."""
    found = {one.new: mutants.new_code(source, one) for one in mutants.mutants("m.py", source)}
    return {new: code and code.co_qualname for new, code in found.items()}


@pytest.mark.parametrize(
    ("source", "due"),
    [
        ("def f():\n    x = 2", {"3": "f"}),
        ("class C:\n    def f(self):\n        x = 2", {"3": "C.f"}),
        ("def f():\n    def g():\n        x = 2", {"3": "f"}),
        ("@cache\ndef f():\n    x = 2", {"3": "f"}),
        ("x = 2", {"3": None}),
        ("class C:\n    x = 2", {"3": None}),
        ("def f(x=2):\n    pass", {"3": None}),
        (
            "if a:\n    def f():\n        x = 2\nelse:\n    def f():\n        x = 4",
            {"not a": None, "3": None, "5": None},
        ),
    ],
)
def test_a_function_gets_new_code_if_the_change_is_in_its_body(
    source: str, due: dict[str, str | None]
) -> None:
    assert new_codes(source) == due


def test_functions_of_a_file_are_found_whatever_wraps_them(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    source = "from functools import cache\n@cache\ndef f(x):\n    return x + 2\n"
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)
    (function,) = mutants.loaded_functions(file)["f"]
    assert names["f"](1) == 3
    one = next(one for one in mutants.mutants("m.py", source) if one.new == "3")
    function.__code__ = mutants.new_code(source, one, str(file))
    assert names["f"](2) == 5


def test_text_beyond_ascii_does_not_shift_a_change() -> None:
    assert made("x = f('é') + 1")[-1] == "x = f('é') + 2"


def test_a_survivor_needs_an_answer_and_an_answer_a_survivor() -> None:
    why = {"a": "equal", "b": "equal", "c": "equal"}
    assert mutants.judged(["a", "d"], ["a", "b", "d"], why) == [
        "survived: d",
        "answered, but no survivor: b",
    ]


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    answers = mutants.read_answers(mutants.ANSWERS.read_text())
    one, again, other = (mutants.choose(answers, (), 20, seed) for seed in (1, 1, 2))
    assert len(one) == 20
    assert one == again != other
