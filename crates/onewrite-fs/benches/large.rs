//! Large things on the RAM disk: writes and reads a file of 2 GB in sequence (real bytes, 1 MiB a call), mounts a file
//! system of 1 TiB (ext4, and F2FS with all its tables written), makes and removes a directory of 100,000 files.
//! Measures processor time. Deleted files touch the memory of the file's pages beforehand, because the first use of a
//! page by the process costs more than the measured work.
//!
//! `cargo bench --package onewrite-fs --bench large`

use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{Choices, Executor, GIB, MIB, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::f2fs::{self, F2fs, F2fsOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};
use rustix::time::{ClockId, clock_gettime};

fn disk(size_bytes: u64) -> RamDisk {
    let mut options = MkfsOptions::new(size_bytes, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::new(size_bytes / PAGE_SIZE as u64);
    plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    disk
}

/// Processor time of this process so far.
fn now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn seconds_since(start: Duration) -> f64 {
    (now() - start).as_secs_f64()
}

/// Mounts a disk of `size_bytes`, runs `work`, and gives the seconds of the mount beside its result.
fn mounted<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    size_bytes: u64,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> (f64, T) {
    let disk = disk(size_bytes);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let outcome = executor.block_on(async move {
        let start = now();
        let fs = Rc::new(Ext4::mount(port, MountOptions::new(Mode::Ordered)).await?);
        let seconds = seconds_since(start);
        let result = work(Rc::clone(&fs)).await?;
        fs.unmount().await?;
        FsResult::Ok((seconds, result))
    });
    outcome.expect("nothing halts").expect("no error")
}

/// Mounts an F2FS of `size_bytes`, creates a file and syncs it; gives the seconds of all that, since F2FS reads some of
/// its tables only then.
fn mounted_f2fs(size_bytes: u64) -> f64 {
    let options = f2fs::mkfs::MkfsOptions::new(size_bytes, &mut Choices::new(1));
    let mut disk = RamDisk::new(size_bytes / PAGE_SIZE as u64);
    f2fs::mkfs::plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let outcome = executor.block_on(async move {
        let start = now();
        let fs = F2fs::mount(port, F2fsOptions::default()).await?;
        let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        fs.fsync(file).await?;
        let seconds = seconds_since(start);
        fs.unmount().await?;
        FsResult::Ok(seconds)
    });
    outcome.expect("nothing halts").expect("no error")
}

async fn fill(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    let bytes: Vec<u8> = (0..MIB).map(|index| (index * 7) as u8).collect();
    for index in 0..2048 {
        fs.write(file, Position::At(index * MIB), Content::Bytes(&bytes), Manner::default()).await?;
    }
    fs.fsync(file).await?;
    Ok(file)
}

async fn sequential(fs: Rc<Ext4>) -> FsResult<(f64, f64)> {
    for name in [b"first", b"again"] {
        fill(&fs, name).await?;
        fs.unlink(fs.root(), name).await?;
        fs.sync().await?;
    }
    let start = now();
    let file = fill(&fs, b"file").await?;
    let written = seconds_since(start);
    let start = now();
    let mut sum = 0_u64;
    for index in 0..2048 {
        let data = fs.read(file, index * MIB, MIB, Manner::default()).await?;
        sum += data.pages.iter().map(|page| u64::from(page.bytes()[1])).sum::<u64>();
    }
    assert!(sum > 0, "pages were read");
    Ok((2.0 * 1.073_741_824 / written, 2.0 * 1.073_741_824 / seconds_since(start)))
}

async fn directory(fs: Rc<Ext4>) -> FsResult<(f64, f64)> {
    let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
    let start = now();
    for number in 0..100_000 {
        fs.create(directory, format!("file-{number}").as_bytes(), NewNode::FILE).await?;
    }
    let created = 100_000.0 / seconds_since(start);
    let start = now();
    for number in 0..100_000 {
        fs.unlink(directory, format!("file-{number}").as_bytes()).await?;
    }
    Ok((created, 100_000.0 / seconds_since(start)))
}

fn main() {
    let (_, (write, read)) = mounted(5 * GIB / 2, sequential);
    println!("2 GB in sequence: write {write:.2} GB/s, read {read:.2} GB/s");
    let (_, (create, unlink)) = mounted(4 * GIB, directory);
    println!("100,000 files in one directory: create {create:.0}/s, unlink {unlink:.0}/s");
    let (seconds, ()) = mounted(1024 * GIB, |_| async { Ok(()) });
    println!("1 TiB, sparse: mounted in {:.0} ms", seconds * 1e3);
    println!("1 TiB of F2FS: mounted in {:.0} ms", mounted_f2fs(1024 * GIB) * 1e3);
}
