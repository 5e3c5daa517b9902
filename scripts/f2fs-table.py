#!/usr/bin/env python3
"""F2FS beside ext4 on five devices: speed, bytes by cause, write amplification, erases, as tables in Markdown.

    scripts/f2fs-table.py PROGRAM > docs/f2fs-measured.md

Virtual time, seed 1: the same program gives the same file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

OVERWRITE = "[overwrite]\nrw=randwrite\nbs=4k\nsize=256m\nio_size=192m\nfsync=16\n"
JOBS = {
    "varmail": ["varmail", "--runtime", "3s"],
    "fileserver": ["fileserver", "--operations", "60000", "--size", "4GiB"],
    "overwrite": [],  # a job file
}
PLAIN = "ordered,data,f2fs"
WITH_SHARE = "ordered,data,sdj,f2fs,f2fs+share"
DEVICES = {
    "sata-850pro": PLAIN,
    "nvme-share": WITH_SHARE,
    "microsd-patriot": PLAIN,
    "microsd-adata": PLAIN,
    "ocssd-huawei": PLAIN,
}
CAUSES = ["data", "metadata", "journal", "checkpoint", "cleaning"]


def commit() -> str:
    """The commit of the tree that this script is in; the program should be of it."""
    tree = Path(__file__).resolve().parent
    said = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=tree, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


HEAD = """# F2FS beside ext4, measured

`scripts/f2fs-table.py PROGRAM` writes this file: emulated devices of 1 GiB (4 GiB for `fileserver`), virtual time,
64 MiB of page cache, seed 1. `varmail` runs for 3 s, `fileserver` for 60,000 operations; `overwrite` is a fio job that
overwrites 192 MiB in pages of 4 KiB at random in a file of 256 MiB, with an fsync behind each sixteenth page. On
`ocssd-huawei` ext4 runs over PFTL, and F2FS on the flash itself. MB by cause are those that reached the device; "flash"
is flash programmed for each byte that the job wrote (the file sets of `varmail`, 14 MB, and `fileserver`, 1.2 GB, are
laid out before and count for the device alone; on the memory cards that of `varmail` is most of the bytes); WAF is
flash programmed for each byte that reached the device. Devices are new, not aged, so little is erased. An erase is one
of what the device erases at once: 2 MiB on `sata-850pro`, 512 KiB on `nvme-share`, 4 MiB on the cards; on
`ocssd-huawei` a zone, a block of each of its 16 units (16 MiB at 1 GiB, 32 MiB at 4 GiB), under PFTL, too.
Commit COMMIT.
"""


def measure(program: str, device: str, modes: str, job: list[str]) -> list[dict]:
    """The reports of a comparison, one for each mode."""
    arguments = [program, "compare", *job, "--modes", modes, "--device", device]
    arguments += ["--cuts", "0", "--quiet", "--json", "-"]
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def row(report: dict) -> str:
    """One line of a table."""
    told = report["onewrite"]
    device = told["device"]
    causes = " | ".join(f"{device['host_write_bytes_by_cause'][cause] / 1e6:.1f}" for cause in CAUSES)
    spread = [device["flash_bytes_per_application_byte"], device["waf"]]
    spread = " | ".join("–" if value is None else f"{value:.2f}" for value in spread)
    speed, flushes, erases = (f"{n:,.0f}" for n in (told["operations_per_second"], device["flushes"], device["erases"]))
    return f"| {told['fs']['mode']} | {speed} | {causes} | {flushes} | {spread} | {erases} |"


def main() -> None:
    """Prints the file."""
    program = sys.argv[1]
    print(HEAD.replace("COMMIT", commit()))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "overwrite.fio"
        file.write_text(OVERWRITE)
        for name, job in JOBS.items():
            for device, modes in DEVICES.items():
                print(f"## {name} on {device}\n")
                print(f"| mode | operations/s | {' | '.join(CAUSES)} | FLUSHes | flash | WAF | erases |")
                print("|---|---|---|---|---|---|---|---|---|---|---|")
                for report in measure(program, device, modes, job or [str(file)]):
                    print(row(report))
                print(flush=True)


if __name__ == "__main__":
    main()
