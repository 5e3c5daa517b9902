//! `onewrite run` on a real file beside fio on the kernel's ext4 over a loop device, on the same disk: 4 KiB random
//! writes, fsync every 8 or 1, one job and eight.

use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::{OURS, is_there, median};

const ROUNDS: usize = 3;
/// Our mode, the kernel's option, jobs, writes for each fsync, and the least that we want of the kernel's rate.
const CELLS: [(&str, &str, u32, u32, f64); 8] = [
    ("ordered", "ordered", 1, 8, 0.9),
    ("ordered", "ordered", 1, 1, 0.9),
    ("ordered", "ordered", 8, 8, 1.0),
    ("ordered", "ordered", 8, 1, 1.0),
    ("data", "journal", 1, 8, 1.5),
    ("data", "journal", 1, 1, 1.5),
    ("data", "journal", 8, 8, 1.5),
    ("data", "journal", 8, 1, 1.5),
];

/// Writes a second from results in fio's shape.
pub fn rate(json: &[u8]) -> f64 {
    let results: serde_json::Value = serde_json::from_slice(json).expect("results are JSON");
    let jobs = results["jobs"].as_array().expect("results have jobs");
    jobs.iter().map(|job| job["write"]["iops"].as_f64().expect("a rate")).sum()
}

/// Standard output of a command that must succeed.
pub fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn ours(scratch: &Path, job: &Path, mode: &str) -> f64 {
    let image = scratch.join("ours.img");
    // As the kernel's: a new file, so that either side's FLUSHes commit the host's allocations, too.
    let _ = std::fs::remove_file(&image);
    let mut command = Command::new(OURS);
    command.args(["-q", "run", "--force", "--size", "1GiB", "--mode", mode, "--json", "-", "--device"]);
    rate(&output(command.arg(&image).arg(job)))
}

fn kernel(scratch: &Path, job: &Path, option: &str) -> f64 {
    let (image, mount) = (scratch.join("kernel.img"), scratch.join("mnt"));
    std::fs::create_dir_all(&mount).expect("room");
    output(Command::new("truncate").args(["-s", "1G"]).arg(&image));
    output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
    output(Command::new("mount").args(["-o", &format!("loop,data={option}")]).args([&image, &mount]));
    let found = Command::new("fio").arg("--output-format=json").arg("--directory").arg(&mount).arg(job).output();
    output(Command::new("umount").arg(&mount));
    std::fs::remove_file(&image).expect("it was made");
    let found = found.expect("fio starts");
    assert!(found.status.success(), "fio: {}", String::from_utf8_lossy(&found.stderr));
    rate(&found.stdout)
}

pub fn compare(scratch: &Path) {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: a loop device needs root");
    }
    if !["fio", "losetup", "mkfs.ext4"].into_iter().all(is_there) {
        return;
    }
    for (mode, option, jobs, writes, wanted) in CELLS {
        let job = scratch.join("job.fio");
        let text = format!(
            "[global]\nrw=randwrite\nbs=4k\nsize=32m\nioengine=psync\nruntime=3\ntime_based\ngroup_reporting\n\
             fsync={writes}\nnumjobs={jobs}\n[w]\n"
        );
        std::fs::write(&job, text).expect("room");
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            own.push(ours(scratch, &job, mode));
            other.push(kernel(scratch, &job, option));
        }
        let (own, other) = (median(&mut own), median(&mut other));
        let verdict = verdict(own / other >= wanted);
        println!(
            "disk {jobs} jobs, fsync every {writes}: {mode} {own:.0} writes/s, kernel {option} {other:.0}, ratio {:.2} \
             (wanted {wanted}): {verdict}",
            own / other
        );
    }
}
