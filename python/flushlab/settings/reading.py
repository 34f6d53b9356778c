"""Reading: how a server reads the text of an option, mistakes included. Pure.

Other parts of flushlab accept values generously (`SettingHere.parse`: `1.5G`, `yes`); servers do not. The
rules come from `--verbose --help` of MySQL 5.7, 8.0 and 9.7 and MariaDB 10.11 and 11.8, and
`tests/contract/test_check.py` compares them with servers:

- a number out of range is adjusted;
- a text that is no number or no member of an enumeration stops the start;
- a text that is no boolean is ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

import msgspec

from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import SettingHere
from flushlab.settings.option_names import OptionShape, shape_of

LARGE_SUFFIXES_SINCE = (8, 0, 14)
"""First MySQL that takes T, P and E (its release notes); MariaDB takes them in all versions known here."""

_NUMBER = re.compile(r"([+-]?)(\d*)(?:([a-zA-Z]).*)?", re.DOTALL)
"""Behind the first letter the servers read nothing: `1GB` is `1G`, and `many` is `0M`."""
_POWER = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_PLACE = re.compile(r"\+?\d+|-0+")
"""A member of an enumeration by its place, or those of a set by their bits."""
_NAMELESS = {("sql_mode", "mysql"): 13, ("new_mode", "mariadb"): 2}
"""Members of a set that servers take as bits alone: what once had a name (MySQL 9.7.4, MariaDB 11.8.9)."""
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_ON, _OFF = ("ON", "TRUE", "1"), ("OFF", "FALSE", "0")
_TEXTS = (
    (re.compile(r"replicate_(wild_)?(do|ignore)_table"), re.compile(r".+\..+")),
    (re.compile(r"replicate_rewrite_db"), re.compile(r"\s*\S+\s*->\s*\S.*")),
    (re.compile(r"optimizer_trace"), re.compile(r"((^|,)(\w+=(on|off|default)|default))*", re.IGNORECASE)),
    (
        re.compile(r"(admin_)?ssl_cipher|(admin_)?tls_ciphersuites"),
        re.compile(r".?|([A-Z0-9]+[-_][\w-]+:?)*"),
    ),
    (re.compile(r"ft_boolean_syntax"), re.compile(r".{14}")),
    (re.compile(r"lc_time_names"), re.compile(r"[a-z]{2,3}_[a-z]{2}(@\w+)?", re.IGNORECASE)),
    (re.compile(r"log_basename"), re.compile(r"[^./]+")),
    (re.compile(r"redirect_url"), re.compile(r"((mysql|mariadb)://.+)?", re.IGNORECASE)),
    (re.compile(r"(date|datetime)_format"), re.compile(r"(?=.*%Y)(?=.*%m)(?=.*%d).*")),
    (re.compile(r"(time|datetime)_format"), re.compile(r"(?=.*%[Hh])(?=.*%i)(?=.*%s).*")),
)
"""Options whose text the servers read further (`mysqld.cc`, `sys_vars.cc`)."""
_LOADED = ("ON", "OFF", "FORCE", "FORCE_PLUS_PERMANENT")
"""Values of an option that loads a plugin (`sql_plugin.cc`, global_plugin_typelib_names)."""
_POWERS_OF_TWO = ("innodb_page_size", "innodb_log_write_ahead_size")
_SESSION_BYTES = 32 << 10
"""MariaDB 10.11.19 ends with signal 11 at 24 KiB and starts at 32; 11.8.9 starts with all."""
_CHUNK_BYTES = 128 << 20
_INSTANCES_FROM_BYTES = 1 << 30
_NEAR = 0.85
"""How alike a member of a set must be to be named as the one that was meant."""


class ReadValue(msgspec.Struct, frozen=True):
    """A text as the server reads it.

    Attributes:
        value: what is in force; None if the server does not start.
        kind: of the mistake: `wrong-type`, `out-of-range`, `rounded`, `not-a-switch`; empty if there is none.
    """

    value: Value | None
    kind: str = ""
    text: str = ""
    fatal: bool = False
    hint: str | None = None


def read(here: SettingHere, text: str | None) -> ReadValue:
    if here.entry.switch:
        return _switch(here, text)
    if here.type == "string":
        return ReadValue(text or "")
    if text is None:
        shape = _shape(here)
        if not (shape.optional if shape else here.type == "boolean"):
            return _refused("has no value")
        text = "1"
    if here.type == "set":
        return _members(here.values, text, _NAMELESS.get((here.name, here.flavor), 0))
    if here.type == "boolean":
        return _boolean(here, text)
    if here.type == "enumeration":
        return _enumeration(here, text)
    if not text:
        return _empty(here)
    return _float(here, text) if here.type == "float" else _integer(here, text)


def read_shape(
    name: str, shape: OptionShape, text: str | None, flavor: Flavor, version: tuple[int, ...]
) -> ReadValue:
    if text is None and not shape.optional:
        bare = shape.kind == "bare"
        return _refused("is a variable, not an option" if bare else "has no value")
    if text is None:
        return ReadValue("ON")
    if shape.kind == "bare":
        return _refused("takes no value", hint="leave the value out")
    crashes = name == "max_session_mem_used" and flavor == "mariadb" and version < (11,)
    if crashes and not text:
        return _refused(
            f"is empty, which means 0, below {_SESSION_BYTES}: the server crashes", "out-of-range"
        )
    if not text and shape.kind not in ("boolean", "text", "word", "set", "switches"):
        ports = name == "port" and version < (8, 0)
        return _refused("is empty") if flavor == "mysql" and not ports else ReadValue(text)
    match shape.kind:
        case "boolean":
            return _boolean_text(text, shape.values[0])
        case "unsigned" | "signed":
            number = _number(text, flavor, version, signed=shape.kind == "signed")
            if crashes and isinstance(number, int) and number < _SESSION_BYTES:
                return _refused(f"is {text}, below {_SESSION_BYTES}: the server crashes", "out-of-range")
            return number if isinstance(number, ReadValue) else ReadValue(text)
        case "real":
            return (
                ReadValue(text) if _REAL.fullmatch(text) else _refused(f"is {text!r}, which is not a number")
            )
        case "word":
            words = {value.upper(): value for value in shape.values}
            several = name == "character_set_server" and not (flavor == "mysql" and version >= (9,))
            taken = words.keys() & set(text.upper().split(",") if several else (text.upper(),))
            return ReadValue(text) if taken else _no_member(text, words, shape.values)
        case "enumeration" | "plugin":
            values = shape.values or _LOADED
            return _member(text, {value.upper(): value for value in values}, values)
        case "set":
            return _members(shape.values, text, _NAMELESS.get((name, flavor), 0))
        case "switches":
            return _switches(shape.values, text)
    lists = flavor == "mysql" and version >= (9,)
    if "cipher" in name and not lists:
        return ReadValue(text)
    if any(names.fullmatch(name) and not taken.fullmatch(text) for names, taken in _TEXTS):
        if name == "lc_time_names" and flavor == "mysql" and version >= (8, 0):
            says = f"is {text!r}, which is no locale: the server keeps en_US"
            return ReadValue(text, "wrong-type", says)
        return _refused(f"is {text!r}, which is not as the server needs it")
    return ReadValue(text)


def negated(here: SettingHere) -> ReadValue:
    """The meaning of `skip_NAME` and `disable_NAME`: OFF, or 0 for a number."""
    if here.type in ("boolean", "enumeration") and here.same("OFF", "OFF"):
        return ReadValue("OFF")
    reading = read(here, "0")
    if reading.kind or reading.value is None:
        return reading
    kind = "has no OFF" if here.values else "is a number"
    return ReadValue(reading.value, "prefix", f"{kind}: skip_ and disable_ make it {reading.value}")


def pool_bytes(here: SettingHere, size: int, chunk: int | None, instances: int | None) -> int:
    """The buffer pool that a size becomes at the start: MySQL rounds up to whole chunks in each instance.

    From 8.4 on the number of instances depends on the machine; then the size is left as it is.
    """
    if here.flavor == "mariadb" or (here.version >= (8, 4) and instances is None):
        return size
    many = size >= _INSTANCES_FROM_BYTES
    count = (instances or 8) if many else 1
    unit = min(chunk or _CHUNK_BYTES, size // count) * count
    return -(-size // unit) * unit


def _shape(here: SettingHere) -> OptionShape | None:
    return shape_of(here.name, here.flavor, here.version)


def _refused(text: str, kind: str = "wrong-type", hint: str | None = None) -> ReadValue:
    return ReadValue(None, kind, text, True, hint)


def _switch(here: SettingHere, text: str | None) -> ReadValue:
    if text is None or text.upper() not in (*_ON, *_OFF):
        return ReadValue("ON")
    wanted = "leave the value out" if text.upper() in _ON else f"write skip_{here.name}"
    return ReadValue(
        "ON",
        kind="not-a-switch",
        text=f"takes a file name, so this writes a log named {text}; {wanted}",
    )


def _boolean(here: SettingHere, text: str) -> ReadValue:
    shape = _shape(here)
    if shape is not None and shape.kind == "enumeration":
        return _member(text, {value.upper(): value for value in shape.values}, shape.values)
    default = str(here.parse(here.default))
    kept = shape.values[0] if shape is not None and shape.kind == "boolean" else default
    return _boolean_text(text, kept)


def _boolean_text(text: str, otherwise: str) -> ReadValue:
    if text.upper() in _ON:
        return ReadValue("ON")
    if text.upper() in _OFF:
        return ReadValue("OFF")
    says = f"is {text!r}, which is neither ON nor OFF: the server takes it for {otherwise}"
    return ReadValue(otherwise, "wrong-type", says)


def _empty(here: SettingHere) -> ReadValue:
    """A value without a letter: MySQL takes none, MariaDB reads 0."""
    if here.flavor == "mysql":
        return _refused("is empty")
    becomes = _bounded(here, 0, "0").value
    return ReadValue(becomes, "wrong-type", f"is empty: the server takes it for {becomes}")


def _enumeration(here: SettingHere, text: str) -> ReadValue:
    if not text:
        if here.flavor == "mysql":
            return _refused("is empty")
        says = f"is empty: the server takes it for {here.values[0]}"
        return ReadValue(here.values[0], "wrong-type", says)
    spelled = {value.upper(): value for value in here.values}
    spelled |= {spelling.upper(): value for spelling, value in here.spellings.items()}
    shape = _shape(here)
    if shape is not None and shape.kind == "text":
        return _named(here, text)
    return _member(text, spelled, here.values)


def _named(here: SettingHere, text: str) -> ReadValue:
    """One of an enumeration that only InnoDB reads, by its whole name (MySQL 5.7, `ha_innodb.cc`)."""
    exactly = here.name == "innodb_flush_method"
    named = {value if exactly else value.upper(): value for value in here.values}
    value = named.get(text if exactly else text.upper())
    return _no_member(text, named, here.values) if value is None else ReadValue(value)


def _member(text: str, spelled: Mapping[str, str], values: Sequence[str]) -> ReadValue:
    if text.upper() in spelled:
        return ReadValue(spelled[text.upper()])
    if _PLACE.fullmatch(text) and int(text) < len(values):
        return ReadValue(values[int(text)])
    begin = [value for name, value in spelled.items() if text and name.startswith(text.upper())]
    if len(set(begin)) == 1:
        return ReadValue(begin[0])
    return _no_member(text, spelled, values)


def _no_member(text: str, spelled: Mapping[str, str], values: Sequence[str]) -> ReadValue:
    near = difflib.get_close_matches(text.upper(), spelled, n=1)
    hint = f"did you mean {spelled[near[0]]}?" if near else f"write one of {', '.join(values)}"
    return _refused(f"is {text!r}, which is not one of its values", hint=hint)


def _members(values: Sequence[str], text: str, nameless: int) -> ReadValue:
    """A list without blanks of members, each by the beginning of its name; or their bits as a number.

    Behind an equals sign the servers read nothing of a member (`typelib.c`, FIND_TYPE_COMMA_TERM).
    """
    if not text or (_PLACE.fullmatch(text) and int(text) < 1 << len(values) + nameless):
        return ReadValue(text)
    named = [value.upper() for value in values]
    for part in text.split(","):
        member = part.strip().upper().partition("=")[0]
        if part != part.strip():
            return _refused("has blanks between its values", hint="write the list without blanks")
        begin = [value for value in named if value.startswith(member)]
        if not member or (member not in named and len(begin) != 1):
            near = difflib.get_close_matches(member, named, n=1, cutoff=_NEAR)
            meant = f"did you mean {near[0]}?" if near else f"remove {part or 'the comma'} from the list"
            return _refused(f"contains {part!r}, which is not one of its values", hint=meant)
    return ReadValue(text)


def _switches(values: Sequence[str], text: str) -> ReadValue:
    named = [value.upper() for value in values]
    for part in text.split(",") if text else ():
        name, _, state = part.upper().partition("=")
        begin = [value for value in named if value.startswith(name)]
        if part.upper() != "DEFAULT" and (not name or (name not in named and len(begin) != 1)):
            near = difflib.get_close_matches(name, named, n=1)
            hint = f"did you mean {near[0].lower()}?" if near else None
            return _refused(f"contains {part!r}, which is not one of its switches", hint=hint)
        if part.upper() != "DEFAULT" and state not in ("ON", "OFF", "DEFAULT"):
            return _refused(f"contains {part!r}, which sets its switch neither on, off nor default")
    return ReadValue(text)


def _float(here: SettingHere, text: str) -> ReadValue:
    if not _REAL.fullmatch(text):
        return _refused(f"is {text!r}, which is not a number")
    return _bounded(here, float(text), text)


def _integer(here: SettingHere, text: str) -> ReadValue:
    shape = _shape(here)
    signed = shape is not None and shape.kind == "signed"
    number = _number(text, here.flavor, here.version, signed=signed)
    if isinstance(number, int):
        return _bounded(here, number, text)
    if number.value == 0 and (adjusted := _bounded(here, 0, "0").value):
        says = f"is {text!r}: the server reads no digit and changes it to {adjusted}"
        return ReadValue(adjusted, number.kind, says)
    return number


def _number(text: str, flavor: Flavor, version: tuple[int, ...], *, signed: bool = False) -> int | ReadValue:
    match = _NUMBER.fullmatch(text)
    suffixes = "KMGTPE" if flavor == "mariadb" or version >= LARGE_SUFFIXES_SINCE else "KMG"
    letter = match[3] or "" if match else ""
    if match is None or letter.upper() not in suffixes or not (match[2] or letter):
        return _refused(
            f"is {text!r}; the server takes whole numbers, optionally followed by {', '.join(suffixes)}"
        )
    if not match[2]:
        says = f"is {text!r}: the server reads no digit and takes it for 0"
        return ReadValue(0, "wrong-type", says)
    number = int(match[2]) << _POWER[letter.upper()]
    if match[1] == "-" and number and flavor == "mariadb" and not signed:
        return _refused(f"is {text!r}; MariaDB takes no negative numbers", "out-of-range")
    return -number if match[1] == "-" else number


def _bounded(here: SettingHere, number: int | float, text: str) -> ReadValue:
    low, high = here.minimum, here.maximum
    value = number
    if low is not None and number < low:
        value = low
    if high is not None and number > high:
        value = high
    if isinstance(value, int):
        value = value // here.multiple * here.multiple
    if number != value and (number < (low or 0) or (high is not None and number > high)):
        rule = f"{here.name} takes {here.describe_range()}"
        return ReadValue(value, "out-of-range", f"is {text}; {rule}, and the server changes it to {value}")
    if here.name in _POWERS_OF_TWO and isinstance(value, int) and value & (value - 1):
        if here.name == "innodb_page_size":
            return _refused(f"is {text}, which is not a power of 2", "out-of-range")
        down = 1 << (value.bit_length() - 1)
        return ReadValue(down, "rounded", f"is {text}; the server changes it to {down}, a power of 2")
    if number != value:
        return ReadValue(value, "rounded", f"is {text}; the server changes it to {value}")
    return ReadValue(value)
