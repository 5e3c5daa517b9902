"""The package has types: mypy finds nothing in strict mode, and the stubs are those of the native module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import onewrite

pytest.importorskip("mypy")


def run(*arguments: object) -> None:
    found = subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_package_is_typed(pytestconfig: pytest.Config) -> None:
    package = Path(onewrite.__file__).parent
    assert (package / "py.typed").exists()
    run("mypy", "--config-file", pytestconfig.rootpath / "pyproject.toml", "--cache-dir", "/dev/null", "-p", "onewrite")


def test_the_stubs_are_those_of_the_native_module() -> None:
    run("mypy.stubtest", "onewrite._native")
