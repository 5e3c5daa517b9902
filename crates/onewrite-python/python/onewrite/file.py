"""An open file of an image as a Python file: bytes behind a buffer, with `fsync`."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from onewrite import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

#: Bytes of the buffer between Python and the image.
BUFFER_BYTES = 128 << 10


class RawFile(io.RawIOBase):
    """The file without a buffer: each call is one of the file system, of at most 1 MiB."""

    def __init__(
        self, file: _native.File | _native.DraftFile, *, reads: bool, writes: bool, appends: bool, name: str
    ) -> None:
        super().__init__()
        self._file = file
        self._reads, self._writes, self._appends = reads, writes, appends
        self._at = file.size() if appends else 0
        self.name = name

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._check(self._reads, "reading")
        view = memoryview(buffer).cast("B")
        found = self._file.read_at(self._at, len(view))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def write(self, data: ReadableBuffer) -> int:
        self._check(self._writes, "writing")
        content = data if isinstance(data, bytes) else bytes(data)
        if self._appends:
            self._at = self._file.append(content) + len(content)
            return len(content)
        count = self._file.write_at(self._at, content)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(True, "")
        base = {os.SEEK_SET: lambda: 0, os.SEEK_CUR: lambda: self._at, os.SEEK_END: self._file.size}[whence]()
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self._check(self._writes, "writing")
        size = self._at if size is None else size
        self._file.set_size(size)
        return size

    def sync(self) -> None:
        """Makes content, attributes and name durable."""
        self._check(True, "")
        if isinstance(self._file, _native.DraftFile):
            raise io.UnsupportedOperation(f"{self.name}: commit the draft instead")
        self._file.sync()

    def _check(self, allowed: bool, purpose: str) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not allowed:
            raise io.UnsupportedOperation(f"{self.name}: not open for {purpose}")


class Reader(io.BufferedReader):
    """A file that is open for reading."""

    raw: RawFile

    def __init__(self, raw: RawFile) -> None:
        super().__init__(raw, BUFFER_BYTES)


class Writer(io.BufferedWriter):
    """A file that is open for writing."""

    raw: RawFile

    def __init__(self, raw: RawFile) -> None:
        super().__init__(raw, BUFFER_BYTES)

    def fsync(self) -> None:
        """Returns when content, attributes and name of the file survive a power cut."""
        self.flush()
        self.raw.sync()


class Updater(io.BufferedRandom):
    """A file that is open for reading and writing."""

    raw: RawFile

    def __init__(self, raw: RawFile) -> None:
        super().__init__(raw, BUFFER_BYTES)

    def fsync(self) -> None:
        """Returns when content, attributes and name of the file survive a power cut."""
        self.flush()
        self.raw.sync()


class Pending(Writer):
    """A new file of a transaction: it has a name of its own until `commit`."""

    def __init__(self, raw: RawFile, commit: Callable[[], None], discard: Callable[[], None]) -> None:
        super().__init__(raw)
        self._commit, self._discard = commit, discard

    def commit(self) -> None:
        """Makes the content durable, then gives the file its name, in place of what has it."""
        if not self.closed:
            self.close()
        self._commit()

    def discard(self) -> None:
        """Removes the file."""
        self._discard()
