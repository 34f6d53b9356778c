"""Words and sentences that the documentation, help and messages may have."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripts import script

SCRIPTS = Path(__file__).parents[2] / "scripts"
prose = script("scripts/prose.py")

RULES = tomllib.loads((SCRIPTS / "prose.toml").read_text(encoding="utf-8"))
Found = Callable[[str, str], list[tuple[int, str]]]
LONG = " ".join(["word"] * 31)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    monkeypatch.setattr(prose, "ROOT", tmp_path)

    def problems(name: str, text: str) -> list[tuple[int, str]]:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return [
            (passage.line, problem)
            for passage in prose.passages(path)
            for problem in prose.problems(passage, RULES)
        ]

    return problems


def test_a_forbidden_word_is_reported_with_its_line_and_its_replacement(found: Found) -> None:
    text = "# Title\n\nThe first line is fine.\nThe second reads the\nledger again.\n"
    assert found("page.md", text) == [(3, "'ledger': use acknowledgement table")]


def test_a_sentence_of_more_than_thirty_words_is_reported(found: Found) -> None:
    ((line, problem),) = found("page.md", f"Short.\n\n{LONG}.\n")
    assert (line, problem.startswith("31 words")) == (3, True)


def test_sentences_items_and_cells_are_counted_one_by_one(found: Found) -> None:
    half = " ".join(["word"] * 20)
    page = f"{half}. W{half}.\n\n- {half}\n- {half}\n\n| {half} | {half} |\n|---|---|\n"
    assert found("page.md", page) == []


def test_code_is_neither_counted_nor_judged(found: Found) -> None:
    assert found("page.md", f"See `the ledger {LONG}`.\n\n```\nledger {LONG}\n```\n") == []


def test_messages_and_docstrings_of_a_source_file_are_judged(found: Found) -> None:
    source = (
        '"""A module."""\n\n\ndef run(name: str) -> None:\n    """The ledger of a run.\n\n    Args:\n'
        '        name: name of the ledger.\n    """\n    raise ValueError(f"the ledger of {name} is gone")\n'
    )
    assert [line for line, _ in found("module.py", source)] == [5, 8, 10]


def test_names_and_statements_are_no_prose(found: Found) -> None:
    assert found("module.py", 'A = "ledger"\nB = "SELECT id FROM ledger WHERE id > 1"\n') == []


def test_a_sentence_may_begin_with_code(found: Found) -> None:
    half = " ".join(["word"] * 20)
    assert found("page.md", f"{half}. `a`: {half}.\n") == []


def test_the_name_of_an_attribute_is_no_prose(found: Found) -> None:
    source = '"""A module.\n\nAttributes:\n    ledger: name of the table.\n    other: the ledger.\n"""\n'
    assert [line for line, _ in found("module.py", source)] == [5]


def test_an_exception_holds_for_its_files_only(found: Found) -> None:
    rules = RULES | {"exception": [{"file": "docs/*", "text": "ledger", "reason": "a quotation"}]}
    (passage,) = [prose.Passage("docs/page.md", 1, "The ledger is read.")]
    assert list(prose.problems(passage, rules)) == []
    (passage,) = [prose.Passage("README.md", 1, "The ledger is read.")]
    assert len(list(prose.problems(passage, rules))) == 1
