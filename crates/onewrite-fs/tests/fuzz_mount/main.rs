//! Seeded mutations of images and logs, mounted and used: no panic, no hang, bounded memory; any error is fine.
//!
//! In half of the runs the mutation corrects all checksums, to test the code behind the checksum checks. Seed and case
//! identify a run; `ONEWRITE_SEED`, `ONEWRITE_FIRST` and `ONEWRITE_CASES=1` replay it. The deep run is
//!
//! ```text
//! ONEWRITE_CASES=1000000 cargo test -p onewrite-fs --test fuzz_mount -- --ignored --nocapture
//! ```
//!
//! A program of its own: it sets the panic hook and measures the memory of its process.

#[path = "../support/mod.rs"]
mod support;

mod log;
mod mutation;
mod specimen;
mod usage;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onewrite_block::Choices;
use specimen::{Specimen, specimens};
use support::Scratch;
use usage::{End, try_out};

/// Limit for a single run; a normal run takes about a millisecond.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit for the memory of the whole process.
const MEMORY_MAX_KIB: u64 = 1024 * 1024;

static CASES_DONE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run_case(specimens: &[Specimen], seed: u64, case: u64) -> (&str, Result<End, String>) {
    let mut choices = Choices::new(seed).stream("fuzz", case);
    let specimen = &specimens[choices.index(specimens.len())];
    let is_sealed = case % 2 == 1;
    let image = mutation::mutate(specimen, &mut choices, is_sealed);
    (&specimen.name, try_out(image, choices))
}

/// Stops the process if a case exceeds [`PATIENCE`].
#[expect(clippy::disallowed_methods, reason = "a watch over code that may never give the thread back")]
fn watch(seed: u64, first: u64) {
    std::thread::spawn(move || {
        loop {
            let before = CASES_DONE.load(Ordering::Relaxed);
            std::thread::sleep(PATIENCE);
            if CASES_DONE.load(Ordering::Relaxed) == before {
                eprintln!("hang: seed {seed}, case {}", first + before);
                std::process::exit(3);
            }
        }
    });
}

/// Peak memory of the process, if Linux reports it.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[derive(Default)]
struct Tally {
    ends: [u64; 3],
    failures: BTreeMap<String, (u64, u64)>,
}

fn fuzz(name: &str, seed: u64, cases: u64) -> Tally {
    let scratch = Scratch::new(name);
    let specimens = specimens(&scratch);
    let first = number_from("ONEWRITE_FIRST", 0);
    watch(seed, first);
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
        let said = info.payload_as_str().unwrap_or_default();
        LAST_PANIC.set(format!("{place}: {said}"));
    }));
    let mut tally = Tally::default();
    for case in first..first + cases {
        // A panic during the cleanup of a case also fails the case.
        let run = catch_unwind(AssertUnwindSafe(|| run_case(&specimens, seed, case)));
        let (specimen, outcome) = run.unwrap_or_else(|_| ("", Err("panic".into())));
        match outcome {
            Ok(end) => tally.ends[end as usize] += 1,
            Err(problem) => {
                let said = if problem == "panic" { LAST_PANIC.take() } else { format!("{specimen}: {problem}") };
                let place: String = said.chars().filter(|letter| !letter.is_ascii_digit()).take(110).collect();
                let line = said.split(": ").next().unwrap_or_default().to_owned();
                tally.failures.entry(format!("{line} {place}")).or_insert((0, case)).0 += 1;
            }
        }
        CASES_DONE.fetch_add(1, Ordering::Relaxed);
        if case % 100_000 == 99_999 {
            eprintln!("{} cases, {:?}, {} KiB", case + 1 - first, tally.ends, memory_kib());
        }
    }
    drop(std::panic::take_hook());
    tally
}

fn assert_sound(tally: &Tally, seed: u64, cases: u64) {
    let [refused, complained, silent] = tally.ends;
    eprintln!("{cases} mutated images: {refused} refused, {complained} complained, {silent} silent");
    let line = |(what, (times, case)): (&String, &(u64, u64))| format!("{times} times, first case {case}: {what}");
    let failures: Vec<String> = tally.failures.iter().map(line).collect();
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    let memory = memory_kib();
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB");
    if cases >= 1_000 {
        // Otherwise the mutations were too strong to test the code behind the mount's checks, or too weak to damage
        // anything.
        assert!(tally.ends.iter().all(|&end| end > cases / 20), "{:?}", tally.ends);
    }
}

#[test]
fn mutated_images_and_logs_neither_panic_nor_hang() {
    let (seed, cases) = (number_from("ONEWRITE_SEED", 1), number_from("ONEWRITE_CASES", 2_000));
    assert_sound(&fuzz("fuzz-short", seed, cases), seed, cases);
}

#[test]
#[ignore = "the deep run: minutes to hours"]
fn a_million_mutated_images_and_logs_neither_panic_nor_hang() {
    let (seed, cases) = (number_from("ONEWRITE_SEED", 2), number_from("ONEWRITE_CASES", 1_000_000));
    assert_sound(&fuzz("fuzz-deep", seed, cases), seed, cases);
}
