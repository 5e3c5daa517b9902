//! Small synchronous writes on a real file: `onewrite run` in several mechanisms beside fio on the kernel's ext4, XFS
//! and Btrfs over a loop device, on the same disk. Rates, and bytes that reach the device for each byte written.

use std::path::Path;
use std::process::Command;

use crate::disk::{output, rate};
use crate::{OURS, is_there, median};

const ROUNDS: usize = 3;
/// What we run, as options of `onewrite run`.
const OWN: [(&str, &[&str]); 5] = [
    ("ordered", &["--mode", "ordered"]),
    ("data+async", &["--mode", "data+async"]),
    ("ldj", &["--mode", "ldj"]),
    ("f2fs", &["--fs", "f2fs"]),
    ("f2fs+stage", &["--fs", "f2fs", "--stage", "128MiB"]),
];
/// A file system of the kernel, and how it is made.
const KERNEL: [(&str, &[&str]); 3] = [
    ("ext4", &["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
    ("xfs", &["mkfs.xfs", "-q", "-f"]),
    ("btrfs", &["mkfs.btrfs", "-q", "-f"]),
];
/// Jobs side by side, and how each writes its 1 KiB: over a file of 4 MiB at random, or behind each other.
const JOBS: [(u32, &str); 4] = [(1, "randwrite"), (8, "randwrite"), (1, "write"), (8, "write")];
/// Bytes that all jobs write, in a measured run; and in one that is taken off from it, for mkfs, mount and unmount.
const BYTES: u64 = 2 << 20;
const NO_BYTES: u64 = 8 << 10;

/// Writes a second, and bytes written to the device.
type Figures = (f64, f64);

fn job(path: &Path, (jobs, how): (u32, &str), bytes: u64) {
    let text = format!(
        "[global]\nrw={how}\nbs=1k\nsize=4m\nioengine=psync\nfsync=1\nnorandommap=1\nbuffer_compress_percentage=50\n\
         group_reporting\nnumjobs={jobs}\nio_size={}\n[w]\n",
        bytes / u64::from(jobs)
    );
    std::fs::write(path, text).expect("room");
}

fn ours(scratch: &Path, job: &Path, options: &[&str]) -> Figures {
    let image = scratch.join("ours.img");
    let _ = std::fs::remove_file(&image);
    let mut command = Command::new(OURS);
    command.args(["-q", "run", "--force", "--size", "2GiB", "--json", "-", "--device"]).arg(&image).args(options);
    let json = output(command.arg(job));
    let results: serde_json::Value = serde_json::from_slice(&json).expect("results are JSON");
    (rate(&json), results["onewrite"]["device"]["host_write_bytes"].as_f64().expect("a number"))
}

fn kernel(scratch: &Path, job: &Path, (name, mkfs): (&str, &[&str])) -> Figures {
    let (image, mount) = (scratch.join("kernel.img"), scratch.join("mnt"));
    std::fs::create_dir_all(&mount).expect("room");
    output(Command::new("truncate").args(["-s", "2G"]).arg(&image));
    let device = String::from_utf8(output(Command::new("losetup").args(["-f", "--show"]).arg(&image))).expect("a name");
    let device = device.trim();
    let before = written(device);
    output(Command::new(mkfs[0]).args(&mkfs[1..]).arg(device));
    output(Command::new("mount").args(["-t", name, device]).arg(&mount));
    let found = Command::new("fio").arg("--output-format=json").arg("--directory").arg(&mount).arg(job).output();
    output(Command::new("umount").arg(&mount));
    let bytes = written(device) - before;
    output(Command::new("losetup").args(["-d", device]));
    std::fs::remove_file(&image).expect("it was made");
    let found = found.expect("fio starts");
    assert!(found.status.success(), "fio: {}", String::from_utf8_lossy(&found.stderr));
    (rate(&found.stdout), bytes)
}

/// Bytes written to a loop device since it was attached: the seventh field counts sectors of 512.
fn written(device: &str) -> f64 {
    let path = format!("/sys/block/{}/stat", device.trim_start_matches("/dev/"));
    let text = std::fs::read_to_string(path).expect("the device's counters");
    text.split_whitespace().nth(6).and_then(|field| field.parse::<f64>().ok()).expect("a number") * 512.0
}

/// Median rate and bytes for each byte of a job, `run` told which job file to take.
fn measured(scratch: &Path, how: (u32, &str), run: &dyn Fn(&Path) -> Figures) -> Figures {
    let path = scratch.join("job.fio");
    let (mut rates, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        job(&path, how, NO_BYTES);
        let (_, without) = run(&path);
        job(&path, how, BYTES);
        let (rate, with) = run(&path);
        rates.push(rate);
        bytes.push((with - without) / (BYTES - NO_BYTES) as f64);
    }
    (median(&mut rates), median(&mut bytes))
}

pub fn compare(scratch: &Path) {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: a loop device needs root");
    }
    if !["fio", "losetup", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"].into_iter().all(is_there) {
        return;
    }
    for how in JOBS {
        let tell = |name: &str, (rate, bytes): Figures| {
            println!(
                "beside {} jobs, {}, 1 KiB, fsync each: {name} {rate:.0} writes/s, {bytes:.2} bytes/byte",
                how.0, how.1
            );
        };
        for (name, mkfs) in KERNEL {
            tell(&format!("kernel's {name}"), measured(scratch, how, &|job| kernel(scratch, job, (name, mkfs))));
        }
        for (name, options) in OWN {
            tell(name, measured(scratch, how, &|job| ours(scratch, job, options)));
        }
    }
}
