//! Background: a load on the same emulated device, behind the image, as on another partition.
//!
//! A device with nothing but a small image never collects garbage, and most modes never use SHARE. So the region
//! behind the image is aged until the device moves pages. While the workload runs, four tasks write, trim, share and
//! flush there. The device's promises hold in this region too: every page reads as its last durable content or a
//! newer one, and a SHARE under way takes effect whole or not at all.
//!
//! Each task has a quarter of the region. One half of the quarter always holds written pages and gives the sources of
//! SHAREs. The other half gives the targets and is trimmed too. A task waits for each request, so its order is known.

use onewrite_block::{
    Cause, Choices, DeviceError, DevicePort, Geometry, Image, Lpn, Nanos, Page, Pattern, Remap, Request, TrimRead,
};

/// Names the stream of random choices. Every seed's run depends on it, so the word must not change.
const STREAM: &str = "background load";
/// Number of tasks that run side by side.
const TASKS: u64 = 4;
/// Most writes for each page of the region while a device is aged.
const AGEING_MAX: u64 = 6;
/// Longest time of the load; runs take seconds.
const LOAD_MAX: Nanos = Nanos::from_millis(100_000);

/// The region behind an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Its first page; equals the number of pages of the image.
    pub(crate) start: u64,
    pages: u64,
}

/// Pages of the device whose first `image_pages` hold the image: behind them lies the region of the background load.
pub fn device_pages(image_pages: u64) -> u64 {
    Region::behind(image_pages).device_pages()
}

/// A page with random content, unlike every other.
fn fresh(chance: &mut Choices) -> Page {
    Page::pattern(Pattern { seed: chance.bits(), compressible_percent: 0 })
}

impl Region {
    /// The region behind an image of `image_pages`: a quarter of its size.
    pub(crate) fn behind(image_pages: u64) -> Region {
        Region { start: image_pages, pages: image_pages / 4 / TASKS * TASKS }
    }

    /// Pages of image and region.
    pub(crate) fn device_pages(&self) -> u64 {
        self.start + self.pages
    }

    /// Fills the region and overwrites it until the device has moved pages to collect garbage. Gives up after
    /// [`AGEING_MAX`] writes for each page. Keeps `image` equal to the device's content.
    pub(crate) async fn age(
        &self,
        port: &DevicePort,
        image: &mut Image,
        chance: &mut Choices,
    ) -> Result<(), DeviceError> {
        for number in 0..self.pages * AGEING_MAX {
            if number > self.pages && number % 64 == 0 && port.device().counters().moved_pages > 0 {
                break;
            }
            let place = if number < self.pages { number } else { chance.below(self.pages) };
            let (lpn, page) = (Lpn(self.start + place), fresh(chance));
            image.set(lpn, page.clone());
            port.request(Request::write(lpn, vec![page], Cause::Data)).await?;
        }
        port.request(Request::flush(Cause::Data)).await.map(drop)
    }

    /// Starts the tasks; they run until the run ends, or for [`LOAD_MAX`]: then a file system that waits for ever is
    /// seen to do so.
    pub(crate) fn keep_busy(&self, port: &DevicePort, chance: &Choices, effect: Effect) {
        for task in 0..TASKS {
            let pages = self.pages / TASKS;
            let (start, half) = (self.start + task * pages, pages / 2);
            let mut load = LoadTask { start, half, effect, chance: chance.stream(STREAM, task) };
            let port = port.clone();
            port.runtime().clone().spawn(async move {
                // A request fails when the device fails; the run's own requests then report the error.
                while port.runtime().now() < LOAD_MAX && port.request(load.next(port.geometry())).await.is_ok() {
                    let pause = Nanos(50_000 + load.chance.below(1_500_000));
                    port.runtime().sleep(pause).await;
                }
            });
        }
    }
}

/// What background load does to what others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It flushes and shares, which makes everything durable.
    MakesDurable,
    /// It does neither, because that would make durable what a commit without FLUSH left volatile.
    LeavesVolatile,
}

struct LoadTask {
    start: u64,
    /// Pages of either half.
    half: u64,
    effect: Effect,
    chance: Choices,
}

impl LoadTask {
    fn next(&mut self, geometry: &Geometry) -> Request {
        match self.chance.below(20) {
            0..10 => self.write(2 * self.half),
            10..16 if geometry.share_pairs_max > 0 && self.effect == Effect::MakesDurable => {
                self.share(u64::from(geometry.share_pairs_max))
            }
            16..19 if geometry.trim_read != TrimRead::Unsupported => self.trim(),
            10..19 => self.write(self.half),
            _ if self.effect == Effect::LeavesVolatile => self.write(self.half),
            _ => Request::flush(Cause::Data),
        }
    }

    /// Writes within the first `pages` of the quarter.
    fn write(&mut self, pages: u64) -> Request {
        let count = 1 + self.chance.below(8);
        let start = Lpn(self.start + self.chance.below(pages - count));
        Request::write(start, (0..count).map(|_| fresh(&mut self.chance)).collect(), Cause::Data)
    }

    fn trim(&mut self) -> Request {
        let count = 1 + self.chance.below(6);
        Request::trim(Lpn(self.start + self.half + self.chance.below(self.half - count)), count, Cause::Data)
    }

    fn share(&mut self, pairs_max: u64) -> Request {
        let count = 1 + self.chance.below(pairs_max.min(12));
        let first = self.start + self.half + self.chance.below(self.half - count);
        let mut source = || Lpn(self.start + self.chance.below(self.half));
        let pairs = (first..first + count).map(|target| Remap { target: Lpn(target), source: source() }).collect();
        Request::share(pairs, Cause::Data)
    }
}
