"""bzip2 and xz files of one stream or many, in which nothing is passed over.

Python's own ``bz2.open`` and ``lzma.open`` end in silence where what follows a stream is no stream. Files of many
streams are common (parallel packers write one a block): damage at the beginning of one would cut the data short unseen.
"""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

_CHUNK = 1 << 16


class Decompressor(Protocol):
    """``bz2.BZ2Decompressor`` and ``lzma.LZMADecompressor``."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        ...

    @property
    def needs_input(self) -> bool:
        """Whether more is wanted before anything comes out."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""
        ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return at most ``max_length`` bytes."""
        ...


class Unpacked(io.RawIOBase):
    """The uncompressed bytes of a file; wrap it in ``io.BufferedReader``.

    Parameters
    ----------
    file : binary file
        Closed with this.
    fresh : callable
        Returns a decompressor for the next stream.
    padding : bytes
        Bytes that may stand between streams.

    Raises
    ------
    EOFError
        In reading: the file ends within a stream.
    OSError, lzma.LZMAError
        In reading: what should be a stream is none.
    """

    def __init__(self, file: BinaryIO, fresh: Callable[[], Decompressor], padding: bytes) -> None:
        self._file, self._fresh, self._padding = file, fresh, padding
        self._stream = fresh()
        self._waiting = b""
        self._at = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many uncompressed bytes stand before the next one."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an uncompressed byte, counted from the beginning or from here: back by starting over, on by reading."""
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("the length of a compressed file is not known")
        if offset < self._at:
            self._file.seek(0)
            self._stream, self._waiting, self._at = self._fresh(), b"", 0
        while self._at < offset and self.read(min(_CHUNK, offset - self._at)):
            pass
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with what comes next and return how many bytes that is; 0 at the end."""
        while True:
            if self._stream.eof and not self._next_stream():
                return 0
            data = self._waiting
            self._waiting = b""
            if not data and self._stream.needs_input:
                data = self._file.read(_CHUNK)
                if not data:
                    raise EOFError("it ends within a compressed stream")
            out = self._stream.decompress(data, len(buffer))
            if out:
                buffer[: len(out)] = out
                self._at += len(out)
                return len(out)

    def _next_stream(self) -> bool:
        """Begin the stream that follows, if one does."""
        rest = self._stream.unused_data.lstrip(self._padding)
        while not rest:
            more = self._file.read(_CHUNK)
            if not more:
                return False
            rest = more.lstrip(self._padding)
        self._stream, self._waiting = self._fresh(), rest
        return True

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()
