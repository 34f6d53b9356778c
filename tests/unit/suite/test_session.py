"""What a run of a suite makes of how its commands end."""

from __future__ import annotations

import pytest

from flushlab.build import Build
from flushlab.errors import UsageError
from flushlab.record import Performance, StatementKind
from flushlab.spec.commands import DatabaseSpec
from flushlab.suite.command import CommandEnd
from flushlab.suite.comparison import Side, ratio
from flushlab.suite.request import SuiteRequest
from flushlab.suite.session import require_prepared
from tests.unit.builds import MARIADB, MYSQL80

ERROR = "ERROR 1305 (42000) at line 2: FUNCTION app.BIN_TO_UUID does not exist"
FAILED = CommandEnd(exit_code=0, errors=(ERROR,), tail=f"applying V2\n{ERROR}\n")


def request(build: Build = MARIADB, chosen: str = "", *, keep_failed: bool = False) -> SuiteRequest:
    spec = DatabaseSpec(prepare="./migrate.sh", keep_failed=keep_failed)
    return SuiteRequest(spec=spec, build=build, words=(), database="app", limit_bytes=0, chosen=chosen)


@pytest.mark.parametrize("exit_code", [0, 130])
def test_an_interrupted_preparation_is_no_template_whatever_its_exit_code(exit_code: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        require_prepared(CommandEnd(exit_code=exit_code, interrupted=True), request())


def test_a_failed_preparation_is_the_users_mistake_and_names_the_server_and_who_chose_it() -> None:
    require_prepared(CommandEnd(exit_code=0), request())
    with pytest.raises(UsageError, match=r"exited with code 3 on mysql@8\.0\.15; no template") as error:
        require_prepared(CommandEnd(exit_code=3, tail="no such table"), request(MYSQL80))
    assert error.value.hint == "read the output of the prepare command above"
    with pytest.raises(UsageError) as silent:
        require_prepared(CommandEnd(exit_code=3), request())
    assert str(silent.value.hint).startswith("the prepare command printed nothing")
    default = r"code 3 on mariadb@10\.11\.19 \(default; --server mysql@8\.0\); no template"
    with pytest.raises(UsageError, match=default):
        require_prepared(CommandEnd(exit_code=3), request(chosen="default; --server mysql@8.0"))


def test_an_error_of_the_client_is_a_failure_though_the_script_exits_with_0() -> None:
    with pytest.raises(
        UsageError, match=r"reported an error on mariadb@10\.11\.19, although it exited"
    ) as error:
        require_prepared(FAILED, request())
    assert error.value.message.endswith(ERROR)
    assert error.value.hint == (
        "mysql@8.0 takes BIN_TO_UUID: try --server mysql@8.0; end the command at its first error (set -e), or"
        " keep the result with --keep-failed"
    )
    require_prepared(FAILED, request(keep_failed=True))


def test_no_other_server_is_named_for_what_this_one_takes() -> None:
    with pytest.raises(UsageError) as error:
        require_prepared(FAILED, request(MYSQL80))
    assert "--server" not in str(error.value.hint)


def test_one_block_has_no_interval() -> None:
    found = ratio([30.0], [3.0])
    assert (found.estimate, found.low, found.high) == (10.0, 10.0, 10.0)


def test_blocks_give_an_interval_around_the_geometric_mean() -> None:
    found = ratio([30.0, 33.0, 29.0], [3.0, 3.1, 3.05])
    assert found.estimate == pytest.approx((30 * 33 * 29 / (3 * 3.1 * 3.05)) ** (1 / 3))
    assert 5 < found.low < found.estimate < found.high < 20


def test_the_databases_part_is_what_no_application_does() -> None:
    told = Performance(statements_by_kind=(StatementKind(kind="insert", count=1, seconds=4.0),))
    side = Side(
        seconds={"ready": 1.0, "prepare": 2.0, "command": 6.0, "teardown": 0.5},
        exit_code=0,
        told={"prepare": Performance(), "command": told},
    )
    assert (side.total_s, side.database_s, side.application_s) == (9.5, 5.5, 4.0)
