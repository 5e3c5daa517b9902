//! Group commit: fsyncs per commit over threads, the kernel's ext4 beside ours, where FLUSH takes 1, 5 and 20 ms.
//!
//! `make group-commit`, as root, prints the tables of `docs/kernel-parity.md`. The kernel runs on a loop device over a
//! FUSE file whose fsync takes so long ([`slow_disk`]), so that the time of a commit is the device's; ours runs the
//! same jobs in virtual time. Arguments choose: `-- 5 append` is FLUSH of 5 ms and one job, `-- ours` leaves the kernel
//! out and needs no root.

mod jobs;
mod kernel;
mod ours;
mod slow_disk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobs::{Figures, Job, Mode};
use slow_disk::SlowDisk;

const TASKS: [u64; 11] = [1, 2, 4, 8, 10, 12, 15, 16, 17, 24, 32];
const FLUSHES_MS: [u64; 3] = [1, 5, 20];

fn main() {
    // `cargo test` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let only_ours = is_given("ours");
    if !only_ours && (!rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists()) {
        println!("SKIPPED: mounts and loop devices need root and /dev/fuse; `-- ours` needs neither");
        return;
    }
    // The loop device and the mounts go when their owners are dropped, so an interrupt ends the run between two cells.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).expect("a handler");
    }
    for flush_ms in chosen(&FLUSHES_MS, |flush_ms| flush_ms.to_string()) {
        let flush = Duration::from_millis(flush_ms);
        let disk = (!only_ours).then(|| SlowDisk::new(flush));
        for job in chosen(&Job::ALL, |job| job.name().to_owned()) {
            let rows = TASKS.map(|tasks| Row::measure(disk.as_ref(), flush, job, tasks, &stop));
            if stop.load(Ordering::Relaxed) {
                return;
            }
            print(&format!("{}, FLUSH of {flush_ms} ms", job.name()), &rows);
        }
    }
}

fn is_given(word: &str) -> bool {
    std::env::args().any(|argument| argument == word)
}

/// Those of `all` that the arguments name; all if they name none.
fn chosen<T: Copy>(all: &[T], name: impl Fn(T) -> String) -> Vec<T> {
    let named: Vec<T> = all.iter().copied().filter(|one| is_given(&name(*one))).collect();
    if named.is_empty() { all.to_vec() } else { named }
}

/// One number of threads: the kernel's figures and ours in each mode.
struct Row {
    tasks: u64,
    cells: Vec<(Option<Figures>, Figures)>,
}

impl Row {
    fn measure(disk: Option<&SlowDisk>, flush: Duration, job: Job, tasks: u64, stop: &AtomicBool) -> Row {
        let span = (150 * flush).clamp(Duration::from_secs(1), Duration::from_secs(2));
        let going = || !stop.load(Ordering::Relaxed);
        let cells = Mode::ALL.into_iter().take_while(|_| going()).map(|mode| {
            let ours = ours::run(flush, mode, job, tasks, span);
            let kernel = disk.map(|disk| kernel::run(disk, mode, job, tasks, span));
            if let Some(kernel) = &kernel {
                eprintln!("{} {flush:?} {} {tasks}: {}", job.name(), mode.name(), kernel.note);
            }
            (kernel, ours)
        });
        Row { tasks, cells: cells.collect() }
    }
}

type Figure = fn(&Figures) -> f64;

fn print(title: &str, rows: &[Row]) {
    let figures: [(&str, Figure); 4] = [
        ("fsyncs per commit", Figures::syncs_per_commit),
        ("KiB written per fsync", Figures::kib_per_sync),
        ("FLUSHes per commit", Figures::flushes_per_commit),
        ("fsyncs a second", Figures::syncs_per_second),
    ];
    for (name, figure) in figures {
        println!("\n{title}: {name}, kernel / ours\n");
        println!("| threads | {} |", Mode::ALL.map(Mode::name).join(" | "));
        println!("|---:|{}", "---:|".repeat(Mode::ALL.len()));
        for row in rows {
            let cell = |(kernel, ours): &(Option<Figures>, Figures)| match kernel {
                Some(kernel) => format!("{} / {}", short(figure(kernel)), short(figure(ours))),
                None => short(figure(ours)),
            };
            println!("| {} | {} |", row.tasks, row.cells.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
    }
}

fn short(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}
