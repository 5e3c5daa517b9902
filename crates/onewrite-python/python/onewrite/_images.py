"""Images that are open in this process: one volume for each image, whoever asks for it.

The kernel's lock lets one volume have an image. File systems with the same options share it, so that
`pandas.read_csv("onewrite://…")` in two threads works.

Invariants: a volume is open while somebody holds its `Image`; the last one to let go unmounts it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import NamedTuple

from onewrite import _native


class Options(NamedTuple):
    """How an image is opened."""

    path: str
    mode: str
    read_only: bool
    cache: str
    commit_seconds: int


class Image:
    """An open image, held by `users` file systems."""

    def __init__(self, options: Options) -> None:
        self.volume = _native.Volume(*options)
        self.users = 0
        self.process = os.getpid()

    def end(self) -> None:
        """Unmounts. A child of fork has no thread to do that, and leaves the image to its parent."""
        self.users = 0
        if self.process == os.getpid():
            self.volume.close()


_open: weakref.WeakValueDictionary[Options, Image] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def take(options: Options) -> Image:
    """The image, opened if nobody has it with these options."""
    with _lock:
        image = _open.get(options)
        if image is None or image.users == 0 or image.process != os.getpid():
            image = Image(options)
            _open[options] = image
        image.users += 1
        return image


def give(image: Image) -> None:
    """Ends one use; the last one unmounts the image."""
    with _lock:
        if image.users == 1:
            image.end()
        else:
            image.users -= 1


@atexit.register
def _give_all() -> None:
    with _lock:
        for image in list(_open.values()):
            if image.users > 0:
                image.end()
