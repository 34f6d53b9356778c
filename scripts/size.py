"""How large the package is, and the limit of its code, which only falls.

    python scripts/size.py

Prints files, lines, lines of code (neither blank, nor comment, nor docstring) and classes of each folder of
the package, and the lines of the tests. Exits with 1 where there is more code than LIMIT. Whoever removes
code lowers it; whoever raises it says why in the commit.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python/flushlab"
LIMIT = 60_565
"""Lines of code."""
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str, tree: ast.AST) -> int:
    """Lines with a token that is neither a comment nor a string that stands alone."""
    alone = set[int]()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and node.value.value is not ...
        ):
            alone |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - alone)


def size(files: Iterable[Path]) -> Counter[str]:
    """Sums over files."""
    found = Counter[str]()
    for file in files:
        text = file.read_text()
        tree = ast.parse(text)
        found["files"] += 1
        found["lines"] += text.count("\n")
        found["code"] += code_lines(text, tree)
        found["classes"] += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
    return found


def main() -> int:
    """Prints the table; 1 above the limit."""
    files = sorted(PACKAGE.rglob("*.py"))
    folder_of = {file: file.relative_to(PACKAGE).parts[:-1][:1] for file in files}
    rows: list[tuple[str, ...]] = [("", "files", "lines", "code", "classes")]
    for folder in sorted({*folder_of.values()}):
        one = size(file for file in files if folder_of[file] == folder)
        rows.append(("".join(folder) or "(none)", *(f"{one[name]:,}" for name in rows[0][1:])))
    sums = size(files)
    rows.append(("all", *(f"{sums[name]:,}" for name in rows[0][1:])))
    table = "\n".join(f"{row[0]:12}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows)
    tests = sum(_lines(file) for file in (ROOT / "tests").rglob("*.py"))
    sys.stdout.write(f"{table}\nlimit of code {LIMIT:,}; lines of tests {tests:,}\n")
    return 1 if sums["code"] > LIMIT else 0


def _lines(file: Path) -> int:
    return file.read_text().count("\n")


if __name__ == "__main__":
    raise SystemExit(main())
