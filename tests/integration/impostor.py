"""Things that speak the servers' protocol and are none: a proxy that answers by itself, and a relay.

`impostor` greets, lets anybody in and answers from a table. `relay` stands before a real server, and
numbers the connection as a proxy with connections of its own does: in the greeting, behind the version.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping

_CAPABILITIES = 0x0200 | 0x0008 | 0x8000 | 0x80000 | 0x1  # protocol 4.1, database, secure connection, plugins
_EOF = b"\xfe\0\0\2\0"


@contextlib.contextmanager
def impostor(greeting: str, answers: Mapping[str, str]) -> Iterator[int]:
    """Listens on a port of loopback; a query that is not in the table gets an error."""

    def serve(one: socket.socket) -> None:
        salt = b"abcdefgh", b"ijklmnopqrst\0"
        capabilities = struct.pack("<I", _CAPABILITIES)
        begin = b"\x0a" + greeting.encode() + b"\0" + struct.pack("<I", 7) + salt[0] + b"\0"
        middle = capabilities[:2] + b"\x2d\2\0" + capabilities[2:] + bytes([21]) + b"\0" * 10
        _send(one, 0, begin + middle + salt[1] + b"mysql_native_password\0")
        number, _ = _receive(one)
        _send(one, number + 1, b"\0\0\0\2\0\0\0")
        while True:
            _, packet = _receive(one)
            if not packet or packet[0] != 3:
                return
            sql = packet[1:].decode()
            if sql.startswith("SET "):
                _send(one, 1, b"\0\0\0\2\0\0\0")
            elif (value := answers.get(sql)) is None:
                _send(one, 1, b"\xff" + struct.pack("<H", 1045) + b"#28000no such thing here")
            else:
                column = b"".join(map(_text, (b"def", b"", b"", b"", b"x", b"")))
                for at, part in enumerate(
                    (b"\1", column + b"\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0", _EOF, _text(value.encode()), _EOF)
                ):
                    _send(one, 1 + at, part)

    with _listening(serve) as port:
        yield port


@contextlib.contextmanager
def relay(to_port: int) -> Iterator[int]:
    """Passes everything on, but another number of the connection."""

    def serve(one: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", to_port)) as server:
            number, greeting = _receive(server)
            at = greeting.index(b"\0") + 1
            (id_,) = struct.unpack("<I", greeting[at : at + 4])
            _send(one, number, greeting[:at] + struct.pack("<I", id_ + 1000) + greeting[at + 4 :])
            back = threading.Thread(target=_pass, args=(server, one))
            back.start()
            _pass(one, server)
            back.join()

    with _listening(serve) as port:
        yield port


@contextlib.contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as one:
                serve(one)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):  # nobody came
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _text(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _send(to: socket.socket, number: int, packet: bytes) -> None:
    to.sendall(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)


def _receive(source: socket.socket) -> tuple[int, bytes]:
    head = _exactly(source, 4)
    if len(head) < 4:
        return 0, b""
    return head[3], _exactly(source, int.from_bytes(head[:3], "little"))


def _exactly(source: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length and (part := source.recv(length - len(found))):
        found += part
    return found
