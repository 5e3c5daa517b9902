//! The whole stack in virtual time: file-system operations per second of processor time in `ordered` and `data`. The
//! device takes no time, so the result measures only our code. The aim is at least 300,000 without fsync; the bench
//! fails if a cell misses it.
//!
//! `cargo bench --package onewrite-fs --bench stack [-- NAME]`: only the columns whose names contain NAME

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{Choices, Executor, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};
use onewrite_testing::verdict;
use rustix::time::{ClockId, clock_gettime};

const SIZE_BYTES: u64 = 1 << 30;
const OPERATIONS: u64 = 200_000;
const FILES: u64 = 20_000;
/// Least operations a second in the columns without fsync.
const WANTED: f64 = 300_000.0;

fn disk() -> RamDisk {
    let mut options = MkfsOptions::new(SIZE_BYTES, &mut Choices::new(1));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::new(SIZE_BYTES / PAGE_SIZE as u64);
    plan(&options).expect("plan").into_iter().for_each(|(block, page)| disk.put(block.page(), page));
    disk
}

/// Runs `work` on a fresh mount; returns operations per second of processor time.
fn measure<F: Future<Output = FsResult<()>> + 'static>(
    mode: Mode,
    operations: u64,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
) -> f64 {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk()));
    let seconds = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(port, MountOptions::new(mode)).await.expect("mount"));
        let start = now();
        work(Rc::clone(&fs)).await.expect("work");
        let seconds = (now() - start).as_secs_f64();
        fs.unmount().await.expect("unmount");
        seconds
    });
    operations as f64 / seconds.expect("nothing halts")
}

/// Processor time of this process so far.
fn now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

async fn page(fs: &Ext4, file: Ino, index: u64) -> FsResult<()> {
    let content = Content::Pattern { seed: index, compressible_percent: 0, length: PAGE_SIZE as u64 };
    fs.write(file, Position::At(index * PAGE_SIZE as u64), content, Manner::default()).await.map(drop)
}

async fn overwrite(fs: Rc<Ext4>, fsync_every: u64) -> FsResult<()> {
    let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
    let pages = 8192;
    let mut choices = Choices::new(2);
    for operation in 0..OPERATIONS {
        page(&fs, file, choices.below(pages)).await?;
        if operation % fsync_every == fsync_every - 1 {
            fs.fsync(file).await?;
        }
    }
    Ok(())
}

async fn create(fs: Rc<Ext4>) -> FsResult<()> {
    let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
    for number in 0..FILES {
        let file = fs.create(directory, format!("file-{number}").as_bytes(), NewNode::FILE).await?;
        page(&fs, file, 0).await?;
    }
    for number in 0..FILES {
        fs.unlink(directory, format!("file-{number}").as_bytes()).await?;
    }
    Ok(())
}

/// One column of the table.
struct Column {
    name: &'static str,
    measure: fn(Mode) -> f64,
}

const COLUMNS: [Column; 4] = [
    Column { name: "overwrite", measure: |mode| measure(mode, OPERATIONS, |fs| overwrite(fs, u64::MAX)) },
    Column { name: "fsync each 8", measure: |mode| measure(mode, OPERATIONS, |fs| overwrite(fs, 8)) },
    Column { name: "fsync each", measure: |mode| measure(mode, OPERATIONS, |fs| overwrite(fs, 1)) },
    Column { name: "create-unlink", measure: |mode| measure(mode, 3 * FILES, create) },
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.name.contains(&wanted)).collect();
    let row = |name: &str, cells: &[String]| {
        println!("{name:12}{}", cells.iter().map(|cell| format!("{cell:>16}")).collect::<String>());
    };
    row("operations/s", &columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>());
    for mode in [Mode::Ordered, Mode::Data] {
        let cell = |column: &&Column| {
            let rate = (column.measure)(mode);
            let has_aim = !column.name.starts_with("fsync");
            let said = if has_aim { verdict(rate >= WANTED) } else { "" };
            format!("{rate:.0} {said}")
        };
        row(mode.name(), &columns.iter().map(cell).collect::<Vec<_>>());
    }
    onewrite_testing::all_reached()
}
