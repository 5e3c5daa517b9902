//! The file disk where the kernel refuses io_uring: threads do the work. Alone in its program, since the process is
//! then short of files.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use onewrite_block::{Bell, Cause, Device, Executor, HostProfile, Lpn, Nanos, PAGE_SIZE, Page, Request, Time};
use onewrite_device::{FileDisk, Submission};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const PAGES: u64 = 64;

/// Lets the process open `more` files and no others.
fn allow(more: u64) {
    let next = File::open("/dev/null").unwrap().as_raw_fd() as u64;
    let limit = Rlimit { current: Some(next + more), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn has_ring() -> bool {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|name| name.to_string_lossy().contains("io_uring"))
}

/// Writes all pages at once, flushes, and reads them back; returns whether a ring was there.
fn use_all(executor: &Executor, disk: FileDisk, before: Rlimit) -> bool {
    let port = executor.runtime().attach(Box::new(disk));
    setrlimit(Resource::Nofile, before).unwrap();
    let with_ring = has_ring();
    let page = |number: u64| Page::from_slice(&[number as u8; PAGE_SIZE]);
    let work = async move {
        let writes = (0..PAGES).map(|at| port.submit(Request::write(Lpn(at), vec![page(at)], Cause::Data)));
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap();
        }
        port.submit(Request::flush(Cause::Data)).await.unwrap();
        let read = port.submit(Request::read(Lpn(0), PAGES as u32, Cause::Data)).await.unwrap();
        assert!(read.iter().zip(0..).all(|(read, at)| *read == page(at)));
    };
    executor.block_on(work).unwrap();
    with_ring
}

#[test]
fn threads_do_the_work_where_the_kernel_refuses_a_ring() {
    let path = std::env::temp_dir().join(format!("onewrite-refused-{}", std::process::id()));
    fs::write(&path, vec![0; PAGES as usize * PAGE_SIZE]).unwrap();
    let disk = || FileDisk::open_direct(&path).or_else(|_| FileDisk::open(&path)).unwrap().submitting(Submission::Ring);
    let before = getrlimit(Resource::Nofile);

    let (mut refused, bell) = (disk(), Bell::new().unwrap());
    allow(0);
    refused.attached(Some(bell));
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(refused.submission(), Submission::Threads);
    drop(refused);

    let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::ideal());
    let disk = disk();
    // One for the run's bell.
    allow(1);
    assert!(!use_all(&executor, disk, before), "a ring was made with no file left");
    drop(executor);
    fs::remove_file(&path).unwrap();
}
