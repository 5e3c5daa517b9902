//! Memory of `onewrite run`: 4 KiB overwrites with an fsync after each, 262,144 of them and four times as many.

use std::path::Path;
use std::process::{Command, Stdio};

use onewrite_testing::verdict;

use crate::OURS;

const FSYNCS: u64 = 262_144;
/// Most that the longer run may take of what the shorter takes.
const WANTED: f64 = 1.25;
const CELLS: [(&str, &str); 2] = [("ordered", "nvme-share"), ("data", "sata-850pro")];

/// Most resident memory of a run with so many fsyncs, in MiB.
#[expect(clippy::disallowed_methods, reason = "another process runs in real time")]
fn ours(scratch: &Path, (mode, device): (&str, &str), fsyncs: u64) -> f64 {
    let job = scratch.join("memory.fio");
    let text = format!("[w]\nrw=randwrite\nbs=4k\nsize=64m\nfsync=1\nio_size={}k\n", 4 * fsyncs);
    std::fs::write(&job, text).expect("room");
    let mut command = Command::new(OURS);
    command.args(["-q", "run", "--mode", mode, "--device", device]).arg(&job);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the command starts");
    let mut most = 0.0_f64;
    // The kernel keeps the peak while the process lives.
    while child.try_wait().expect("it is ours").is_none() {
        most = most.max(peak_mib(child.id()).unwrap_or(0.0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().expect("it is ours").success(), "{command:?}");
    most
}

fn peak_mib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

pub fn compare(scratch: &Path) {
    for cell in CELLS {
        let (short, long) = (ours(scratch, cell, FSYNCS), ours(scratch, cell, 4 * FSYNCS));
        println!(
            "memory {} {}: {short:.0} MiB after {FSYNCS} fsyncs, {long:.0} after four times as many (wanted {WANTED} \
             times at most): {}",
            cell.0,
            cell.1,
            verdict(long <= WANTED * short)
        );
    }
}
