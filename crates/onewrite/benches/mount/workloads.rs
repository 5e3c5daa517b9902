//! Workloads: each gives a rate, in operations or MiB in a second.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use onewrite_block::Choices;

use crate::systems::Mounted;

/// How long a workload that goes on for ever is measured.
const SPAN: Duration = Duration::from_secs(2);
const FILES: u32 = 3000;
const FILE_BYTES: u64 = 64 << 20;
const STREAM_MIB: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Create,
    Unlink,
    SyncEvery(u32),
    SequentialWrite,
    SequentialRead,
}

impl Workload {
    pub const ALL: [Workload; 6] = [
        Workload::Create,
        Workload::Unlink,
        Workload::SyncEvery(8),
        Workload::SyncEvery(1),
        Workload::SequentialWrite,
        Workload::SequentialRead,
    ];

    pub fn name(self) -> String {
        match self {
            Workload::Create => "create and write 4 KiB, files/s".into(),
            Workload::Unlink => "unlink, files/s".into(),
            Workload::SyncEvery(writes) => format!("4 KiB writes/s, fsync every {writes}"),
            Workload::SequentialWrite => "write 1 MiB and sync, MiB/s".into(),
            Workload::SequentialRead => "read 1 MiB, MiB/s".into(),
        }
    }

    /// Ours, a rival, and the least that we want of its rate.
    pub fn wanted(self) -> Vec<(&'static str, &'static str, f64)> {
        match self {
            Workload::Create => vec![("ordered", "fuse2fs", 3.0)],
            Workload::SyncEvery(8) => vec![("ordered", "fuse2fs", 1.5), ("ordered", "kernel", 0.5)],
            Workload::SyncEvery(_) => vec![("data+async", "kernel data", 1.5)],
            Workload::SequentialWrite | Workload::SequentialRead => {
                vec![("ordered", "relay", 0.7), ("ordered", "passthrough", 0.7)]
            }
            Workload::Unlink => vec![],
        }
    }

    pub fn rate(self, mounted: &Mounted) -> f64 {
        let root = mounted.path();
        match self {
            Workload::Create => create(&root),
            Workload::Unlink => unlink(&root),
            Workload::SyncEvery(writes) => sync_every(&root, writes),
            Workload::SequentialWrite => write_stream(&root),
            Workload::SequentialRead => read_stream(&root),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark")]
pub fn now() -> Instant {
    Instant::now()
}

fn per_second(count: u64, begin: Instant) -> f64 {
    count as f64 / (now() - begin).as_secs_f64()
}

fn name(number: u32) -> String {
    format!("d{}/file-{number}", number % 30)
}

fn create(root: &Path) -> f64 {
    (0..30).for_each(|number| fs::create_dir(root.join(format!("d{number}"))).unwrap());
    let begin = now();
    (0..FILES).for_each(|number| fs::write(root.join(name(number)), [7; 4096]).unwrap());
    per_second(FILES.into(), begin)
}

fn unlink(root: &Path) -> f64 {
    let begin = now();
    (0..FILES).for_each(|number| fs::remove_file(root.join(name(number))).unwrap());
    per_second(FILES.into(), begin)
}

fn sync_every(root: &Path, writes: u32) -> f64 {
    let file = File::options().write(true).create(true).truncate(false).open(root.join("random")).unwrap();
    if file.metadata().unwrap().len() < FILE_BYTES {
        (0..FILE_BYTES >> 20).for_each(|mib| file.write_all_at(&vec![1; 1 << 20], mib << 20).unwrap());
        file.sync_all().unwrap();
    }
    let choices = Choices::new(1);
    let mut places = choices.stream("places", u64::from(writes));
    let (begin, mut count) = (now(), 0);
    while begin.elapsed() < SPAN {
        for _ in 0..writes {
            file.write_all_at(&[count as u8; 4096], places.below(FILE_BYTES / 4096) * 4096).unwrap();
            count += 1;
        }
        file.sync_all().unwrap();
    }
    per_second(count, begin)
}

fn write_stream(root: &Path) -> f64 {
    let mut file = File::create(root.join("stream")).unwrap();
    let begin = now();
    (0..STREAM_MIB).for_each(|number| file.write_all(&vec![number as u8; 1 << 20]).unwrap());
    file.sync_all().unwrap();
    per_second(STREAM_MIB, begin)
}

/// The file's pages leave the kernel's cache before; what the file system or the host caches below it stays, so that
/// software is measured and not the disk. (Of "host" it is the disk: nothing lies below.)
fn read_stream(root: &Path) -> f64 {
    let mut file = File::open(root.join("stream")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (begin, mut buffer) = (now(), vec![0; 1 << 20]);
    (0..STREAM_MIB).for_each(|_| file.read_exact(&mut buffer).unwrap());
    per_second(STREAM_MIB, begin)
}
