//! Our own F2FS on a RAM disk: make, mount, change, check.

use std::future::Future;
use std::rc::Rc;

use onewrite_block::{Choices, Device, DevicePort, Executor, Geometry, Image, PAGE_SIZE, RamDisk};
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::f2fs::mkfs::{MkfsOptions, plan};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{FileSystem, FsResult};

use super::Scratch;
use super::f2fs::judged;
use super::volume::save;

pub fn new_disk(size_bytes: u64) -> RamDisk {
    new_staged_disk(size_bytes, 0)
}

/// A disk with a staging area of `stage_bytes` at its end.
pub fn new_staged_disk(size_bytes: u64, stage_bytes: u64) -> RamDisk {
    let mut options = MkfsOptions { stage_bytes, ..MkfsOptions::new(size_bytes, &mut Choices::new(1)) };
    (options.unix_time, options.device_is_zeroed) = (1_496_000_000, true);
    let mut disk = RamDisk::volatile(size_bytes / PAGE_SIZE as u64);
    for (block, page) in plan(&options).expect("plan") {
        disk.put(block.page(), page);
    }
    disk
}

/// How a mount ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By an unmount.
    Unmounted,
    /// As it is; what the device has not got stays out.
    AsItIs,
}

/// Mounts `device`, runs `work` on it, and unmounts it if `left` says so. Returns result and device.
pub fn with_mount<T: 'static, F: Future<Output = FsResult<T>> + 'static>(
    device: Box<dyn Device>,
    options: F2fsOptions,
    left: Left,
    work: impl FnOnce(Rc<F2fs>, DevicePort) -> F + 'static,
) -> (T, Box<dyn Device>) {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let door = port.clone();
    let outcome = executor.block_on(async move {
        let fs = Rc::new(F2fs::mount(door.clone(), options).await?);
        let result = work(Rc::clone(&fs), door).await?;
        fs.check().unwrap_or_else(|problem| panic!("{problem}"));
        if left == Left::Unmounted {
            fs.unmount().await?;
        }
        FsResult::Ok(result)
    });
    drop(executor);
    (outcome.expect("nothing halts").unwrap_or_else(|error| panic!("{error}")), port.unplug())
}

pub fn assert_clean(image: &Image) {
    let scratch = Scratch::new(&format!("f2fs-volume-{:?}", std::thread::current().id()));
    let path = scratch.path("image");
    save(image, &path);
    let (is_clean, said) = judged(&path);
    assert!(is_clean, "{said}");
    let executor = Executor::ideal();
    let geometry = Geometry::plain("ram", image.pages());
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image.clone(), geometry)));
    let report = executor.block_on(async move { check(&port, &CheckOptions::default()).await });
    let report = report.expect("nothing halts").expect("a check");
    assert!(report.is_clean(), "{:?}", report.findings);
}
