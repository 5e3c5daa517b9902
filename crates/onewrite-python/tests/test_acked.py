"""Acknowledgements by a call, under `onewrite crash --run` and alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onewrite

PROGRAM = """
import onewrite, os, sys
def synced(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
for row in ("1", "2"):
    open(row, "w").close()
    if sys.argv[1] == "sound":
        synced(".")
    onewrite.acked(row)
synced(".")
"""
CHECK = 'for row in $(cat "$ONEWRITE_ACKED"); do test -e $row || { echo no $row; exit 1; }; done'


@pytest.mark.parametrize("kind", ["sound", "early"])
def test_what_a_call_acknowledged_has_to_be_there(kind: str, tmp_path: Path) -> None:
    binary = os.environ.get("ONEWRITE", "")
    if not binary or os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("it needs ONEWRITE, root and /dev/fuse")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    run = f"'{sys.executable}' '{script}' {kind}"
    found = subprocess.run(
        [binary, "crash", "--run", run, "--check", CHECK, "--keep", tmp_path / "kept"], capture_output=True, text=True
    )
    assert "acknowledged 2 tokens" in found.stderr, found.stderr
    assert found.returncode == (0 if kind == "sound" else 1), found.stderr
    assert ("no 1" in found.stderr) == (kind == "early")


def test_a_call_that_nobody_hears_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEWRITE_ACK", raising=False)
    with pytest.raises(FileNotFoundError, match="ONEWRITE_ACK is not set"):
        onewrite.acked("1")
    heard = tmp_path / "heard"
    monkeypatch.setenv("ONEWRITE_ACK", str(heard))
    with pytest.raises(FileNotFoundError):
        onewrite.acked("1")
    heard.touch()
    onewrite.acked("1")
    for wrong in ("", "two\nlines"):
        with pytest.raises(ValueError, match="one line"):
            onewrite.acked(wrong)
    assert heard.read_text() == "onewrite: acked 1\n"
