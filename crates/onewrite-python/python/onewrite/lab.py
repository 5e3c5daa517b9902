"""The laboratory in this process: jobs on emulated devices in virtual time, page caches, crash states.

One seed gives one result, to the byte: the figures of `onewrite … --json` (`docs/results-json.md`). Results are pandas
data frames where pandas is installed, else lists of dictionaries; columns are the names of the JSON with dots between
them and its units. `raw=True` gives the JSON itself as Python objects. The interpreter goes on meanwhile, and ^C stops
a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from onewrite import _native

if TYPE_CHECKING:
    from typing_extensions import Unpack

    StrPath = str | os.PathLike[str]
    Size = int | str


class DeviceOptions(TypedDict, total=False):
    """The emulated device, besides its profile."""

    #: Translation layer: "page", "fast", "bast", "dftl".
    ftl: str
    #: Log blocks of FAST and BAST.
    log_blocks: int
    #: Mapping cache of DFTL, in bytes.
    map_cache: Size


class JobOptions(DeviceOptions, total=False):
    """Options of `run` and `compare`, with the names, defaults and meaning of `onewrite run --help`."""

    device: StrPath
    #: Writes done to the device before: "none", "filled", "steady".
    age: str
    host: StrPath
    #: Sizes are in bytes, or texts: "64MiB".
    size: Size
    journal_size: Size
    cache_size: Size
    cache_policy: str
    delayed_allocation: bool
    max_batch_time: int | str
    eviction_spot: Size
    drop_caches: bool
    seed: int
    force: bool
    section: str | Sequence[str]
    #: Keys of every job of a job file: "size=64m".
    set: str | Sequence[str]
    files: int
    threads: int
    file_size: Size
    #: In percent.
    compressible: int
    #: In seconds, or a text: "500ms".
    runtime: int | str
    operations: int


class CacheOptions(DeviceOptions, total=False):
    """Options of `cache`, with the names, defaults and meaning of `onewrite cache --help`."""

    format: str
    volume: int
    pack: bool
    action: str
    page_size: Size
    flash_block: Size
    device: StrPath
    timed: bool
    device_size: Size
    blank: bool
    #: Bytes written to the device before.
    age: Size
    threads: int


class CrashOptions(DeviceOptions, total=False):
    """Options of `crash`, with the names, defaults and meaning of `onewrite crash --help`."""

    device: StrPath
    section: str | Sequence[str]
    set: str | Sequence[str]
    runtime: int | str
    eviction_spot: Size
    size: Size
    journal_blocks: int
    cache_pages: int
    cache_policy: str
    delayed_allocation: bool
    commit_interval: int | str
    checkpoint_age: int | str
    prompt_writeback: bool
    states: int
    seed: int
    e2fsck_every: int
    thorough_every: int
    nested_every: int
    slow_one_in: int
    mkfs: str
    torn_pages: bool
    torn_shares: bool
    faults: bool
    jobs: int


def run(
    job: StrPath,
    *,
    mode: str | None = "ordered",
    page_trace: StrPath | None = None,
    raw: bool = False,
    **options: Unpack[JobOptions],
) -> Any:
    """Runs one job: a fio job file or its text, "varmail", "fileserver", "webserver", "webproxy" or "postmark".

    One row. mode: journal mode; None runs the job on the device itself, without a file system. page_trace: a file for
    the before-cache trace, for `cache`.
    """
    modes = [] if mode is None else [mode]
    [result] = json.loads(_native.run(*_job(job), modes, _given(options), page_trace))
    return result if raw else _frame([_row(result)])


def compare(
    job: StrPath,
    *,
    modes: Iterable[str] = ("ordered", "data", "data+async"),
    raw: bool = False,
    **options: Unpack[JobOptions],
) -> Any:
    """Runs one job in each of `modes`, each on a new device of its own: one row for each."""
    chosen = [modes] if isinstance(modes, str) else list(modes)
    if not chosen:
        raise ValueError("modes: name one at least")
    results = json.loads(_native.run(*_job(job), chosen, _given(options), None))
    return results if raw else _frame([_row(result) for result in results])


def cache(
    trace: StrPath,
    *,
    policies: str | Iterable[str] = "all",
    sizes: Size | Iterable[Size] = "4MiB",
    after: StrPath | None = None,
    raw: bool = False,
    **options: Unpack[CacheOptions],
) -> Any:
    """Runs a trace through page cache policies: one row for each policy at each size, counts in pages.

    sizes: bytes, "64MiB", or "10%" of the different pages of the trace. after: file for the after-cache trace.
    """
    given = _given(options) | {"policies": _texts(policies), "sizes": _texts(sizes)}
    figures = json.loads(_native.cache(trace, given, after))
    return figures if raw else _frame([_flat(cell) for cell in figures["cells"]])


def crash(
    workload: str, *, mode: str = "ordered", raw: bool = False, **options: Unpack[CrashOptions]
) -> Any:
    """Cuts the power at every moment of a workload, recovers each state, and judges it: one row.

    workload: "ace:1", "random:OPERATIONS", "script:ACTIONS", or a job as of `run`. `violations` has what was broken,
    each with the command that replays it; it is empty if the mode kept its promise.
    """
    report = json.loads(_native.crash(*_job(workload), _given(options) | {"mode": [mode]}))
    return report if raw else _frame([{"mode": mode} | _flat(report)])


def _job(job: StrPath) -> tuple[str, str | None]:
    """Name and text of a job; one of several lines is a text."""
    name = os.fspath(job)
    return ("job", name) if "\n" in name else (name, None)


def _given(options: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: _texts(value) for name, value in options.items() if value is not None}


def _texts(value: Any) -> list[str]:
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    return [str(one) for one in value] if isinstance(value, Iterable) else [str(value)]


def _row(result: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run: first what one compares, then all."""
    figures = result["onewrite"]
    settings = figures["settings"]
    seconds = figures["virtual_seconds"] if figures["virtual_seconds"] is not None else figures["wall_seconds"]
    begin = {"job": figures["job"], "mode": settings["mode"], "device": settings["device"], "seconds": seconds}
    begin["operations_per_second"] = figures["operations_per_second"]
    return begin | {name: value for name, value in _flat(figures).items() if name not in begin}


def _flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Objects within objects as one: `{"a": {"b": 1}}` is `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            flat |= _flat(one, f"{before}{name}.")
        else:
            flat[before + name] = one
    return flat


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
