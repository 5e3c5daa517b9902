"""Changes of several files of an image that become visible and durable together, or never."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from onewrite.file import RawFile, Updater
from onewrite.mapping import Mapping

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from onewrite import _native

#: How a file is opened: has to be there, is emptied, has to be new, appends.
_MODES = {"r+b": "!", "wb": "0", "w+b": "0", "xb": "x", "x+b": "x", "ab": "a", "a+b": "a"}


class DraftFile(Updater):
    """A file as its draft has it: what is written to it, nobody else sees before the commit.

    `fsync` fails: only the commit of the draft makes changes durable.
    """


class Draft:
    """A draft (`Fs.atomic`). As a context it commits at the end, or drops everything after an exception.

    It can commit more than once, and keeps its files until it ends; meanwhile others read what was committed last, and
    cannot change these files (OSError with EBUSY).
    """

    def __init__(self, draft: _native.Draft) -> None:
        self._draft = draft
        self._open: list[DraftFile] = []
        self._mapped: list[Mapping] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.end()

    def open(self, path: str, mode: str = "r+b") -> DraftFile:
        """Opens a file to change it: modes of `open` that write bytes. A new one gets its name with the commit."""
        how = _MODES.get(mode.replace("b+", "+b"))
        if how is None:
            raise ValueError(f"mode {mode!r}: none of {', '.join(_MODES)}")
        file = self._file(os.fsencode(path), how)
        if how == "0":
            file.set_size(0)
        opened = DraftFile(RawFile(file, reads=True, writes=True, appends=how == "a", name=path))
        self._open.append(opened)
        return opened

    def _file(self, path: bytes, how: str) -> _native.DraftFile:
        if how == "x":
            return self._draft.create(path)
        try:
            return self._draft.claim(path)
        except FileNotFoundError:
            if how == "!":
                raise
            return self._draft.create(path)

    def map(self, path: str) -> Mapping:
        """The content of a file as memory, whose changes come with the commit (failure-atomic msync)."""
        mapping = Mapping(self._draft.claim(os.fsencode(path)))
        self._mapped.append(mapping)
        return mapping

    def rm(self, path: str) -> None:
        """Removes a file with the commit."""
        self._draft.remove(os.fsencode(path))

    def mv(self, source: str, target: str) -> None:
        """Moves a file with the commit, and replaces what has the new name."""
        self._draft.rename(os.fsencode(source), os.fsencode(target))

    def commit(self) -> None:
        """Returns when all changes are visible to everybody and survive a power cut, as one step."""
        for file in self._open:
            if not file.closed:
                file.flush()
        has_others = self._draft.is_changed()
        try:
            for mapping in self._mapped:
                mapping._put()
            self._draft.commit()
        except BaseException:
            self._undo(has_others)
            raise
        for mapping in self._mapped:
            mapping._keep()

    def _undo(self, has_others: bool) -> None:
        """After a commit that failed: takes what mappings put out of the draft, and leaves its other changes."""
        if not has_others:
            self._draft.abort()
        for mapping in self._mapped:
            if has_others:
                mapping._take_back()
            else:
                mapping._forget()

    def abort(self) -> None:
        """Drops the changes since the last commit, and closes what was opened; mappings are the draft's no more."""
        self._forget()
        self._draft.abort()

    def end(self) -> None:
        """Drops what was not committed and gives up the files. Does nothing the second time."""
        self._forget()
        self._draft.end()

    def _forget(self) -> None:
        """Closes all files; where their last bytes cannot be written any more, they are not wanted either."""
        self._mapped.clear()
        while self._open:
            try:
                self._open.pop().close()
            except OSError as error:
                if error.errno not in (errno.EBADF, errno.ENOENT, errno.EINVAL, errno.EFBIG, errno.ENOSPC):
                    raise
