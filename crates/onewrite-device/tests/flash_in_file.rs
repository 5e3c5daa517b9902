//! Flash in a file: the device outlives its process, even a killed one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onewrite_block::mark::{self, Listener};
use onewrite_block::{Cause, Device, DeviceError, Durable, Lpn, MIB, Operation, Page, PowerCut, Request, Token};
use onewrite_device::micro::Bench;
use onewrite_device::{Profile, Ssd};

/// Between fork and exec, a child still holds the files that other tests have locked. So only one test runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const PATH_VARIABLE: &str = "ONEWRITE_DEVICE_TEST_FLASH";

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("onewrite-flash-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn open(path: &Path) -> Ssd {
    let (ssd, _) = Profile::load("nvme-share").unwrap().ssd_in_file(path, Some(8 * MIB)).unwrap();
    ssd.check().unwrap();
    ssd
}

fn content(number: u64) -> Page {
    Page::from_slice(&number.to_le_bytes())
}

/// Writes number `n` to page `n % 500`; flushes after every ten, and prints the number.
fn write_for_ever(path: &Path) {
    let mut bench = Bench::new(Box::new(open(path)), 1);
    for number in 1_u64.. {
        let pages = vec![content(number)];
        bench.one(Operation::Write { start: Lpn(number % 500), pages, durable: Durable::AfterFlush });
        if number % 10 == 0 {
            bench.one(Operation::Flush);
            println!("durable {number}");
        }
    }
}

#[test]
#[ignore = "the other half of `a_killed_process_leaves_every_flushed_page`"]
fn child_that_will_be_killed() {
    if let Ok(path) = std::env::var(PATH_VARIABLE) {
        write_for_ever(Path::new(&path));
    }
}

/// Runs the child until it has flushed `lines` times, kills it, and returns the last number that it printed as durable.
fn run_and_kill(path: &Path, lines: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "child_that_will_be_killed"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let durable = output.lines().map_while(Result::ok).filter_map(|line| line.split_once("durable ")?.1.parse().ok());
    let last = durable.take(lines).last().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    last
}

#[test]
fn a_killed_process_leaves_every_flushed_page() {
    let _guard = alone();
    let path = scratch("kill");
    for lines in [3, 150, 777] {
        let durable = run_and_kill(&path, lines);
        let mut bench = Bench::new(Box::new(open(&path)), 1);
        for number in durable.saturating_sub(499).max(1)..=durable {
            let start = Lpn(number % 500);
            let mut numbers = (number..number + 5000).step_by(500);
            let found = read(&mut bench, start);
            assert!(numbers.any(|newer| content(newer) == found), "page of {number} after {durable} holds {found:?}");
        }
        drop(bench);
        std::fs::remove_file(&path).unwrap();
    }
}

fn read(bench: &mut Bench<Ssd>, start: Lpn) -> Page {
    bench.read(start, 1).remove(0)
}

#[test]
fn a_reopened_device_goes_on_where_it_was() {
    let _guard = alone();
    let path = scratch("reopen");
    for round in 0..6 {
        let mut bench = Bench::new(Box::new(open(&path)), 1);
        if round > 0 {
            assert_eq!(read(&mut bench, Lpn(7)), content(round * 10 + 7));
        }
        for lpn in 0..2000 {
            let pages = vec![content(round * 10 + 10 + lpn)];
            bench.one(Operation::Write { start: Lpn(lpn), pages, durable: Durable::AfterFlush });
        }
        bench.one(Operation::Flush);
        assert!(bench.device().counters().erases > 0 || round == 0, "flash is used over and over");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_in_use_or_of_another_size_is_refused() {
    let _guard = alone();
    let path = scratch("lock");
    let profile = Profile::load("nvme-share").unwrap();
    let first = open(&path);
    let error = profile.ssd_in_file(&path, Some(8 * MIB)).unwrap_err().to_string();
    assert!(error.contains("another process uses it"), "{error}");
    drop(first);
    let error = profile.ssd_in_file(&path, Some(16 * MIB)).unwrap_err().to_string();
    assert!(error.contains("profile and size it was made with"), "{error}");
    let capacitor = Profile::load("nvme-750").unwrap().ssd_in_file(&path, Some(8 * MIB)).unwrap_err();
    assert!(capacitor.to_string().contains("without a capacitor"));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_fork_of_a_device_in_a_file_lives_in_memory() {
    let _guard = alone();
    let path = scratch("fork");
    let mut bench = Bench::new(Box::new(open(&path)), 1);
    bench.one(Operation::Write { start: Lpn(3), pages: vec![content(3)], durable: Durable::OnCompletion });
    let mut fork = Bench::new(bench.device().fork(), 1).starting_at(bench.now());
    fork.one(Operation::Write { start: Lpn(3), pages: vec![content(4)], durable: Durable::OnCompletion });
    drop((fork, bench));
    let mut bench = Bench::new(Box::new(open(&path)), 1);
    assert_eq!(read(&mut bench, Lpn(3)), content(3));
    std::fs::remove_file(&path).unwrap();
}

/// Flips a bit in the out-of-band area of each flash page that held this logical page.
fn damage_areas_of(path: &Path, lpn: u32) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let is_meant = |area: &[u8]| area[..4] == lpn.to_le_bytes() && area[20..28] == [0; 8] && area[28..32] != [0; 4];
    let areas: Vec<usize> = (0..bytes.len() - 32).step_by(16).filter(|at| is_meant(&bytes[*at..])).collect();
    areas.iter().for_each(|at| bytes[at + 31] ^= 1);
    std::fs::write(path, bytes).unwrap();
    areas.len()
}

#[test]
fn a_page_whose_area_is_damaged_is_lost_and_named_until_it_is_written_again() {
    const LOST: u64 = 1234;
    let _guard = alone();
    let path = scratch("damaged");
    let mut bench = Bench::new(Box::new(open(&path)), 1);
    let write =
        |lpn: u64| Operation::Write { start: Lpn(lpn), pages: vec![content(lpn)], durable: Durable::AfterFlush };
    for lpn in (1000..1200).chain([LOST]) {
        bench.one(write(lpn));
        bench.one(Operation::Flush);
    }
    drop(bench);
    assert_eq!(damage_areas_of(&path, LOST as u32), 1);
    let _listener = Listener::new();
    let (mut bench, reached) = mark::during(|| Bench::new(Box::new(open(&path)), 1));
    assert!(reached.contains(mark::number("mapped page is torn")));
    for lpn in 1000..1200 {
        assert_eq!(read(&mut bench, Lpn(lpn)), content(lpn), "page {lpn}");
    }
    let mut now = bench.now();
    let mut outcome = |operation: Operation| {
        let (device, mut completed) = (bench.device_mut(), Vec::new());
        device.submit(Token(u32::MAX), Request::new(operation, Cause::Data), now);
        while completed.is_empty() {
            now = device.next_event().moment().unwrap();
            device.advance(now, &mut completed);
        }
        completed.remove(0).outcome
    };
    let lost = || Operation::Read { start: Lpn(LOST), count: 1 };
    assert_eq!(outcome(lost()), Err(DeviceError::ReadFailed { page: Lpn(LOST) }));
    outcome(write(LOST)).unwrap();
    assert_eq!(outcome(lost()), Ok(vec![content(LOST)]));
    std::fs::remove_file(&path).unwrap();
}
