"""Pieces: the bytes of a dump's file, decompressed, and the file's own bytes beside them.

Sits in `dataset`. A file's first bytes identify its compression, not its name.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from flushlab.errors import StorageError

PIECE_BYTES = 1 << 20
_COMPRESSED_BYTES = 64 << 10
"""Read at once of what may become a thousand times as large."""


class _Told:
    """A file that tells what is read from it."""

    def __init__(self, raw: IO[bytes], told: Callable[[bytes], None]) -> None:
        self._raw = raw
        self._told = told

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece = self._raw.read(size)
        self._told(piece)
        return piece


def pieces(path: Path, read: Callable[[bytes], None] = lambda _: None) -> Iterator[bytes]:
    """The file's content in pieces; `read` gets the file's own bytes, compressed as they are, all by the end.

    Raises:
        StorageError: it cannot be read, or its compression is damaged or cut off.
    """
    try:
        with path.open("rb") as raw:
            head = raw.read(8)
            raw.seek(0)
            way = next((way for magic, way in _WAYS if head.startswith(magic)), _plain)
            yield from way(_Told(raw, read))
    except (EOFError, zlib.error, zstandard.ZstdError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise StorageError(
            f"{path} is cut off or damaged: {error}", hint="make the dump again, or copy the whole file"
        ) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def _plain(raw: _Told) -> Iterator[bytes]:
    while piece := raw.read(PIECE_BYTES):
        yield piece


def _zstd(raw: _Told) -> Iterator[bytes]:
    """Frame by frame: the library's own reader takes a file that ends within one for whole."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    rest = b""
    while piece := rest or raw.read(_COMPRESSED_BYTES):
        if frame.eof:
            frame = zstandard.ZstdDecompressor().decompressobj()
        if found := frame.decompress(piece):
            yield found
        rest = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("the file ends within a frame")


def _by(module: Any) -> Callable[[_Told], Iterator[bytes]]:
    """One of the standard library's."""

    def read(raw: _Told) -> Iterator[bytes]:
        with module.open(raw, "rb") as stream:
            yield from _plain(stream)

    return read


_WAYS: tuple[tuple[bytes, Callable[[_Told], Iterator[bytes]]], ...] = (
    (b"\x1f\x8b", _by(gzip)),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"\xfd7zXZ\x00", _by(lzma)),
    (b"BZh", _by(bz2)),
)
