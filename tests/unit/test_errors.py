import inspect

import pytest

from flushlab import errors
from flushlab.errors import FlushlabError, nearest
from flushlab.settings.catalog import load_catalog

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, FlushlabError)]

# Scripts rely on these: a change is a breaking change.
EXIT_CODES = {
    "usage": 2,
    "unknown-setting": 2,
    "value-out-of-range": 2,
    "below-floor": 2,
    "build-not-found": 2,
    "extra-missing": 2,
    "budget-too-small": 2,
    "server": 3,
    "library-missing": 3,
    "start-failed": 3,
    "server-died": 3,
    "port-taken": 3,
    "fleet": 3,
    "measurement": 4,
    "command-failed": 4,
    "samples-disagree": 4,
    "counters-reset": 4,
    "load-paused": 4,
    "settings-touched": 4,
    "storage": 5,
    "no-space": 5,
    "no-memory": 5,
    "not-writable": 5,
    "snapshot-damaged": 5,
    "dump-refused": 5,
    "binlog-damaged": 1,
    "binlog-misplaced": 1,
    "binlog-unchecked": 5,
    "harness": 6,
    "protocol": 7,
}


def test_every_error_has_a_slug_of_its_own() -> None:
    slugs = [c.slug for c in CLASSES]
    assert len(slugs) == len(set(slugs))


@pytest.mark.parametrize("kind", [c for c in CLASSES if c is not FlushlabError], ids=lambda c: c.slug)
def test_slug_and_exit_code_are_stable(kind: type[FlushlabError]) -> None:
    assert EXIT_CODES[kind.slug] == kind.exit_code


def test_hint_stands_beside_the_message() -> None:
    error = errors.UsageError("no such thing", hint="try another")
    assert (str(error), error.hint) == ("no such thing", "try another")


def test_only_names_about_as_near_as_the_nearest_are_suggested() -> None:
    names = [one.name for one in load_catalog().settings()]
    assert nearest("innodb_flush_log_at_trx_comit", names) == ["innodb_flush_log_at_trx_commit"]
    assert nearest("stat", ["start", "status", "stop"]) == ["start", "status"]
    assert nearest("nothing_alike", ["start"]) == []


def test_a_misspelled_beginning_finds_the_names_that_go_on_from_it_the_foremost_first() -> None:
    names = [one.name for one in load_catalog().settings()]
    assert nearest("inodb_flush", names)[0] == "innodb_flush_log_at_trx_commit"
    assert nearest("inodb_flush_log", names) == [
        "innodb_flush_log_at_trx_commit",
        "innodb_flush_log_at_timeout",
    ]
    assert nearest("innodb_bufer_pool", names)[0] == "innodb_buffer_pool_size"
