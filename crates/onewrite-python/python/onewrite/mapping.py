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
        self._kept = bytearray()
        size = file.size()
        while len(self._kept) < size:
            self._kept += file.read_at(len(self._kept), min(_READ, size - len(self._kept)))
        self.data = memoryview(bytearray(self._kept))

    def _put(self) -> list[int]:
        """Writes each page that differs into the draft, or none. Returns where they begin."""
        kept, put = memoryview(self._kept), []
        for start in range(0, len(kept), _PAGE):
            page = self.data[start : start + _PAGE]
            if page != kept[start : start + _PAGE]:
                try:
                    self._file.write_at(start, bytes(page))
                except BaseException:
                    self._take_back(put)
                    raise
                put.append(start)
        return put

    def _take_back(self, pages: list[int]) -> None:
        """Gives the draft its content of these pages again."""
        for start in pages:
            self._file.write_at(start, bytes(self._kept[start : start + _PAGE]))

    def _keep(self, pages: list[int]) -> None:
        """The draft has these pages for good."""
        for start in pages:
            self._kept[start : start + _PAGE] = self.data[start : start + _PAGE]
