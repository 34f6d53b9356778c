"""Admission: which settings may enter a sandbox, from wherever they come. Pure.

Sits in `settings`; option files, `--set`, plans, `flushlab test` and the sandbox itself all ask here. What is
not on the list stays out: the catalog's settings and those of `admitted.txt` enter, because all they change
is how the server works inside its own folder. What names a path, a peer, a credential or a plugin, and what
nobody has looked at, does not. Values of what stays out are never repeated.

A server takes one option of a file under many spellings: dashes, prefixes that stack, and in MariaDB
abbreviations. A word passes only if every option that it may mean to the server is admitted, and if its value
holds no path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from flushlab.errors import UnknownSetting, UsageError, nearest
from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import canonical, load_catalog, packaged
from flushlab.settings.option_names import load_option_names

UNKNOWN = "not known to be safe"
_ONE_SLIP = 0.95
"""From this similarity on a name that stays out is taken to be misspelt."""

PLUGIN = re.compile(
    r"(rpl_semi_sync|group_replication|validate_password|audit_log|server_audit|clone|keyring|thread_pool|"
    r"mysqlx|rocksdb|tokudb|spider|connect|mroonga|columnstore|authentication|connection_control|"
    r"daemon_memcached|file_key_management|hashicorp|query_response_time|simple_password_check)_|.*\."
)
"""Names of options that come with plugins and components, which no server lists before they are loaded."""

_NAME = re.compile(r"[a-z][a-z0-9_.]*")
A_PATH = re.compile(r"[/\\]")

_KEPT_OUT: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (why, re.compile(pattern))
    for why, pattern in (
        ("cluster", r"wsrep_.*|group_replication_.*|ndb.*"),
        (
            "replication",
            r"(log_)?(slave|replica)_.*|.*_(slave|replica)(_.*)?|(log_(slave|replica)|relay_log|master|report|"
            r"replicate|rpl|sync_(master|source|relay)|source)_.*|.*relay_log.*|init_rpl_role|"
            r"binlog_(do|ignore)_db|.*binlog_dump.*",
        ),
        (
            "accounts, keys and TLS",
            r"(.*_)?(ssl|tls|x509)(_.*)?|.*(password|auth|encrypt|keyring|certs|proxy_users|_roles?$).*|"
            r"require_secure_transport|skip_grant_tables|des_key_file|secure_.*|partial_revokes|"
            r"persist(ed|_only|_sensitive)_.*|file_key_management.*|protocol_compression_algorithms|safe_user_create|skip_show_database|"
            r"max_user_connections|log_raw",
        ),
        (
            "file locations",
            r"basedir|chroot|datadir|tmpdir|language|socket|pid_file|log_(basename|error|tc)|"
            r"(log_bin|relay_log)_index|.*_(dir|dirs|dbs|tmpdir|directory|directories|path|file|filename)|"
            r"general_log_file|symbolic_links|debug",
        ),
        (
            "addresses and ports",
            r"(.*_)?(port|address|addresses|host|hosts|networks|url|socket)|skip_networking|extra_.*|admin_.*|"
            r"create_admin_listener_thread|mysqlx.*|feedback.*",
        ),
        ("SQL the server runs by itself", r"init_.*|event_scheduler"),
        (
            "restricts what the server accepts",
            r"(super_|innodb_|transaction_)?read_only|offline_mode|autocommit|completion_type|"
            r"innodb_force_recovery|.*storage_engines?",
        ),
        ("system log", r"log_syslog.*|syseventlog.*|log_error_services"),
        (
            "process",
            r"user|bootstrap|initialize.*|upgrade|daemonize|console|help|verbose|version.*|validate_config|"
            r"memlock|core_file|gdb|.*exit_info|no_dd_upgrade|tc_heuristic_recover|super_large_pages|flashback",
        ),
        ("plugins", r"(early_)?plugin_.*|allow_suspicious_udfs|archive|blackhole|federated|.*_plugins?"),
        ("plugins", f"(?:{PLUGIN.pattern}).*"),
    )
)
"""Why well-known options stay out. It only words the reason: an option is out because it is not admitted."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    why: str


Admitted = tuple[dict[str, Value], tuple[LeftOut, ...]]


def admit(settings: Mapping[str, Value]) -> Admitted:
    entering: dict[str, Value] = {}
    left = []
    for given, value in settings.items():
        name = canonical(given)
        if why := kept_out(name, value):
            left.append(LeftOut(name=name, why=why))
        else:
            entering[name] = value
    return entering, tuple(left)


def admit_for(
    settings: Mapping[str, Value], flavor: Flavor, version: tuple[int, ...], *, nodes: int | None = None
) -> Admitted:
    admitted, left = admit(settings)
    entering: dict[str, Value] = {}
    for name, value in admitted.items():
        try:
            entering |= parse_settings({name: value}, flavor, version, nodes=nodes)
        except UsageError as error:
            left += (LeftOut(name=name, why=error.message),)
    return entering, left


def require_admitted(settings: Mapping[str, Value]) -> dict[str, Value]:
    checked: dict[str, Value] = {}
    for given, value in settings.items():
        name = canonical(given)
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a server variable")
        why = kept_out(name, value)
        if why == UNKNOWN:
            if _bare(name) in load_catalog():
                raise UnknownSetting(f"{name} is not a setting", hint=f"write {_bare(name)} = ON or OFF")
            beside = {one.pattern for one, _ in _admitted() if _NAME.fullmatch(one.pattern)}
            raise load_catalog().unknown(name, _bare(name), beside)
        if why:
            near = nearest(name, load_catalog().spellings, most=1, cutoff=_ONE_SLIP)
            raise UsageError(
                f"{name} cannot be set in a sandbox ({why})",
                hint=f"did you mean {near[0]}?"
                if near
                else "a sandbox sets up its own files, network and accounts; remove it",
            )
        checked[name] = value
    return checked


def kept_out(name: str, value: Value) -> str:
    if name in load_catalog():
        return "file locations" if A_PATH.search(str(value)) else ""
    for listed, allowed in _admitted():
        if not listed.fullmatch(name):
            continue
        if allowed is not None:
            return "" if allowed.fullmatch(str(value)) else "unsafe value"
        return "file locations" if A_PATH.search(str(value)) else ""
    return next((why for why, names in _KEPT_OUT if names.fullmatch(name)), UNKNOWN)


def is_admitted(name: str) -> bool:
    return any(listed.fullmatch(name) for listed, _ in _admitted())


def describe_left_out(left_out: Iterable[LeftOut]) -> str:
    names: dict[str, list[str]] = {}
    for one in left_out:
        names.setdefault(one.why, []).append(one.name)
    return "; ".join(f"{', '.join(sorted(of))} ({why})" for why, of in names.items())


def _bare(name: str) -> str:
    return re.sub(r"^(loose_|skip_|disable_|enable_)+", "", name)


@functools.cache
def _admitted() -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...]:
    found = []
    for name, *values in map(str.split, packaged("admitted.txt")):
        allowed = re.compile(values[0], re.IGNORECASE) if values else None
        found.append((re.compile(name), allowed))
    return tuple(found)


def parse_settings(
    given: Mapping[str, Value],
    flavor: Flavor,
    version: tuple[int, ...],
    *,
    nodes: int | None = None,
) -> dict[str, Value]:
    catalog = load_catalog()
    settings: dict[str, Value] = {}
    for spelled, value in given.items():
        name = spelled.strip().replace("-", "_")
        if name in catalog:
            here = catalog.require(name, flavor, version)
            value = here.parse(value)
            if nodes is not None and (why := here.unfit(value, nodes)):
                raise UsageError(why, hint=f"remove {spelled.strip()}")
        elif isinstance(value, str) and value.lstrip("-").isdigit():
            value = int(value)
        settings[name] = value
    return require_admitted(settings)


PREFIX = re.compile(r"(skip|disable|enable|maximum|loose)_")
BINARY_LOG = "binlog"

_OPTION = re.compile(r"--[^\s=-].*", re.DOTALL)
_LOG_BIN = re.compile(r"(loose_)*log_bin")


def inside(word: str) -> str:
    option, _, text = word.partition("=")
    if A_PATH.search(text) and _LOG_BIN.fullmatch(canonical(option.removeprefix("--"))):
        return f"{option}={BINARY_LOG}"
    return word


def barred(word: str, flavor: Flavor, version: tuple[int, ...]) -> str:
    """Why a word of the user's may not reach a server; empty if it may."""
    option, _, text = word.partition("=")
    if not _OPTION.fullmatch(option):
        return UNKNOWN
    if A_PATH.search(word):
        return "file locations"
    for name, known in _meanings(canonical(option.removeprefix("--")), flavor, version):
        why = kept_out(name, text)
        if why and (known or why != UNKNOWN):
            return why
    return ""


def require_admitted_words(words: Iterable[str], flavor: Flavor, version: tuple[int, ...]) -> None:
    """UsageError for the first word that may not reach a server, without its value."""
    for word in words:
        if why := barred(word, flavor, version):
            raise UsageError(f"{word.partition('=')[0]} cannot be given to a sandbox ({why})")


def _meanings(spelled: str, flavor: Flavor, version: tuple[int, ...]) -> Iterator[tuple[str, bool]]:
    names = load_option_names()
    while True:
        if names.knows(spelled, flavor, version):
            yield spelled, True
        else:
            longer = names.starting_with(spelled, flavor, version)
            yield from ((name, True) for name in longer)
            if spelled not in longer:
                yield spelled, spelled in names.names()
        match = PREFIX.match(spelled)
        if match is None:
            return
        spelled = spelled[match.end() :]
