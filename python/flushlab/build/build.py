"""Build: an installed server distribution, and how to execute it."""

from __future__ import annotations

import msgspec

from flushlab.record.machine import Flavor, ServerIdentity, server_name


class Build(msgspec.Struct, frozen=True, kw_only=True):
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
        return (*self.launcher, self.mysqld)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": ":".join(self.library_path)} if self.library_path else {}
