"""Plans that come with flushlab, and how a plan is found: by its name or by its path.

Sits in `plan`. Apart from reading that one file it is pure. The files lie in `shipped/`, inside the package;
`plans/` at the top of the repository leads there. `migrations.sql` stands beside the plan that runs it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from flushlab.errors import UsageError
from flushlab.near import nearest
from flushlab.plan.parse import parse_plan
from flushlab.plan.plan import Plan
from flushlab.plan.toml import read_text

_HERE = Path(__file__).parent
_SHIPPED = _HERE / "shipped"
_SUFFIX = ".toml"
_LARGEST = 1 << 20
_EXAMPLE = "example.toml"
PIPED = "piped"
"""Name of a plan that came through a pipe."""


def shipped_names() -> tuple[str, ...]:
    """Names of the plans that come with flushlab."""
    return tuple(sorted(file.stem for file in _SHIPPED.glob(f"*{_SUFFIX}")))


def shipped(name: str) -> Path | None:
    """The file of a plan that comes with flushlab, or None."""
    return _SHIPPED / f"{name}{_SUFFIX}" if name in shipped_names() else None


def find_plan(name: str) -> Path:
    """The file of a plan: a path, or the name of a shipped one. A file, or a pipe, that is there comes first.

    Raises:
        UsageError: there is neither; the hint has the nearest shipped name.
    """
    path = Path(name).expanduser()
    if path.is_file():  # behind /dev/stdin there is one, too, if it is not a pipe
        return path.resolve() if path.is_relative_to("/dev") else path
    if path.is_fifo():
        return path
    if (file := shipped(name)) is not None:
        return file
    names = shipped_names()
    near = nearest(path.stem, names, most=1)
    advice = f"did you mean {near[0]}? " if near else ""
    choice = f"give a file, or one of {', '.join(names)}"
    raise UsageError(
        f"there is no plan {name}", hint=f"{advice}{choice}; `flushlab series {_EXAMPLE} --init` writes one"
    )


def read_plan(path: Path) -> Plan:
    """The plan in a file or pipe.

    Raises:
        UsageError: it is no plan, or too large to be one.
        StorageError: it cannot be read.
    """
    text = read_text(path, _LARGEST)
    plan = msgspec.structs.replace(parse_plan(text, path=str(path)), source=text)
    return msgspec.structs.replace(plan, name=PIPED) if path.is_fifo() else plan


def example() -> str:
    """A commented plan to start from."""
    return (_HERE / _EXAMPLE).read_text(encoding="utf-8")
