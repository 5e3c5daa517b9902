//! A file system that is made over another, and killed at each of its writes.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{Choices, Device, DevicePort, Executor, Geometry, Image, Lpn, MIB, Operation, RamDisk};
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::is_f2fs;
use onewrite_lab::session::{FormatOptions, Unfinished, plan_f2fs};

/// Requests of a run, without reads.
type Recorder = Rc<RefCell<Recording>>;

/// A disk that holds `image`, and what records its requests.
fn disk(image: &Image) -> (Box<dyn Device>, Recorder) {
    let (geometry, recorder) = (Geometry::plain("ram", image.pages()), Recorder::default());
    let disk = Box::new(RamDisk::with_image(image.clone(), geometry));
    (Box::new(Recorded::new(disk, Rc::clone(&recorder))), recorder)
}

fn run<T: 'static>(device: Box<dyn Device>, work: impl AsyncFnOnce(DevicePort) -> T + 'static) -> T {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    executor.block_on(async move { work(port).await }).expect("nothing halts")
}

/// The requests of a new F2FS over what `image` holds, in the order of `onewrite mkfs`.
fn made_over(image: &Image, seed: u64) -> Vec<Operation> {
    let (device, recorder) = disk(image);
    let (device, first) = Unfinished::new(device);
    let made = run(Box::new(device), async move |port| {
        let plan = plan_f2fs(&port, &FormatOptions::default(), &mut Choices::new(seed))?;
        first.hold_back(&port).await?;
        plan.write(&port).await?;
        first.release(&port).await
    });
    made.expect("a file system");
    let events = recorder.take().events.into_iter();
    let operations = events.filter_map(|event| match event {
        RecordedEvent::Submitted(_, request) => Some(request.operation),
        _ => None,
    });
    operations.collect()
}

/// Puts what an operation writes into the image.
fn apply(image: &mut Image, operation: &Operation) {
    if let Operation::Write { start, pages, .. } = operation {
        (start.0..).zip(pages).for_each(|(at, page)| image.set(Lpn(at), page.clone()));
    }
}

/// Whether the image is recognised as F2FS, and whether it is a sound one.
fn seen(image: &Image) -> (bool, bool) {
    run(disk(image).0, async |port| {
        let is_known = is_f2fs(&port).await.expect("reads");
        let report = check(&port, &CheckOptions::default()).await;
        (is_known, report.is_ok_and(|report| report.is_clean()))
    })
}

#[test]
fn an_f2fs_made_over_another_and_killed_midway_is_none_or_the_new_one() {
    let mut image = Image::new(64 * MIB / 4096);
    made_over(&image, 1).iter().for_each(|operation| apply(&mut image, operation));
    assert_eq!(seen(&image), (true, true), "the old one");
    let old = image.page(Lpn(0)).clone();
    let writes = made_over(&image, 2);
    let count = writes.iter().filter(|operation| matches!(operation, Operation::Write { .. })).count();
    assert!(count >= 10, "{count} writes");
    let mut known = 0;
    for (number, operation) in writes.iter().enumerate() {
        apply(&mut image, operation);
        let (is_known, is_sound) = seen(&image);
        assert!(!is_known || is_sound && *image.page(Lpn(1)) != old, "killed after request {number}");
        known += usize::from(is_known);
    }
    assert_eq!(seen(&image), (true, true), "the new one");
    // Recognised only behind the second superblock: its FLUSH, and the first superblock with its own two FLUSHes.
    assert!(known <= 5, "recognised after {known} of the last requests");
}
