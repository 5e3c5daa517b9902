//! `onewrite crash`: distinct crash states that it judges in a second of processor time.

use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::{OURS, median, seconds};

const ROUNDS: usize = 3;
const STATES: u64 = 10_000;
/// Mode, or F2FS, and device, and the least states a second that we want.
const CELLS: [(&str, &str, f64); 10] = [
    ("ordered", "", 2000.0),
    ("data", "", 2000.0),
    ("sdj", "nvme-share", 1000.0),
    ("ldj", "", 1000.0),
    ("ordered", "sata-850pro", 1000.0),
    ("data", "sata-850pro", 1000.0),
    ("ldj", "sata-850pro", 1000.0),
    ("f2fs", "", 1000.0),
    ("f2fs", "sata-850pro", 1000.0),
    ("f2fs", "ocssd-huawei", 1000.0),
];

fn ours(scratch: &Path, mode: &str, device: &str) -> f64 {
    let mut command = Command::new(OURS);
    let chooser = if mode == "f2fs" { "--fs" } else { "--mode" };
    command.current_dir(scratch).args(["-q", "crash", "random:60", "--jobs", "1", chooser, mode]);
    // Glances take two runs for some forty states; what they cost says little of the speed of judging.
    command.args(["--states", &STATES.to_string(), "--thorough-every", "1"]);
    if !device.is_empty() {
        command.args(["--device", device]);
    }
    STATES as f64 / seconds(&mut command)
}

pub fn compare(scratch: &Path) {
    for (mode, device, wanted) in CELLS {
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| ours(scratch, mode, device)).collect();
        let rate = median(&mut rates);
        println!("crash {mode} {device}: {rate:.0} states/s (wanted {wanted:.0}): {}", verdict(rate >= wanted));
    }
}
