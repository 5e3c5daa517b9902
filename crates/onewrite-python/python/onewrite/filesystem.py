"""An image as an fsspec file system: what reads and writes through fsspec (pandas, pyarrow, dask) works on it.

Paths begin at the root of the image. Names are text; bytes that are no UTF-8 are kept as Python keeps them
(`os.fsencode`). Symbolic links are followed inside the image. Owners and permissions are kept and not checked.
"""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractFileSystem

from onewrite import _images, _native
from onewrite.draft import Draft
from onewrite.file import Pending, RawFile, Reader, Updater, Writer

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    StrPath = str | os.PathLike[str]

#: How a file is opened: reads, writes, has to be there, is emptied, has to be new, appends.
_MODES = {
    "rb": "r!",
    "r+b": "rw!",
    "wb": "w0",
    "w+b": "rw0",
    "xb": "wx",
    "x+b": "rwx",
    "ab": "wa",
    "a+b": "rwa",
}


def mkfs(path: StrPath, size: int | str = "1GiB") -> None:
    """Makes an image of `size` (bytes, or a text as "64MiB") at `path`, with an empty ext4 in it.

    At least 8 MiB. Takes room on the host only for what is in it. FileExistsError if the path is taken.
    """
    _native.mkfs(path, str(size))


class Fs(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system in the image or disk at `path`, open in this process until `close`.

    mode: journal mode, as of `onewrite run --mode`. It decides what a power cut leaves besides what was synced.
    data: the same, for addresses ("onewrite://…"), where `mode` is that of the file.
    read_only: the image does not change, not even by a replay of its log.
    cache: size of the page cache, in bytes or as a text ("64MiB").
    commit_seconds: age in seconds at which changes become durable by themselves.

    Any thread may use it, and syncs of several threads share commits. Nobody else can have the image meanwhile: OSError
    with EBUSY, which names it. File systems of one process with the same options share the image.
    """

    protocol = "onewrite"
    root_marker = "/"
    # fsspec would keep each instance for ever, and the image open.
    cachable = False

    def __init__(
        self,
        path: StrPath,
        mode: str = "ordered",
        *,
        data: str | None = None,
        read_only: bool = False,
        cache: int | str = "64MiB",
        commit_seconds: int = 5,
        **storage_options: Any,
    ) -> None:
        mode = data or mode
        super().__init__(path, mode, read_only=read_only, cache=cache, commit_seconds=commit_seconds, **storage_options)
        self.image = os.path.realpath(os.fspath(path))
        options = _images.Options(self.image, mode, read_only, str(cache), commit_seconds)
        self._image: _images.Image | None = _images.take(options)

    # Life

    def close(self) -> None:
        """Unmounts: afterwards the image is clean, and free for others. Does nothing the second time."""
        image, self._image = getattr(self, "_image", None), None
        if image is not None:
            _images.give(image)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def sync(self) -> None:
        """Returns when everything survives a power cut."""
        self._volume.sync()

    def space(self) -> dict[str, int]:
        """Room in bytes and in files: `bytes`, `bytes_free`, `inodes`, `inodes_free`."""
        return dict(zip(("bytes", "bytes_free", "inodes", "inodes_free"), self._volume.space()))

    @property
    def _volume(self) -> _native.Volume:
        if self._image is None:
            raise OSError(errno.EBADF, "the file system is closed", self.image)
        return self._image.volume

    # Looking

    @property
    def fsid(self) -> str:
        return f"onewrite:{self.image}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path).removeprefix("onewrite://")
        return "/" + posixpath.normpath("/" + text).lstrip("/")

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        info = self.info(path)
        if info["type"] != "directory":
            return [info] if detail else [path]
        found = []
        for name, metadata in self._volume.read_directory(os.fsencode(path)):
            found.append(self._told(posixpath.join(path, os.fsdecode(name)), metadata))
        found.sort(key=lambda entry: entry["name"])
        return found if detail else [entry["name"] for entry in found]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._told(path, self._volume.metadata(os.fsencode(path), False))

    def _told(self, path: str, metadata: _native.Metadata) -> dict[str, Any]:
        """As fsspec's local file system tells it: a symbolic link counts as what it leads to."""
        told = {
            "name": path,
            "islink": metadata.kind == "link",
            "mode": metadata.mode,
            "uid": metadata.uid,
            "gid": metadata.gid,
            "ino": metadata.ino,
            "nlink": metadata.nlink,
            "mtime": metadata.mtime,
            "created": metadata.created,
        }
        if metadata.kind == "link":
            told["destination"] = os.fsdecode(self._volume.read_link(os.fsencode(path)))
            try:
                metadata = self._volume.metadata(os.fsencode(path), True)
            except OSError:
                pass  # it leads nowhere
        return told | {"size": metadata.size, "type": metadata.kind}

    def lexists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is something at `path`, be it a symbolic link that leads nowhere."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def created(self, path: str) -> datetime:
        seconds = self.info(path)["created"]
        if seconds is None:
            raise NotImplementedError(f"{path}: this image does not keep times of creation")
        return datetime.fromtimestamp(seconds, tz=timezone.utc)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    # Files

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> Reader | Writer | Updater:
        how = _MODES.get(mode.replace("b+", "+b"))
        if how is None:
            raise ValueError(f"mode {mode!r}: none of {', '.join(_MODES)}")
        path = self._strip_protocol(path)
        if "!" in how:
            return self._wrapped(self._volume.open_file(os.fsencode(path)), path, how)
        if not autocommit:
            return self._pending(path, how)
        if "x" in how:
            return self._wrapped(self._volume.create(os.fsencode(path)), path, how)
        file = self._volume.open_or_create(os.fsencode(path))
        if "0" in how and not self.isdir(path):
            file.set_size(0)
        return self._wrapped(file, path, how)

    def _wrapped(self, file: _native.File, path: str, how: str) -> Reader | Writer | Updater:
        if self.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "a directory does not open as a file", path)
        raw = RawFile(file, reads="r" in how, writes="w" in how, appends="a" in how, name=path)
        if "w" not in how:
            return Reader(raw)
        return Updater(raw) if "r" in how else Writer(raw)

    def _pending(self, path: str, how: str) -> Pending:
        """A file that a transaction keeps or throws away."""
        if how not in ("w0", "wx"):
            raise NotImplementedError("a transaction takes new files only: mode 'wb' or 'xb'")
        temporary = f"{path}.{secrets.token_hex(4)}~"
        file = self._volume.create(os.fsencode(temporary))

        def commit() -> None:
            file.sync()
            self._volume.rename(os.fsencode(temporary), os.fsencode(path))

        raw = RawFile(file, reads=False, writes=True, appends=False, name=path)
        return Pending(raw, commit, lambda: self._volume.remove(os.fsencode(temporary)))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file, or sets the times of one to now; empties it if `truncate`."""
        path = self._strip_protocol(path)
        file = self._volume.open_or_create(os.fsencode(path))
        if truncate and not self.isdir(path):
            file.set_size(0)
        self._volume.set_modified(os.fsencode(path), time.time_ns())

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies one file; a directory is made anew."""
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)

    # Several files as one step

    def atomic(self) -> Draft:
        """A draft: changes of several files and names that become visible and durable together, or never.

        with fs.atomic() as draft: draft.open("/a").write(b"…"); draft.mv("/b", "/c")

        Needs a mode that logs content ("data+async"): OSError with EOPNOTSUPP in others.
        """
        return Draft(self._volume.atomic())

    def share(self, ranges: list[tuple[str, int, str, int, int]]) -> None:
        """Makes the target of every range read as its source does, as one step that is durable when the call returns.

        A range is source, byte there, target, byte there, length; all numbers are multiples of 4096. A device with
        SHARE writes nothing for it; else a mode that logs content logs it once more, and others refuse (EOPNOTSUPP).
        """
        volume = self._volume
        paths = {path for source, _, target, _, _ in ranges for path in (source, target)}
        files = {path: volume.open_file(os.fsencode(self._strip_protocol(path))) for path in paths}
        volume.share([(files[source], at, files[target], to, length) for source, at, target, to, length in ranges])

    # Names

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents and not self.exists(parent := self._parent(path)):
            self.makedirs(parent, exist_ok=True)
        self._volume.create_directory(os.fsencode(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, "there is such a directory", path)
            return
        self.makedirs(self._parent(path), exist_ok=True)
        try:
            self._volume.create_directory(os.fsencode(path))
        except FileExistsError:
            # Another thread made it meanwhile.
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        self._volume.remove_directory(os.fsencode(self._strip_protocol(path)))

    def rm_file(self, path: str) -> None:
        self._volume.remove(os.fsencode(self._strip_protocol(path)))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with `recursive` directories with what is in them. Symbolic links are not followed."""
        for one in [path] if isinstance(path, (str, os.PathLike)) else path:
            for found in self.expand_path(one, recursive=False) if "*" in str(one) else [self._strip_protocol(one)]:
                self._remove(found, recursive)

    def _remove(self, path: str, recursive: bool) -> None:
        if not stat.S_ISDIR(self.info(path)["mode"]):
            self.rm_file(path)
            return
        if not recursive:
            raise IsADirectoryError(errno.EISDIR, "a directory; recursive=True removes it with what is in it", path)
        for name in self.ls(path, detail=False):
            self._remove(name, recursive=True)
        if path != "/":
            self.rmdir(path)

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Moves a file or directory, in one step; into `path2` if that is a directory. Replaces a file.

        After a power cut it has the old or the new name, never both or none.
        """
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source != target and self.isdir(target):
            target = posixpath.join(target, posixpath.basename(source))
        self._volume.rename(os.fsencode(source), os.fsencode(target))

    def mv_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        self.mv(path1, path2)

    def link(self, src: str, dst: str, **kwargs: Any) -> None:
        """Gives the file at `src` a second name `dst`."""
        self._volume.link(os.fsencode(self._strip_protocol(src)), os.fsencode(self._strip_protocol(dst)))

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        """Makes a symbolic link at `dst` that leads to `src`."""
        self._volume.symlink(os.fsencode(self._strip_protocol(dst)), os.fsencode(src))
