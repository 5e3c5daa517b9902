//! `onewrite mkfs`

use std::path::Path;

use anyhow::{Context, bail};
use onewrite_block::{Choices, DevicePort, Time};
use onewrite_fs::FileSystem;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_lab::session::{DeviceChoice, FormatOptions, Formatted, format, held_by};
use onewrite_lab::transfer::{Transferred, copy_in};

use crate::args::Mkfs;
use crate::open::{on_device, wall_time};

/// Makes a file system.
pub fn mkfs(args: &Mkfs) -> anyhow::Result<()> {
    if let Some(from) = &args.from
        && !from.is_dir()
    {
        bail!("--from {}: not a directory", from.display());
    }
    let is_new = !args.image.exists();
    let device = DeviceChoice::Disk(args.image.clone()).open(args.size)?;
    let name = args.image.display().to_string();
    let seed = args.seed.unwrap_or_else(random_seed);
    let options = FormatOptions {
        journal_bytes: args.journal_size,
        is_zeroed: is_new,
        unix_time: if args.seed.is_some() { 0 } else { unix_time() },
        label: args.label.clone(),
    };
    let (force, from) = (args.force, args.from.clone());
    let done = on_device(device, async move |port| {
        if !force && let Some(held) = held_by(&port).await? {
            bail!("it holds {held}; --force formats it all the same");
        }
        let formatted = format(&port, &options, &mut Choices::new(seed).stream("mkfs", 0)).await?;
        let copied = match from {
            Some(from) => Some(fill(port, &from).await?),
            None => None,
        };
        Ok((formatted, copied))
    });
    if done.is_err() && is_new {
        // What did not become a file system is not left behind.
        let _ = std::fs::remove_file(&args.image);
    }
    let (formatted, copied) = done.with_context(|| name.clone())?;
    say(&name, formatted, copied);
    Ok(())
}

async fn fill(port: DevicePort, from: &Path) -> anyhow::Result<Transferred> {
    let fs = Ext4::mount(port, MountOptions::new(Mode::Ordered)).await?;
    let copied = copy_in(&fs, from, fs.root(), None).await;
    fs.unmount().await?;
    Ok(copied?)
}

fn say(name: &str, formatted: Formatted, copied: Option<Transferred>) {
    let (size, journal) = (formatted.size_bytes >> 20, formatted.journal_bytes >> 20);
    outln!("{name}: ext4 of {size} MiB with a journal of {journal} MiB");
    if let Some(Transferred { files, directories, others, bytes }) = copied {
        outln!("{files} files, {directories} directories and {others} other entries copied, {bytes} bytes");
    }
}

/// A seed that differs from run to run: an image that is not asked to be repeatable gets its own UUID.
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
