//! Images: opened, mounted and closed again around one piece of work.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use onewrite_block::{Device, DevicePort, Executor, HostProfile, Nanos, Time};
use onewrite_fs::FileSystem;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::journal::Recovered;
use onewrite_lab::session::{open_disk, view_disk};

/// Wall time from now on.
pub fn wall_time() -> Time {
    #[expect(clippy::disallowed_methods, reason = "files in an image carry the date")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::Wall { civil_start: Nanos(since.as_nanos() as u64) }
}

/// `IMAGE:/PATH` taken apart; without `:/` the image's root.
pub fn image_place(place: &str) -> (PathBuf, String) {
    match split_place(place) {
        Some((image, path)) => (image, path),
        None => (PathBuf::from(place.strip_suffix(':').unwrap_or(place)), "/".to_owned()),
    }
}

/// `IMAGE:/PATH` taken apart; `None` for a place on the host.
pub fn split_place(place: &str) -> Option<(PathBuf, String)> {
    if let Some(image) = place.strip_suffix(':') {
        return Some((PathBuf::from(image), "/".to_owned()));
    }
    let colon = place.find(":/")?;
    Some((PathBuf::from(&place[..colon]), place[colon + 1..].to_owned()))
}

/// Does `work` with the device of `image`; nothing lasts unless `writes`.
pub fn with_device<T: 'static>(
    image: &Path,
    writes: bool,
    work: impl AsyncFnOnce(DevicePort) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    if !image.exists() {
        bail!("{}: no such image; `onewrite mkfs` makes one", image.display());
    }
    let device = if writes { open_disk(image)? } else { view_disk(image)? };
    on_device(device, work)
}

/// Does `work` with `device`, in wall time.
pub fn on_device<T: 'static>(
    device: Box<dyn Device>,
    work: impl AsyncFnOnce(DevicePort) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    let executor = Executor::new(wall_time(), HostProfile::default());
    let port = executor.runtime().attach(device);
    executor.block_on(async move { work(port).await })?
}

/// What recovery did, in words; `lasts` if the image keeps it.
pub fn replayed(recovered: &Recovered, lasts: bool) -> String {
    let place = if lasts { "" } else { " in memory" };
    format!(
        "log replayed{place}: {} transactions, {} log blocks read, {} blocks brought home ({} bytes written), in {:.1} ms",
        recovered.transactions,
        recovered.log_blocks_read,
        recovered.written_blocks,
        recovered.written_bytes,
        recovered.nanoseconds as f64 / 1e6
    )
}

/// Does `work` with the file system in `image`, and unmounts it; nothing lasts unless `writes`. A log that was replayed is told on
/// standard error.
pub fn with_image<T: 'static>(
    image: &Path,
    writes: bool,
    work: impl AsyncFnOnce(&Ext4) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<T> {
    let name = image.display().to_string();
    let told = name.clone();
    let done = with_device(image, writes, async move |port| {
        let fs = Ext4::mount(port, MountOptions::new(Mode::Ordered)).await?;
        if let Some(recovered) = fs.recovered() {
            eprintln!("{told}: {}", replayed(&recovered, writes));
        }
        let done = work(&fs).await;
        fs.unmount().await?;
        done
    });
    done.with_context(|| name)
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
