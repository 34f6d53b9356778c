"""The key of a fleet, and the certificates that machines make from it."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from flushlab.errors import FleetError, UsageError
from flushlab.fleet import key as keys
from flushlab.fleet import local_node


def test_a_key_comes_back_from_its_file() -> None:
    token = keys.new_token()
    assert keys.parse(f"{token}\n".encode(), "it") == token
    assert keys.new_token() != token


@pytest.mark.parametrize(
    ("text", "words"), [(b"", "is empty"), (b"no key", "no key"), (b"5ec2e7" * 10, "no key")]
)
def test_what_is_no_key_is_refused_without_its_content(text: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        keys.parse(text, "stdin")
    assert "5ec2e7" not in str(refused.value)


def test_files_of_a_machine_are_closed_to_others(tmp_path: Path) -> None:
    keys.write_identity(tmp_path, keys.new_token(), "10.0.0.5")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("key", "authority.pem", "machine.pem", "machine.key"), 0o600)


def test_a_machine_without_a_fleet_that_others_reach_has_no_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_node, "state", lambda: tmp_path)
    with pytest.raises(FleetError) as refused:
        keys.identity()
    assert "--listen" in (refused.value.hint or "")


def test_two_machines_of_one_key_trust_each_other(tmp_path: Path) -> None:
    key = keys.new_token()
    assert _shaken(tmp_path, key, key) == ""


def test_a_machine_of_another_key_is_refused(tmp_path: Path) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in _shaken(tmp_path, keys.new_token(), keys.new_token())


def _shaken(folder: Path, served: str, called: str) -> str:
    """The client's reason if TLS between two machines fails; both check the other's certificate."""
    for name, key in (("server", served), ("client", called)):
        (folder / name).mkdir()
        keys.write_identity(folder / name, key, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _context(folder / "server", ssl.PROTOCOL_TLS_SERVER)

        def serve() -> None:
            taken, _ = listener.accept()
            with taken, server.wrap_socket(taken, server_side=True, do_handshake_on_connect=False) as peer:
                try:
                    peer.do_handshake()
                    peer.sendall(b"x")
                except (ssl.SSLError, OSError):
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with socket.create_connection(listener.getsockname()) as plain:
                client = _context(folder / "client", ssl.PROTOCOL_TLS_CLIENT)
                with client.wrap_socket(plain, server_hostname="127.0.0.1") as peer:
                    assert peer.recv(1) == b"x"
        except ssl.SSLError as error:
            return str(error)
        finally:
            thread.join()
    return ""


def _context(folder: Path, kind: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.load_verify_locations(folder / "authority.pem")
    context.load_cert_chain(folder / "machine.pem", folder / "machine.key")
    context.verify_mode = ssl.CERT_REQUIRED
    return context
