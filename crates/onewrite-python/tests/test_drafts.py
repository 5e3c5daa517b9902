"""Drafts: changes of several files that are visible and durable together, or never; shared pages."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import onewrite


@pytest.fixture
def fs(image: Path) -> Iterator[onewrite.Fs]:
    """A file system in a mode with drafts."""
    with onewrite.Fs(image, mode="data+async") as opened:
        yield opened


def number(refused: pytest.ExceptionInfo[OSError]) -> int | None:
    return refused.value.errno


def test_changes_are_private_until_the_end_of_the_context(fs: onewrite.Fs) -> None:
    fs.pipe({"/orders": b"0 pear\n", "/queue": b"7"})
    with fs.atomic() as draft:
        orders = draft.open("/orders", "ab")
        orders.write(b"1 apple\n")
        draft.open("/stock", "wb").write(b"apples: 6\n")
        draft.mv("/queue", "/done")
        orders.seek(0)
        assert orders.read() == b"0 pear\n1 apple\n"
        assert fs.cat("/orders") == b"0 pear\n" and not fs.exists("/stock") and fs.exists("/queue")
        with pytest.raises(OSError) as refused:
            fs.pipe("/orders", b"mine")
        assert number(refused) == errno.EBUSY
        with pytest.raises(io.UnsupportedOperation, match="commit the draft"):
            orders.fsync()
    assert fs.cat("/orders") == b"0 pear\n1 apple\n"
    assert fs.cat("/stock") == b"apples: 6\n" and fs.cat("/done") == b"7" and not fs.exists("/queue")
    fs.pipe("/orders", b"free again")


def test_an_exception_drops_everything(fs: onewrite.Fs) -> None:
    fs.pipe("/one", b"one")
    with pytest.raises(RuntimeError), fs.atomic() as draft:
        draft.open("/one").write(b"two")
        draft.rm("/one")
        draft.open("/new", "xb").write(b"new")
        raise RuntimeError
    assert fs.cat("/one") == b"one" and fs.ls("/", detail=False).count("/new") == 0


def test_a_draft_commits_and_aborts_more_than_once(fs: onewrite.Fs) -> None:
    draft = fs.atomic()
    draft.open("/f", "wb").write(b"first")
    draft.commit()
    assert fs.cat("/f") == b"first"
    draft.open("/f", "r+b").write(b"FIRST")
    draft.abort()
    with draft.open("/f", "r+b") as file:
        assert file.read() == b"first"
        file.truncate(2)
    draft.commit()
    draft.end()
    draft.end()
    assert fs.cat("/f") == b"fi"
    with pytest.raises(OSError) as refused:
        draft.commit()
    assert number(refused) == errno.EBADF


def test_what_cannot_be_is_refused(fs: onewrite.Fs, image: Path) -> None:
    draft = fs.atomic()
    with pytest.raises(FileNotFoundError):
        draft.open("/none", "r+b")
    with pytest.raises(ValueError, match="none of"):
        draft.open("/none", "r")
    fs.touch("/there")
    with pytest.raises(FileExistsError):
        draft.open("/there", "xb")
    draft.end()
    fs.close()
    with onewrite.Fs(image, mode="ordered") as other, pytest.raises(OSError, match="data") as refused:
        other.atomic()
    assert number(refused) == errno.EOPNOTSUPP


def test_pages_become_those_of_another_file(fs: onewrite.Fs) -> None:
    fs.pipe({"/area": b"a" * 4096 + b"b" * 4096, "/table": b"." * 12288})
    fs.share([("/area", 4096, "/table", 0, 4096), ("/area", 0, "/table", 8192, 4096)])
    assert fs.cat("/table") == b"b" * 4096 + b"." * 4096 + b"a" * 4096
    with pytest.raises(OSError) as refused:
        fs.share([("/area", 1, "/table", 0, 4096)])
    assert number(refused) == errno.EINVAL


def test_stores_into_mappings_come_with_the_commit(fs: onewrite.Fs) -> None:
    fs.pipe({"/index": b"index", "/table": bytes(20 << 20)})
    draft = fs.atomic()
    index, table = draft.map("/index"), draft.map("/table")
    assert bytes(index.data) == b"index" and len(table.data) == 20 << 20
    index.data[0:2] = b"IN"
    table.data[5_000_000] = 7
    assert fs.cat("/index") == b"index"
    draft.commit()
    assert fs.cat("/index") == b"INdex" and fs.cat("/table")[5_000_000] == 7
    index.data[2] = ord("D")
    table.data[:] = bytes([1]) * len(table.data)
    fs.pipe({"/filler": bytes(30 << 20)})
    with pytest.raises(OSError) as refused:
        draft.commit()
    assert number(refused) == errno.ENOSPC
    assert fs.cat("/index") == b"INdex" and bytes(index.data) == b"INDex"
    table.data[4096:] = bytes(len(table.data) - 4096)
    draft.commit()
    assert fs.cat("/index") == b"INDex" and fs.cat("/table")[4095:4097] == b"\x01\0"
    index.data[0] = 0
    draft.end()
    assert fs.cat("/index") == b"INDex"
