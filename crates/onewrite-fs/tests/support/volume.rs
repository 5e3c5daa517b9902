//! Our own ext4 on a RAM disk: make, mount, change, check.

use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use onewrite_block::{Cause, Choices, Device, DevicePort, Executor, Image, Lpn, PAGE_SIZE, RamDisk, Request};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, MountOptions};
use onewrite_fs::{FileSystem, FsResult};

/// A RAM disk with a new ext4 of `size_bytes` and a log of `journal_blocks`.
pub fn new_disk(size_bytes: u64, journal_blocks: u32) -> RamDisk {
    let mut options = MkfsOptions::new(size_bytes, &mut Choices::new(1));
    (options.journal_blocks, options.unix_time, options.device_is_zeroed) = (Some(journal_blocks), 1_496_000_000, true);
    let mut disk = RamDisk::volatile(size_bytes / PAGE_SIZE as u64);
    for (block, page) in plan(&options).expect("plan") {
        disk.put(block.page(), page);
    }
    disk
}

/// Mounts `device`, runs `work` on it, and unmounts it unless `work` fails. Returns result and device.
pub fn with_mount<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    device: Box<dyn Device>,
    options: MountOptions,
    work: impl FnOnce(Rc<Ext4>, DevicePort) -> F + 'static,
) -> (FsResult<T>, Box<dyn Device>) {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let door = port.clone();
    let outcome = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(door.clone(), options).await?);
        let result = work(Rc::clone(&fs), door).await?;
        fs.unmount().await?;
        fs.check().expect("cache");
        Ok(result)
    });
    drop(executor);
    (outcome.expect("nothing halts"), port.unplug())
}

/// Reads a whole device through requests.
pub fn image(device: Box<dyn Device>) -> Image {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    executor.block_on(async move { contents(&port).await.expect("read") }).expect("nothing halts")
}

/// What a device holds: what a power cut now leaves, if it loses no write.
pub async fn contents(port: &DevicePort) -> FsResult<Image> {
    let mut image = Image::new(port.geometry().pages);
    let most: u64 = port.geometry().transfer_pages_max.min(256).into();
    for start in (0..image.pages()).step_by(most as usize) {
        let count = (image.pages() - start).min(most) as u32;
        let pages = port.request(Request::read(Lpn(start), count, Cause::Data)).await?;
        (start..).map(Lpn).zip(pages).for_each(|(lpn, page)| image.set(lpn, page));
    }
    Ok(image)
}

/// Writes an image to a file.
pub fn save(image: &Image, path: &Path) {
    let file = std::fs::File::create(path).expect("image");
    file.set_len(image.pages() * PAGE_SIZE as u64).expect("size");
    for (lpn, page) in image.written() {
        if !page.is_zeros() {
            file.write_all_at(&page.bytes()[..], lpn.0 * PAGE_SIZE as u64).expect("write");
        }
    }
}

/// Reads an image from a file.
pub fn load(path: &Path) -> Image {
    let file = std::fs::File::open(path).expect("image");
    let pages = file.metadata().expect("size").len() / PAGE_SIZE as u64;
    let mut image = Image::new(pages);
    let mut bytes = [0; PAGE_SIZE];
    for page in 0..pages {
        file.read_exact_at(&mut bytes, page * PAGE_SIZE as u64).expect("read");
        if bytes != [0; PAGE_SIZE] {
            image.set(Lpn(page), onewrite_block::Page::new(bytes));
        }
    }
    image
}
