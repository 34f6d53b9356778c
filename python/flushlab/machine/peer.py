"""Peer: the process of this machine at the other end of a connection.

Machine layer; unix(7) and proc(5). The kernel's answer is a proof: a name, an address or a port may be those
of a tunnel, a proxy or another machine.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")
"""struct ucred: pid, uid, gid."""
_SERVERS = ("mysqld", "mariadbd")
_WORDS = 6
"""Of a command line that may name its program: a loader and its options may precede it."""

Address = tuple[str, int]
"""IP address and port; an IPv4 address in IPv6 is written as IPv4."""


def peer_pid(connection: socket.socket) -> int | None:
    """The process that listens on, or holds, the other end; None if it is not on this machine, or not seen.

    Of a unix socket it is the process that called listen(2). Of TCP, root and the process's own user see who
    holds the other end. Anybody sees its user: if only one server runs as that user, it is this one.
    """
    if connection.family == socket.AF_UNIX:
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(told)[0]
        return pid or None
    end = peer_end(_tables(), local=connection.getsockname(), remote=connection.getpeername())
    return None if end is None else _holder(end.inode) or _only_server_of(end.uid)


def is_server(pid: int) -> bool:
    """Whether a process is a server of MySQL or MariaDB, by its command line."""
    return any(PurePath(word).name.startswith(_SERVERS) for word in command_line(pid)[:_WORDS])


def command_line(pid: int) -> tuple[str, ...]:
    """The words of its command line; none if it cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in text.rstrip(b"\0").split(b"\0"))


class End(NamedTuple):
    """One end of a connection: the socket, and the user of the process that made it."""

    inode: int
    uid: int


def peer_end(texts: Iterable[str], *, local: tuple[object, ...], remote: tuple[object, ...]) -> End | None:
    """The other end of a TCP connection; None if it is not on this machine.

    Args:
        texts: of /proc/net/tcp and tcp6.
        local, remote: both ends as the socket tells them.
    """
    wanted = _known(remote), _known(local)
    for text in texts:
        for line in text.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and (_parsed(fields[1]), _parsed(fields[2])) == wanted:
                return End(int(fields[9]), int(fields[7])) if fields[9] != "0" else None
    return None


def _tables() -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        try:
            yield Path("/proc/net", name).read_text()
        except OSError:
            continue


def _holder(inode: int) -> int | None:
    """The process that has a socket open."""
    wanted = f"socket:[{inode}]"
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if any(str(one.readlink()) == wanted for one in (folder / "fd").iterdir()):
                return int(folder.name)
        except OSError:
            continue
    return None


def _only_server_of(uid: int) -> int | None:
    """The server that runs as a user; None if there is none, or several."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and folder.stat().st_uid == uid and is_server(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found[0] if len(found) == 1 else None


def _known(end: tuple[object, ...]) -> Address:
    return _plain(str(end[0]).partition("%")[0]), int(str(end[1]))


def _parsed(field: str) -> Address:
    """`0100007F:1F90`: each 32-bit word in the machine's order."""
    host, _, port = field.partition(":")
    words = bytes.fromhex(host)
    ordered = b"".join(struct.pack("!I", word) for (word,) in struct.iter_unpack("=I", words))
    return _plain(ordered), int(port, 16)


def _plain(address: str | bytes) -> str:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
