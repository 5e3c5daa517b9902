//! The file disk with many requests under way, in wall time. The ring and threads give the same results as blocking
//! calls one after another.

mod host_mount;

use std::path::{Path, PathBuf};

use host_mount::{Host, HostMount};
use onewrite_block::{
    Cause, Choices, Device, DeviceError, Executor, HostProfile, Lpn, MIB, Nanos, Outcome, PAGE_SIZE, Page, Request,
    Time,
};
use onewrite_device::{FileDisk, Submission};
use onewrite_testing::skipped;

const PAGES: u64 = 64;
const BESIDE: [Submission; 2] = [Submission::Threads, Submission::Ring];

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("onewrite-queue-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn wall() -> Executor {
    Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::ideal())
}

fn number(content: u64) -> Page {
    Page::from_slice(&content.to_le_bytes().repeat(PAGE_SIZE / 8))
}

/// Submits all requests at once; returns their outcomes.
fn carry_out(executor: &Executor, disk: FileDisk, requests: Vec<Request>) -> Vec<Outcome> {
    let port = executor.runtime().attach(Box::new(disk));
    let work = async move {
        let under_way: Vec<_> = requests.into_iter().map(|request| port.submit(request)).collect();
        let mut outcomes = Vec::new();
        for request in under_way {
            outcomes.push(request.await);
        }
        outcomes
    };
    executor.block_on(work).unwrap()
}

/// A seeded stream of requests on few pages, so that most requests overlap others.
fn stream(seed: u64) -> Vec<Request> {
    let chance = &mut Choices::new(seed);
    let request = |step: u64| {
        let count = 1 + chance.below(8);
        let start = chance.below(PAGES - count);
        match chance.below(8) {
            0..=2 => Request::read(Lpn(start), count as u32, Cause::Data),
            3..=5 => {
                let pages = (0..count).map(|page| number(step * 16 + page)).collect();
                Request::write(Lpn(start), pages, Cause::Data)
            }
            6 => Request::trim(Lpn(start), count - 1, Cause::Data),
            _ if step.is_multiple_of(3) => Request::flush(Cause::Data),
            _ => Request::read(Lpn(PAGES), 1, Cause::Data),
        }
    };
    (1..400).map(request).collect()
}

fn disk(path: &Path, is_direct: bool, way: Submission) -> FileDisk {
    std::fs::write(path, vec![0; PAGES as usize * PAGE_SIZE]).unwrap();
    let disk = if is_direct { FileDisk::open_direct(path) } else { FileDisk::open(path) };
    disk.unwrap().submitting(way)
}

fn has_direct(path: &Path) -> bool {
    std::fs::write(path, vec![0; PAGE_SIZE]).unwrap();
    FileDisk::open_direct(path).inspect_err(|error| skipped!("no direct transfers here: {error}")).is_ok()
}

#[test]
fn many_at_once_give_what_one_after_another_gives() {
    let path = scratch("stream");
    for seed in 0..6 {
        let is_direct = seed % 2 == 1 && has_direct(&path);
        let blocking = carry_out(&Executor::ideal(), disk(&path, is_direct, Submission::Ring), stream(seed));
        let content = std::fs::read(&path).unwrap();
        for way in [Submission::Blocking, Submission::Threads, Submission::Ring] {
            let outcomes = carry_out(&wall(), disk(&path, is_direct, way), stream(seed));
            let wrong = (0..outcomes.len()).find(|index| outcomes[*index] != blocking[*index]);
            assert_eq!(wrong.map(|index| stream(seed).swap_remove(index)), None, "seed {seed}, {way:?}");
            assert!(std::fs::read(&path).unwrap() == content, "seed {seed}, {way:?}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_disk_submits_as_asked_in_wall_time_and_blocks_in_virtual_time() {
    let path = scratch("ways");
    for way in [Submission::Blocking, Submission::Threads, Submission::Ring] {
        for (executor, expected) in [(Executor::ideal(), Submission::Blocking), (wall(), way)] {
            let bell = (!executor.runtime().is_virtual()).then(|| onewrite_block::Bell::new().unwrap());
            let mut disk = disk(&path, false, way);
            disk.attached(bell);
            if (expected, disk.submission()) == (Submission::Ring, Submission::Threads) {
                skipped!("{way:?}: the kernel refuses io_uring");
                continue;
            }
            assert_eq!(disk.submission(), expected);
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_incomplete_last_page_is_read_with_zeros_behind_it() {
    let path = scratch("tail");
    std::fs::write(&path, vec![7; PAGE_SIZE + 100]).unwrap();
    for way in BESIDE {
        let disk = FileDisk::view(&path).unwrap().submitting(way);
        let requests =
            vec![Request::read(Lpn(0), 2, Cause::Data), Request::write(Lpn(0), vec![number(1)], Cause::Data)];
        let outcomes = carry_out(&wall(), disk, requests);
        assert_eq!(outcomes[0], Ok(vec![Page::from_slice(&[7; PAGE_SIZE]), Page::from_slice(&[7; 100])]), "{way:?}");
        assert!(matches!(outcomes[1], Err(DeviceError::Host { operation: "write", .. })), "{way:?}: {outcomes:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_disk_dropped_with_requests_under_way_lets_them_end_and_goes() {
    let path = scratch("dropped");
    if !has_direct(&path) {
        return;
    }
    std::fs::write(&path, vec![0; 64 * MIB as usize]).unwrap();
    for (round, way) in (1..=6).flat_map(|round| BESIDE.map(|way| (round, way))) {
        let disk = FileDisk::open_direct(&path).expect("the one before has let go").submitting(way);
        let executor = wall();
        let port = executor.runtime().attach(Box::new(disk));
        let write = |part: u64| Request::write(Lpn(part * 256), vec![number(round); 256], Cause::Data);
        let under_way: Vec<_> = (0..64).map(|part| port.submit(write(part))).collect();
        let first = executor.block_on(async move { under_way.into_iter().next().unwrap().await });
        assert!(first.unwrap().is_ok());
        match round % 2 {
            0 => drop((port, executor)),
            _ => drop((port.unplug(), executor)),
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..8], round.to_le_bytes(), "{way:?}");
        let is_whole = |page: &[u8]| page.chunks(8).all(|word| word == &page[..8]);
        assert!(bytes.chunks(PAGE_SIZE).all(is_whole), "{way:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// Several FLUSHes at once: the kernel reports the error to one of them, and none succeeds.
#[test]
fn after_a_failed_flush_none_beside_it_or_after_it_is_acknowledged() {
    for way in BESIDE {
        let Some(mount) = HostMount::in_room(Host::Ext4, &format!("queue-lost-{way:?}"), Some(48 * MIB)) else {
            return;
        };
        let disk = FileDisk::create(mount.path("disk.img"), 128 * MIB).unwrap().submitting(way);
        let executor = wall();
        let port = executor.runtime().attach(Box::new(disk));
        let work = async move {
            let writes: Vec<_> = (1..80 * MIB / PAGE_SIZE as u64)
                .map(|page| port.submit(Request::write(Lpn(page), vec![number(page)], Cause::Data)))
                .collect();
            for write in writes {
                write.await?;
            }
            let flushes: Vec<_> = (0..5).map(|_| port.submit(Request::flush(Cause::Data))).collect();
            let mut outcomes = Vec::new();
            for flush in flushes {
                outcomes.push(flush.await.unwrap_err());
            }
            let write = Request::write(Lpn(1), vec![number(1)], Cause::Data);
            outcomes.push(port.request(write).await.unwrap_err());
            outcomes.push(port.request(Request::flush(Cause::Data)).await.unwrap_err());
            assert!(port.request(Request::read(Lpn(9), 1, Cause::Data)).await.is_ok(), "it can still be read");
            Ok::<_, DeviceError>(outcomes)
        };
        let outcomes = executor.block_on(work).unwrap().unwrap();
        assert!(matches!(outcomes[0], DeviceError::Host { operation: "flush", .. }), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    }
}
