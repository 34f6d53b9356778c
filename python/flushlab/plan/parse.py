"""A plan of a series: found by its name or its path, and read from TOML.

Sits in `plan`; apart from reading that one file it is pure. Types and bounds are declared by the structs
below; what one key means beside others is checked here. Every mistake is a UsageError that names path, line,
column and a way out. Plans that come with flushlab lie in `shipped/`, inside the package; `plans/` at the top
of the repository leads there. `migrations.sql` stands beside the plan that runs it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from flushlab.errors import UsageError, nearest
from flushlab.plan.plan import RESERVED, WINDOW_S, ArmPlan, Claim, Plan, Requirement, crossed
from flushlab.plan.toml import Entry, Node, Scalar, Table, positions, read_text, read_toml, suggestion
from flushlab.record import BASE, BEST, CONTROL, Value
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.floor import Floor
from flushlab.settings.option_names import setting_of
from flushlab.spec.kinds import Blocks, Seed
from flushlab.spec.parts import SAME_WORKLOAD, Nodes, WorkloadSpec
from flushlab.units import counted, parse_size

_SETTING = re.compile(r"[a-z][a-z0-9_.]*")
_SLIPS = 2
"""A name with so few letters wrong counts as misspelled: real neighbours, which have `read` for `write` or
`_max` behind them, are further apart."""
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_NAME_LENGTH = 40
_ARMS = 100
_FACTORS = (2, 4)
_SMALLEST_RECORD = 512
_PLACES = ("data_root", "file_system", "record_size", "disk")
_RATIOS = ("expected", "at_least", "at_most")

_Settings = Annotated[
    dict[str, Scalar],
    Meta(title="a table of settings", description="write settings = { sync_binlog = 0 }, for example"),
]
_Values = Annotated[tuple[Scalar, ...], Meta(title="a list of values", description="for example [1]")]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a plan."""


class _Base(_Table, frozen=True, kw_only=True):
    name: str = BASE
    text: str = ""
    settings: _Settings = {}


class _Factor(_Table, frozen=True, kw_only=True):
    name: str
    text: str = ""
    settings: _Settings = {}
    defaults: Annotated[
        tuple[str, ...], Meta(title="a list of names", description='write defaults = ["sync_binlog"]')
    ] = ()
    instead: Annotated[
        tuple[Annotated[dict[str, Scalar], Meta(min_length=1)], ...],
        Meta(title="a list of tables", description="write instead = [{ NAME = VALUE }]"),
    ] = ()
    workload: Annotated[
        dict[str, Scalar], Meta(title="a table of options", description="write workload = { … }")
    ] = {}


class _Arm(_Factor, frozen=True, kw_only=True):
    on: str = BASE
    data_root: str | None = None
    file_system: str | None = None
    record_size: Annotated[int | str | None, Meta(title="a size", description="write 16384 or '16K'")] = None
    disk: str | None = None


class _Requirement(_Table, frozen=True, kw_only=True):
    setting: str
    values: _Values = ()
    not_values: _Values = ()
    why: str = ""


class _File(_Table, frozen=True, kw_only=True):
    title: str
    text: str = ""
    server: str | None = None
    cluster: Nodes | None = None
    blocks: Blocks = 5
    window: Annotated[float, Meta(gt=0, le=86_400)] = WINDOW_S
    seed: Seed = 1
    floor: Floor | None = None
    best: bool | None = None
    alternate: bool = False
    workload: Annotated[
        dict[str, Scalar], Meta(title="a table", description='write [workload] with name = "upsert"')
    ]
    base: _Base = _Base()
    factor: tuple[_Factor, ...] = ()
    arm: tuple[_Arm, ...] = ()
    claim: tuple[Claim, ...] = ()
    requires: tuple[_Requirement, ...] = ()


def parse_plan(text: str, *, path: str) -> Plan:
    root = Table(path, read_toml(text, path=path), "a plan")
    return _Reader(root, root.read(_File)).plan()


class _Reader:
    def __init__(self, root: Table, file: _File) -> None:
        self._root, self._file = root, file
        self._arms = root.tables("arm", _Arm)
        self._sets = {BASE: frozenset[str]()}

    def plan(self) -> Plan:
        root, file = self._root, self._file
        base, title = root.table("base"), file.title.strip()
        if not title or "\n" in title:
            raise root.wrong("title", "title is not one line of text", "say what the question is")
        if "name" in base:
            self._check_name(base, file.base.name, reserved=(CONTROL, BEST))
        settings = _settings(base.table("settings"))
        self._sets[BASE] = frozenset(settings)
        best = not file.factor if file.best is None else file.best
        arms = self._read_arms()
        table = root.table("workload")
        table.need("name")
        workload = _workload(table, file.workload)
        if (
            file.alternate
            and workload.name.startswith("command:")
            and workload.options.get("reset") != "none"
        ):
            what = "a command starts from fresh data each time, but alternate = true keeps one server's"
            hint = 'add reset = "none" to the workload, or remove alternate'
            raise root.misplaced("alternate", what, hint)
        names, places = [arm.name for arm in arms], positions(root.node)
        return Plan(
            name=Path(root.path).stem,
            title=title,
            text=file.text.strip(),
            server=file.server,
            cluster=file.cluster,
            workload=workload,
            base=settings,
            base_name=file.base.name,
            base_text=file.base.text.strip(),
            arms=arms,
            factors=tuple(factor.name for factor in file.factor),
            claims=tuple(
                self._claim(table, claim, names, best)
                for table, claim in zip(root.tables("claim", Claim), file.claim, strict=True)
            ),
            requires=tuple(
                Requirement(
                    setting=_setting_name(table, table.entries["setting"].node, needed.setting),
                    values=tuple(map(_value, needed.values)),
                    not_values=tuple(map(_value, needed.not_values)),
                    why=needed.why.strip(),
                )
                for table, needed in zip(root.tables("requires", _Requirement), file.requires, strict=True)
            ),
            blocks=file.blocks,
            window=float(file.window),
            seed=file.seed,
            floor=file.floor,
            best=best,
            alternate=file.alternate,
            positions=places | {canonical(path): place for path, place in places.items()},
            path=root.path,
        )

    def _read_arms(self) -> tuple[ArmPlan, ...]:
        if not self._file.factor:
            self._root.need("arm")
            if not self._arms:
                raise self._root.wrong("arm", "the plan has no arm", "add an [[arm]]")
        if len(self._arms) > _ARMS:
            last = self._arms[_ARMS]
            raise last.error(last.node, f"a plan has at most {_ARMS} arms", "split it into two plans")
        arms = list(self._crossed())
        for number, (table, arm) in enumerate(zip(self._arms, self._file.arm, strict=True)):
            on = self._on(table, arm.on)
            arms.append(self._arm(table, arm, name=arm.name, on=on, place=f"arm.{number}"))
        return tuple(arms)

    def _crossed(self) -> Iterator[ArmPlan]:
        tables = self._root.tables("factor", _Factor)
        if not tables:
            return
        least, most = _FACTORS
        if not least <= len(tables) <= most:
            what = f"the plan has {counted(len(tables), 'factor')}"
            hint = f"{least} to {most} can be crossed; a change by itself is an [[arm]]"
            raise self._root.error(tables[-1].node, what, hint)
        numbers = dict[str, int]()
        for number, (table, factor) in enumerate(zip(tables, self._file.factor, strict=True)):
            self._check_name(table, factor.name, taken=(*numbers, BASE, self._file.base.name))
            if "+" in factor.name:
                hint = "it joins the names of factors; use another word"
                raise table.wrong("name", f"the name {factor.name} has a +", hint)
            numbers[factor.name] = number
        names = crossed([*numbers])
        for combination, name in names.items():
            if combination:
                number = numbers[combination[-1]]
                factor, on = self._file.factor[number], names[combination[:-1]]
                arm = self._arm(tables[number], factor, name=name, on=on, place=f"factor.{number}")
                yield msgspec.structs.replace(arm, text="" if len(combination) > 1 else arm.text)

    def _arm(self, table: Table, given: _Factor, *, name: str, on: str, place: str) -> ArmPlan:
        self._check_name(table, name, taken=(*self._sets, self._file.base.name))
        if self._file.alternate:
            for key in ("workload", *_PLACES):
                if key in table:
                    what = f"{key} cannot change while one server runs, and the plan has alternate = true"
                    raise table.misplaced(key, what, "remove it, or remove alternate")
        settings = _settings(table.table("settings"))
        if given.instead and "settings" not in table:
            what = "instead replaces settings, but the arm has none"
            raise table.wrong("instead", what, "give it settings = { … }")
        items = table.items("defaults")
        arm = ArmPlan(
            name=name,
            text=given.text.strip(),
            on=on,
            settings=settings,
            defaults=tuple(self._default(table, item, on, settings) for item in items),
            instead=tuple(_settings(Table(table.path, node, "")) for node in table.items("instead")),
            workload=_workload(table.table("workload"), given.workload),
            place=place,
        )
        if isinstance(given, _Arm):
            arm = msgspec.structs.replace(
                arm,
                data_root=_data_root(table, given.data_root),
                file_system=given.file_system or None,
                record_size=_record_size(table, given.record_size),
                disk=given.disk or None,
            )
        if not (arm.settings or arm.defaults or arm.workload != SAME_WORKLOAD or arm.data_root or arm.disk):
            hint = "give it settings, defaults, workload, data_root or disk"
            raise table.error(table.node, f"the arm {name} changes nothing", hint)
        kept = frozenset() if "*" in arm.defaults else self._sets[on] - {*arm.defaults}
        self._sets[name] = kept.union(settings, *arm.instead)
        return arm

    def _check_name(
        self, table: Table, name: str, reserved: Collection[str] = RESERVED, taken: Collection[str] = ()
    ) -> None:
        if not name or name != name.strip() or len(name) > _NAME_LENGTH or not name.isprintable():
            hint = (
                f"it must be one line of 1 to {_NAME_LENGTH} characters, without leading or trailing spaces"
            )
            raise table.wrong("name", f"{name!r} is not a valid name", hint)
        if name.casefold() in reserved:
            hint = f"every series has its own {', '.join(RESERVED)}"
            raise table.wrong("name", f"the name {name} is reserved", hint)
        if name in taken:
            raise table.wrong("name", f"the name {name} is taken", "give every arm its own name")

    def _on(self, table: Table, given: str) -> str:
        on = BASE if given == self._file.base.name else given
        if on not in self._sets and on in (arm.name for arm in self._file.arm):
            what = f"on refers to {on}, which does not come before this arm"
            raise table.wrong("on", what, f"move {on} up")
        _check_arm(table, "on", on, self._sets)
        return on

    def _default(self, table: Table, item: Node, on: str, settings: Mapping[str, Value]) -> str:
        if item.value == "*":
            return "*"
        name, there = _setting_name(table, item, str(item.value)), self._sets[on]
        if name not in there:
            hint = suggestion(name, sorted(there)) or f"{on} sets {', '.join(sorted(there)) or 'nothing'}"
            raise table.error(item, f"{name} cannot go back to its default: {on} does not set it", hint)
        if name in settings:
            hint = "set it, or let it go back to its default"
            raise table.error(item, f"{name} is in settings too", hint)
        return name

    def _claim(self, table: Table, claim: Claim, arms: Collection[str], best: bool) -> Claim:
        against = BASE if claim.against == self._file.base.name else claim.against
        _check_arm(table, "arm", claim.arm, [*arms, BEST] if best else arms)
        _check_arm(table, "against", against, [BASE, *arms])
        if claim.arm == against:
            raise table.wrong("against", f"{claim.arm} is compared with itself", "use another arm, or base")
        given = [key for key in _RATIOS if key in table]
        if len(given) != 1:
            where = table.entries[given[1]] if given else table.node
            what = f"{table.what} has {' and '.join(given) or 'no ratio'}"
            raise table.error(where, what, f"it takes exactly one of {', '.join(_RATIOS)}")
        text, source = claim.text.strip(), claim.source.strip()
        return msgspec.structs.replace(claim, text=text, against=against, source=source)


def _check_arm(table: Table, key: str, name: str, there: Collection[str]) -> None:
    if name not in there:
        hint = suggestion(name, there) or f"there are {', '.join(there)}"
        raise table.wrong(key, f"{key} refers to {name!r}, but there is no such arm", hint)


def _workload(table: Table, given: Mapping[str, Scalar]) -> WorkloadSpec:
    options = {key: _value(value) for key, value in given.items()}
    name = options.pop("name", "")
    if not isinstance(name, str):
        raise table.wrong_type(table.entries["name"].node, "name", "a string in quotes")
    if "name" in given and not name.strip():
        raise table.wrong("name", "the workload's name is empty", "for example upsert")
    return WorkloadSpec(name=name, options=options)


def _data_root(table: Table, place: str | None) -> str | None:
    if place is not None and (not place.strip() or "${" in _VARIABLE.sub("", place)):
        hint = 'write a folder; "${NAME}" stands for an environment variable'
        raise table.wrong("data_root", f"data_root is {place!r}, which is not a path", hint)
    return place


def _record_size(table: Table, given: int | str | None) -> int | None:
    if given is None:
        return None
    try:
        size = parse_size(str(given))
    except UsageError as error:
        raise table.wrong("record_size", f"record_size: {error.message}", error.hint) from None
    if size < _SMALLEST_RECORD or size & (size - 1):
        hint = f"it takes powers of two from {_SMALLEST_RECORD}, such as 16384"
        raise table.wrong("record_size", f"record_size is {given}, which is out of range", hint)
    return size


def _setting_name(table: Table, where: Node | Entry, spelled: str) -> str:
    name = canonical(spelled)
    if not _SETTING.fullmatch(name):
        raise table.error(where, f"{spelled!r} is not the name of a setting", "for example sync_binlog")
    if name not in load_catalog():
        known = [name for entry in load_catalog().settings() for name in (entry.name, *entry.aliases)]
        for near in difflib.get_close_matches(name, known, n=3, cutoff=0.8):
            if _slips(name, near) <= _SLIPS:
                raise table.error(where, f"no server is known to have {spelled}", f"did you mean {near}?")
    return name


def _slips(name: str, known: str) -> int:
    """Letters that differ; two in the wrong order count as two."""
    steps = difflib.SequenceMatcher(None, name, known, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


def _settings(table: Table) -> dict[str, Value]:
    settings: dict[str, Value] = {}
    for entry in table.entries.values():
        spelled, value = _setting_name(table, entry, entry.key), entry.node.value
        assert value is not None, "it was read"
        name, given = setting_of(spelled, 0 if value is False else _value(value))
        if name in settings:
            raise table.error(entry, f"{name} is set twice", "in names, - is the same as _")
        settings[name] = _value(value) if name == spelled or given is None else given
    return settings


def _value(scalar: Scalar) -> Value:
    return ("ON" if scalar else "OFF") if isinstance(scalar, bool) else scalar


_HERE = Path(__file__).parent
_SHIPPED = _HERE / "shipped"
_SUFFIX = ".toml"
_LARGEST = 1 << 20
_EXAMPLE = "example.toml"
PIPED = "piped"


def shipped_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in _SHIPPED.glob(f"*{_SUFFIX}")))


def shipped(name: str) -> Path | None:
    return _SHIPPED / f"{name}{_SUFFIX}" if name in shipped_names() else None


def find_plan(name: str) -> Path:
    """A file, or a pipe, that is there comes before a shipped plan of the name."""
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
    text = read_text(path, _LARGEST)
    plan = msgspec.structs.replace(parse_plan(text, path=str(path)), source=text)
    if path.is_fifo():
        return msgspec.structs.replace(plan, name=PIPED)
    return msgspec.structs.replace(plan, folder=path.absolute().parent)


def example() -> str:
    return (_HERE / _EXAMPLE).read_text(encoding="utf-8")
