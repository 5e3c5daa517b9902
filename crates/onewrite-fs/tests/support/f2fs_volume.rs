//! Our own F2FS on a RAM disk: make, mount, change, check.

use std::future::Future;
use std::rc::Rc;

use onewrite_block::{
    Bell, Cause, Choices, Completion, Counters, Device, DeviceError, DevicePort, Executor, Geometry, Image, Nanos,
    NextEvent, PAGE_SIZE, PowerCut, RamDisk, Request, Token,
};
use onewrite_device::Profile;
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

/// An emulated device whose time begins anew with each run that it is attached to.
struct Anew {
    device: Box<dyn PowerCut>,
    /// The device's time when the present run began, and now.
    begun: u64,
    last: u64,
}

impl Anew {
    fn at(&mut self, now: Nanos) -> Nanos {
        self.last = self.last.max(self.begun + now.0);
        Nanos(self.last)
    }
}

impl Device for Anew {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn attached(&mut self, bell: Option<Bell>) {
        self.begun = self.last;
        self.device.attached(bell);
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let now = self.at(now);
        self.device.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.device.next_event().moment().map(|moment| Nanos(moment.0.saturating_sub(self.begun))).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let to = self.at(to);
        self.device.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn reset_counters(&mut self) {
        self.device.reset_counters();
    }
}

/// An open-channel SSD with an image on its zones, and a staging area of `stage_bytes` at its end.
pub fn new_zoned_disk(size_bytes: u64, stage_bytes: u64) -> Box<dyn Device> {
    new_failing_disk(size_bytes, stage_bytes, 0, 0)
}

/// The same, of whose programs and erases one in so many fails; 0 for none.
pub fn new_failing_disk(size_bytes: u64, stage_bytes: u64, programs: u64, erases: u64) -> Box<dyn Device> {
    let mut profile = Profile::load("ocssd-huawei").expect("a profile").with_tail(stage_bytes);
    let flash = profile.flash.as_mut().expect("flash");
    (flash.program_fails_one_in, flash.erase_fails_one_in) = (programs, erases);
    let device = Box::new(Anew { device: profile.device(Some(size_bytes)).expect("a device"), begun: 0, last: 0 });
    let zones = device.geometry().zones;
    let mut options = MkfsOptions { stage_bytes, zones, ..MkfsOptions::new(size_bytes, &mut Choices::new(1)) };
    (options.unix_time, options.device_is_zeroed) = (1_496_000_000, true);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let door = port.clone();
    let written = executor.block_on(async move {
        for (block, page) in plan(&options).expect("plan") {
            door.request(Request::write(block.page(), vec![page], Cause::Metadata)).await?;
        }
        Ok::<_, DeviceError>(())
    });
    written.expect("nothing halts").expect("in order");
    drop(executor);
    port.unplug()
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
