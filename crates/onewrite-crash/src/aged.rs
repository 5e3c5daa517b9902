//! Aged: an emulated device that holds the initial content of a workload, used until it collects garbage.

use onewrite_block::{Cause, Choices, DeviceError, Executor, Image, Lpn, Nanos, PowerCut, Request, Zones};

use std::ops::Range;
use std::rc::Rc;

use crate::action::Workload;
use crate::background::Region;
use crate::capturing::{Capturing, CapturingDevice, Wanted};
use crate::error::CrashError;
use crate::lives::prepare;
use crate::model::Tree;
use crate::options::ExploreOptions;
use crate::plan::MakeDevice;
use crate::subject::Subject;
use crate::walk::base_of;

/// A device that holds a workload's initial content and, behind it, the aged region of the background load.
pub(crate) struct Aged {
    /// Identifies the setup that made the content.
    pub(crate) base: u64,
    pub(crate) device: Box<dyn PowerCut>,
    /// The device's time.
    pub(crate) now: Nanos,
    pub(crate) content: Image,
    pub(crate) tree: Tree,
}

impl Aged {
    /// The device that `workload` begins on.
    ///
    /// # Errors
    /// If the workload's setup cannot be run.
    pub(crate) fn new<S: Subject>(
        subject: &Rc<S>,
        workload: &Workload,
        options: &ExploreOptions,
        make: &MakeDevice<'_>,
    ) -> Result<Aged, CrashError> {
        let base = base_of(workload);
        let (image, tree) = prepare(subject, workload, options)?;
        let region = Region::behind(image.pages());
        let chance = Choices::new(options.seed).stream("ageing", base);
        let (device, now, content) = load(make(region.device_pages()), &image, region, chance)?;
        Ok(Aged { base, device, now, content, tree })
    }
}

/// Writes an image durably to a device and ages the region behind it. Returns the device, its time and its content.
fn load(
    device: Box<dyn PowerCut>,
    image: &Image,
    region: Region,
    mut chance: Choices,
) -> Result<(Box<dyn PowerCut>, Nanos, Image), CrashError> {
    let watch = Capturing::new(device, Nanos::ZERO, Wanted::default(), &Rc::default());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(CapturingDevice::new(&watch));
    let mut content = Image::new(region.device_pages());
    image.written().filter(|(lpn, _)| lpn.0 < image.pages()).for_each(|(lpn, page)| content.set(lpn, page.clone()));
    let work = async move {
        let most = u64::from(port.geometry().transfer_pages_max);
        for run in written_runs(&content, region.start, port.geometry().zones) {
            for start in run.clone().step_by(most as usize) {
                let end = run.end.min(start + most);
                let pages = (start..end).map(|lpn| content.page(Lpn(lpn)).clone()).collect();
                port.request(Request::write(Lpn(start), pages, Cause::Metadata)).await?;
            }
        }
        region.age(&port, &mut content, &mut chance).await?;
        let now = port.runtime().now();
        port.unplug();
        Ok::<_, DeviceError>((now, content))
    };
    let outcome = executor.block_on(work).map_err(|halt| CrashError::Halted { what: "loading".into(), halt })?;
    drop(executor);
    let loaded = outcome.map_err(|error| CrashError::FileSystem { what: "loading".into(), error: error.into() });
    let (now, content) = loaded?;
    let watch = Rc::into_inner(watch).expect("the port is unplugged and the run is over");
    Ok((watch.into_inner().device, now, content))
}

/// The pages to write so that a device holds an image of `pages`: all of them, but of each zone only those up to the
/// last that holds anything, as its logs left it.
fn written_runs(image: &Image, pages: u64, zones: Option<Zones>) -> Vec<Range<u64>> {
    let Some(zones) = zones else { return std::iter::once(0..pages).collect() };
    let of_zone = |zone: u64| {
        let (start, end) = (zones.start(zone).0, zones.start(zone + 1).0.min(pages));
        let last = (start..end).rev().find(|page| !image.page(Lpn(*page)).is_zeros());
        start..last.map_or(start, |last| last + 1)
    };
    let (first, behind) = (0..zones.first.0.min(pages), zones.end().min(pages)..pages);
    std::iter::once(first).chain((0..zones.count).map(of_zone)).chain([behind]).filter(|run| !run.is_empty()).collect()
}
