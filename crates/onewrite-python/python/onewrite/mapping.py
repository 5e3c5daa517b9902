"""Content of an atomic file as memory; what is stored there becomes durable with the draft's commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onewrite import _native

#: What is compared, and written if it differs, in bytes.
_PAGE = 4096
#: What is read at once.
_READ = 1 << 20


class Mapping:
    """A file of a draft as memory (`Draft.map`): `data` is a `memoryview` of its bytes, of a fixed size.

    Store into it as you like, by NumPy too; `Draft.commit` writes the pages that differ. Meanwhile change the file in
    no other way. It costs twice the memory of the file. Stores that were not committed are lost with the draft.
    """

    def __init__(self, file: _native.DraftFile) -> None:
        self._file = file
        #: What was committed.
        self._kept = bytearray()
        #: Where pages begin that were put into the draft since.
        self._put_pages: list[int] = []
        size = file.size()
        while part := file.read_at(len(self._kept), min(_READ, size - len(self._kept))):
            self._kept += part
        self.data = memoryview(bytearray(self._kept))

    def _put(self) -> None:
        """Writes each page that differs into the draft."""
        for start in range(0, len(self._kept), _PAGE):
            page = bytes(self.data[start : start + _PAGE])
            if page != self._kept[start : start + _PAGE]:
                self._file.write_at(start, page)
                self._put_pages.append(start)

    def _keep(self) -> None:
        """What was put is committed."""
        for start in self._put_pages:
            self._kept[start : start + _PAGE] = self.data[start : start + _PAGE]
        self._put_pages.clear()

    def _take_back(self) -> None:
        """Gives the draft the committed content of what was put."""
        for start in self._put_pages:
            self._file.write_at(start, bytes(self._kept[start : start + _PAGE]))
        self._put_pages.clear()

    def _forget(self) -> None:
        """What was put is gone from the draft."""
        self._put_pages.clear()
