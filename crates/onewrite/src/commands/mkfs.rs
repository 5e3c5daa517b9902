//! `onewrite mkfs`
//!
//! A new image has a temporary name until it is complete. In an existing file or disk, the first page is written last.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use onewrite_block::{Choices, DevicePort, Time};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{AnyFs, FileSystem, FileView};
use onewrite_lab::experiment::{disk, wall_time};
use onewrite_lab::session::{FormatOptions, Formatted, Unfinished, held_by, plan_ext4, plan_f2fs};
use onewrite_lab::transfer::{CopyIn, HostTree, Left, Origin, Transferred, weigh};
use onewrite_lab::{LabError, Partial};
use rustix::process::{getegid, geteuid};

use super::cp::tell_left;
use crate::args::{Mkfs, NewFs};
use crate::open::on_device;
use crate::progress::Copying;

/// Makes a file system.
pub fn mkfs(args: &Mkfs) -> anyhow::Result<ExitCode> {
    if let Some(from) = &args.from
        && !from.is_dir()
    {
        bail!("--from {}: not a directory", from.display());
    }
    if let (NewFs::Ext4, Some(_)) = (args.fs, args.stage) {
        bail!("--stage is for F2FS; leave it out, or add --fs f2fs");
    }
    let (device, partial) = disk(&args.image, args.size)?;
    let (device, first) = Unfinished::new(device);
    let is_new = partial.is_some();
    let name = args.image.display().to_string();
    let seed = args.seed.unwrap_or_else(random_seed);
    let options = FormatOptions {
        journal_bytes: args.journal_size,
        stage_bytes: args.stage.unwrap_or(0),
        is_zeroed: is_new,
        // With a seed nothing of this host is in the image.
        unix_time: if args.seed.is_some() { 0 } else { unix_time() },
        root_owner: if args.seed.is_some() { (0, 0) } else { (geteuid().as_raw(), getegid().as_raw()) },
        label: args.label.clone(),
    };
    let (force, from, kind) = (args.force, args.from.clone(), args.fs);
    let target = partial.as_ref().map_or(&*args.image, Partial::path).to_owned();
    let done = on_device(Box::new(device), async move |port| {
        if !force && let Some(held) = held_by(&port).await? {
            bail!("it holds {held}; --force formats it all the same");
        }
        let mut choices = Choices::new(seed).stream("mkfs", 0);
        let plan = match kind {
            NewFs::Ext4 => plan_ext4(&port, &options, &mut choices)?,
            NewFs::F2fs => plan_f2fs(&port, &options, &mut choices)?,
        };
        first.hold_back(&port).await?;
        let formatted = plan.write(&port).await?;
        let copied = match from {
            Some(from) => Some(fill(port.clone(), kind, (&from, &target)).await?),
            None => None,
        };
        first.release(&port).await?;
        Ok((formatted, copied))
    });
    let (formatted, copied) = done.with_context(|| name.clone())?;
    partial.map_or(Ok(()), Partial::keep_new).map_err(untaken).with_context(|| name.clone())?;
    let (copied, left) = copied.unzip();
    say(&name, args, formatted, copied);
    Ok(tell_left(&left.unwrap_or_default()))
}

/// Says what to do if the name was taken while the image was made.
fn untaken(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow!("somebody else made it meanwhile, and it stays as it is; name another file, or remove that one")
        }
        _ => error.into(),
    }
}

/// How an image is mounted that nobody else can mount before it is complete: what a crash leaves is never looked at, so
/// that blocks are allocated as they are written, in one transaction.
fn while_unfinished(kind: NewFs) -> MountOptions {
    match kind {
        NewFs::Ext4 => MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Writeback) },
        NewFs::F2fs => MountOptions::new(Mode::Ordered),
    }
}

/// Copies the tree `from` into the image, which is the file `target` as yet.
async fn fill(port: DevicePort, kind: NewFs, (from, target): (&Path, &Path)) -> anyhow::Result<(Transferred, Left)> {
    let path = from.canonicalize().with_context(|| from.display().to_string())?;
    let fs = AnyFs::mount(port, while_unfinished(kind)).await?;
    let (tree, mut left) = (HostTree::new()?.without(target), Left::default());
    let mut watcher = Copying::new(&from.display().to_string());
    let root = tree.at(&path)?;
    watcher.weigh(&tree, std::iter::once(root.clone())).await;
    let mut copy = CopyIn::new((&fs, &tree, Origin::Elsewhere), &mut watcher, &mut left).unfinished();
    let shown = from.as_os_str().as_encoded_bytes();
    let copied = copy.tree(&root, shown, fs.root(), None).await;
    drop(copy);
    if let Err(LabError::Full { .. }) = copied {
        let needed = weigh(&tree, vec![root], &mut ()).await?.image_bytes() >> 20;
        let from = from.display();
        bail!("{from} does not fit, so nothing was made; --size {needed}MiB has room for it");
    }
    fs.unmount().await?;
    Ok((copied?, left))
}

fn say(name: &str, args: &Mkfs, formatted: Formatted, copied: Option<Transferred>) {
    let (size, journal) = (formatted.size_bytes >> 20, formatted.journal_bytes >> 20);
    match args.fs {
        NewFs::Ext4 => outln!("{name}: ext4 of {size} MiB with a journal of {journal} MiB"),
        NewFs::F2fs => match args.stage {
            None | Some(0) => outln!("{name}: F2FS of {size} MiB"),
            Some(bytes) => {
                let f2fs = formatted.size_bytes.saturating_sub(bytes) >> 20;
                let stage =
                    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
                outln!("{name}: F2FS of {f2fs} MiB, and a staging area of {stage}");
            }
        },
    }
    if let Some(Transferred { files, directories, others, bytes }) = copied {
        outln!("{files} files, {directories} directories and {others} other entries copied, {bytes} bytes");
    }
}

/// A seed that differs from run to run, so that an image without `--seed` gets its own UUID.
#[expect(clippy::disallowed_methods, reason = "the one number that has to differ from run to run")]
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(unix_time())
}

fn unix_time() -> u32 {
    match wall_time() {
        Time::Wall { civil_start } => (civil_start.0 / 1_000_000_000) as u32,
        Time::Virtual => 0,
    }
}
