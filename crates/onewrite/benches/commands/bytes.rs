//! Bytes that reach the device for each byte of 4 KiB overwrites, where an fsync takes microseconds (profile `ideal`).

use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::OURS;

/// Mode, writes for each fsync, and the most that we want: half of the kernel's pages, or no more than the kernel.
const CELLS: [(&str, u32, f64); 6] = [
    ("sdj+async", 1, 3.1),
    ("sdj+async", 8, 1.3),
    ("data", 1, 4.07),
    ("data", 8, 2.26),
    ("ordered", 1, 1.07),
    ("ordered", 8, 1.03),
];
/// The file is written once before it is overwritten 20 times.
const LAYOUT: f64 = 0.05;

fn ours(scratch: &Path, mode: &str, writes: u32) -> f64 {
    let job = scratch.join("overwrite.fio");
    let text = format!("[w]\nrw=randwrite\nbs=4k\nsize=16m\noverwrite=1\nio_size=320m\nfsync={writes}\n");
    std::fs::write(&job, text).expect("room");
    let mut command = Command::new(OURS);
    let output = command.args(["-q", "run", "--device", "ideal", "--mode", mode, "--json", "-"]).arg(&job).output();
    let output = output.expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("results are JSON");
    let figures = &results["onewrite"];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    number(&figures["device"]["host_write_bytes"]) / number(&figures["total"]["write"]["io_bytes"])
}

pub fn compare(scratch: &Path) {
    for (mode, writes, wanted) in CELLS {
        let all = ours(scratch, mode, writes);
        let own = all - LAYOUT;
        println!(
            "bytes {mode}, fsync every {writes}: {all:.3} with the layout, {own:.3} without (wanted {wanted}): {}",
            verdict(own <= wanted)
        );
    }
}
