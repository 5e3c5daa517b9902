"""The laboratory in process: the figures of the command line, as data frames; ^C; errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onewrite

JOB = """[global]
size=4m
bs=4k
[writes]
rw=randwrite
fsync=8
"""
SMALL: dict[str, Any] = {"runtime": "200ms", "files": 50}


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows, with or without pandas."""
    return frame if isinstance(frame, list) else frame.to_dict("records")


def test_a_run_has_the_figures_of_the_command_line(program: Callable[..., str], tmp_path: Path) -> None:
    told = json.loads(program("run", "varmail", "--runtime", "200ms", "--files", "50", "--seed", "7", "--json", "-"))
    assert onewrite.run("varmail", seed=7, raw=True, **SMALL) == told
    assert onewrite.run("varmail", seed=8, raw=True, **SMALL) != told
    (tmp_path / "a.fio").write_text(JOB)
    options = ["--mode", "data", "--device", "ftl-16g", "--set", "size=2m", "--age", "filled", "--size", "64MiB"]
    told = json.loads(program("run", tmp_path / "a.fio", *options, "--json", "-"))
    given: dict[str, Any] = {"mode": "data", "device": "ftl-16g", "set": "size=2m", "age": "filled", "size": 64 << 20}
    assert onewrite.run(tmp_path / "a.fio", raw=True, **given) == told
    [of_text] = records(onewrite.run(JOB, **given))
    assert of_text["total.write.io_bytes"] == told["onewrite"]["total"]["write"]["io_bytes"] == 2 << 20


def test_modes_are_compared(program: Callable[..., str], tmp_path: Path) -> None:
    modes = ["ordered", "data+async"]
    rows = records(onewrite.compare("varmail", modes=modes, **SMALL))
    assert [row["mode"] for row in rows] == modes
    assert all(row["seconds"] > 0 and row["operations_per_second"] > 0 for row in rows)
    arguments = ["--modes", ",".join(modes), "--runtime", "200ms", "--files", "50", "--cuts", "0"]
    html = tmp_path / "report.html"
    told = json.loads(program("compare", "varmail", *arguments, "--html", html, "--json", "-"))
    assert onewrite.compare("varmail", modes=modes, raw=True, **SMALL) == told
    raw = records(onewrite.run(JOB, mode=None))[0]
    assert raw["mode"] is None and raw["total.write.io_bytes"] == 4 << 20


def test_traces_run_through_caches(program: Callable[..., str], tmp_path: Path) -> None:
    trace = tmp_path / "pages.csv"
    onewrite.run("varmail", page_trace=trace, **SMALL)
    told = json.loads(program("cache", trace, "--policy", "lru,linux-2q", "--size", "1MiB,10%", "--json", "-"))
    given: dict[str, Any] = {"policies": ["lru", "linux-2q"], "sizes": [1 << 20, "10%"]}
    assert onewrite.cache(trace, raw=True, **given) == told
    rows = records(onewrite.cache(trace, **given))
    assert len(rows) == 4 and all(row["hits"] + row["misses"] == row["requests"] > 0 for row in rows)


def test_crash_states_are_judged(program: Callable[..., str]) -> None:
    told = json.loads(program("crash", "random:20", "--mode", "data", "--states", "100", "--json", "-"))
    assert onewrite.crash("random:20", mode="data", states=100, raw=True) == told
    [row] = records(onewrite.crash("script:create /a; write /a 0 5000 1; fsync /a", states=50))
    assert row["states"] > 0 and row["violations"] == [] and row["mode"] == "ordered"


def test_what_makes_no_sense_is_named_as_in_python() -> None:
    refusals: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ValueError, "none such", lambda: onewrite.run("varmail", mode="none such")),
        (ValueError, "neither a job file", lambda: onewrite.run("none such")),
        (ValueError, "cache_size: `much`", lambda: onewrite.run("varmail", cache_size="much")),
        (ValueError, "^log_blocks belongs to ftl", lambda: onewrite.run("varmail", log_blocks=3)),
        (ValueError, "set is for job files", lambda: onewrite.run("varmail", set="size=1m")),
        (TypeError, "no option `colour`", lambda: onewrite.run("varmail", colour="red")),  # type: ignore[call-arg]
        (ValueError, "name one", lambda: onewrite.compare("varmail", modes=[])),
        (OSError, "none.csv", lambda: onewrite.cache("none.csv")),
        (ValueError, "nothing would be done", lambda: onewrite.crash("ace:1", states=0)),
        (ValueError, "ace:1, ace:2", lambda: onewrite.crash("none such")),
    ]
    for kind, text, call in refusals:
        with pytest.raises(kind, match=text):
            call()


def test_the_interpreter_goes_on_meanwhile() -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    onewrite.run("varmail", runtime="2s")
    done.set()
    counter.join()
    assert turns > 20


LONG = [
    "onewrite.run('varmail', runtime='100h')",
    "onewrite.crash('random:80', states=10**9)",
    "onewrite.cache(sys.argv[1], policies=['lru', 'arc', 'sieve'] * 3000, sizes='1%')",
]


@pytest.mark.parametrize("call", LONG, ids=["run", "crash", "cache"])
def test_an_interrupt_stops_it(call: str, tmp_path: Path) -> None:
    trace = tmp_path / "pages.csv"
    onewrite.run("varmail", page_trace=trace, runtime="2s")
    # Who starts the tests in the background may have SIGINT ignored; children inherit that.
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"import onewrite, signal, sys; {heard}; print('begun', flush=True); {call}"
    arguments = [sys.executable, "-c", program, trace]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"begun\n"
        time.sleep(1)
        ended = child.poll()
        child.send_signal(signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert ended is None, errors
    assert errors.rstrip().endswith(b"KeyboardInterrupt"), errors
