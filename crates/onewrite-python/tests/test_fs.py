"""An image as a file system of Python."""

from __future__ import annotations

import errno
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import fsspec
import pytest

import onewrite


def test_what_was_written_is_there_when_it_is_opened_again(image: Path) -> None:
    with onewrite.Fs(image, mode="data+async") as fs:
        fs.makedirs("/a/b")
        fs.pipe("/a/b/c", b"hello")
        fs.pipe_file("d", b"without a slash")
    with onewrite.Fs(image, read_only=True) as fs:
        assert fs.cat("/a/b/c") == b"hello"
        assert fs.cat(["/a/b/c", "/d"]) == {"/a/b/c": b"hello", "/d": b"without a slash"}
        assert fs.cat_file("/a/b/c", start=1, end=3) == b"el"
        with pytest.raises(OSError) as refused:
            fs.touch("/a/e")
    assert refused.value.errno == errno.EROFS


def test_an_open_file_without_a_name_is_gone_when_the_image_is_closed(image: Path) -> None:
    with onewrite.Fs(image) as fs:
        fs.pipe("/f", b"x" * 100_000)
        kept = fs.open("/f")
        fs.rm("/f")
        assert kept.read(1) == b"x"
    with onewrite.Fs(image) as fs:
        assert fs.ls("/") == [] or fs.ls("/", detail=False) == ["/lost+found"]
    del kept


def test_directories_tell_what_is_in_them(fs: onewrite.Fs) -> None:
    fs.makedirs("/a/b")
    fs.pipe("/a/f", b"12345")
    assert fs.ls("/a", detail=False) == ["/a/b", "/a/f"]
    assert [(e["name"], e["type"], e["size"]) for e in fs.ls("a/")][1] == ("/a/f", "file", 5)
    assert fs.find("/") == ["/a/f"]
    assert list(fs.walk("/a")) == [("/a", ["b"], ["f"]), ("/a/b", [], [])]
    assert fs.glob("/a/*") == ["/a/b", "/a/f"]
    assert fs.du("/a") == 5
    assert fs.isdir("/a/b") and fs.isfile("/a/f") and not fs.exists("/a/g")
    info = fs.info("/a/f")
    assert (info["type"], info["size"], info["nlink"], info["mode"] & 0o777) == ("file", 5, 1, 0o644)
    assert abs(info["mtime"] - time.time()) < 60
    assert abs(fs.modified("/a/f").timestamp() - time.time()) < 60


def test_errors_are_those_of_python(fs: onewrite.Fs) -> None:
    fs.mkdir("/d")
    fs.touch("/f")
    refusals = [
        (FileNotFoundError, lambda: fs.info("/none")),
        (FileNotFoundError, lambda: fs.open("/none")),
        (FileNotFoundError, lambda: fs.ls("/none")),
        (FileNotFoundError, lambda: fs.rm("/none")),
        (FileNotFoundError, lambda: fs.mkdir("/x/y", create_parents=False)),
        (FileExistsError, lambda: fs.mkdir("/d")),
        (FileExistsError, lambda: fs.makedirs("/d")),
        (FileExistsError, lambda: fs.open("/f", "xb")),
        (IsADirectoryError, lambda: fs.open("/d")),
        (IsADirectoryError, lambda: fs.open("/d", "wb")),
        (IsADirectoryError, lambda: fs.rm("/d")),
        (NotADirectoryError, lambda: fs.info("/f/g")),
        (ValueError, lambda: fs.open("/f", "q")),
        (ValueError, lambda: onewrite.Fs(fs.image, mode="none such")),
        (ValueError, lambda: onewrite.Fs(fs.image, cache="1K")),
        (ValueError, lambda: onewrite.Fs(fs.image, commit_seconds=0)),
    ]
    for expected, call in refusals:
        with pytest.raises(expected):
            call()
    fs.touch("/d/f")
    with pytest.raises(OSError) as full:
        fs.rmdir("/d")
    assert full.value.errno == errno.ENOTEMPTY


def test_files_read_write_append_and_seek(fs: onewrite.Fs) -> None:
    content = os.urandom(3_000_001)
    with fs.open("/f", "wb") as file:
        assert file.write(content) == len(content)
    with fs.open("/f") as file:
        assert file.read() == content
        file.seek(-5, io.SEEK_END)
        assert (file.tell(), file.read()) == (len(content) - 5, content[-5:])
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
        with pytest.raises(ValueError):
            file.raw.seek(-1)
    with fs.open("/f", "r+b") as file:
        file.seek(10)
        file.write(b"middle")
        file.seek(0)
        assert file.read(20) == content[:10] + b"middle" + content[16:20]
        file.truncate(100)
    assert fs.size("/f") == 100
    with fs.open("/f", "ab") as file:
        assert file.tell() == 100
        file.write(b"end")
    assert fs.tail("/f", 3) == b"end" and fs.head("/f", 3) == content[:3]
    with fs.open("/f", "wb"):
        pass
    assert fs.size("/f") == 0
    with fs.open("/text", "w", encoding="utf-8") as file:
        print("größer", file=file)
    assert fs.read_text("/text", encoding="utf-8") == "größer\n"
    with pytest.raises(ValueError, match="closed"):
        file.write("")


def test_names_move_are_copied_and_go(fs: onewrite.Fs) -> None:
    fs.makedirs("/a/b")
    fs.pipe({"/a/f": b"1", "/a/b/g": b"2"})
    fs.mv("/a/f", "/a/h")
    fs.mv("/a/h", "/a/b")
    assert fs.find("/") == ["/a/b/g", "/a/b/h"]
    fs.mv("/a/b", "/c")
    assert fs.find("/") == ["/c/g", "/c/h"]
    fs.cp("/c", "/e", recursive=True)
    assert fs.cat("/e/g") == b"2"
    fs.cp_file("/c/g", "/g")
    assert fs.cat("/g") == b"2"
    fs.rm("/e", recursive=True)
    fs.rm(["/c/g", "/g"])
    assert fs.find("/") == ["/c/h"]
    fs.rm("/c/*")
    fs.rmdir("/c")
    assert "/c" not in fs.ls("/", detail=False)


def test_links_lead_on(fs: onewrite.Fs) -> None:
    fs.mkdir("/d")
    fs.pipe("/d/f", b"content")
    fs.symlink("f", "/d/s")
    fs.symlink("/none", "/d/broken")
    fs.link("/d/f", "/d/second")
    assert fs.cat("/d/s") == b"content"
    info = fs.info("/d/s")
    assert (info["type"], info["islink"], info["destination"], info["size"]) == ("file", True, "f", 7)
    assert fs.info("/d/broken")["type"] == "link" and fs.lexists("/d/broken")
    assert fs.info("/d/second")["nlink"] == 2
    fs.rm("/d", recursive=True)
    assert not fs.exists("/d")


def test_a_name_may_be_any_bytes(fs: onewrite.Fs) -> None:
    name = "/" + os.fsdecode(b"\xff\xfe ")
    fs.pipe(name, b"odd")
    assert name in fs.ls("/", detail=False)
    assert fs.cat(name) == b"odd"


def test_touch_sets_times_and_may_leave_content(fs: onewrite.Fs) -> None:
    fs.pipe("/f", b"content")
    before = fs.info("/f")["mtime"]
    time.sleep(0.02)
    fs.touch("/f", truncate=False)
    assert fs.cat("/f") == b"content" and fs.info("/f")["mtime"] > before
    fs.touch("/f")
    assert fs.size("/f") == 0


def test_a_transaction_is_kept_or_leaves_nothing(fs: onewrite.Fs) -> None:
    fs.pipe("/f", b"old")
    with fs.transaction:
        with fs.open("/f", "wb") as file:
            file.write(b"new")
        assert fs.cat("/f") == b"old"
    assert fs.cat("/f") == b"new"
    with pytest.raises(RuntimeError):
        with fs.transaction:
            with fs.open("/f", "wb") as file:
                file.write(b"lost")
            raise RuntimeError
    assert fs.cat("/f") == b"new" and fs.find("/") == ["/f"]


def test_an_image_in_use_is_named(image: Path) -> None:
    with onewrite.Fs(image) as fs:
        with pytest.raises(OSError) as refused:
            onewrite.Fs(image, mode="data")
        assert refused.value.errno == errno.EBUSY and str(image) in str(refused.value)
        # With the same options it is the same image.
        with onewrite.Fs(image) as same:
            same.pipe("/f", b"shared")
        assert fs.cat("/f") == b"shared"
    with onewrite.Fs(image, mode="data") as other:
        assert other.cat("/f") == b"shared"
    with pytest.raises(FileNotFoundError, match="none.img"):
        onewrite.Fs(image.with_name("none.img"))
    with pytest.raises(FileExistsError):
        onewrite.mkfs(image)


def test_what_was_closed_is_closed(image: Path) -> None:
    fs = onewrite.Fs(image)
    file = fs.open("/f", "wb")
    file.close()
    fs.close()
    fs.close()
    with pytest.raises(OSError) as refused:
        fs.ls("/")
    assert refused.value.errno == errno.EBADF
    # An image goes with the last that has it.
    fs = onewrite.Fs(image)
    del fs
    onewrite.Fs(image, mode="data").close()


def test_fsspec_knows_the_protocol(image: Path) -> None:
    options = {"path": str(image), "data": "data"}
    with fsspec.open("onewrite:///a.txt", "wt", **options) as file:
        file.write("by address")
    with fsspec.open("onewrite://a.txt", "rt", **options) as file:
        assert file.read() == "by address"
    fs = fsspec.filesystem("onewrite", **options)
    assert isinstance(fs, onewrite.Fs)
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat("/a.txt") == b"by address"
    fs.close()
    again.close()


def test_threads_share_it(fs: onewrite.Fs) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            with fs.open(f"/{number}-{turn}", "wb") as file:
                file.write(bytes([number]) * 5000)
                file.fsync()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fs.find("/")) == 160 and fs.cat("/7-19") == b"\7" * 5000
    fs.sync()
    assert fs.space()["bytes"] > fs.space()["bytes_free"] > 0


WRITER = """
import os, sys, onewrite
fs = onewrite.Fs(sys.argv[1], mode="data+async")
with fs.open("/synced", "wb") as file:
    file.write(b"there")
    file.fsync()
    print("synced", flush=True)
    sys.stdin.read()
"""


def test_what_was_synced_survives_a_kill(image: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, image], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdin is not None
    assert child.stdout.readline() == b"synced\n"
    with pytest.raises(OSError) as refused:
        onewrite.Fs(image)
    assert refused.value.errno == errno.EBUSY
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    with onewrite.Fs(image) as fs:
        assert fs.cat("/synced") == b"there"


FORKER = """
import os, sys, onewrite
fs = onewrite.Fs(sys.argv[1])
file = fs.open("/f", "wb")
child = os.fork()
if child == 0:
    try:
        fs.ls("/")
    except OSError as error:
        file.detach()
        del fs, file
        sys.exit(error.errno)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
file.write(b"parent")
file.close()
fs.close()
"""


def test_a_child_of_fork_leaves_the_image_to_its_parent(image: Path) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKER, image], check=True, timeout=60)
    with onewrite.Fs(image) as fs:
        assert fs.cat("/f") == b"parent"


def test_the_end_of_the_process_unmounts(image: Path) -> None:
    program = "import onewrite, sys; fs = onewrite.Fs(sys.argv[1]); fs.pipe('/f', b'kept')"
    subprocess.run([sys.executable, "-c", program, image], check=True)
    with onewrite.Fs(image, read_only=True) as fs:
        assert fs.cat("/f") == b"kept"
