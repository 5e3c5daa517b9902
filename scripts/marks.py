#!/usr/bin/env python3
"""Marks: runs the crash explorer in every mode, and counts its states and which rare situations they reached.

Each line of SETUPS is one run of `onewrite crash`, or one in each mode, and each workload of mutants/*.toml a short
one. The counts of all runs go into docs/marks.md, the table of runs and marks into OUT/marks.tsv. A mark that no run
reached is listed by name. A run that breaks a promise leaves what it said in OUT, and the program ends with 1.
`marks.py --help` lists the options.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import tomllib

import marks_kinds
from marks_kinds import mode_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = "<!-- the last run -->"


def written(file, pages, seed, of=4096):
    """Writes single pages, one after another."""
    return [f"write {file} {page * of} 4096 {seed}" for page in pages]


def many_names():
    """Long names in one directory, so that its hash tree splits."""
    names = [f"/d/{'n' * 200}{number}" for number in range(70)]
    made = [f"create {name}; {'sync' if at % 6 == 5 else 'fsync ' + name}" for at, name in enumerate(names)]
    gone = [f"unlink {name}" for name in names[::3]]
    return f"mkdir /d; mkdir /e; sync >> {'; '.join(made + gone)}; rename /d /e/d; sync | rename {names[0]} {names[7]}"


def many_extents():
    """A file of 1,500 extents that gets some more, loses some, is shifted, and is truncated."""
    setup = "; ".join(["create /a", *written("/a", range(1500), 1, of=8192), "sync"])
    more = "; ".join(written("/a", range(1500, 1560, 2), 2, of=8192) + ["fsync /a"])
    return f"{setup} >> {more}; punch /a 16384 409600; fsync /a; collapse /a 819200 8192; fsync /a; " \
        "insert /a 8192 8192; fsync /a; truncate /a 4096; create /b; fsync /b; truncate /a 0; append /b 9000 1; sync"


def open_files():
    """Files that lose their names while they are open, and are closed in another order."""
    made = "; ".join(f"create /f{number}; write /f{number} 0 20000 {number}" for number in range(5))
    lose = "open /f{0} {0}; unlink /f{0}; create /g{0}; fsync /g{0}"
    lost = "; ".join(lose.format(number) for number in range(4))
    return f"{made}; sync >> {lost}; close 1; fsync /g0; close 0; fsync /g1; rename /g0 /f4; fsync /f4; close 3; sync"


def overwriting():
    """Fsyncs of a few pages of a file, over their blocks or new ones, with growth and a hole."""
    return "create /a; write /a 0 60000 1; fsync /a; sync >> write /a 0 20000 2; fsync /a; write /a 5000 30000 3; " \
        "fdatasync /a; append /a 9000 4; write /a 100 50 5; fsync /a; punch /a 4096 4096; write /a 0 12000 6; fsync /a"


def logged_content():
    """More logged content than memory keeps, read back while others change it."""
    made = "create /a; create /b; write /a 0 1600000 1; fsync /a; write /b 0 1600000 2; fsync /b"
    read = "; ".join(["read /a; read /b"] * 4)
    write = "write /a {0} 65536 {1}; fsync /a; write /b {0} 65536 {1}"
    change = "; ".join(write.format(at * 65536, at) for at in range(20))
    return f"create /c; sync >> {made} >> {read} | {change}; sync | {read}; append /c 5000 3; fsync /c"


def several_groups():
    """Directories in groups of their own, and files that fill them."""
    fill = "mkdir /d{0}; create /d{0}/f; write /d{0}/f 0 3000000 {0}; fsync /d{0}/f"
    each = "; ".join(fill.format(at) for at in range(4))
    return f"create /a; sync >> {each}; rename /d0/f /d1/g; unlink /d2/f; sync; rmdir /d2; rename /d0 /d1/h; sync"


def scarce():
    """Over most of an F2FS of 64 MiB: a file that is overwritten in places until its segments have to be cleaned."""
    write = lambda page, count, seed: f"write /a {page * 4096} {min(count, 2800 - page) * 4096} {seed}"
    warm_up = [write(page, 32, 2) for page in range(0, 2800, 64)]
    warm_up += [write(page, 32, 3) for page in range(32, 2800, 128)]
    rounds = []
    for at in range(5):
        writes = [write(page + 16 * at, 16, 10 + at) for page in range(0, 2800, 256)]
        rounds.append("; ".join([*writes, f"append /n 6000 {at}; fsync /n", write(at, 1, 77 + at), "fsync /a"]))
    before = f"{'; '.join(warm_up)}; sync; create /n; {'; '.join(rounds[:2])}"
    return f"create /a; {write(0, 2800, 1)} >> {before} >> {'; '.join(rounds[2:])}"


def quiet_cleaning():
    """A segment with twenty pages left on an F2FS of 160 MiB, of which less than a third is free; then quiet times."""
    made = "create /a; create /n; write /a 0 9830400 1; create /f; write /f 0 81920000 2; sync"
    aged = "write /a 0 409600 3; write /a 491520 9338880 3"
    return f"{made}; {aged}; sync >> pause 31000; append /n 100 1; fsync /n; pause 40000; " \
        "write /a 409600 16384 9; fsync /a; pause 61000; append /n 100 2; fsync /n"


def small_area():
    """More records in one sync than a staging area of 256 KiB takes, then syncs that fill it one by one."""
    parts = lambda pages, seed: "; ".join(f"write /a {page * 4096 + 100} 2000 {seed}" for page in pages)
    rounds = "; ".join(f"{parts(range(at, 140, 12), 3 + at)}; fsync /a" for at in range(12))
    first = f"{parts(range(140), 2)}; fsync /a"
    return f"create /a; write /a 0 600000 1; sync >> {first}; {rounds}; truncate /a 100; fsync /a"


def deep_map():
    """A file whose map grows to a third level, and whose full leaves are split then."""
    more = written("/a", range(1350, 1380), 2, of=8192)
    between = [f"write /a {page * 8192 + 4096} 4096 3" for page in (20, 400, 800, 21, 401, 801)]
    setup = "; ".join(["create /a", *written("/a", range(1350), 1, of=8192), "sync"])
    return f"{setup} >> {'; '.join(f'{write}; fsync /a' for write in more + between)}"


def spilled_over_many_extents():
    """A draft with more pages than memory keeps, of a file of 1,400 extents, so that its map is written anew."""
    setup = "; ".join(["create /a", *written("/a", range(1400), 1, of=8192), "sync"])
    return f"{setup} >> draft 0 write /a 12000000 4000000 5; commit 0; draft 0 write /a 0 4000000 6; commit 0"


def across_groups():
    """Blocks of several small groups, reserved and freed at once."""
    return "create /f; extend /f 0 300000000; sync >> unlink /f; sync; create /g; extend /g 0 200000000; fsync /g; " \
        "truncate /g 5000; fsync /g"


def more_inodes_than_a_group():
    """Forty files where a group has room for sixteen inodes at most."""
    return f"mkdir /d; sync >> {'; '.join(f'create /d/f{at}; fsync /d/f{at}' for at in range(40))}; unlink /d/f3; sync"


def whole_flash_blocks():
    """A file that is overwritten from its first page to its last, again and again."""
    rounds = "; ".join(f"write /a 0 6000000 {seed}; fsync /a" for seed in range(2, 8))
    return f"create /a; write /a 0 6000000 1; sync >> {rounds}"


def scattered_content():
    """More runs of content in one commit than a mode that reads them again keeps."""
    pages = "; ".join(written("/a", range(300), 2, of=8192))
    return f"create /a; create /b; write /a 0 2600000 1; sync >> {pages}; fsync /a; write /b 0 40000 1; fsync /b"


def sparse_beside_readers():
    """A file that gets a node for each write, beside readers of more pages than memory keeps."""
    sparse = "; ".join(f"write /a {node * 1018 * 4096} 40960 2" for node in range(1, 30))
    readers = " | ".join(["read /b; read /c; read /b; read /c; read /b; read /c"] * 4)
    made = "create /a; create /b; write /b 0 4000000 1; create /c; write /c 0 4000000 2; sync"
    return f"{made} >> {sparse}; fsync /a | {readers}"


def inline_content():
    """Files whose content lies in their inodes grow out of them."""
    return "write /small 100 50 1; fsync /small; write /other 1000 9000 2; truncate /small 0; sync; " \
        "link /other /third; fsync /other"


def share_into_holes():
    """A share of pages that the target has no blocks for."""
    return "create /a; write /a 0 40960 1; create /b; sync >> share /a 0 /b 0 40960; fsync /b"


def many_directories():
    """More blocks in one commit than a descriptor names, for each directory has one; then they are read again."""
    made = "; ".join(f"mkdir /d{at}" for at in range(300))
    changed = "; ".join(f"mkdir /d{at}/n" for at in range(0, 300, 2))
    gone = "; ".join(f"rmdir /d{at}" for at in range(1, 300, 2))
    return f"mkdir /e; sync >> {made}; sync; {gone}; fsync /e; {changed}; sync"


SCRIPTS = {script.__name__: script for script in
           [many_names, many_extents, open_files, overwriting, logged_content, several_groups, scarce, quiet_cleaning,
            small_area, deep_map, spilled_over_many_extents, across_groups, more_inodes_than_a_group,
            whole_flash_blocks, scattered_content, sparse_beside_readers, inline_content, share_into_holes,
            many_directories]}

# Makes groups of 32 MiB.
SMALL_GROUPS = "mke2fs -q -F -t ext4 -b 4096 -g 8192"

# Setup, its share of the states of one run, and its arguments. `MODE` stands for each of these modes, the name of a
# script for its text.
SETUPS = [
    ("unpadded", 1.4, "random-all:80 --mode MODE"),
    ("copies", 0.3, "random-all:80 --mode MODE --device nvme-share"),
    ("shares", 0.3, "random-all:80 --mode MODE --device nvme-share"),
    ("copies", 0.3, "random:80 --mode MODE --device sata-850pro"),
    ("shares", 1, "random:80 --mode MODE --device nvme-share"),
    ("unpadded", 1, "swarm:60 --mode MODE"),
    ("lean", 0.6, "guided:60 --mode MODE"),
    ("some", 0.2, "guided:60 --mode MODE"),
    ("pads", 3, "random:80 --mode MODE --device sata-850pro"),
    ("pads", 1.8, "random-all:80 --mode MODE --device sata-850pro"),
    ("pads", 0.2, "swarm:60 --mode MODE --device sata-850pro"),
    ("padded", 0.1, "random:60 --mode MODE --device sata-850pro"),
    ("copies", 0.4, "shares:60 --mode MODE"),
    ("shares", 0.4, "shares:60 --mode MODE --device nvme-share"),
    ("drafts", 0.3, "atomic:60 --mode MODE"),
    ("unpadded", 0.3, "lives:40 --mode MODE"),
    ("unpadded", 0.2, "full-log:20 --mode MODE --cache-pages 1024 --checkpoint-age 60s"),
    ("unpadded", 0.2, "random-all:60 --mode MODE --slow-one-in 6"),
    ("unpadded", 0.2, "random-all:80 --mode MODE --slow-one-in 3 --commit-interval 1ms --checkpoint-age 5ms"),
    ("all", 0.1, "open_files --mode MODE"),
    ("drafts", 0.1, "logged_content --mode MODE --checkpoint-age 100s"),
    ("some", 0.2, "many_names --mode MODE"),
    ("some", 0.15, "many_extents --mode MODE --nodelalloc"),
    ("some", 0.15, "several_groups --mode MODE --size 400MiB"),
    ("one", 0.1, "random-all:80 --mode ordered --size 300MiB"),
    ("one", 0.2, "random-all:80 --mode ordered --nodelalloc"),
    ("one", 0.1, "varmail --mode ordered"),
    ("one", 0.1, "fileserver --mode data"),
    ("one", 0.1, "postmark --mode data --torn-pages"),
    ("some", 0.15, "random-all:80 --mode MODE --torn-pages"),
    ("one", 0.1, "random:80 --mode soj --torn-shares"),
    ("unpadded", 0.02, "random:8 --mode MODE --faults"),
    ("pads", 0.02, "random:8 --mode MODE --device sata-850pro --faults"),
    ("one", 0.02, "atomic:6 --mode data --faults"),
    ("one", 0.1, "random-all:80 --mode ordered --device ftl-16g --ftl fast"),
    ("one", 0.1, "random-all:80 --mode ordered --device ftl-16g --ftl bast"),
    ("one", 0.1, "random-all:80 --mode ordered --device ftl-16g --ftl dftl"),
    ("one", 0.1, "random:80 --mode data --device sata-530"),
    ("one", 0.1, "random:80 --mode ordered --device nvme-750"),
    ("one", 0.1, "random:80 --mode sdj --device mutants/devices/nvme-share-small.toml"),
    ("some", 0.1, "random-all:60 --mode MODE --size 140MiB --mkfs 'mke2fs -q -F -t ext4 -b 4096 $IMAGE'"),
    ("one", 0.5, "random-all:80 --fs f2fs"),
    ("one", 0.8, "swarm:60 --fs f2fs"),
    ("one", 0.5, "guided:60 --fs f2fs"),
    ("one", 0.5, "lives:40 --fs f2fs"),
    ("one", 0.1, "lives:40 --fs f2fs --stage 1MiB"),
    ("one", 0.1, "small_area --fs f2fs --stage 256KiB --cache-pages 1024 --commit-interval 60s"),
    ("one", 0.1, "random-all:80 --fs f2fs --stage 1MiB --device sata-850pro --commit-interval 5s"),
    ("one", 0.1, "lives:40 --fs f2fs --stage 1MiB --device zns --commit-interval 5s"),
    ("one", 0.2, "scarce:12 --fs f2fs --cache-pages 1024 --commit-interval 5s"),
    ("one", 0.1, "random-all:80 --fs f2fs --fsync-mode strict"),
    ("one", 0.1, "random-all:80 --fs f2fs --device nvme-share --clean share"),
    ("one", 0.1, "scarce --fs f2fs --cache-pages 1024 --commit-interval 5s"),
    ("one", 0.1, "scarce --fs f2fs --cache-pages 1024 --commit-interval 5s --clean share"),
    ("one", 0.02, "quiet_cleaning --fs f2fs --size 160MiB --commit-interval 100s"),
    ("one", 0.02, "quiet_cleaning --fs f2fs --size 160MiB --commit-interval 100s --clean share --device nvme-share"),
    ("one", 0.5, "atomic:60 --fs f2fs"),
    ("one", 0.1, "atomic:60 --fs f2fs --torn-pages"),
    ("one", 0.1, "random-all:80 --fs f2fs --ipu 16"),
    ("one", 0.1, "random:80 --fs f2fs --ipu 16 --torn-pages"),
    ("one", 0.1, "random-all:80 --fs f2fs --mode lfs"),
    ("one", 0.1, "overwriting --fs f2fs --ipu 16"),
    ("one", 0.1, "open_files --fs f2fs"),
    ("one", 0.1, "many_names --fs f2fs"),
    ("one", 0.1, "random-all:80 --fs f2fs --stage 1MiB"),
    ("one", 0.1, "random-all:80 --fs f2fs --stage 256KiB --device nvme-share"),
    ("one", 0.1, "random-all:80 --fs f2fs --device zns"),
    ("one", 0.1, "random-all:60 --fs f2fs --slow-one-in 6"),
    ("one", 0.1, "random-all:60 --fs f2fs --mkfs 'mkfs.f2fs -q -f $IMAGE'"),
    ("one", 0.1, "random-all:60 --fs f2fs --device mutants/devices/ocssd-fails-3000.toml"),
    ("one", 0.02, "random:8 --fs f2fs --faults"),
    ("one", 0.1, "scarce:12 --fs f2fs --stage 256KiB --cache-pages 1024 --commit-interval 5s"),
    ("one", 0.1, "random:80 --mode ordered --device nvme-960pro"),
    ("one", 0.1, "random:80 --mode ldj --device hdd-barracuda"),
    ("one", 0.1, "fileserver --mode ordered --device ftl-16g --ftl fast"),
    ("one", 0.02, "whole_flash_blocks --mode ordered --device ftl-16g --ftl fast --cache-pages 4096"),
    ("one", 0.05, "spilled_over_many_extents --mode data --nodelalloc --size 64MiB"),
    ("some", 0.05, "deep_map --mode MODE --nodelalloc --size 64MiB"),
    ("rereads", 0.01, "scattered_content --mode MODE --device sata-850pro --cache-pages 2048 --commit-interval 5s"),
    ("one", 0.01, "sparse_beside_readers --fs f2fs --slow-one-in 2"),
    ("one", 0.02, "inline_content --fs f2fs --mkfs 'sh mutants/images/inline.sh $IMAGE'"),
    ("one", 0.02, "share_into_holes --mode sdj --faults"),
    ("one", 0.1, "shares:60 --mode data --device sata-850pro"),
    ("one", 0.1, "random:80 --mode sdj --device mutants/devices/nvme-share-fails.toml"),
    ("one", 0.1, "random:80 --mode data --device mutants/devices/nvme-share-fails.toml"),
    ("some", 0.01, f"across_groups --mode MODE --size 400MiB --mkfs '{SMALL_GROUPS} $IMAGE'"),
    ("some", 0.02, f"more_inodes_than_a_group --mode MODE --size 400MiB --mkfs '{SMALL_GROUPS} -N 256 $IMAGE'"),
    ("unpadded", 0.02, "many_directories --mode MODE --cache-pages 4096 --commit-interval 60s --journal-blocks 4096"),
    ("unpadded", 0.02, "many_directories --mode MODE --cache-pages 256 --slow-one-in 2 --journal-blocks 4096"),
    ("pads", 0.02, "many_directories --mode MODE --device sata-850pro --cache-pages 4096 --journal-blocks 4096"),
]
# The part of the states that each workload of mutants/*.toml gets.
MUTANTS_SHARE = 0.02
# What modes a setup is for, as `onewrite names modes` and its scope say it.
IN_FULL_SCOPE = {"data", "data+async", "data+lazy", "data+cmp", "ldj", "sdj", "sdj+async"}


def fail(message):
    sys.exit(f"marks: {message}")


def modes(binary):
    """The modes by how their blocks come home."""
    said = subprocess.run([binary, "names", "modes"], capture_output=True, text=True, check=True).stdout
    by_kind = {}
    for line in said.splitlines():
        mode, kind = line.split()
        by_kind.setdefault(kind, []).append(mode)
    return by_kind


def setups(binary, wanted):
    """Every run: its arguments and its share."""
    by_kind = modes(binary)
    all_modes = [mode for kind in by_kind.values() for mode in kind]
    by_kind["drafts"] = [mode for mode in all_modes if mode in IN_FULL_SCOPE]
    padded = subprocess.run([binary, "names", "padded"], capture_output=True, text=True, check=True).stdout.split()
    by_kind["rereads"] = [mode for mode in padded if "+reread" in mode and "data" not in mode]
    by_kind["padded"] = [mode for mode in padded if mode not in by_kind["pads"]]
    by_kind["unpadded"] = by_kind["copies"] + by_kind["shares"]
    by_kind.update({"one": [""], "all": all_modes, "some": ["writeback", "ordered", "data", "sdj"]})
    by_kind["lean"] = [mode for mode in by_kind["unpadded"] if mode not in by_kind["some"]]
    every = {arguments.replace("MODE", mode): share for kind, share, arguments in SETUPS for mode in by_kind[kind]}
    every = {line: MUTANTS_SHARE for line in workloads_of_mutants()} | every
    return [(arguments, share) for arguments, share in every.items() if re.search(wanted, arguments)]


def workloads_of_mutants():
    """What mutants/*.toml explore: written or chosen for one bug each, and so for its situation."""
    for path in sorted((ROOT / "mutants").glob("*.toml")):
        table = tomllib.loads(path.read_text())
        for part in [table, *table.get("mutant", [])]:
            yield from part.get("explore", []) + part.get("then", [])


def explore(binary, program, arguments, states, seed, out):
    """The report of one run, with the seconds that it took. The same program says the same: it is asked once."""
    begin = time.monotonic()
    workload, *rest = shlex.split(arguments)
    workload = f"script:{SCRIPTS[workload]()}" if workload in SCRIPTS else workload
    words = ["crash", workload, *rest, "--states", str(states), "--seed", str(seed), "--jobs", "1"]
    words += ([] if "--e2fsck-every" in rest else ["--e2fsck-every", "1000"]) + ["--json", "-"]
    key = [program, *words]
    # Scripts are longer than a file's name may be.
    arguments_digest = hashlib.sha256(arguments.encode()).hexdigest()[:8]
    name = re.sub("[^a-z0-9+-]+", "-", arguments)[:80] + "-" + arguments_digest
    kept = out / f"report-{name}.json"
    if kept.is_file() and (known := json.loads(kept.read_text()))["key"] == key:
        return known["report"], known["seconds"]
    search = os.environ["PATH"] + ":/usr/sbin:/sbin"
    run = subprocess.run([binary, *words], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PATH": search})
    if run.returncode not in (0, 1) or not run.stdout:
        fail(f"{arguments}\n{run.stderr[-2000:]}")
    if run.returncode == 1:
        (out / f"broken-{name}.txt").write_text(run.stderr)
    report, took = json.loads(run.stdout), time.monotonic() - begin
    kept.write_text(json.dumps({"key": key, "digest": digest(binary), "seconds": took, "report": report}))
    return report, took


@functools.cache
def digest(path):
    """Names the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def places():
    """The file of each mark."""
    found = {}
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        name = str(path.relative_to(ROOT / "crates")).replace("/src/", "/", 1)
        for mark in re.findall(r'onewrite_block::reached!\(\s*"([^"]+)"', path.read_text()):
            found[mark] = name
    return found


def counted(reports):
    """For each mark that the sources have: room, counts, and the setups that reached it. An older program may have
    had others."""
    table, known = {}, places()
    for setup, report in reports.items():
        for mark in (mark for mark in report["marks"] if mark["name"] in known):
            row = table.setdefault(mark["name"], {"room": mark["room"], "at_cut": 0, "in_recovery": 0, "by": {}})
            row["at_cut"] += mark["at_cut"]
            row["in_recovery"] += mark["in_recovery"]
            if mark["at_cut"] + mark["in_recovery"] > 0:
                row["by"][setup] = mark["at_cut"] + mark["in_recovery"]
    return table


def told(table, setups_of_room):
    """The tables of docs/marks.md."""
    where, rooms = places(), {}
    for name, row in table.items():
        rooms.setdefault(row["room"], []).append((name, row))
    for room, rows in rooms.items():
        runs = len(setups_of_room[room])
        yield f"\n## {room}\n"
        yield f"| mark | where | at a cut | in recovery | runs of {runs} |\n|---|---|---|---|---|"
        for name, row in rows:
            seen = len(row["by"]) if row["by"] else "**none**"
            yield f"| {name} | `{where[name]}` | {row['at_cut']:,} | {row['in_recovery']:,} | {seen} |"


# Columns of the states of each mode, and the kind of a report that each adds up.
KINDS = {
    "replay something": "log-not-empty",
    "inside recovery": "inside-recovery",
    "nested": "inside-nested-recovery",
    "torn commits": "torn-commit",
    "wrapped logs": "log-wrapped",
    "forced checkpoints": "forced-checkpoint",
    "revokes": "revoke",
    "inside the device": "inside-device",
}


def states_by_mode(reports):
    """The table of how many states each mode met, fault runs left out."""
    modes = {}
    for arguments, report in reports.items():
        if "--faults" not in arguments:
            modes.setdefault(mode_of(arguments), []).append(report)
    yield f"| mode | runs | distinct states | {' | '.join(KINDS)} |\n|---|---|---|{'---|' * len(KINDS)}"
    for mode, of in modes.items():
        cells = [f"{sum(report['states_by_kind'][kind] for report in of):,}" for kind in KINDS.values()]
        yield f"| {mode} | {len(of)} | {sum(report['states'] for report in of):,} | {' | '.join(cells)} |"


def by_room(reports):
    """The setups that reached any mark of a room."""
    found = {}
    for setup, report in reports.items():
        for mark in report["marks"]:
            runs = found.setdefault(mark["room"], set())
            if mark["at_cut"] + mark["in_recovery"] > 0:
                runs.add(setup)
    return found


def write_matrix(path, table, reports):
    """Marks by setups, as tab-separated values."""
    lines = ["\t".join(["mark", *reports])]
    for name, row in table.items():
        lines.append("\t".join([name, *(str(row["by"].get(setup, 0)) for setup in reports)]))
    path.write_text("\n".join(lines) + "\n")


def shortened(arguments):
    """Arguments for a line of output: scripts are long."""
    return arguments if len(arguments) < 160 else f"{arguments[:60]} … {arguments[-80:]}"


def broken_in(reports):
    """The runs that broke a promise."""
    return [arguments for arguments, report in reports.items() if report["violations"]]


def never_seen(never, table, of_tests):
    """The marks that no run saw: why, and with the tests that reach them, as `mutants.py --marks` wrote it."""
    why, _ = marks_kinds.unseen()
    lacks = sum(name not in why for name in never)
    if lacks:
        print(f"{marks_kinds.UNSEEN.name} does not say of {lacks} marks why no run saw them", file=sys.stderr)
    yield "Never seen by these runs, why, with how many tests reach each, and the fastest of them:\n"
    yield "| mark | part | why | tests | fastest |\n|---|---|---|---|---|"
    for name in never:
        count, fastest = of_tests.get(name, (0, ""))
        of_tests_told = f"{count or '**none**'} | {fastest and f'`{fastest}`'}"
        yield f"| {name} | {table[name]['room']} | {why.get(name, '**unknown**')} | {of_tests_told} |"


def write_docs(path, table, reports, options):
    """The page, up to its mark by hand, then the last run."""
    head = path.read_text().split(HEAD)[0]
    never = [name for name, row in table.items() if not row["by"]]
    of_tests = json.loads(options.tests.read_text()) if options.tests else {}
    states = sum(report["states"] or report["judged"] for report in reports.values())
    lines = [
        head + HEAD + "\n",
        f"`scripts/marks.py --states {options.states} --seed {options.seed}`: {len(reports)} runs, {states:,} states.\n"
        f"**{len(table) - len(never)} of {len(table)} marks seen.**\n",
        *never_seen(never, table, of_tests),
        "\n## States of each mode\n",
        f"Distinct in each run; {len(broken_in(reports))} runs broke a promise.\n",
        *states_by_mode(reports),
        "\n## Marks in each kind of modes\n",
        *marks_kinds.told_by_kind(table, reports, places()),
        *told(table, by_room(reports)),
    ]
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program, built for release")
    parser.add_argument("--states", type=int, default=2000, help="states of one run of share 1 [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="seed of all runs [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side [%(default)s]")
    parser.add_argument("--program", help="reports in OUT under this name are of this program, a commit [its digest]")
    parser.add_argument("--only", default="", help="only the runs whose arguments this expression finds")
    parser.add_argument("--docs", help="write the counts into this page, docs/marks.md")
    parser.add_argument("--tests", type=pathlib.Path, help="tests of marks, as `mutants.py --marks` writes them")
    parser.add_argument("--out", default="out/crash-marks", help="directory of the table of runs [%(default)s]")
    options = parser.parse_args()
    options.binary = str(pathlib.Path(options.binary).resolve())
    runs, reports = list(setups(options.binary, options.only)), {}
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        program = options.program or digest(options.binary)
        states_of = lambda share: max(1, int(options.states * share))
        each = lambda run: explore(options.binary, program, run[0], states_of(run[1]), options.seed, out)
        for (arguments, _), (report, took) in zip(runs, pool.map(each, runs)):
            reports[arguments] = report
            seen = sum(1 for mark in report["marks"] if mark["at_cut"] + mark["in_recovery"] > 0)
            print(f"{took:6.1f} s  {report['judged']:7} judged  {seen:4} marks  {shortened(arguments)}", flush=True)
    table = counted(reports)
    write_matrix(out / "marks.tsv", table, reports)
    if options.docs:
        write_docs(pathlib.Path(options.docs), table, reports, options)
    never = [name for name, row in table.items() if not row["by"]]
    print(f"{len(table) - len(never)} of {len(table)} marks seen; never: {'; '.join(never) or 'none'}")
    broken = broken_in(reports)
    names = "; ".join(map(shortened, broken))
    print(f"{len(broken)} of {len(reports)} runs broke a promise: {names or 'none'}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
