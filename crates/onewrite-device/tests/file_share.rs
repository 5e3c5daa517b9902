//! SHARE of the file disk: on file systems of the host that reflink, and its refusal on others.

mod host_mount;

use std::path::Path;

use host_mount::{Host, HostMount};
use onewrite_block::{
    Cause, Choices, Device, DeviceError, Executor, HostProfile, Lpn, Nanos, Outcome, PAGE_SIZE, Page, Remap, Request,
    Time,
};
use onewrite_device::{FileDisk, Submission};

const PAGES: u64 = 4096;

/// Runs requests one after another; returns their outcomes.
fn carry_out(disk: FileDisk, requests: Vec<Request>) -> Vec<Outcome> {
    carry_out_in(Time::Virtual, disk, requests)
}

fn carry_out_in(time: Time, disk: FileDisk, requests: Vec<Request>) -> Vec<Outcome> {
    let executor = Executor::new(time, HostProfile::ideal());
    let port = executor.runtime().attach(Box::new(disk));
    let work = async move {
        let mut outcomes = Vec::new();
        for request in requests {
            outcomes.push(port.request(request).await);
        }
        outcomes
    };
    executor.block_on(work).unwrap()
}

fn number(content: u64) -> Page {
    Page::from_slice(&content.to_le_bytes())
}

fn write(start: u64, contents: impl IntoIterator<Item = u64>) -> Request {
    Request::write(Lpn(start), contents.into_iter().map(number).collect(), Cause::Data)
}

fn share(pairs: impl IntoIterator<Item = (u64, u64)>) -> Request {
    let pair = |(source, target)| Remap { source: Lpn(source), target: Lpn(target) };
    Request::share(pairs.into_iter().map(pair).collect(), Cause::Checkpoint)
}

fn shares_as_the_contract_says(mount: &HostMount, time: Time, disk: impl Fn(&Path) -> FileDisk) {
    let path = mount.path("disk.img");
    FileDisk::create(&path, PAGES * PAGE_SIZE as u64).unwrap();
    let geometry = disk(&path).geometry().clone();
    assert!(geometry.share_pairs_max >= 500 && !geometry.share_atomic, "{geometry:?}");
    let outcomes = carry_out_in(
        time,
        disk(&path),
        vec![
            write(100, 1..=8),
            write(0, [90; 20]),
            share([(100, 3), (101, 4), (102, 5), (107, 6), (106, 7), (103, 19)]),
            write(100, [50; 8]),
            write(4, [60]),
            Request::flush(Cause::Data),
            Request::read(Lpn(0), 20, Cause::Data),
            Request::read(Lpn(100), 8, Cause::Data),
        ],
    );
    let read = |index: usize| outcomes[index].clone().unwrap();
    let mut expected = [90; 20].map(number);
    for (place, content) in [(3, 1), (4, 60), (5, 3), (6, 8), (7, 7), (19, 4)] {
        expected[place] = number(content);
    }
    assert_eq!(read(6), expected, "sources and targets written over later do not touch each other");
    assert_eq!(read(7), [50; 8].map(number));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_on_xfs_or_btrfs_shares() {
    for host in [Host::Xfs, Host::Btrfs] {
        let Some(mount) = HostMount::new(host, &format!("share-{host:?}")) else { continue };
        shares_as_the_contract_says(&mount, Time::Virtual, |path| FileDisk::open(path).unwrap());
        shares_as_the_contract_says(&mount, Time::Virtual, |path| FileDisk::open_direct(path).unwrap());
        for way in [Submission::Threads, Submission::Ring] {
            let wall = Time::Wall { civil_start: Nanos::ZERO };
            shares_as_the_contract_says(&mount, wall, |path| FileDisk::open_direct(path).unwrap().submitting(way));
        }
    }
}

#[test]
fn a_share_that_completed_survives_a_power_cut_of_the_host() {
    let Some(mount) = HostMount::new(Host::Xfs, "share-cut") else { return };
    let path = mount.path("disk.img");
    let disk = FileDisk::create(&path, PAGES * PAGE_SIZE as u64).unwrap();
    carry_out(disk, vec![write(0, [90; 20]), Request::flush(Cause::Data)]);
    let requests = vec![write(100, 1..=8), share([(100, 3), (107, 7)]), write(9, [60])];
    carry_out(FileDisk::open(&path).unwrap(), requests);
    mount.stop();
    mount.start();
    let found = carry_out(FileDisk::open(&path).unwrap(), vec![Request::read(Lpn(0), 10, Cause::Data)]).remove(0);
    let mut expected = [90; 10].map(number);
    (expected[3], expected[7]) = (number(1), number(8));
    assert_eq!(found.unwrap(), expected, "the SHARE with its sources is there, the write that nothing flushed is not");
}

/// A seeded stream of writes, trims and shares against the simplest model: a table.
#[test]
fn a_long_stream_of_shares_reads_as_a_table_does() {
    let Some(mount) = HostMount::new(Host::Xfs, "share-stream") else { return };
    let path = mount.path("disk.img");
    let mut model = vec![0_u64; PAGES as usize];
    for round in 0..4 {
        let chance = &mut Choices::new(round).stream("stream", 0);
        let requests = (0..300).map(|step| request(&mut model, round * 1_000 + step, chance)).collect();
        let outcomes = carry_out(FileDisk::create(&path, PAGES * PAGE_SIZE as u64).unwrap(), requests);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reads = (0..PAGES / 256).map(|part| Request::read(Lpn(part * 256), 256, Cause::Data)).collect();
        let found = carry_out(FileDisk::open_direct(&path).unwrap(), reads);
        let found: Vec<Page> = found.into_iter().flat_map(Result::unwrap).collect();
        let wrong = (0..PAGES as usize).find(|place| found[*place] != number(model[*place]));
        assert_eq!(wrong, None, "round {round}");
    }
    assert!(mount.has_shared_blocks(&path), "the pairs share blocks of XFS");
}

/// The next request of the stream; also applies it to the table.
fn request(model: &mut [u64], step: u64, chance: &mut Choices) -> Request {
    let count = 1 + chance.below(40);
    let low = chance.below(PAGES / 2 - count);
    let high = PAGES / 2 + chance.below(PAGES / 2 - count);
    match chance.below(4) {
        0 => {
            let contents = (0..count).map(|page| 1 + step * 64 + page);
            (low..).zip(contents.clone()).for_each(|(place, content)| model[place as usize] = content);
            write(low, contents)
        }
        1 => {
            (high..high + count).for_each(|place| model[place as usize] = 0);
            Request::trim(Lpn(high), count, Cause::Data)
        }
        _ => {
            let scattered = chance.below(2) * 3;
            let pairs: Vec<(u64, u64)> =
                (0..count).map(|page| (low + page, high + page / 4 * 4 + (page + scattered) % 4)).collect();
            let pairs: Vec<(u64, u64)> = pairs.into_iter().filter(|(_, target)| *target < PAGES).collect();
            pairs.iter().for_each(|(source, target)| model[*target as usize] = model[*source as usize]);
            share(pairs)
        }
    }
}

#[test]
fn looking_for_reflinks_leaves_file_and_directory_as_they_were() {
    let Some(mount) = HostMount::new(Host::Xfs, "share-look") else { return };
    let path = mount.path("disk.img");
    std::fs::write(&path, vec![7; 16 * PAGE_SIZE]).unwrap();
    let modified = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = modified();
    let disk = FileDisk::open(&path).unwrap();
    assert!(disk.geometry().share_pairs_max > 0);
    assert_eq!((modified(), std::fs::read(&path).unwrap()), (before, vec![7; 16 * PAGE_SIZE]));
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(!mount.has_shared_blocks(&path));
}

#[test]
fn a_file_system_that_cannot_reflink_is_named_with_the_cure() {
    let Some(mount) = HostMount::new(Host::XfsPlain, "share-plain") else { return };
    let path = mount.path("disk.img");
    let disk = FileDisk::create(&path, PAGES * PAGE_SIZE as u64).unwrap();
    let refusal = disk.geometry().share_refusal.clone().unwrap();
    assert!(refusal.contains("cannot reflink") && refusal.contains("mkfs.xfs -m reflink=1"), "{refusal}");
    let outcomes = carry_out(disk, vec![write(1, [5]), share([(1, 2)])]);
    assert!(matches!(outcomes[1], Err(DeviceError::Unsupported { operation: "SHARE", .. })), "{outcomes:?}");
}
