"""flushlab._core without a server: what it refuses, how it says so, and that it can be interrupted."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab import _core
from flushlab.record import Endpoint, LoadSpec
from flushlab.version import __version__

PASSWORD = "hunter2-never-shown"


def load_spec(**changes: Any) -> bytes:
    endpoint = Endpoint(user="u", password=PASSWORD, socket="/nonexistent/socket")
    spec = LoadSpec(workload="oltp_update_non_index", endpoint=endpoint)
    return msgspec.json.encode(msgspec.to_builtins(spec) | changes)


def refusal(spec: bytes) -> _core.CoreError:
    with pytest.raises(_core.CoreError) as caught:
        _core.LoadRun(spec)
    assert PASSWORD not in f"{caught.value!r} {caught.value}"
    return caught.value


def test_the_native_version_is_the_packages() -> None:
    assert _core.version() == __version__


def test_a_spec_as_the_record_encodes_it_is_understood() -> None:
    error = refusal(load_spec())
    assert error.kind == "server", "anything else means that the spec itself was refused"
    assert (error.errno, error.sqlstate) == (None, None)
    assert "/nonexistent/socket" in error.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": "tpcc"}, '"tpcc" is not known; there are oltp_update_non_index, oltp_update_index'),
        ({"threads": 0}, "threads is 0; it must be between 1 and"),
        ({"tables": 0}, "tables is 0"),
        ({"table_size": 2**31}, "table_size is 2147483648"),
        ({"rand_type": "zipf"}, '"zipf" is not known'),
        ({"transport": "tcp"}, "no host and port"),
        ({"transport": "pigeon"}, '"pigeon" is not known'),
        ({"ssl_mode": "preferred"}, 'ssl_mode "preferred" is not known; there are disabled, required'),
        ({"ssl_mode": "required"}, "TLS goes over TCP, but the transport is socket"),
        ({"ssl_mode": "verify_ca"}, "needs ssl_ca"),
        ({"ssl_ca": "/ca.pem"}, "verifies no certificate"),
        ({"ssl_mode": "verify_identity", "ssl_ca": "/no/ca.pem"}, "ssl_ca /no/ca.pem: "),
        ({"rate": -1.0}, "rate is -1"),
        ({"database": ""}, "no name of a database"),
        ({"no_such_option": 1}, "unknown field `no_such_option`"),
        ({"threads": PASSWORD}, "wrong type"),
    ],
)
def test_what_cannot_be_carried_out_is_a_usage_error(changes: dict[str, Any], words: str) -> None:
    error = refusal(load_spec(**changes))
    assert error.kind == "usage"
    assert words in error.message


def test_what_is_no_json_is_a_usage_error() -> None:
    assert refusal(b'{"endpoint": {"password": "hunter2-never-shown').kind == "usage"
    with pytest.raises(_core.CoreError, match="load spec"):
        _core.prepare_tables(b"[]")


def test_a_closed_port_is_a_server_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    endpoint = {"user": "u", "password": PASSWORD, "host": "127.0.0.1", "port": port}
    error = refusal(load_spec(endpoint=endpoint, transport="tcp"))
    assert error.kind == "server"
    assert f"127.0.0.1:{port}" in error.message


def test_what_does_not_speak_the_protocol_is_a_protocol_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = {"host": "127.0.0.1", "port": listener.getsockname()[1], "connect_timeout_s": 600.0}
        endpoint = {"user": "u", "password": PASSWORD, **place}
        program = [sys.executable, "-c", CONNECT, load_spec(endpoint=endpoint, transport="tcp").decode()]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as client:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"\x05\x00\x00\x00hello")
                assert client.stdout is not None
                said = client.stdout.read()
    assert said.startswith("protocol connection 1 of 1: "), said


def test_ctrl_c_ends_a_connect_to_a_server_that_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        endpoint = {"user": "u", "password": PASSWORD, "socket": str(path), "connect_timeout_s": 600.0}
        program = [sys.executable, "-c", CONNECT, load_spec(endpoint=endpoint).decode()]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as client:
            peer, _ = listener.accept()
            with peer:
                client.send_signal(signal.SIGINT)
                assert client.stdout is not None
                said = client.stdout.read()
    assert said.strip() == "interrupted"


CONNECT = """
import sys
from flushlab import _core
try:
    _core.LoadRun(sys.argv[1].encode())
except _core.CoreError as error:
    print(error.kind, error.message)
except KeyboardInterrupt:
    print("interrupted")
"""
