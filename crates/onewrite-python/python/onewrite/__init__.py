"""Onewrite from Python: images as fsspec file systems, and the laboratory in this process.

>>> import onewrite
>>> onewrite.mkfs("disk.img", "64MiB")
>>> with onewrite.Fs("disk.img", mode="data+async") as fs:
...     fs.pipe("/greeting", b"hello")
>>> onewrite.compare("varmail", modes=["ordered", "data+async"], runtime="1s")
"""

from onewrite._native import acked
from onewrite.draft import Draft, DraftFile
from onewrite.filesystem import Fs, mkfs
from onewrite.lab import cache, compare, crash, run
from onewrite.mapping import Mapping

__all__ = ["Draft", "DraftFile", "Fs", "Mapping", "acked", "cache", "compare", "crash", "mkfs", "run"]
