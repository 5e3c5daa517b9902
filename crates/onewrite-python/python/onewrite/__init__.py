"""Onewrite from Python: images as fsspec file systems, and the laboratory in this process.

>>> import onewrite
>>> onewrite.mkfs("disk.img", "64MiB")
>>> with onewrite.Fs("disk.img", mode="data+async") as fs:
...     fs.pipe("/greeting", b"hello")
"""

from onewrite.filesystem import Fs, mkfs

__all__ = ["Fs", "mkfs"]
