//! Programs as people run them: `git status` and `cargo build`, in seconds, beside the kernel's ext4. The tree is made
//! by a script on the file system itself; the best of the rounds counts.

use std::fs;
use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::systems::{Mounted, System};
use crate::workloads::now;

/// Files of the repository, in directories of a hundred.
const FILES: u32 = 5000;
/// Crates that one build compiles, and functions of each.
const CRATES: u32 = 6;
const FUNCTIONS: u32 = 300;
/// Ours may take so many times what the kernel's ext4 takes.
const WANTED: f64 = 1.5;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// Nothing of the tree is in the kernel's caches.
    GitStatusCold,
    GitStatusWarm,
    CargoBuild,
}

impl Program {
    const ALL: [Program; 3] = [Program::GitStatusCold, Program::GitStatusWarm, Program::CargoBuild];

    fn name(self) -> &'static str {
        match self {
            Program::GitStatusCold => "git status, caches dropped, s",
            Program::GitStatusWarm => "git status again, s",
            Program::CargoBuild => "cargo build, s",
        }
    }

    fn is_possible(self) -> bool {
        let program = if self == Program::CargoBuild { "cargo" } else { "git" };
        let is_there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        if !is_there {
            println!("SKIPPED: {}: no {program}", self.name());
        }
        is_there
    }

    fn seconds(self, root: &Path) -> f64 {
        match self {
            Program::GitStatusCold => {
                make_repository(&root.join("repository"));
                fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
                status(root)
            }
            Program::GitStatusWarm => status(root),
            Program::CargoBuild => {
                make_workspace(&root.join("workspace"));
                timed(root, "cd workspace && cargo build --quiet --offline")
            }
        }
    }
}

/// Runs every program on ours, fuse2fs, the kernel's and the host's file system, and on a relay, which shows what FUSE
/// costs, and prints the table.
pub fn compare(rounds: usize) {
    let all = [
        System::Ours("ordered"),
        System::Ours("data+async"),
        System::Fuse2fs,
        System::Kernel("kernel", "data=ordered"),
        System::Relay,
        System::Host,
    ];
    let systems: Vec<System> = all.into_iter().filter(System::is_possible).collect();
    let programs: Vec<Program> = Program::ALL.into_iter().filter(|program| program.is_possible()).collect();
    let mut best = vec![vec![f64::INFINITY; systems.len()]; programs.len()];
    for round in 1..=rounds {
        for (column, system) in systems.iter().enumerate() {
            eprintln!("round {round} of {rounds}: programs on {}", system.name());
            let Some(mounted) = system.mount() else { continue };
            measure(&mounted, &programs, |row, seconds| best[row][column] = best[row][column].min(seconds));
        }
    }
    print(&systems, &programs, &best);
}

fn measure(mounted: &Mounted, programs: &[Program], mut measured: impl FnMut(usize, f64)) {
    for (row, program) in programs.iter().enumerate() {
        measured(row, program.seconds(&mounted.path()));
    }
}

fn print(systems: &[System], programs: &[Program], best: &[Vec<f64>]) {
    println!("\nprograms, best of the rounds");
    print!("{:34}", "");
    systems.iter().for_each(|system| print!(" {:>14}", system.name()));
    println!();
    let kernel = systems.iter().position(|system| system.name() == "kernel");
    for (program, seconds) in programs.iter().zip(best) {
        print!("{:34}", program.name());
        seconds.iter().for_each(|seconds| print!(" {seconds:>14.3}"));
        println!();
        let Some(kernel) = kernel else { continue };
        for (system, own) in systems.iter().zip(seconds).filter(|(system, _)| matches!(system, System::Ours(_))) {
            let ratio = own / seconds[kernel];
            let verdict = verdict(ratio <= WANTED);
            println!("    {} / kernel {ratio:.2} (wanted at most {WANTED}): {verdict}", system.name());
        }
    }
}

fn status(root: &Path) -> f64 {
    timed(root, "cd repository && git -c safe.directory='*' status --porcelain")
}

/// Seconds that a script takes; it must succeed and print nothing.
fn timed(root: &Path, script: &str) -> f64 {
    let begin = now();
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let seconds = (now() - begin).as_secs_f64();
    assert!(output.status.success() && output.stdout.is_empty(), "{script}: {output:?}");
    seconds
}

fn make_repository(root: &Path) {
    for directory in 0..FILES / 100 {
        let path = root.join(format!("d{directory}"));
        fs::create_dir_all(&path).unwrap();
        (0..100).for_each(|file| {
            fs::write(path.join(format!("f{file}")), format!("{directory} {file}\n").repeat(100)).unwrap()
        });
    }
    let script = "cd repository; git init -q .; git -c safe.directory='*' add .;
git -c safe.directory='*' -c user.name=a -c user.email=a@b commit -q -m all; sync";
    timed(root.parent().unwrap(), script);
}

fn make_workspace(root: &Path) {
    for number in 0..CRATES {
        let path = root.join(format!("c{number}"));
        fs::create_dir_all(path.join("src")).unwrap();
        let manifest = format!("[package]\nname = \"c{number}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        fs::write(path.join("Cargo.toml"), manifest).unwrap();
        let functions: String = (0..FUNCTIONS)
            .map(|at| {
                format!("pub fn f{at}(x: &[u64]) -> Vec<u64> {{ x.iter().map(|y| y.wrapping_mul({at})).collect() }}\n")
            })
            .collect();
        fs::write(path.join("src/lib.rs"), functions).unwrap();
    }
    fs::write(root.join("Cargo.toml"), "[workspace]\nmembers = [\"c*\"]\nresolver = \"2\"\n").unwrap();
}
