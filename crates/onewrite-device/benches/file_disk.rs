//! The file disk in wall time: blocking calls, threads and io_uring, each through the host's page cache and past it.
//!
//! `cargo bench --bench file_disk [-- DIRECTORY]`. The file (256 MiB) is in DIRECTORY; the default is the directory for
//! temporary files. Each line is the median of three rounds, which take turns.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use onewrite_block::{
    Cause, Choices, DevicePort, Executor, HostProfile, Lpn, MIB, Nanos, PAGE_SIZE, Page, Pattern, Request, Time,
};
use onewrite_device::{FileDisk, Submission};

const BYTES: u64 = 256 * MIB;
const PAGES: u64 = BYTES / PAGE_SIZE as u64;
const ROUNDS: usize = 3;
/// Writes of one task between two FLUSHes.
const BATCH: u64 = 32;

#[derive(Clone, Copy, Debug)]
enum Way {
    Cached,
    Direct,
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Reads,
    /// Without a FLUSH.
    Fills,
    /// Each task flushes after [`BATCH`] writes.
    Writes,
    /// A FLUSH after each write.
    Syncs,
}

fn main() {
    let directory = std::env::args().nth(1).filter(|argument| !argument.starts_with("--"));
    let directory = directory.map_or_else(std::env::temp_dir, PathBuf::from);
    let file = directory.join(format!("onewrite-bench-{}.img", std::process::id()));
    fill(&file);
    println!("{:8} {:7} {:>5} {:>12} {:>12} {:>12}", "path", "load", "depth", "blocking/s", "threads/s", "ring/s");
    for path in [Way::Cached, Way::Direct] {
        for load in [Load::Reads, Load::Fills, Load::Writes, Load::Syncs] {
            for depth in [1, 32] {
                report(&file, path, load, depth);
            }
        }
    }
    std::fs::remove_file(&file).expect("it was made here");
}

fn fill(file: &Path) {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(FileDisk::create(file, BYTES).expect("a file")));
    let work = async move {
        for start in (0..PAGES).step_by(256) {
            let pages = (start..start + 256).map(content).collect();
            port.request(Request::write(Lpn(start), pages, Cause::Data)).await.expect("room");
        }
        port.request(Request::flush(Cause::Data)).await.expect("a disk");
    };
    executor.block_on(work).expect("nothing halts");
}

fn content(seed: u64) -> Page {
    Page::new(Pattern { seed, compressible_percent: 0 }.bytes())
}

fn report(file: &Path, path: Way, load: Load, depth: u64) {
    let ways = [Submission::Blocking, Submission::Threads, Submission::Ring];
    let mut rates = ways.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (way, rates) in ways.iter().zip(&mut rates) {
            rates.push(rate(file, path, load, depth, *way));
        }
    }
    let [blocking, threads, ring] = rates.map(|mut rates| {
        rates.sort_unstable();
        rates[ROUNDS / 2]
    });
    println!("{path:8?} {load:7?} {depth:5} {blocking:12} {threads:12} {ring:12}");
}

/// Reads or writes per second, without FLUSHes.
fn rate(file: &Path, path: Way, load: Load, depth: u64, way: Submission) -> u64 {
    let disk = match path {
        Way::Cached => FileDisk::open(file).expect("a file"),
        Way::Direct => FileDisk::open_direct(file).expect("a file"),
    };
    let requests = match (path, load) {
        (Way::Cached, Load::Reads | Load::Fills) => 40_000,
        (Way::Cached, Load::Writes) => 20_000,
        (_, Load::Syncs) => 320,
        (Way::Direct, _) => 3_200,
    };
    let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::ideal());
    let port = executor.runtime().attach(Box::new(disk.submitting(way)));
    let runtime = executor.runtime();
    let page = content(1);
    let span = executor.block_on(async move {
        let begin = runtime.now();
        let choices = Choices::new(7);
        let tasks: Vec<_> = (0..depth)
            .map(|task| {
                let (port, chance, page) = (port.clone(), choices.stream("task", task), page.clone());
                runtime.start(carry_out(port, chance, page, load, requests / depth))
            })
            .collect();
        for task in tasks {
            task.await;
        }
        runtime.now() - begin
    });
    requests * 1_000_000_000 / span.expect("nothing halts").0
}

async fn carry_out(port: DevicePort, mut chance: Choices, page: Page, load: Load, requests: u64) {
    let port = Rc::new(port);
    for number in 1..=requests {
        let lpn = Lpn(chance.below(PAGES));
        let request = match load {
            Load::Reads => Request::read(lpn, 1, Cause::Data),
            _ => Request::write(lpn, vec![page.clone()], Cause::Data),
        };
        port.request(request).await.expect("a disk");
        let flushes = match load {
            Load::Reads | Load::Fills => false,
            Load::Writes => number.is_multiple_of(BATCH),
            Load::Syncs => true,
        };
        if flushes {
            port.request(Request::flush(Cause::Data)).await.expect("a disk");
        }
    }
}
