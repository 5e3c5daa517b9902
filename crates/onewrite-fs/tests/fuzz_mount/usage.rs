//! Use of a mutated image: mount, walk, change and unmount it, within limits on requests and virtual time.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::sync::either;
use onewrite_block::{Choices, Executor, Geometry, Image, Nanos, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AttributeChanges, AttributeManner, Content, FileKind, FileSystem, FileView, FsResult, Ino, Manner,
    NewNode, Position, RenameManner, SeekTarget,
};

/// Requests after which the device fails: many times the need of a sound image.
const REQUESTS_MAX: u64 = 30_000;
/// Virtual time after which a run counts as hung.
const TIME_MAX: Nanos = Nanos::from_secs(3_600);
/// Most names and files in one walk.
const ENTRIES_MAX: usize = 250;
const OPERATIONS: usize = 20;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not mounted.
    Refused,
    /// Mounted; an operation reported damage, or the journal stopped.
    Complained,
    /// Mounted, used and unmounted without an error.
    Silent,
}

/// A name that a walk found.
struct Name {
    directory: Ino,
    name: Vec<u8>,
    ino: Ino,
    kind: FileKind,
}

/// Uses the image; `Err` if that panics or does not end.
pub fn try_out(image: Image, choices: Choices) -> Result<End, String> {
    let plain = Geometry::plain("ram", image.pages());
    let geometry = Geometry { share_pairs_max: 100, share_atomic: true, ..plain };
    let plan = FaultPlan::of(Fault::From(REQUESTS_MAX));
    let device = Faulty::new(Box::new(RamDisk::with_image(image, geometry)), plan);
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(Box::new(device));
    let end = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&end);
    let work = async move {
        either(async move { *slot.borrow_mut() = Some(use_it(port, choices).await) }, runtime.sleep(TIME_MAX)).await;
    };
    match catch_unwind(AssertUnwindSafe(|| executor.block_on(work))) {
        Ok(Ok(())) => end.take().ok_or_else(|| "an hour of virtual time passed".into()),
        Ok(Err(halt)) => Err(halt.to_string()),
        Err(_) => {
            // Never drop a state that a panic left inconsistent.
            std::mem::forget(executor);
            Err("panic".into())
        }
    }
}

async fn use_it(port: onewrite_block::DevicePort, mut choices: Choices) -> End {
    let mode = Mode::ALL[choices.index(Mode::ALL.len())];
    let options = MountOptions { cache_pages: 512, ..MountOptions::new(mode) };
    let Ok(fs) = Ext4::mount(port, options).await else { return End::Refused };
    let (mut names, mut complaints) = (Vec::new(), 0_u32);
    complaints += u32::from(walk(&fs, &mut names).await.is_err());
    for _ in 0..OPERATIONS {
        let outcome = operate(&fs, &names, &mut choices).await;
        complaints += u32::from(outcome.is_err_and(|error| matches!(error.errno(), 5 | 30 | 117)));
    }
    complaints += u32::from(fs.sync().await.is_err());
    complaints += u32::from(fs.unmount().await.is_err());
    if complaints == 0 { End::Silent } else { End::Complained }
}

/// Reads everything that has a name; continues after errors and returns the first.
async fn walk(fs: &Ext4, names: &mut Vec<Name>) -> FsResult<()> {
    let mut outcome = Ok(());
    let mut pending = vec![fs.root()];
    while let Some(ino) = pending.pop() {
        let kind = match fs.attributes(ino).await {
            Ok(attributes) => attributes.kind,
            Err(error) => {
                outcome = outcome.and(Err(error));
                continue;
            }
        };
        if kind == FileKind::Directory && names.len() < ENTRIES_MAX {
            let start = names.len();
            outcome = outcome.and(list(fs, ino, names).await);
            pending.extend(names[start..].iter().map(|name| name.ino));
        }
        outcome = outcome.and(look_at(fs, ino, kind).await);
    }
    outcome
}

async fn list(fs: &Ext4, directory: Ino, names: &mut Vec<Name>) -> FsResult<()> {
    let mut cursor = 0;
    while names.len() < ENTRIES_MAX {
        let entries = fs.read_directory(directory, cursor).await?;
        let Some(last) = entries.last() else { return Ok(()) };
        assert!(last.next > cursor, "listing {directory} stays at {cursor}");
        cursor = last.next;
        let dots = |name: &[u8]| matches!(name, b"." | b"..");
        for entry in entries.into_iter().filter(|entry| !dots(&entry.name)) {
            names.push(Name { directory, name: entry.name, ino: entry.ino, kind: entry.kind });
        }
    }
    Ok(())
}

async fn look_at(fs: &Ext4, ino: Ino, kind: FileKind) -> FsResult<()> {
    for name in fs.extended_attributes(ino).await? {
        fs.extended_attribute(ino, &name).await?;
    }
    match kind {
        FileKind::Regular => read(fs, ino).await,
        FileKind::Symlink => fs.read_link(ino).await.map(drop),
        _ => Ok(()),
    }
}

/// Reads the start and the end, and seeks data and holes a few times.
async fn read(fs: &Ext4, ino: Ino) -> FsResult<()> {
    let size = fs.attributes(ino).await?.size;
    fs.read(ino, 0, 128 * 1024, Manner::default()).await?;
    fs.read(ino, size.saturating_sub(5_000), 8_192, Manner::default()).await?;
    let mut at = 0;
    for _ in 0..8 {
        let Ok(data) = fs.seek(ino, at, SeekTarget::Data).await else { break };
        fs.read(ino, data, 4_096, Manner { direct: data.is_multiple_of(4096), once: false }).await?;
        let Ok(hole) = fs.seek(ino, data, SeekTarget::Hole).await else { break };
        assert!(at <= data && data <= hole, "seeking in {ino} goes back from {at} to {data} to {hole}");
        at = hole;
    }
    Ok(())
}

async fn operate(fs: &Ext4, names: &[Name], choices: &mut Choices) -> FsResult<()> {
    let root = Name { directory: fs.root(), name: b"hello".to_vec(), ino: fs.root(), kind: FileKind::Directory };
    let pick = |choices: &mut Choices| if names.is_empty() { &root } else { &names[choices.index(names.len())] };
    let (one, other) = (pick(choices), pick(choices));
    let home = if other.kind == FileKind::Directory { other.ino } else { other.directory };
    let fresh = vec![b'a' + choices.index(26) as u8; 1 + choices.index(200)];
    let at = choices.below(4) * choices.below(1 << 20);
    let pattern = Content::Pattern { seed: at, compressible_percent: 0, length: 1 + choices.below(40_000) };
    match choices.index(16) {
        0 => fs.create(home, &fresh, NewNode::FILE).await.map(drop),
        1 => fs.create(home, &fresh, NewNode::DIRECTORY).await.map(drop),
        2 => fs.symlink(home, &fresh, &vec![b't'; 1 + choices.index(200)]).await.map(drop),
        3 => fs.link(one.ino, home, &fresh).await,
        4 => fs.unlink(one.directory, &one.name).await,
        5 => fs.remove_directory(one.directory, &one.name).await,
        6 => fs.rename((one.directory, &one.name), (home, &fresh), RenameManner::NoReplace).await,
        7 => fs.rename((one.directory, &one.name), (other.directory, &other.name), RenameManner::Replace).await,
        8 => fs.rename((one.directory, &one.name), (other.directory, &other.name), RenameManner::Exchange).await,
        9 => fs.write(one.ino, Position::End, pattern, Manner::default()).await.map(drop),
        10 => fs.set_attributes(one.ino, AttributeChanges { size: Some(at), ..Default::default() }).await,
        11 => {
            let (at, length) = if choices.chance(1, 2) { (at, 100_000) } else { (at - at % 4096, 98_304) };
            fs.allocate(one.ino, at, length, manner_of_allocation(choices)).await
        }
        12 => set_extended_attribute(fs, one.ino, choices).await,
        13 => fs.fsync(one.ino).await,
        14 => {
            let page = Content::Pattern { seed: at, compressible_percent: 0, length: 16_384 };
            fs.write(one.ino, Position::At(at - at % 4096), page, Manner { direct: true, once: false }).await.map(drop)
        }
        _ => fs.write(one.ino, Position::At(at), pattern, Manner::default()).await.map(drop),
    }
}

fn manner_of_allocation(choices: &mut Choices) -> Allocation {
    let manners = [
        Allocation::Extend,
        Allocation::KeepSize,
        Allocation::PunchHole,
        Allocation::ZeroRange,
        Allocation::CollapseRange,
        Allocation::InsertRange,
    ];
    manners[choices.index(manners.len())]
}

async fn set_extended_attribute(fs: &Ext4, ino: Ino, choices: &mut Choices) -> FsResult<()> {
    let value = vec![b'v'; choices.index(3000)];
    let value = choices.chance(2, 3).then_some(&value[..]);
    fs.set_extended_attribute(ino, b"user.large", value, AttributeManner::Either).await
}
