"""Servers that the settings tests speak of."""

from __future__ import annotations

from flushlab.record import Launch, ServerIdentity, Storage
from flushlab.record.machine import Flavor


def server(flavor: Flavor, *version: int) -> ServerIdentity:
    text = ".".join(map(str, version))
    return ServerIdentity(flavor=flavor, version=version, version_text=text)


MYSQL57 = server("mysql", 5, 7, 22)
MYSQL80 = server("mysql", 8, 0, 15)
MYSQL84 = server("mysql", 8, 4, 0)
MYSQL97 = server("mysql", 9, 7, 4)
MARIADB1011 = server("mariadb", 10, 11, 19)
MARIADB118 = server("mariadb", 11, 8, 9)
MARIADB123 = server("mariadb", 12, 3, 1)
ALL = (MYSQL57, MYSQL80, MYSQL84, MYSQL97, MARIADB1011, MARIADB118, MARIADB123)

DISK = Storage(filesystem="ext4", device="sda", volatile_cache=True)
PROTECTED = Storage(filesystem="ext4", device="sda", volatile_cache=False)
LAUNCH = Launch()
