//! Steps: the work of the child. The content itself says which step wrote it, so every state can be judged.
//!
//! Step `n` writes the whole file `n % FILES`, in place or as a new file that is renamed over it. Each page says `n`.
//! Then the file is synced. The step also writes one or more pages of another file without a sync, so that logs hold
//! more than what is waited for.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

use onewrite_block::{Cause, DevicePort, Executor, HostProfile, Nanos, PAGE_SIZE, Page, Time};
use onewrite_device::FileDisk;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::journal::Recovered;
use onewrite_fs::{
    AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner,
};

/// Number of files, written in turn.
pub const FILES: u64 = 12;
/// The first step; it begins a round of new files.
pub const FIRST: u64 = 3 * FILES;
/// Pages of the file that no step syncs.
const NOISE_PAGES: u64 = 512;
/// jbd2 escapes a log block that begins with these bytes.
const JBD2_MAGIC: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();

/// The last acknowledged step, and the work so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acknowledged {
    pub step: u64,
    /// Time of the acknowledgement, in nanoseconds since 1970.
    pub at: u64,
    pub shared_pages: u64,
    pub checkpoint_pages: u64,
    pub journal_pages: u64,
    /// Pages written to files that begin with jbd2's magic number.
    pub escaped_pages: u64,
}

impl Acknowledged {
    fn numbers(&mut self) -> [&mut u64; 6] {
        let Acknowledged { step, at, shared_pages, checkpoint_pages, journal_pages, escaped_pages } = self;
        [step, at, shared_pages, checkpoint_pages, journal_pages, escaped_pages]
    }

    /// Adds the work of the next child.
    pub fn add(&mut self, next: &Acknowledged) {
        let mut next_numbers = *next;
        self.numbers().into_iter().zip(next_numbers.numbers()).for_each(|(sum, number)| *sum += *number);
        (self.step, self.at) = (next.step, next.at);
    }
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = *self;
        let words = all.numbers().map(|number| number.to_string());
        write!(f, "{}", words.join(" "))
    }
}

impl FromStr for Acknowledged {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Acknowledged, Self::Err> {
        let mut acked = Acknowledged::default();
        for (number, word) in acked.numbers().into_iter().zip(text.split(' ')) {
            *number = word.parse()?;
        }
        Ok(acked)
    }
}

fn pages_of(file: u64) -> u64 {
    1 + file * 5 % 16
}

/// Whether the first page of a step begins with jbd2's magic number.
fn is_escaped(step: u64) -> bool {
    step % 7 == 3
}

/// A page of a step: the numbers of both, then bytes computed from them.
fn page(step: u64, index: u64) -> [u8; PAGE_SIZE] {
    let mut bytes = [0; PAGE_SIZE];
    let mut state = step << 20 | index | 1 << 63;
    for word in bytes.chunks_exact_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&(state ^ state >> 31).to_le_bytes());
    }
    let begin = if is_escaped(step) && index == 0 { JBD2_MAGIC } else { *b"step" };
    bytes[..4].copy_from_slice(&begin);
    bytes[8..16].copy_from_slice(&step.to_le_bytes());
    bytes[16..24].copy_from_slice(&index.to_le_bytes());
    bytes
}

/// The step that wrote a page; `None` if the page is not a whole page of a step.
fn step_of(found: &Page, index: u64) -> Option<u64> {
    let bytes = found.bytes();
    let step = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    (bytes[..] == page(step, index)[..]).then_some(step)
}

/// Nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "two processes agree on what came first")]
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn content(step: u64, file: u64) -> Vec<u8> {
    (0..pages_of(file)).flat_map(|index| page(step, index)).collect()
}

fn name(file: u64) -> Vec<u8> {
    format!("f{file}").into_bytes()
}

fn options(mode: Mode) -> MountOptions {
    MountOptions {
        cache_pages: 2048,
        commit_interval: Nanos::from_millis(500),
        checkpoint_age: Nanos::from_millis(25),
        ..MountOptions::new(mode)
    }
}

/// Calls `work` with the image in wall time.
fn with_port<T: 'static>(image: &Path, work: impl AsyncFnOnce(DevicePort) -> FsResult<T> + 'static) -> FsResult<T> {
    let time = Time::Wall { civil_start: Nanos(now()) };
    let executor = Executor::new(time, HostProfile::default());
    let port = executor.runtime().attach(Box::new(FileDisk::open(image).expect("the image")));
    executor.block_on(async move { work(port).await }).expect("nothing halts a real disk")
}

/// Runs steps from `first` on, and acknowledges each on standard output, until the process is killed or the disk fails.
pub fn run_for_ever(image: &Path, mode: Mode, first: u64) {
    let ended: FsResult<()> = with_port(image, async move |port| {
        let fs = Ext4::mount(port.clone(), options(mode)).await?;
        let mut escaped_pages = 0;
        for number in first.. {
            step(&fs, number).await?;
            escaped_pages += u64::from(is_escaped(number));
            println!("acked {}", Acknowledged { escaped_pages, step: number, ..so_far(&port) });
        }
        Ok(())
    });
    eprintln!("the child ended: {ended:?}");
}

fn so_far(port: &DevicePort) -> Acknowledged {
    let counters = port.device().counters();
    let pages_of = |cause| counters.host_write_bytes_of(cause) / PAGE_SIZE as u64;
    Acknowledged {
        at: now(),
        shared_pages: counters.shared_pages,
        checkpoint_pages: pages_of(Cause::Checkpoint),
        journal_pages: pages_of(Cause::Journal),
        ..Acknowledged::default()
    }
}

async fn step(fs: &Ext4, number: u64) -> FsResult<()> {
    let file = number % FILES;
    let bytes = content(number, file);
    noise(fs, number).await?;
    if (number / FILES).is_multiple_of(3) {
        return replace(fs, &name(file), &bytes).await;
    }
    let ino = fs.lookup(fs.root(), &name(file)).await?;
    fs.write(ino, Position::At(0), Content::Bytes(&bytes), Manner::default()).await?;
    fs.fsync(ino).await
}

async fn noise(fs: &Ext4, number: u64) -> FsResult<()> {
    let ino = found_or_made(fs, b"noise").await?;
    let start = number * 37 % (NOISE_PAGES - 16);
    let bytes: Vec<u8> = (0..1 + number % 16).flat_map(|index| page(7 * number + 1, start + index)).collect();
    let position = Position::At(start * PAGE_SIZE as u64);
    fs.write(ino, position, Content::Bytes(&bytes), Manner::default()).await.map(drop)
}

async fn found_or_made(fs: &Ext4, name: &[u8]) -> FsResult<Ino> {
    match fs.lookup(fs.root(), name).await {
        Err(FsError::NotFound(_)) => fs.create(fs.root(), name, NewNode::FILE).await,
        other => other,
    }
}

async fn replace(fs: &Ext4, name: &[u8], bytes: &[u8]) -> FsResult<()> {
    let root = fs.root();
    let ino = found_or_made(fs, b"new").await?;
    fs.write(ino, Position::At(0), Content::Bytes(bytes), Manner::default()).await?;
    let size = Some(bytes.len() as u64);
    fs.set_attributes(ino, AttributeChanges { size, ..AttributeChanges::default() }).await?;
    fs.fsync(ino).await?;
    fs.rename((root, b"new"), (root, name), RenameManner::Replace).await?;
    fs.fsync(root).await
}

/// Content of a file: the step of each page, or what is wrong.
type Told = Result<Vec<u64>, String>;

/// Content of all files; none for a missing one.
#[derive(Debug)]
pub struct Found(Vec<Option<Told>>);

/// Mounts the image, reads every file and unmounts it. Also returns the result of recovery.
///
/// # Errors
/// Errors of mount, reading and unmount.
pub fn read_image(image: &Path, mode: Mode) -> FsResult<(Found, Option<Recovered>)> {
    with_port(image, async move |port| {
        let fs = Ext4::mount(port, options(mode)).await?;
        let mut files = Vec::new();
        for file in 0..FILES {
            files.push(match fs.lookup(fs.root(), &name(file)).await {
                Err(FsError::NotFound(_)) => None,
                ino => Some(told(&fs, ino?, file).await?),
            });
        }
        let recovered = fs.recovered();
        fs.unmount().await?;
        Ok((Found(files), recovered))
    })
}

async fn told(fs: &Ext4, ino: Ino, file: u64) -> FsResult<Told> {
    let size = fs.attributes(ino).await?.size;
    if size != pages_of(file) * PAGE_SIZE as u64 {
        return Ok(Err(format!("file {file} has {size} bytes")));
    }
    let pages = fs.read(ino, 0, size, Manner::default()).await?.pages;
    let steps = (0..).zip(&pages).map(|(index, page)| {
        let step = step_of(page, index).filter(|step| step % FILES == file);
        step.ok_or_else(|| format!("page {index} of file {file} is no step's"))
    });
    Ok(steps.collect())
}

impl Found {
    /// The last step that any page shows; `FIRST - 1` if there is none.
    pub fn last_step(&self) -> u64 {
        let steps = self.0.iter().flatten().filter_map(|told| told.as_ref().ok()).flatten();
        steps.copied().max().unwrap_or(FIRST - 1)
    }

    /// What breaks the promise of `data` consistency: every page is a whole page of its file, and not older than
    /// acknowledged.
    pub fn problem_of_data(&self, acked: &[u64]) -> Option<String> {
        (0..).zip(self.0.iter().zip(acked)).find_map(|(file, (told, acked))| match told {
            None => (*acked > 0).then(|| format!("file {file} is missing, acknowledged at step {acked}")),
            Some(Err(problem)) => Some(problem.clone()),
            Some(Ok(steps)) => {
                let old = steps.iter().find(|step| *step < acked);
                old.map(|old| format!("file {file} has a page of step {old}, acknowledged at step {acked}"))
            }
        })
    }

    /// What breaks the promise of `version` consistency: the tree is as after one step, and that step is not before an
    /// acknowledged one.
    pub fn problem_of_version(&self, acked: &[u64]) -> Option<String> {
        if let Some(problem) = self.problem_of_data(acked) {
            return Some(problem);
        }
        let last = self.last_step();
        (0..).zip(&self.0).find_map(|(file, told)| {
            let expected = (last + 1 - FILES..=last).find(|step| *step >= FIRST && step % FILES == file);
            let steps: Vec<u64> = told.iter().flatten().flatten().copied().collect();
            let is_right = steps.is_empty() == expected.is_none() && steps.iter().all(|step| Some(*step) == expected);
            (!is_right).then(|| format!("file {file} shows steps {steps:?}, the tree is that after step {last}"))
        })
    }
}

#[test]
fn what_is_older_than_acknowledged_mixed_or_missing_is_noticed() {
    let last = FIRST + 2 * FILES - 1;
    let acked: Vec<u64> = (last + 1 - FILES..=last).collect();
    let told = |file: u64, step: u64| Some(Ok(vec![step; pages_of(file) as usize]));
    let whole = || Found((0..FILES).map(|file| told(file, acked[file as usize])).collect());
    let with = |file: usize, told: Option<Told>| {
        let mut found = whole();
        found.0[file] = told;
        (found.problem_of_data(&acked).is_some(), found.problem_of_version(&acked).is_some())
    };
    assert_eq!(with(1, whole().0[1].clone()), (false, false));
    assert_eq!(with(1, told(1, acked[1] - FILES)), (true, true), "older");
    assert_eq!(with(1, None), (true, true), "missing");
    assert_eq!(with(1, Some(Err(String::new()))), (true, true), "torn");
    let mixed = [vec![acked[1] + FILES], vec![acked[1]; 5]].concat();
    assert_eq!(with(1, Some(Ok(mixed))), (false, true), "mixed, of which only whole versions say anything");
}
