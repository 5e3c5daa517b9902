"""What the tests share: an image of their own, and e2fsck as its judge."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onewrite


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """An image of 64 MiB; e2fsck finds nothing in it after the test."""
    path = tmp_path / "disk.img"
    onewrite.mkfs(path, "64MiB")
    yield path
    found = subprocess.run(["e2fsck", "-fn", path], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.fixture
def fs(image: Path) -> Iterator[onewrite.Fs]:
    """A file system in `image`."""
    with onewrite.Fs(image) as opened:
        yield opened


@pytest.fixture
def program() -> Callable[..., str]:
    """Runs the command line and returns what it printed."""

    def run(*arguments: object) -> str:
        binary = os.environ.get("ONEWRITE", "")
        if not binary:
            pytest.skip("ONEWRITE does not name the program")
        return subprocess.run([binary, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    return run
