"""Judges the changes since the merge base with main, work tree included: `make quick`.

Side by side: ruff, the import layers, prose of the changed files, mypy, and the unit tests that import a
changed module, directly or not. Tests with the shortest chain of imports come first, as many as fit into 15 s
by the durations of their last run. A line gives the number of test files left out; `make check` runs them.

.venv/bin/python scripts/quick.py [--base BRANCH] [--list]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import grimp

ROOT = Path(__file__).parents[1]
SOURCES = {"flushlab": PurePosixPath("python"), "tests": PurePosixPath()}
"""Packages whose imports are followed, with the folder that each is in."""
UNIT = ("tests/unit/", "tests/golden/")
LOADED_BY_NAME = {"flushlab.cli.app": "flushlab.cli."}
"""Modules that import others by a computed name, with the beginning of those names."""
OF_PAGES = ("tests/unit/test_documentation.py", "tests/unit/test_prose.py")

SECONDS = 15.0
WORKERS = 2
ALONE_SECONDS = 10.0
"""Tests of so little time run in one process: each of pytest-xdist's three takes 3 s to start."""
UNKNOWN_SECONDS = 1.0
"""A test file that never ran here."""
DURATIONS = Path(".pytest_cache/v/flushlab/seconds")
"""Seconds per test file, written by tests/conftest.py through pytest's cache."""

_NAMED = re.compile(r"\bflushlab(?:\.\w+)+")
_RUN = re.compile(r"""["']-m["'],\s*["']flushlab["']""")

Imports = Mapping[str, frozenset[str]]
"""The modules that each module imports."""


@dataclass(frozen=True)
class Choice:
    """Test files to run.

    Attributes:
        run: paths below the root, nearest to a change first.
        left: paths that import a change too, but do not fit into the time.
        seconds: that those to run take, one after the other.
    """

    run: tuple[str, ...]
    left: tuple[str, ...]
    seconds: float = 0.0

    @property
    def workers(self) -> int:
        """Processes of pytest-xdist; 0 for none."""
        return WORKERS if self.seconds > ALONE_SECONDS else 0


def changed_files(root: Path, base: str) -> list[str]:
    """Files that differ from the merge base with a branch: committed, in the work tree, or new; sorted."""
    fork = _git(root, "merge-base", "HEAD", base).strip()
    differ = _git(root, "diff", "--name-only", fork) + _git(root, "ls-files", "-o", "--exclude-standard")
    return sorted(set(differ.splitlines()))


def read_imports(root: Path) -> dict[str, frozenset[str]]:
    """Imports of package and tests, as written in their sources, and by name in strings of tests."""
    for folder in SOURCES.values():
        sys.path.insert(0, str(root / folder))
    graph = grimp.build_graph(*SOURCES, cache_dir=None)
    found = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    for module, beginning in LOADED_BY_NAME.items():
        found[module] |= {one for one in found if one.startswith(beginning)}
    for module in [one for one in found if one.startswith("tests.")]:
        path = root / (module.replace(".", "/") + ".py")
        if path.is_file():
            found[module] |= named(path.read_text(encoding="utf-8"), found)
    return {module: frozenset(imported - {module}) for module, imported in found.items()}


def named(text: str, modules: Iterable[str]) -> set[str]:
    """Modules whose names occur in a text, and the command line if it runs `python -m flushlab`."""
    known = set(modules)
    found = {one for name in _NAMED.findall(text) if (one := _longest(name, known))}
    return found | ({"flushlab.cli.app"} & known if _RUN.search(text) else set())


def _longest(name: str, known: set[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name if "." in name else ""


def changed_modules(files: Iterable[str], modules: Iterable[str]) -> set[str]:
    """Modules of changed files; for data (TOML, SQL, golden texts) all modules of the folder."""
    known, found = set(modules), set[str]()
    for file in files:
        path = PurePosixPath(file)
        for package, folder in SOURCES.items():
            if not path.is_relative_to(folder / package):
                continue
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if path.suffix in (".py", ".pyi") and module in known:
                found.add(module)
                continue
            beside = module.rpartition(".")[0]
            while beside and beside not in known:  # a folder of data
                beside = beside.rpartition(".")[0]
            found |= {one for one in known if one == beside or one.rpartition(".")[0] == beside}
    return found


def distances(changed: Iterable[str], imports: Imports) -> dict[str, int]:
    """Modules that reach a changed one by their imports, with the length of the shortest chain."""
    importers = defaultdict[str, set[str]](set)
    for module, imported in imports.items():
        for one in imported:
            importers[one].add(module)
    reached = dict.fromkeys(changed, 0)
    border, steps = list(reached), 0
    while border:
        steps += 1
        border = [one for module in border for one in importers[module] if one not in reached]
        reached |= dict.fromkeys(border, steps)
    return reached


def choose(files: Sequence[str], imports: Imports, seconds: Mapping[str, float]) -> Choice:
    """Unit tests that changed files affect, nearest first, as many as fit into the time.

    A file that does not fit leaves its time to those behind it. A conftest.py affects the tests of its folder
    and below, behind all chains of imports. Changed test files always run.
    """
    reached = distances(changed_modules(files, imports), imports)
    far = max(reached.values(), default=0) + 1
    tests = {_path(one): steps for one, steps in reached.items() if one in imports}
    shared = [file.removesuffix("conftest.py") for file in files if file.endswith("conftest.py")]
    for path in map(_path, imports):
        if any(path.startswith(folder) for folder in shared):
            tests.setdefault(path, far)
    if any(file.endswith(".md") for file in files):
        tests |= dict.fromkeys(OF_PAGES, 1)
    units = [one for one in tests if one.startswith(UNIT) and PurePosixPath(one).name.startswith("test_")]
    units.sort(key=lambda one: (one not in files, tests[one], one))
    run, spent = list[str](), 0.0
    for path in units:
        takes = seconds.get(path, UNKNOWN_SECONDS)
        if path in files or spent + takes <= SECONDS * WORKERS:
            run.append(path)
            spent += takes
    return Choice(tuple(run), tuple(one for one in units if one not in run), spent)


def _path(module: str) -> str:
    folder = SOURCES.get(module.partition(".")[0], PurePosixPath())
    return str(folder / (module.replace(".", "/") + ".py"))


def steps(files: Sequence[str], choice: Choice) -> Iterator[tuple[str, ...]]:
    """Commands that judge the changes, the longest first; programs are those of the environment."""
    yield ("mypy",)
    if choice.run:
        yield ("pytest", "-q", "-n", str(choice.workers), *choice.run)
    python = ("python", "tests", "benchmarks", "scripts", "examples")
    yield ("ruff", "format", "--check", *python)
    yield ("ruff", "check", *python)
    yield ("lint-imports", "--no-cache")
    if prose := [file for file in files if _has_prose(file) and (ROOT / file).exists()]:
        yield ("python", "scripts/prose.py", *prose)


def _has_prose(file: str) -> bool:
    page = file.endswith(".md") and (file.startswith(("docs/", "examples/")) or "/" not in file)
    return page or (file.startswith("python/flushlab/") and file.endswith((".py", ".toml")))


def main(words: list[str]) -> int:
    """Runs all steps; the exit code is 1 if one fails."""
    parser = argparse.ArgumentParser(description="Judge the changes since the merge base with main.")
    parser.add_argument("--base", default="main", help="branch to compare with (default: main)")
    parser.add_argument("--list", action="store_true", help="print the chosen test files only")
    asked = parser.parse_args(words)
    files = changed_files(ROOT, asked.base)
    path = ROOT / DURATIONS
    seconds = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    choice = choose(files, read_imports(ROOT), seconds)
    if asked.list:
        sys.stdout.writelines(f"{one}\n" for one in choice.run)
        return 0
    _say(f"{len(files)} changed files, {len(choice.run)} test files")
    with ThreadPoolExecutor() as pool:
        failed = [name for name in pool.map(_judge, steps(files, choice)) if name]
    if choice.left:
        _say(f"{len(choice.left)} more test files import the changes: make check runs them")
    for folder, target in (("crates/", "rust"), ("tests/contract/", "test"), ("tests/integration/", "test")):
        if any(file.startswith(folder) for file in files):
            _say(f"{folder} changed and is not judged here: make {target}")
    _say(f"failed: {', '.join(failed)}" if failed else "no findings")
    return 1 if failed else 0


def _judge(step: tuple[str, ...]) -> str:
    """Runs a command and prints what it found; its name if it failed."""
    program = Path(sys.executable).parent / step[0]
    done = subprocess.run(
        [program, *step[1:]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode or step[0] == "pytest":
        sys.stdout.write(done.stdout)
        sys.stdout.flush()
    return " ".join(step[:2]) if done.returncode else ""


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        hint = "hint: name the branch to compare with: --base BRANCH"
        sys.exit(f"error: git {words[0]}: {done.stderr.strip()}\n{hint}")
    return done.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"quick: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
