"""Mutation tests: changes one place of the sources at a time, and lists the changes that no test notices.

Run by `make soak`. `scripts/mutants.toml` has the modules with their tests, and an answer for each survivor:
the reason why it makes no difference. A survivor without an answer, or an answer without a survivor, gives
exit code 1.

.venv/bin/python scripts/mutants.py [--only TEXT] [--sample N] [--list]

Mutants of code that ends processes and removes folders may end and remove those of others, so they run in
namespaces of their own: only their own processes are there, and all but a copy of the sources and /tmp is
read-only. One process has loaded pytest, the libraries and the tests; a fork of it gives the changed function
its new code and runs the tests. If they pass, or the change is outside of functions, another fork imports all
sources anew, with the changed file among them: only its verdict counts as survival.

Two tools were tried first. mutmut 3.8.1 changes no constant of a module and no function with a decorator: of
159 functions of statistics, durability and ownership these are 23, `critical_value` and `is_of_this_machine`
among them. The guard, which runs without site-packages, cannot import its trampolines. cosmic-ray 8.7.0 makes
1,184 mutants of `comparison.py` and `ownership.py`, most with operators that floats do not have, in the work
tree, each in a new interpreter.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib.util
import inspect
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import hypothesis  # noqa: F401 (loaded before the forks, as the others below)
import msgspec  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import scipy.optimize
import scipy.special  # noqa: F401

ROOT = Path(__file__).parents[1]
ANSWERS = ROOT / "scripts/mutants.toml"
COPIED = ("python", "tests", "benchmarks", "scripts", "plans", "examples", "docs")
COPY = Path("/tmp/mutants")
"""Where the copy is seen; /tmp is empty and their own."""
OUTPUT = COPY / "output"
"""Of the tests that ran last."""
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning",  # those loaded before the fork
)
INSIDE = "--inside"
PATIENCE = 5.0
"""A mutant that takes so many times as long as no mutant hangs: that is noticed too."""
LEAST_S = 30.0

_REVERSED: Mapping[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
_OTHER: Mapping[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.Pow: ast.Mult(),
    ast.BitAnd: ast.BitOr(),
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_GENERIC = {
    *("dict", "list", "set", "tuple", "frozenset", "defaultdict", "Counter", "deque"),
    *("Callable", "Mapping", "Sequence", "NDArray", "Literal", "Iterable", "Iterator", "Collection"),
}


class Mutant(NamedTuple):
    """One changed place.

    Attributes:
        module: path below python/flushlab.
        place: the function, with its classes; `module` outside of them.
        line: where the change begins.
        start, end: offsets of the changed bytes.
        old, new: their text before and after.
        nth: of those of the same name.
    """

    module: str
    place: str
    line: str
    start: int
    end: int
    old: str
    new: str
    nth: int = 1

    @property
    def name(self) -> str:
        """Tells it from others, wherever in the module its function stands."""
        where = "" if self.line.startswith(_short(self.old)) else f" {self.line} |"
        nth = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.module} {self.place}:{where} {_short(self.old)} → {_short(self.new)}{nth}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 100 else f"{words[:99]}…"


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module, in its order."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    tree, content = ast.parse(source), source.encode()
    lines = [0]
    for whole in content.splitlines(keepends=True):
        lines.append(lines[-1] + len(whole))
    for place, node, texts in _visit(tree, "module"):
        if not texts:
            continue
        assert isinstance(node, (ast.expr, ast.stmt))
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[node.end_lineno - 1] + node.end_col_offset
        old = content[start:end].decode()
        line = _short(content[lines[node.lineno - 1] : lines[node.lineno]].decode())
        for new in texts:
            one = Mutant(module, place, line, start, end, old, new)
            seen[one.name] = seen.get(one.name, 0) + 1
            found.append(one._replace(nth=seen[one.name]))
    return found


def changed(source: str, mutant: Mutant) -> str:
    """The source with the mutant in it."""
    content = source.encode()
    return (content[: mutant.start] + mutant.new.encode() + content[mutant.end :]).decode()


def _visit(node: ast.AST, place: str, role: str = "") -> Iterator[tuple[str, ast.AST, list[str]]]:
    """Nodes with their replacements. Left alone: annotations, decorators, assertions, and texts for people.

    Args:
        node: the root.
        place: the function that it is in.
        role: `condition` of a statement or comprehension, `part` of the same operation.
    """
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        place = node.name if place == "module" else f"{place}.{node.name}"
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    yield from _visit(default, place)
        for statement in node.body:
            yield from _visit(statement, place)
        return
    if _is_left_alone(node):
        return
    texts = [] if role == "part" else list(_replacements(node))
    if role == "condition" and isinstance(
        node, (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Subscript)
    ):
        texts.append(f"not {_operand(node)}")
    yield place, node, texts
    if isinstance(node, ast.Raise):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns") or (field == "slice" and _is_type(node)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _visit(child, place, _role(node, field, child))


def _role(node: ast.AST, field: str, child: ast.AST) -> str:
    match node, child:
        case ast.BinOp(_, ast.BitOr(), _), ast.BinOp(_, ast.BitOr(), _) if field == "left":
            return "part"
    return "condition" if field in ("test", "ifs") and not isinstance(node, ast.IfExp) else ""


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(ast.Constant()):  # a docstring
            return True
        case ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.Assign([ast.Name("__all__" | "TYPE_CHECKING"), *_]):
            return True
    return False


def _is_type(node: ast.AST) -> bool:
    """`dict[str, int](…)` and aliases of types."""
    return isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] in _GENERIC


def _replacements(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left, ops, comparators):
            yield from _compared([left, *comparators], ops)
        case ast.BoolOp(op, values):
            texts = [_operand(value) for value in values]
            word, other = (" and ", " or ") if isinstance(op, ast.And) else (" or ", " and ")
            yield other.join(texts)
            for number in range(len(texts)):
                yield word.join(texts[:number] + texts[number + 1 :])
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield _operand(operand)
        case ast.BinOp(_, ast.BitOr(), _):
            texts = [_operand(one) for one in _alternatives(node)]
            for number, text in enumerate(texts):
                if not text.endswith("O_RDONLY"):  # it is 0
                    yield " | ".join(texts[:number] + texts[number + 1 :])
        case ast.BinOp(left, op, right) if type(op) in _OTHER:
            yield ast.unparse(ast.BinOp(left, _OTHER[type(op)], right))
        case ast.AugAssign(target, _, value):
            yield f"{ast.unparse(target)} = {ast.unparse(value)}"
            yield "pass"
        case ast.Constant(value):
            yield from _constants(value)
        case ast.Call(ast.Name(name), args, keywords) if name in _SWAPPED:
            yield ast.unparse(ast.Call(ast.Name(_SWAPPED[name]), args, keywords))
        case ast.IfExp(_, body, other):
            yield from (_operand(body), _operand(other))
        case (
            ast.Expr(ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.Raise() | ast.Continue() | ast.Break()
        ):
            yield "pass"
        case ast.Return(ast.Constant(None | False)):  # who asks takes both for no
            return
        case ast.Return(None):
            yield "pass"
        case ast.Return():
            yield "return None"


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The operands of `a | b | c`."""
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return [*_alternatives(left), right]
    return [node]


def _compared(operands: Sequence[ast.expr], ops: Sequence[ast.cmpop]) -> Iterator[str]:
    texts = [_operand(one) for one in operands]
    words = [ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2] for op in ops]
    for at, op in enumerate(ops):
        for other in _REVERSED[type(op)]:
            used = [*words[:at], other, *words[at + 1 :]]
            yield texts[0] + "".join(f" {word} {text}" for word, text in zip(used, texts[1:], strict=True))


def _constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield str(value + 1)
    elif isinstance(value, float):
        yield repr(2 * value if value else 1.0)
    elif isinstance(value, str) and _is_word(value):
        yield repr(value + "~")


def _is_word(text: str) -> bool:
    return text.isprintable() and len(text.split()) == 1 and not text.startswith("https://")


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    simple = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)
    return text if isinstance(node, simple) else f"({text})"


# -- runs ----------------------------------------------------------------------------------------------


def enter(words: Sequence[str]) -> subprocess.Popen[str]:
    """This script in namespaces of its own; its lines are what `run_all` prints."""
    mapped = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    command = ("unshare", *mapped, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
    script = (sys.executable, __file__, INSIDE, *words)
    return subprocess.Popen([*command, *script], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def isolate() -> None:
    """An empty /tmp with the copy in it; everything else on disks becomes read-only."""
    assert os.getpid() == 1, "mutants run in a pid namespace of their own"
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    subprocess.run(["mount", "-t", "tmpfs", "mutants", "/tmp"], check=True)
    COPY.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, COPY / name, symlinks=True)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy2(file, COPY)
    for point in dict.fromkeys(points):
        if not point.startswith(("/proc", "/sys", "/dev")):
            subprocess.run(["mount", "-o", "remount,bind,ro", point], check=False, stderr=subprocess.DEVNULL)
    os.chdir(COPY)
    os.environ["PYTHONPATH"] = f"{COPY / 'python'}:{COPY}"
    os.environ["FLUSHLAB_HOME"] = "/tmp/home"
    sys.path[:0] = [str(COPY / "python"), str(COPY)]


def run_all(chosen: Sequence[Mutant], tests: Mapping[str, Sequence[str]]) -> None:
    """Prints a line for each: how it ended, its name, the seconds."""
    loaded = ""
    for one in chosen:
        path = COPY / "python/flushlab" / one.module
        source = path.read_text(encoding="utf-8")
        if one.module != loaded:
            loaded = one.module
            gc.unfreeze()
            load(tests[loaded])
            functions = loaded_functions(path)
            gc.freeze()  # forks leave the pages of what is loaded alone
            limits = [_limit_s(loaded, tests[loaded], anew) for anew in (False, True)]
        began = time.monotonic()
        code = new_code(source, one, str(path))
        ended = "survived"
        if code and (there := functions.get(code.co_qualname)):
            ended = run(tests[loaded], limits[0], [(function, code) for function in there])
        if ended == "survived":
            try:
                write(path, changed(source, one))
                ended = run(tests[loaded], limits[1])
            finally:
                write(path, source)
        print(f"{ended}\t{one.name}\t{time.monotonic() - began:.2f}", flush=True)  # noqa: T201


def _limit_s(module: str, tests: Sequence[str], anew: bool) -> float:
    """Seconds after which a mutant of the module hangs."""
    began = time.monotonic()
    if run(tests, 600, None if anew else ()) != "survived":
        sys.exit(f"{OUTPUT.read_text()}the tests of {module} fail without a mutant")
    return max(LEAST_S, PATIENCE * (time.monotonic() - began))


def load(tests: Sequence[str]) -> None:
    """Imports tests, and what they import, for all forks."""
    usual = os.dup(1)
    _redirect()
    pytest.main([*OPTIONS, "--collect-only", *tests])
    os.dup2(usual, 1)
    os.close(usual)


def unload() -> None:
    """Forgets what `load` imported, but for the native core, which no process can import twice."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("flushlab", "tests") and name != "flushlab._core":
            del sys.modules[name]


def loaded_functions(path: Path) -> dict[str, list[FunctionType]]:
    """Those of a file that are in memory, by qualified name, whatever wraps them."""
    found = defaultdict[str, list[FunctionType]](list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == str(path):
            found[one.__code__.co_qualname].append(one)
    return found


def new_code(source: str, mutant: Mutant, path: str = "") -> CodeType | None:
    """Code of the function or method with the mutant; None if the change is elsewhere, as in its defaults."""
    old, new = (_codes(compile(text, path, "exec")) for text in (source, changed(source, mutant)))
    for name, code in new.items():
        if f"{mutant.place}.".startswith(f"{name}.") and code != old[name]:
            return code
    return None


def _codes(module: CodeType) -> dict[str, CodeType]:
    """Functions of a module and of its classes whose names occur once."""
    below, found = [module], list[CodeType]()
    while below:
        for one in below.pop().co_consts:
            if isinstance(one, CodeType):
                (found if one.co_flags & inspect.CO_OPTIMIZED else below).append(one)
    times = Counter(one.co_qualname for one in found)
    return {one.co_qualname: one for one in found if times[one.co_qualname] == 1}


def write(path: Path, source: str) -> None:
    """Compiled modules are told apart by seconds and size, so the old one goes."""
    path.write_text(source, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run(
    tests: Sequence[str], limit_s: float, codes: Sequence[tuple[FunctionType, CodeType]] | None = None
) -> str:
    """Runs tests in a fork of this process: survived, killed or hung.

    Args:
        tests: paths of files.
        limit_s: after which they hang.
        codes: functions with their new code; without, the fork imports all sources anew.
    """
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _redirect()
        if codes is None:
            unload()
        for function, code in codes or ():
            function.__code__ = code
        os._exit(pytest.main([*OPTIONS, *tests]))
    ended = ""
    while not ended:
        pid, status = os.waitpid(-1, os.WNOHANG)  # orphans too: nobody else is there to reap them
        if pid == child:
            ended = _told(status)
        elif time.monotonic() - began > limit_s:
            ended = "hung"
        elif pid == 0:
            time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all others of the namespace, whose first process this is
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    for left in COPY.parent.iterdir():
        if left != COPY:
            shutil.rmtree(left, ignore_errors=True)
    return ended


def _redirect() -> None:
    """Output of the tests, and nothing before it, is in the file."""
    output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)


def _told(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"pytest ran no test (exit code {code})")
    return "killed" if code else "survived"


# -- answers -------------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """What `mutants.toml` holds.

    Attributes:
        tests: of each module, those that fail soonest first.
        why: reason for each survivor.
    """

    tests: dict[str, list[str]]
    why: dict[str, str]


def read_answers(text: str) -> Answers:
    """Modules with their tests; survivors with their reasons."""
    found = tomllib.loads(text)
    tests = {path: group["tests"] for group in found["group"] for path in group["modules"]}
    why = {mutant: one["why"] for one in found.get("equivalent", ()) for mutant in one["mutants"]}
    return Answers(tests, why)


def judged(survivors: Sequence[str], tried: Sequence[str], why: Mapping[str, str]) -> list[str]:
    """Complaints: survivors without an answer, and answers whose mutant was tried and did not survive."""
    new = [f"survived: {name}" for name in survivors if name not in why]
    gone = [f"answered, but no survivor: {name}" for name in why if name in tried and name not in survivors]
    return new + gone


def choose(answers: Answers, only: Sequence[str] = (), sample: int = 0, seed: int = 1) -> list[Mutant]:
    """All mutants, those whose name has one of the texts, or a sample."""
    found = [
        one
        for module in answers.tests
        for one in mutants(module, (ROOT / "python/flushlab" / module).read_text(encoding="utf-8"))
        if not only or any(text in one.name for text in only)
    ]
    if sample and sample < len(found):
        kept = {one.name for one in random.Random(seed).sample(found, sample)}
        found = [one for one in found if one.name in kept]
    return found


def main(words: list[str]) -> int:
    """Runs the mutants and compares survivors with answers; 1 if these differ."""
    parser = argparse.ArgumentParser(description="Run the tests on mutants and list the survivors.")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="mutants whose name contains this"
    )
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--list", action="store_true", help="print the mutants only")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    answers = read_answers(ANSWERS.read_text(encoding="utf-8"))
    chosen = choose(answers, asked.only, asked.sample, asked.seed)
    if asked.list:
        sys.stdout.writelines(f"{one.name}\n" for one in chosen)
        return 0
    if asked.inside:
        isolate()
        run_all(chosen, answers.tests)
        return 0
    ended: dict[str, str] = {}
    with enter(words) as running:
        assert running.stdout is not None
        for line in running.stdout:
            how, name, seconds = line.rstrip("\n").split("\t")
            ended[name] = how
            if how != "killed" and name not in answers.why:
                sys.stdout.write(f"{how} after {seconds} s: {name}\n")
                sys.stdout.flush()
    if running.returncode:
        return running.returncode
    survivors = [name for name, how in ended.items() if how == "survived"]
    complaints = judged(survivors, list(ended), answers.why)
    unknown = set(answers.why) - {one.name for one in choose(answers)}
    complaints += [f"answered, but there is no such mutant: {name}" for name in sorted(unknown)]
    hung = sum(how == "hung" for how in ended.values())
    sys.stdout.write(f"{len(ended)} mutants, {len(survivors)} survived, {hung} hung\n")
    sys.stdout.writelines(f"{one}\n" for one in complaints)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
