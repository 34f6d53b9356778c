"""Paths: where a sandbox's files lie.

Server layer. A sandbox NAME has `run/NAME` in flushlab's home: option files and log, which only flushlab may
write to, and `server`, which belongs to the servers' user. Its data directory and temporary files lie in
`NAME` in the data root.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.machine import ServerUser
from flushlab.process import run_folder
from flushlab.process.run_record import NAME, NAME_HINT

SOCKET_PATH_BYTES = 107
"""unix(7): sun_path has 108 bytes, the last one for the terminating zero."""


class SandboxPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of one sandbox.

    Attributes:
        name: of the sandbox.
        folder: option files and log.
        data_folder: data directory and temporary files; the same as `folder` unless a data root was chosen.
    """

    name: str
    folder: Path
    data_folder: Path

    @classmethod
    def choose(cls, name: str | None, data_root: DataRoot) -> SandboxPaths:
        """Paths for a new sandbox.

        Raises:
            UsageError: the name is not allowed, or the socket's path would be too long.
        """
        if name is not None and not NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid sandbox name", hint=NAME_HINT)
        name = name or f"s{secrets.token_hex(4)}"
        paths = cls(name=name, folder=run_folder() / name, data_folder=data_root.path / name)
        length = len(os.fsencode(paths.socket))
        if length > SOCKET_PATH_BYTES:
            raise UsageError(
                f"the socket path {paths.socket} has {length} bytes; the system allows {SOCKET_PATH_BYTES}",
                hint="set FLUSHLAB_HOME to a directory with a shorter path",
            )
        return paths

    def on(self, data_root: DataRoot) -> SandboxPaths:
        """With the data in another data root."""
        return msgspec.structs.replace(self, data_folder=data_root.path / self.name)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Directories that go with the sandbox."""
        return (self.folder,) if self.folder == self.data_folder else (self.folder, self.data_folder)

    @property
    def of_server(self) -> tuple[Path, ...]:
        """Directories that the server writes to."""
        return (self.datadir, self.temporary, self.server_folder)

    @property
    def datadir(self) -> Path:
        """The data directory."""
        return self.data_folder / "data"

    @property
    def temporary(self) -> Path:
        """The server's temporary files."""
        return self.data_folder / "tmp"

    @property
    def server_folder(self) -> Path:
        """Belongs to the servers' user: socket, pid file, start-up SQL."""
        return self.folder / "server"

    @property
    def socket(self) -> Path:
        """The unix socket."""
        return self.server_folder / "mysqld.sock"

    @property
    def init_file(self) -> Path:
        """SQL that the server runs before it lets anybody in."""
        return self.server_folder / "init.sql"

    @property
    def log(self) -> Path:
        """The error log."""
        return self.folder / "error.log"

    @property
    def server_options(self) -> Path:
        """The server's option file."""
        return self.folder / "my.cnf"

    @property
    def client_options(self) -> Path:
        """The clients' option file, with the password."""
        return self.folder / "client.cnf"

    @property
    def certificate(self) -> Path:
        """The server's key and certificate, where it is given one."""
        return self.folder / "tls.pem"

    def make(self, user: ServerUser) -> None:
        """Makes what is in the folders, which its guard has made, and gives the servers' user its own."""
        for folder, mode in ((self.server_folder, 0o711), (self.temporary, 0o700)):
            folder.mkdir(mode=mode)
            give(folder, user)

    def clear_socket(self) -> None:
        """Removes what a killed server left: a later process with its number would look like its holder."""
        for file in (
            self.socket,
            self.socket.with_name("mysqld.sock.lock"),
            self.server_folder / "mysqld.pid",
        ):
            file.unlink(missing_ok=True)


def give(path: Path, user: ServerUser) -> None:
    """Changes the owner of `path` if it is another one's."""
    if path.stat().st_uid != user.uid:
        os.chown(path, user.uid, user.gid)
