"""From a plan's TOML to a Plan. Every mistake is a UsageError that names path, line, column and a way out.

Sits in `plan`; pure: the text is given, nothing is opened. Keys are looked at before what they hold, so that
a misspelled key is never reported as a missing one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

import msgspec

from flushlab.errors import UsageError
from flushlab.near import nearest
from flushlab.plan.plan import COUNTED, RESERVED, ArmPlan, Claim, Plan, Requirement, crossed
from flushlab.plan.toml import (
    SCALARS,
    Entry,
    File,
    Node,
    Table,
    not_finite,
    positions,
    read_text,
    read_toml,
    suggestion,
)
from flushlab.record import BASE, BEST, CONTROL, Value
from flushlab.settings.catalog import canonical, load_catalog
from flushlab.settings.floor import Floor, parse_floor
from flushlab.settings.option_names import setting_of
from flushlab.spec.kinds import MOST_BLOCKS
from flushlab.spec.parts import SAME_WORKLOAD, WorkloadSpec
from flushlab.units import counted, parse_size

_PLAN_KEYS = ("title", "text", "server", "cluster", "blocks", "window", "seed", "floor", "best", "alternate")
_PLAN_TABLES = ("workload", "base", "factor", "arm", "claim", "requires")
_BASE_KEYS = ("name", "text", "settings")
_PLACE_KEYS = ("data_root", "file_system", "record_size", "disk")
_FACTOR_KEYS = ("name", "text", "settings", "defaults", "instead", "workload")
_ARM_KEYS = (*_FACTOR_KEYS, "on", *_PLACE_KEYS)
_RATIOS = ("expected", "at_least", "at_most")
_CLAIM_KEYS = ("text", "arm", "against", "quantity", *_RATIOS, "source")
_REQUIREMENT_KEYS = ("setting", "values", "not_values", "why")

_SETTING = re.compile(r"[a-z][a-z0-9_.]*")
_SLIPS = 2
"""A name with so few letters wrong counts as misspelled: real neighbours, which have `read` for `write` or
`_max` behind them, are further apart."""
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_NAME_LENGTH = 40
_ARMS = 100
_FACTORS = (2, 4)
_BLOCKS = (2, MOST_BLOCKS)
_SECONDS = 86_400
_SEED = 2**63 - 1
_NODES = (2, 9)
_SMALLEST_RECORD = 512


def parse_plan(text: str, *, path: str) -> Plan:
    """The plan that a TOML file holds.

    Args:
        text: content of the file.
        path: for messages; the plan is named after it.

    Raises:
        UsageError: it is not TOML or not a plan; `PATH:LINE:COL: …`, with the nearest key in the hint.
    """
    return _Parser(read_toml(text, path=path), path).plan()


class _Parser:
    def __init__(self, document: Node, path: str) -> None:
        self._file = File(path)
        self._root = Table(self._file, document, "a plan", (*_PLAN_KEYS, *_PLAN_TABLES))
        self._base = self._root.table("base", "the base", _BASE_KEYS)
        self._factors = self._root.tables("factor", "factor", _FACTOR_KEYS)
        self._arms = self._root.tables("arm", "arm", _ARM_KEYS)
        self._claims = self._root.tables("claim", "claim", _CLAIM_KEYS)
        self._requires = self._root.tables("requires", "requirement", _REQUIREMENT_KEYS)
        self._root.need("title", "workload", *(() if self._factors else ("arm",)))
        self._base_name = self._base.text("name", BASE) if self._base else BASE

    def plan(self) -> Plan:
        root, base = self._root, self._base
        if base is not None and "name" in base:
            self._check_name(base, self._base_name, reserved=(CONTROL, BEST))
        settings = self._settings(base) if base is not None else {}
        best, alternate = root.truth("best", not self._factors), root.truth("alternate", False)
        arms = self._read_arms(settings, alternate)
        workload = self._workload()
        if alternate and workload.name.startswith("command:") and workload.options.get("reset") != "none":
            what = "a command starts from fresh data each time, but alternate = true keeps one server's"
            hint = 'add reset = "none" to the workload, or remove alternate'
            raise self._file.error(root.entries["alternate"], what, hint)
        names = [arm.name for arm in arms]
        places = positions(root.node)
        return Plan(
            name=PurePath(self._file.path).stem,
            title=self._title(),
            text=root.text("text").strip(),
            server=root.text("server") or None,
            cluster=root.whole("cluster", 0, *_NODES) if "cluster" in root else None,
            workload=workload,
            base=settings,
            base_name=self._base_name,
            base_text=base.text("text").strip() if base is not None else "",
            arms=arms,
            factors=tuple(table.text("name") for table in self._factors),
            claims=tuple(self._claim(table, names, best) for table in self._claims),
            requires=tuple(self._requirement(table) for table in self._requires),
            blocks=root.whole("blocks", 5, *_BLOCKS),
            window=root.number("window", 10.0, 0, _SECONDS, above=True),
            seed=root.whole("seed", 1, 0, _SEED),
            floor=self._floor(),
            best=best,
            alternate=alternate,
            positions=places | {canonical(path): place for path, place in places.items()},
        )

    def _title(self) -> str:
        title = self._root.text("title").strip()
        if not title or "\n" in title:
            raise self._root.wrong("title", "title is not one line of text", "say what the question is")
        return title

    def _floor(self) -> Floor | None:
        text = self._root.text("floor")
        if "floor" not in self._root:
            return None
        try:
            return parse_floor(text)
        except UsageError as error:
            raise self._root.wrong("floor", error.message, error.hint or "") from error

    def _workload(self) -> WorkloadSpec:
        node = self._root.entries["workload"].node
        if node.kind != "table":
            raise self._file.wrong_type(node, "workload", "a table", 'write [workload] with name = "upsert"')
        table = self._workload_table(node)
        table.need("name")
        return self._workload_of(table)

    def _workload_table(self, node: Node) -> Table:
        return Table(self._file, node, "the workload", (entry.key for entry in node.entries))

    def _workload_of(self, table: Table) -> WorkloadSpec:
        """A workload, or a change of one, which need not have a name."""
        name = table.text("name")
        if "name" in table and not name.strip():
            raise table.wrong("name", "the workload's name is empty", "for example upsert")
        entries = (entry for entry in table.node.entries if entry.key != "name")
        options = {entry.key: _value(self._file, entry.key, entry.node) for entry in entries}
        return WorkloadSpec(name=name, options=options)

    def _read_arms(self, base: Mapping[str, Value], alternate: bool) -> tuple[ArmPlan, ...]:
        if not self._arms and not self._factors:
            raise self._root.wrong("arm", "the plan has no arm", "add an [[arm]]")
        if len(self._arms) > _ARMS:
            raise self._file.error(
                self._arms[_ARMS].node, f"a plan has at most {_ARMS} arms", "split it into two plans"
            )
        arms: list[ArmPlan] = []
        sets = {BASE: frozenset(base)}

        def add(arm: ArmPlan, table: Table) -> None:
            if alternate:
                self._check_alternate(table)
            arms.append(arm)
            kept = frozenset() if "*" in arm.defaults else sets[arm.on] - {*arm.defaults}
            sets[arm.name] = kept.union(arm.settings, *arm.instead)

        for arm, table in self._crossed(sets):
            add(arm, table)
        for table in self._arms:
            add(self._arm(table, sets), table)
        return tuple(arms)

    def _crossed(self, sets: Mapping[str, frozenset[str]]) -> Iterator[tuple[ArmPlan, Table]]:
        """An arm for every combination of the factors: the last one's change, on the arm of the others."""
        if not self._factors:
            return
        least, most = _FACTORS
        if not least <= len(self._factors) <= most:
            what = f"the plan has {counted(len(self._factors), 'factor')}"
            hint = f"{least} to {most} can be crossed; a change by itself is an [[arm]]"
            raise self._file.error(self._factors[-1].node, what, hint)
        tables, places = dict[str, Table](), dict[str, str]()
        for index, table in enumerate(self._factors):
            table.need("name")
            self._check_name(table, table.text("name"), RESERVED, (*sets, *tables, self._base_name))
            tables[table.text("name")], places[table.text("name")] = table, f"factor.{index}"
            if "+" in table.text("name"):
                hint = "it joins the names of factors; use another word"
                raise table.wrong("name", f"the name {table.text('name')} has a +", hint)
        names = crossed([*tables])
        for combination, name in names.items():
            if combination:
                table = tables[combination[-1]]
                arm = self._arm(table, sets, name=name, on=names[combination[:-1]])
                text = "" if len(combination) > 1 else arm.text
                yield msgspec.structs.replace(arm, place=places[combination[-1]], text=text), table

    def _arm(
        self, table: Table, sets: Mapping[str, frozenset[str]], *, name: str = "", on: str = ""
    ) -> ArmPlan:
        """An arm, or one of a factor by the name and on the arm that are given; `sets` has the names that the
        base and each earlier arm set."""
        table.need("name")
        name = name or table.text("name")
        self._check_name(table, name, reserved=RESERVED, taken=(*sets, self._base_name))
        on = on or self._on(table, sets)
        settings = self._settings(table)
        workload = table.get("workload")
        if workload is not None and workload.kind != "table":
            raise self._file.wrong_type(workload, "workload", "a table of options", "write workload = { … }")
        arm = ArmPlan(
            name=name,
            text=table.text("text").strip(),
            on=on,
            settings=settings,
            defaults=self._defaults(table, on, sets[on], settings),
            instead=self._instead(table),
            workload=SAME_WORKLOAD if workload is None else self._workload_of(self._workload_table(workload)),
            data_root=self._data_root(table),
            file_system=table.text("file_system") or None,
            record_size=self._record_size(table),
            disk=table.text("disk") or None,
        )
        place = arm.data_root or arm.disk
        if not (arm.settings or arm.defaults or arm.workload != SAME_WORKLOAD or place):
            hint = "give it settings, defaults, workload, data_root or disk"
            raise self._file.error(table.node, f"the arm {name} changes nothing", hint)
        return arm

    def _check_name(
        self, table: Table, name: str, reserved: Iterable[str], taken: Iterable[str] = ()
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

    def _on(self, table: Table, earlier: Iterable[str]) -> str:
        on = self._arm_named(table, "on")
        if on not in earlier and on in map(_name_of, self._arms):
            what = f"on refers to {on}, which does not come before this arm"
            raise table.wrong("on", what, f"move {on} up")
        self._check_arm(table, "on", on, [*earlier])
        return on

    def _arm_named(self, table: Table, key: str) -> str:
        name = table.text(key, BASE)
        return BASE if name == self._base_name else name

    def _settings(self, table: Table) -> dict[str, Value]:
        node = table.get("settings")
        if node is None:
            return {}
        if node.kind != "table":
            hint = "write settings = { sync_binlog = 0 }, for example"
            raise self._file.wrong_type(node, "settings", "a table of settings", hint)
        return _setting_values(self._file, node)

    def _instead(self, table: Table) -> tuple[Mapping[str, Value], ...]:
        tables = table.items("instead", ("table",), "a list of tables", "write instead = [{ NAME = VALUE }]")
        if tables and "settings" not in table:
            what = "instead replaces settings, but the arm has none"
            raise table.wrong("instead", what, "give it settings = { … }")
        for node in tables:
            if not node.entries:
                raise self._file.error(
                    node, "an item of instead is empty", "write instead = [{ NAME = VALUE }]"
                )
        return tuple(_setting_values(self._file, node) for node in tables)

    def _defaults(
        self, table: Table, on: str, there: frozenset[str], settings: Mapping[str, Value]
    ) -> tuple[str, ...]:
        items = table.items("defaults", ("string",), "a list of names", 'write defaults = ["sync_binlog"]')
        return tuple(self._default(item, on, there, settings) for item in items)

    def _default(self, item: Node, on: str, there: frozenset[str], settings: Mapping[str, Value]) -> str:
        spelled = str(item.value)
        if spelled == "*":
            return spelled
        name = _setting_name(self._file, item, spelled)
        if name not in there:
            hint = suggestion(name, sorted(there)) or f"{on} sets {', '.join(sorted(there)) or 'nothing'}"
            raise self._file.error(item, f"{name} cannot go back to its default: {on} does not set it", hint)
        if name in settings:
            hint = "set it, or let it go back to its default"
            raise self._file.error(item, f"{name} is in settings too", hint)
        return name

    def _data_root(self, table: Table) -> str | None:
        place = table.text("data_root")
        if "data_root" in table and (not place.strip() or "${" in _VARIABLE.sub("", place)):
            hint = 'write a folder; "${NAME}" stands for an environment variable'
            raise table.wrong("data_root", f"data_root is {place!r}, which is not a path", hint)
        return place or None

    def _record_size(self, table: Table) -> int | None:
        node = table.get("record_size")
        if node is None:
            return None
        if node.kind not in ("string", "integer"):
            raise self._file.wrong_type(node, "record_size", "a size", "write 16384 or '16K'")
        try:
            size = parse_size(str(node.value))
        except UsageError as error:
            raise self._file.error(node, f"record_size: {error.message}", error.hint) from None
        if size < _SMALLEST_RECORD or size & (size - 1):
            hint = f"it takes powers of two from {_SMALLEST_RECORD}, such as 16384"
            raise self._file.error(node, f"record_size is {node.value}, which is out of range", hint)
        return size

    def _check_alternate(self, table: Table) -> None:
        for key in ("workload", *_PLACE_KEYS):
            if key in table:
                what = f"{key} cannot change while one server runs, and the plan has alternate = true"
                raise self._file.error(table.entries[key], what, "remove it, or remove alternate")

    def _claim(self, table: Table, arms: list[str], best: bool) -> Claim:
        table.need("text", "arm")
        against = self._arm_named(table, "against")
        arm = table.text("arm")
        self._check_arm(table, "arm", arm, [*arms, BEST] if best else arms)
        self._check_arm(table, "against", against, [BASE, *arms])
        if arm == against:
            raise table.wrong("against", f"{arm} is compared with itself", "use another arm, or base")
        quantity = table.word("quantity", COUNTED, "")
        given = [key for key in _RATIOS if key in table]
        if len(given) != 1:
            where = table.entries[given[1]] if given else table.node
            what = f"{table.what} has {' and '.join(given) or 'no ratio'}"
            raise self._file.error(where, what, f"it takes exactly one of {', '.join(_RATIOS)}")
        ratios = {key: table.number(key, 0.0) for key in given}
        if ratios[given[0]] <= 0:
            what = f"{given[0]} is {ratios[given[0]]:g}, which is not a ratio"
            raise table.wrong(given[0], what, "1 is as fast as before, 2 is twice as fast")
        return Claim(
            text=table.text("text").strip(),
            arm=arm,
            against=against,
            expected=ratios.get("expected"),
            at_least=ratios.get("at_least"),
            at_most=ratios.get("at_most"),
            quantity=quantity,
            source=table.text("source").strip(),
        )

    def _check_arm(self, table: Table, key: str, name: str, there: list[str]) -> None:
        if name not in there:
            hint = suggestion(name, there) or f"there are {', '.join(there)}"
            raise table.wrong(key, f"{key} refers to {name!r}, but there is no such arm", hint)

    def _requirement(self, table: Table) -> Requirement:
        table.need("setting")
        name = table.text("setting")
        return Requirement(
            setting=_setting_name(self._file, table.entries["setting"].node, name),
            values=self._values(table, "values"),
            not_values=self._values(table, "not_values"),
            why=table.text("why").strip(),
        )

    def _values(self, table: Table, key: str) -> tuple[Value, ...]:
        return tuple(map(_plain, table.items(key, SCALARS, "a list of values", f"write {key} = [1]")))


def _name_of(table: Table) -> str:
    node = table.get("name")
    return str(node.value) if node is not None else ""


def _setting_name(file: File, where: Node | Entry, spelled: str) -> str:
    """A setting's name as variables spell it.

    Raises:
        UsageError: it is none, or looks like a known one misspelled.
    """
    name = canonical(spelled)
    if not _SETTING.fullmatch(name):
        raise file.error(where, f"{spelled!r} is not the name of a setting", "for example sync_binlog")
    near = _misspelled(name)
    if near:
        raise file.error(where, f"no server is known to have {spelled}", f"did you mean {near}?")
    return name


def _setting_values(file: File, node: Node) -> dict[str, Value]:
    """The settings of a table, by their variables' names."""
    settings: dict[str, Value] = {}
    for entry in node.entries:
        spelled = _setting_name(file, entry, entry.key)
        value = _value(file, spelled, entry.node)
        name, given = setting_of(spelled, 0 if entry.node.kind == "boolean" and value == "OFF" else value)
        if name in settings:
            raise file.error(entry, f"{name} is set twice", "in names, - is the same as _")
        settings[name] = value if name == spelled or given is None else given
    return settings


def _value(file: File, name: str, node: Node) -> Value:
    """The value of a setting, or of a workload's option."""
    if node.kind not in SCALARS or not_finite(node):
        raise file.wrong_type(node, name, "a number, a string, true or false")
    return _plain(node)


def _plain(node: Node) -> Value:
    """A scalar as records hold it: true and false are ON and OFF."""
    if node.kind == "boolean":
        return "ON" if node.value else "OFF"
    assert isinstance(node.value, int | float | str)
    return node.value


def _misspelled(name: str) -> str | None:
    """The known name that this one is a slip away from, if it is none itself."""
    catalog = load_catalog()
    if name in catalog:
        return None
    known = [name for entry in catalog.settings() for name in (entry.name, *entry.aliases)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    return next((one for one in near if _slips(name, one) <= _SLIPS), None)


def _slips(one: str, other: str) -> int:
    """Letters that differ; two in the wrong order count as two."""
    steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


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
