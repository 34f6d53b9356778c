"""Words and sentences that CONTRIBUTING rules out, in the documentation, in --help and in messages.

    python scripts/prose.py [FILE …]

Without files: every page of the documentation, every docstring of the package, and every string that has a
sentence. Prints `file:line: problem`; the exit code is 1 if there is a problem. Rules and exceptions are in
scripts/prose.toml.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "examples/*/*.md")
SOURCES = ("python/flushlab/**/*.py", "python/flushlab/**/*.toml")
WORDS_OF_A_SENTENCE = 4
"""A string with fewer words is a name, a pattern or SQL."""

_FENCE = re.compile(r"^\s*(```|~~~)")
_BLOCK = re.compile(r"^\s*([-*+]|\d+\.|\||#{1,6}\s|>|<|:|\w+: |[A-Z]\w+:$)")
_CODE = re.compile(r"``[^`]+``|`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?")
_END = re.compile(r"(?<=[.!?:])(?:[\"”)*_]*)\s+(?=[\"“(*_]*[A-Z0-9`])|\n\s*\n|\s·\s|\s\|\s")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|no|approx)\.", re.IGNORECASE)
_CODE_BEGINS = re.compile(r"(?<=[.!?] )code\b")
_ENTRY = re.compile(r"^[a-z_0-9]+(, [a-z_0-9]+)*: ")
_WORD = re.compile(r"\w[\w'’.,/=@:-]*")
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Notes?):$")
_SQL = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|SHOW|SET|DROP|GRANT|REPLACE|WITH|BEGIN)\b")


@dataclass(frozen=True)
class Passage:
    """A stretch of prose.

    Attributes:
        file: path below the root.
        line: first line, from 1.
        text: words, code replaced by the word `code`.
    """

    file: str
    line: int
    text: str


def passages(path: Path) -> Iterator[Passage]:
    """Prose of a file: paragraphs, list items and cells of a page; strings of a source file."""
    file = str(path.resolve().relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _of_page(file, text)
    elif path.suffix == ".toml":
        for number, line in enumerate(text.splitlines(), 1):
            if (found := re.search(r'^[\w-]+\s*=\s*"(.*)"', line)) and " " in found[1]:
                yield Passage(file, number, _plain(found[1]))
    else:
        yield from _of_source(file, text)


def _of_page(file: str, text: str) -> Iterator[Passage]:
    fenced, start, lines = False, 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        ends = not line.strip() or bool(_BLOCK.match(line)) or bool(_FENCE.match(line))
        if ends and lines:
            yield Passage(file, start, _plain("\n".join(lines)))
            lines = []
        if line.strip() and not fenced and not _FENCE.match(line):
            for cell in line.strip().strip("|").split(" | ") if line.lstrip().startswith("|") else [line]:
                if line.lstrip().startswith("|"):
                    yield Passage(file, number, _plain(cell))
                    continue
                start = number if not lines else start
                lines.append(cell)


def _of_source(file: str, text: str) -> Iterator[Passage]:
    nodes = list(ast.walk(ast.parse(text)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    inside -= {id(node) for node in nodes if isinstance(node, ast.JoinedStr)}
    for node in nodes:
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "code" for part in node.values)
            found = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = node.value
        else:
            continue
        if len(_WORD.findall(found)) < WORDS_OF_A_SENTENCE or _SQL.match(found) or "<" in found:
            continue
        found = _without_examples(found)
        # Docstrings and long texts have paragraphs, lists and entries of arguments, as pages have.
        for one in _of_page(file, found) if "\n" in found else [Passage(file, 1, _plain(found))]:
            # The name of an argument or attribute is no prose.
            said = _ENTRY.sub("", one.text) if "\n" in found else one.text
            yield Passage(file, node.lineno + one.line - 1, said)


def _without_examples(text: str) -> str:
    """A docstring without its indented examples; entries of its sections stay."""
    lines, section = list[str](), False
    for line in inspect.cleandoc(text).splitlines() if "\n" in text else [text]:
        if line and not line.startswith(" "):
            section = bool(_SECTION.match(line))
        lines.append(line if section or not line.startswith("  ") else "")
    return "\n".join(lines)


def _plain(text: str) -> str:
    text = _CODE.sub("code", text)
    text = _LINK.sub(lambda found: found[1], text)
    text = _ABBREVIATION.sub(lambda found: found[0].replace(".", ""), text)
    text = re.sub(r"(?<!\n)\n(?!\s*\n)\s*", " ", text).strip(" #>-*")
    return _CODE_BEGINS.sub("Code", text)  # a sentence may begin with code


def problems(passage: Passage, rules: dict[str, object]) -> Iterator[str]:
    """What a passage breaks: forbidden words, sentences that are too long."""
    forbidden, longest = rules["forbidden"], rules["longest"]
    assert isinstance(forbidden, list) and isinstance(longest, int)
    for sentence in _END.split(passage.text):
        if not sentence or _excepted(passage.file, sentence, rules):
            continue
        for one in forbidden:
            if found := re.search(one["word"], sentence, re.IGNORECASE):
                yield f"{found[0]!r}: use {one['instead']}"
        if (count := len(_WORD.findall(sentence))) > longest:
            yield f"{count} words: {sentence[:70]}…"


def _excepted(file: str, sentence: str, rules: dict[str, object]) -> bool:
    exceptions = rules.get("exception", [])
    assert isinstance(exceptions, list)
    return any(fnmatch(file, one["file"]) and one["text"] in sentence for one in exceptions)


def main(words: list[str]) -> int:
    """Checks files, or everything; the exit code."""
    rules = tomllib.loads((ROOT / "scripts" / "prose.toml").read_text(encoding="utf-8"))
    patterns = PAGES + SOURCES
    files = [Path(word) for word in words] or sorted({p for one in patterns for p in ROOT.glob(one)})
    found = [
        (passage.file, f"{passage.file}:{passage.line}: {problem}")
        for path in files
        for passage in passages(path)
        for problem in problems(passage, rules)
    ]
    for _, line in found:
        sys.stdout.write(f"{line}\n")
    if found and not words:
        count = len(list(groupby(file for file, _ in found)))
        sys.stderr.write(f"{len(found)} problems in {count} files\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
