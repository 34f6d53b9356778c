"""What every implementation of `Server` does: the fake and sandboxes of each build."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flushlab.errors import ServerDied, ServerError, UsageError
from flushlab.record import ServerIdentity
from flushlab.server import Sandbox, Server
from tests.fakes.server import FakeServer

StartSandbox = Callable[..., Sandbox]

IMPLEMENTATIONS = (
    "fake",
    "mariadb@10.11",
    "mariadb@11.4",
    "mariadb@11.8",
    "mysql@5.7",
    "mysql@8.0",
    "mysql@9.7",
)


@pytest.fixture(params=IMPLEMENTATIONS, scope="module")
def server(request: pytest.FixtureRequest, shared_sandbox: StartSandbox) -> Server:
    """For tests that change nothing."""
    return FakeServer() if request.param == "fake" else shared_sandbox(request.param)


@pytest.fixture(scope="module")
def changed_server(server: Server) -> Server:
    """The same, for tests that change settings, each to values of its own. They come last, and the last one
    stops it."""
    return server


def test_it_is_alive_and_answers(server: Server) -> None:
    assert server.alive()
    assert server.query("SELECT 1") == [(1,)]


def test_identity_is_what_the_server_answers(server: Server) -> None:
    identity = server.identity
    assert isinstance(identity, ServerIdentity)
    assert server.query("SELECT VERSION()") == [(identity.version_text,)]
    assert identity.version_text.startswith(".".join(map(str, identity.version)))
    assert identity.build_id


def test_endpoint_never_shows_its_password(server: Server) -> None:
    assert server.endpoint.password
    assert server.endpoint.password not in repr(server.endpoint)


def test_storage_and_launch_are_known(server: Server) -> None:
    assert server.storage.visible
    assert server.storage.filesystem != "unknown"
    assert server.launch.redo_enabled
    assert not any(server.endpoint.password in word for word in server.launch.arguments)


def test_values_are_read_back_typed(server: Server) -> None:
    names = ["innodb_flush_log_at_trx_commit", "innodb_buffer_pool_size", "innodb_doublewrite"]
    assert server.read_back(names) == {
        "innodb_flush_log_at_trx_commit": 1,
        "innodb_buffer_pool_size": 134217728,
        "innodb_doublewrite": "ON",
    }


def test_unknown_names_are_not_read_back(server: Server) -> None:
    assert server.read_back(["nonsense"]) == {}


def test_setting_that_is_as_it_should_be_needs_no_restart(server: Server) -> None:
    assert not server.apply(server.read_back(["log_bin"])).restarted


def test_setting_that_says_where_the_server_is_cannot_be_applied(server: Server) -> None:
    with pytest.raises(UsageError):
        server.apply({"port": 1})


def test_statement_that_fails_is_an_error_and_the_server_lives(server: Server) -> None:
    with pytest.raises(ServerError) as caught:
        server.query("SELECT nonsense FROM nowhere")
    assert not isinstance(caught.value, ServerDied)
    assert server.alive()
    assert server.query("SELECT 1") == [(1,)]


def test_log_has_a_tail(server: Server) -> None:
    assert "ready for connections" in server.log_tail(200)
    assert len(server.log_tail(1).splitlines()) == 1


def test_dynamic_setting_is_applied_without_a_restart(changed_server: Server) -> None:
    applied = changed_server.apply({"sync_binlog": 7, "innodb_flush_log_at_trx_commit": 2})
    assert applied.settings == {"sync_binlog": 7, "innodb_flush_log_at_trx_commit": 2}
    assert (applied.refused, applied.restarted, applied.warnings) == ((), False, ())
    assert changed_server.read_back(["sync_binlog"]) == {"sync_binlog": 7}


def test_static_setting_is_applied_with_a_restart_and_the_dynamic_ones_stay(changed_server: Server) -> None:
    changed_server.apply({"sync_binlog": 11})
    before = changed_server.read_back(["log_bin"])["log_bin"]
    after = "OFF" if before == "ON" else "ON"
    applied = changed_server.apply({"log_bin": after})
    assert applied.settings == {"log_bin": after}
    assert applied.restarted
    assert changed_server.read_back(["sync_binlog", "log_bin"]) == {"sync_binlog": 11, "log_bin": after}


def test_values_may_be_spelled_as_people_do(changed_server: Server) -> None:
    applied = changed_server.apply({"innodb-buffer-pool-size": "256M"})
    assert applied.settings == {"innodb_buffer_pool_size": 268435456}
    assert applied.warnings == ()


def test_setting_of_another_server_is_refused_with_a_reason_and_the_others_are_applied(
    changed_server: Server,
) -> None:
    mysql = changed_server.identity.flavor == "mysql"
    foreign = "binlog_commit_wait_count" if mysql else "binlog_transaction_compression"
    applied = changed_server.apply({foreign: 1, "sync_binlog": 3})
    (refused,) = applied.refused
    assert (refused.name, refused.value) == (foreign, 1)
    assert foreign in refused.reason
    assert applied.settings == {"sync_binlog": 3}
    assert changed_server.alive()


def test_stopped_server_is_gone(changed_server: Server) -> None:
    changed_server.stop()
    assert not changed_server.alive()
    with pytest.raises(ServerDied):
        changed_server.query("SELECT 1")
    changed_server.stop()
