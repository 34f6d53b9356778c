"""Build: an installed server distribution, and how to execute it."""

from __future__ import annotations

import msgspec

from flushlab.record.machine import Flavor, ServerIdentity, server_name


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A server distribution that can be started here.

    Attributes:
        source: name of the source that found it: `path`, `basedir`, `debian`, `maven`.
        launcher: words before the binary (a private dynamic linker with its arguments); often empty.
        library_path: directories for LD_LIBRARY_PATH; often empty.
        share: directory with the messages and the initial SQL (`--lc-messages-dir`), or None.
        install_db: path of mariadb-install-db, or None (MySQL initialises with --initialize-insecure).
        client: path of the command-line client, or None.
        id: stable key of exactly this binary, safe as a file name: `mariadb-10.11.19-1a2b3c4d5e6f`.
    """

    flavor: Flavor
    version: tuple[int, ...]
    version_text: str
    source: str
    prefix: str
    mysqld: str
    launcher: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    share: str | None = None
    install_db: str | None = None
    client: str | None = None
    id: str

    @property
    def name(self) -> str:
        return server_name(self.flavor, self.version)

    @property
    def identity(self) -> ServerIdentity:
        return ServerIdentity(
            flavor=self.flavor, version=self.version, version_text=self.version_text, build_id=self.id
        )

    @property
    def command(self) -> tuple[str, ...]:
        """Words that execute the server; arguments follow."""
        return (*self.launcher, self.mysqld)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its binaries need, on top of an empty environment."""
        return {"LD_LIBRARY_PATH": ":".join(self.library_path)} if self.library_path else {}
