"""The login to a running server, as every MySQL client does it: option files, socket, TCP and a prompt."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from flushlab.server import Sandbox
from tests.command import flushlab
from tests.conftest import StartSandbox

_ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "flushlab", *sys.argv[1:]])
"""
"""Runs flushlab with standard input as the controlling terminal."""


@pytest.fixture(scope="module")
def server(shared_sandbox: StartSandbox) -> Sandbox:
    """A server with an account that has a password."""
    found = shared_sandbox("mariadb")
    for host in ("%", "localhost"):
        found.query(f"CREATE USER anna@'{host}' IDENTIFIED BY 'hers'")
        found.query(f"GRANT ALL ON *.* TO anna@'{host}'")
    return found


@pytest.fixture
def home(tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an option file that has the account."""
    file = tmp_path / ".my.cnf"
    file.write_text("[client]\nuser = anna\npassword = hers\n")
    file.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    return tmp_path


def checked(*flags: str) -> subprocess.CompletedProcess[str]:
    return flushlab("settings", *flags, code=None)


def places(server: Sandbox) -> list[tuple[str, ...]]:
    at = server.endpoint
    return [("-S", str(at.socket)), ("-h", "127.0.0.1", "-P", str(at.port))]


def test_the_account_comes_from_the_home(server: Sandbox, home: Path) -> None:
    for place in places(server):
        done = checked(*place)
        assert done.returncode == 0, done.stderr
        assert f"variables of {server.identity.name}" in " ".join(done.stdout.split())
    (home / ".my.cnf").write_text("[client]\nuser = anna\npassword = wrong\n")
    for place in places(server):
        assert checked(*place).returncode == 3


def test_the_password_comes_from_the_terminal(server: Sandbox, home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nuser = anna\npassword = wrong\n")
    for place in places(server):
        mine, theirs = pty.openpty()
        words = [sys.executable, "-c", _ON_TERMINAL, "settings", *place, "-p"]
        with subprocess.Popen(
            words, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            os.close(theirs)
            shown = b""
            while b"Password of anna" not in shown or not shown.endswith(b": "):
                shown += os.read(mine, 1024)
            os.write(mine, b"hers\n")
            out, err = running.communicate(timeout=120)
        os.close(mine)
        assert running.returncode == 0, err
        assert f"variables of {server.identity.name}" in " ".join(out.split())
        assert "hers" not in out + err
