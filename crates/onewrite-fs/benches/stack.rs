//! The whole stack in virtual time: file-system operations per second of processor time on ext4 in `ordered` and
//! `data`, and on F2FS without and with a staging area. The device takes no time, so the result measures only our code.
//! The aim is at least 300,000 without fsync; the bench fails if a cell misses it.
//!
//! `cargo bench --package onewrite-fs --bench stack [-- COLUMN [ROW]]`: only those whose names contain this

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{Choices, DevicePort, Executor, PAGE_SIZE, Page, RamDisk};
use onewrite_fs::ext4::{self, Ext4, Mode, MountOptions};
use onewrite_fs::f2fs::{self, F2fs, F2fsOptions};
use onewrite_fs::{BlockNo, Content, FileSystem, FsResult, Ino, Manner, NewNode, Position};
use onewrite_testing::verdict;
use rustix::time::{ClockId, clock_gettime};

const SIZE_BYTES: u64 = 1 << 30;
const STAGE_BYTES: u64 = 128 << 20;
const OPERATIONS: u64 = 200_000;
const FILES: u64 = 20_000;
/// Least operations a second in the columns without fsync.
const WANTED: f64 = 300_000.0;

fn disk(plan: Vec<(BlockNo, Page)>) -> RamDisk {
    let mut disk = RamDisk::new(SIZE_BYTES / PAGE_SIZE as u64);
    plan.into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    disk
}

/// Runs `work` on a fresh mount; returns operations per second of processor time.
fn measure<F: FileSystem + 'static>(
    disk: RamDisk,
    mount: impl AsyncFnOnce(DevicePort) -> FsResult<F> + 'static,
    operations: u64,
    work: impl AsyncFnOnce(Rc<F>) -> FsResult<()> + 'static,
) -> f64 {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let seconds = executor.block_on(async move {
        let fs = Rc::new(mount(port).await.expect("mount"));
        let start = now();
        work(Rc::clone(&fs)).await.expect("work");
        let seconds = (now() - start).as_secs_f64();
        fs.unmount().await.expect("unmount");
        seconds
    });
    operations as f64 / seconds.expect("nothing halts")
}

fn measure_ext4(mode: Mode, job: Job) -> f64 {
    let mut options = ext4::mkfs::MkfsOptions::new(SIZE_BYTES, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let disk = disk(ext4::mkfs::plan(&options).expect("plan"));
    let mount = async move |port: DevicePort| Ext4::mount(port, MountOptions::new(mode)).await;
    measure(disk, mount, job.operations(), async move |fs| job.run(&*fs).await)
}

fn measure_f2fs(job: Job, stage_bytes: u64) -> f64 {
    let mut options = f2fs::mkfs::MkfsOptions::new(SIZE_BYTES, &mut Choices::new(1));
    options.stage_bytes = stage_bytes;
    let disk = disk(f2fs::mkfs::plan(&options).expect("plan"));
    let mount = async move |port: DevicePort| F2fs::mount(port, F2fsOptions::default()).await;
    measure(disk, mount, job.operations(), async move |fs| job.run(&*fs).await)
}

/// Processor time of this process so far.
fn now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

async fn page(fs: &impl FileSystem, file: Ino, index: u64) -> FsResult<()> {
    let content = Content::Pattern { seed: index, compressible_percent: 0, length: PAGE_SIZE as u64 };
    fs.write(file, Position::At(index * PAGE_SIZE as u64), content, Manner::default()).await.map(drop)
}

async fn overwrite(fs: &impl FileSystem, fsync_every: u64) -> FsResult<()> {
    let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
    let pages = 8192;
    let mut choices = Choices::new(2);
    for operation in 0..OPERATIONS {
        page(fs, file, choices.below(pages)).await?;
        if operation % fsync_every == fsync_every - 1 {
            fs.fsync(file).await?;
        }
    }
    Ok(())
}

async fn create(fs: &impl FileSystem) -> FsResult<()> {
    let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
    for number in 0..FILES {
        let file = fs.create(directory, format!("file-{number}").as_bytes(), NewNode::FILE).await?;
        page(fs, file, 0).await?;
    }
    for number in 0..FILES {
        fs.unlink(directory, format!("file-{number}").as_bytes()).await?;
    }
    Ok(())
}

/// What a column measures.
#[derive(Clone, Copy)]
enum Job {
    /// Random overwrites of pages, with an fsync each so many.
    Overwrite { fsync_every: u64 },
    /// Files made, written and removed.
    CreateUnlink,
}

impl Job {
    fn operations(self) -> u64 {
        match self {
            Job::Overwrite { .. } => OPERATIONS,
            Job::CreateUnlink => 3 * FILES,
        }
    }

    async fn run(self, fs: &impl FileSystem) -> FsResult<()> {
        match self {
            Job::Overwrite { fsync_every } => overwrite(fs, fsync_every).await,
            Job::CreateUnlink => create(fs).await,
        }
    }
}

const COLUMNS: [(&str, Job); 4] = [
    ("overwrite", Job::Overwrite { fsync_every: u64::MAX }),
    ("fsync each 8", Job::Overwrite { fsync_every: 8 }),
    ("fsync each", Job::Overwrite { fsync_every: 1 }),
    ("create-unlink", Job::CreateUnlink),
];

type Row = (&'static str, fn(Job) -> f64);

const ROWS: [Row; 4] = [
    ("ordered", |job| measure_ext4(Mode::Ordered, job)),
    ("data", |job| measure_ext4(Mode::Data, job)),
    ("f2fs", |job| measure_f2fs(job, 0)),
    ("f2fs+stage", |job| measure_f2fs(job, STAGE_BYTES)),
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (column, row) = (named.next().unwrap_or_default(), named.next().unwrap_or_default());
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(name, _)| name.contains(&column)).collect();
    let print = |name: &str, cells: &[String]| {
        println!("{name:12}{}", cells.iter().map(|cell| format!("{cell:>16}")).collect::<String>());
    };
    print("operations/s", &columns.iter().map(|(name, _)| (*name).to_string()).collect::<Vec<_>>());
    for (name, measure) in ROWS.into_iter().filter(|(name, _)| name.contains(&row)) {
        let cell = |(column, job): &(&str, Job)| {
            let rate = measure(*job);
            let said = if column.starts_with("fsync") { "" } else { verdict(rate >= WANTED) };
            format!("{rate:.0} {said}")
        };
        print(name, &columns.iter().map(cell).collect::<Vec<_>>());
    }
    onewrite_testing::all_reached()
}
