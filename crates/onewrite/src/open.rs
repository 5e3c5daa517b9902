//! Images: opens and mounts an image, does one piece of work, and closes it again.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_block::{Device, DevicePort, Executor, HostProfile, Runtime};
use onewrite_device::loops_on;
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::journal::Recovered;
use onewrite_fs::{AnyFs, AnyView, FileSystem, Losses, Recovery, is_f2fs};
use onewrite_lab::experiment::wall_time;
use onewrite_lab::session::{open_disk, view_disk};
use onewrite_lab::transfer::Left;

use crate::stop::Changing;

/// Splits `IMAGE:/PATH`; without `:/` the path is the root of the image.
pub fn image_place(place: &str) -> (PathBuf, String) {
    match split_place(place) {
        Some((image, path)) => (image, path),
        None => (PathBuf::from(place.strip_suffix(':').unwrap_or(place)), "/".to_owned()),
    }
}

/// Splits `IMAGE:/PATH`; `None` for a path on the host.
pub fn split_place(place: &str) -> Option<(PathBuf, String)> {
    if let Some(image) = place.strip_suffix(':') {
        return Some((PathBuf::from(image), "/".to_owned()));
    }
    let colon = place.find(":/")?;
    Some((PathBuf::from(&place[..colon]), place[colon + 1..].to_owned()))
}

/// Splits `IMAGE:/PATH`, for commands that change it.
pub fn named_place(place: &str) -> anyhow::Result<(PathBuf, String)> {
    split_place(place).with_context(|| format!("`{place}` is not in an image; write IMAGE:/PATH"))
}

/// Calls `work` with the device of `image`. Where changes are kept, an interruption only sets a flag
/// ([`crate::stop::check`]), so that the image is closed properly.
pub fn with_device<T: 'static>(
    image: &Path,
    changes: Changes,
    work: impl AsyncFnOnce(DevicePort) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    expect_image(image)?;
    if changes == Changes::InMemory {
        return on_device(view_disk(image)?, work);
    }
    let device = open_disk(image)?;
    let _changing = Changing::begin()?;
    let before = loops_on(image);
    let done = on_device(device, work)?;
    match loops_on(image).into_iter().find(|now| !before.contains(now)) {
        Some(device) => Err(joined(image, &device).into()),
        None => Ok(done),
    }
}

/// Refuses an image that does not exist; knows `IMAGE:PATH` with a path that does not begin with a slash.
fn expect_image(image: &Path) -> anyhow::Result<()> {
    if image.exists() {
        return Ok(());
    }
    let name = image.display().to_string();
    match name.split_once(':').filter(|(before, _)| Path::new(before).is_file()) {
        Some((before, path)) => bail!("{name}: paths in an image begin with a slash; write {before}:/{path}"),
        None => bail!("{name}: no such image; `onewrite mkfs` makes one"),
    }
}

/// The error if the image became a loop device's file meanwhile. The kernel ignores our lock and may overwrite our
/// changes.
fn joined(image: &Path, device: &Path) -> onewrite_device::Error {
    let device = device.display();
    onewrite_device::Error::Busy {
        path: image.display().to_string(),
        by: format!("the file behind {device} since this command changed it; what it did may be lost"),
        cure: format!("detach {device} (umount, losetup -d {device}), run `onewrite fsck`, then do it again"),
    }
}

/// Calls `work` with `device`, in wall time.
pub fn on_device<T: 'static>(
    device: Box<dyn Device>,
    work: impl AsyncFnOnce(DevicePort) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    let executor = Executor::new(wall_time(), HostProfile::default());
    let port = executor.runtime().attach(device);
    executor.block_on(async move { work(port).await })?
}

/// Whether an image keeps what is changed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// It does.
    Kept,
    /// They stay in memory.
    InMemory,
}

/// Describes the recovery of a mount.
pub fn recovered(recovery: &Recovery, changes: Changes) -> String {
    match recovery {
        Recovery::Replayed(recovered) => replayed(recovered, changes),
        Recovery::RolledForward(recovered) => {
            let onewrite_fs::f2fs::Recovered { files, nodes, transactions } = recovered;
            match transactions {
                0 => format!("rolled forward: {files} files that fsync made durable, {nodes} nodes"),
                _ => format!("rolled forward: {files} files that fsync staged, in {transactions} transactions"),
            }
        }
    }
}

/// Describes the recovery of ext4.
pub fn replayed(recovered: &Recovered, changes: Changes) -> String {
    let place = match changes {
        Changes::Kept => "",
        Changes::InMemory => " in memory",
    };
    format!(
        "log replayed{place}: {} transactions, {} log blocks read, {} blocks brought home ({} bytes written), in {:.1} \
         ms",
        recovered.transactions,
        recovered.log_blocks_read,
        recovered.written_blocks,
        recovered.written_bytes,
        recovered.nanoseconds as f64 / 1e6
    )
}

/// A result from a view, and the parts that it could not read and left out.
pub struct Viewed<T> {
    found: T,
    image: String,
    losses: Losses,
}

impl<T> Viewed<T> {
    /// The result; unreadable parts go to `left`.
    pub fn told(self, left: &mut Left) -> T {
        tell_losses(&self.image, self.losses, left);
        self.found
    }
}

/// Adds the parts of `image` that a view left out to `left`.
pub fn tell_losses(image: &str, losses: Losses, left: &mut Left) {
    let Losses { told, count } = losses;
    left.count += count - told.len() as u64;
    told.into_iter().for_each(|loss| left.add(image.as_bytes().to_vec(), format!("not read: {loss}")));
}

/// Calls `work` with a view of `image`, which needs no write permission and changes nothing. With `rescue` it reads
/// what is left of a damaged image. A log that was not replayed is reported on standard error.
pub fn with_view<T: 'static>(
    image: &Path,
    rescue: bool,
    work: impl AsyncFnOnce(&AnyView) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<Viewed<T>> {
    let name = image.display().to_string();
    let told = name.clone();
    let done = with_device(image, Changes::InMemory, async move |port| {
        let options = ViewOptions { is_rescue: rescue, ..ViewOptions::default() };
        let view = AnyView::open(&port, options).await?;
        if let Some((recovered, newer_blocks)) = view.recovered() {
            let (transactions, read) = (recovered.transactions, recovered.log_blocks_read);
            let newer = format!("{read} log blocks read, {newer_blocks} blocks newer than at home");
            note!("{told}: log replayed in memory: {transactions} transactions, {newer}");
        }
        view.warnings().iter().for_each(|warning| errln!("{told}: {warning}"));
        let found = work(&view).await?;
        Ok(Viewed { found, image: told, losses: view.losses() })
    });
    done.with_context(|| name)
}

/// Calls `work` with the file system in `image`, then unmounts it. A replay is
/// reported on standard error.
pub fn with_image<T: 'static>(
    image: &Path,
    changes: Changes,
    work: impl AsyncFnOnce(&AnyFs) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    with_image_and(image, changes, async move |fs, _| work(fs).await)
}

/// Like [`with_image`]; `work` also gets the runtime, to mount others beside it ([`beside`]).
pub fn with_image_and<T: 'static>(
    image: &Path,
    changes: Changes,
    work: impl AsyncFnOnce(&AnyFs, &Runtime) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    let name = image.display().to_string();
    let told = image.to_owned();
    let done = with_device(image, changes, async move |port| {
        let runtime = port.runtime().clone();
        let fs = mount(port, &told, changes).await?;
        let done = work(&fs, &runtime).await;
        fs.unmount().await?;
        done
    });
    done.with_context(|| name)
}

/// An image to copy from while another is mounted.
pub enum Beside {
    /// Mounted.
    Mounted(Box<AnyFs>),
    /// Only viewed.
    Viewed(AnyView),
}

/// Opens the file system in `image` for reading, beside another mounted one. Changes are not kept.
pub async fn beside(runtime: &Runtime, image: &Path) -> anyhow::Result<Beside> {
    expect_image(image)?;
    opened(runtime.attach(view_disk(image)?), image).await.with_context(|| image.display().to_string())
}

async fn opened(port: DevicePort, image: &Path) -> anyhow::Result<Beside> {
    if !is_f2fs(&port).await? {
        return Ok(Beside::Mounted(Box::new(mount(port, image, Changes::InMemory).await?)));
    }
    let view = AnyView::open(&port, ViewOptions::default()).await?;
    view.warnings().iter().for_each(|warning| errln!("{}: {warning}", image.display()));
    Ok(Beside::Viewed(view))
}

async fn mount(port: DevicePort, image: &Path, changes: Changes) -> anyhow::Result<AnyFs> {
    // Blocks are allocated as they are written, so that no commit has a name without the content that it was given for.
    let options = MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Ordered) };
    let fs = AnyFs::mount(port, options).await?;
    if let Some(recovery) = fs.recovery() {
        note!("{}: {}", image.display(), recovered(&recovery, changes));
    }
    Ok(fs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_an_image_if_it_says_so() {
        assert_eq!(split_place("a.img:/b:c"), Some((PathBuf::from("a.img"), "/b:c".to_owned())));
        assert_eq!(split_place("a.img:"), Some((PathBuf::from("a.img"), "/".to_owned())));
        assert_eq!(split_place("dir/a:b"), None);
        assert_eq!(image_place("a.img"), (PathBuf::from("a.img"), "/".to_owned()));
    }
}
