//! The translation layers of [`crate::ftl`] on the flash of a profile.

use onewrite_block::{Geometry, PAGE_SIZE, PowerLoss};

use super::Profile;
use super::sides::FtlKind;
use crate::error::Error;
use crate::ftl::{Bast, BastPlan, Dftl, DftlPlan, Fast, FastPlan, Ftl, FtlDevice, FtlPlan, Open, OpenPlan, TimedFtl};
use crate::ssd::model::Model;
use crate::ssd::shape::Shape;

/// A translation layer and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// [`Fast`] with at most this number of random log blocks; `None` for the profile's number. If the profile has
    /// none, all that the spare blocks allow.
    Fast {
        /// [`FastPlan::random_blocks`].
        random_blocks: Option<u32>,
    },
    /// [`Bast`] with at most this number of log blocks; `None` as for FAST.
    Bast {
        /// [`BastPlan::log_blocks`].
        log_blocks: Option<u32>,
    },
    /// [`Dftl`] with a mapping cache of this size; `None` for the share of PFTL, [`Layer::CAPACITY_PER_CACHE`].
    Dftl {
        /// [`DftlPlan::cache_bytes`].
        cache_bytes: Option<u64>,
    },
    /// [`Open`]: none, the host writes flash blocks as zones.
    Open {
        /// Conventional bytes behind the zones, for what the host keeps beside a file system.
        tail_bytes: u64,
    },
}

impl Layer {
    /// Default bytes of the device for each byte of the mapping cache: 64 MB for 128 GB, as in PFTL (`papers/002`
    /// §5.1).
    pub const CAPACITY_PER_CACHE: u64 = 2048;

    /// The name for users.
    pub fn name(&self) -> &'static str {
        match self {
            Layer::Fast { .. } => "fast",
            Layer::Bast { .. } => "bast",
            Layer::Dftl { .. } => "dftl",
            Layer::Open { .. } => "open",
        }
    }

    /// Fewest spare blocks with which the layer works.
    fn spare_blocks_min(&self, logical_pages: u32, block_pages: u32) -> u32 {
        match self {
            Layer::Fast { .. } => FastPlan::SPARE_BLOCKS_MIN,
            Layer::Bast { .. } => BastPlan::SPARE_BLOCKS_MIN,
            Layer::Dftl { .. } => DftlPlan::spare_blocks_min(logical_pages, block_pages),
            // Its page map has its own.
            Layer::Open { .. } => 0,
        }
    }

    /// Refuses more log blocks than the spare blocks of `space` allow.
    ///
    /// # Errors
    /// [`Error::LogBlocks`].
    pub fn check(&self, space: &FtlPlan) -> Result<(), Error> {
        let (asked, most) = match *self {
            Layer::Fast { random_blocks } => (random_blocks, FastPlan::random_blocks_max(space)),
            Layer::Bast { log_blocks } => (log_blocks, BastPlan::log_blocks_max(space)),
            Layer::Dftl { .. } => return Ok(()),
            Layer::Open { tail_bytes } => {
                let plan = open_plan(space, tail_bytes, u32::MAX);
                let bytes = u64::from(space.logical_pages) * PAGE_SIZE as u64;
                return plan.map(drop).ok_or(Error::Zones { bytes });
            }
        };
        let bytes = u64::from(space.logical_pages) * PAGE_SIZE as u64;
        asked.filter(|asked| *asked > most).map_or(Ok(()), |asked| Err(Error::LogBlocks { asked, most, bytes }))
    }

    /// The same layer without a number of log blocks.
    fn open_log(self) -> Layer {
        match self {
            Layer::Fast { .. } => Layer::Fast { random_blocks: None },
            Layer::Bast { .. } => Layer::Bast { log_blocks: None },
            Layer::Dftl { .. } | Layer::Open { .. } => self,
        }
    }

    fn over(&self, space: FtlPlan) -> Box<dyn Ftl> {
        match *self {
            Layer::Fast { random_blocks } => Box::new(Fast::new(FastPlan { space, random_blocks })),
            Layer::Bast { log_blocks } => Box::new(Bast::new(BastPlan { space, log_blocks })),
            Layer::Dftl { cache_bytes } => {
                let share = u64::from(space.logical_pages) * PAGE_SIZE as u64 / Layer::CAPACITY_PER_CACHE;
                let cache_bytes = cache_bytes.unwrap_or(share).max(DftlPlan::ENTRY_BYTES);
                Box::new(Dftl::new(DftlPlan { space, cache_bytes }))
            }
            Layer::Open { tail_bytes } => {
                Box::new(Open::new(open_plan(&space, tail_bytes, u32::MAX).expect("the layer was checked")))
            }
        }
    }
}

impl Profile {
    /// A translation layer on this profile's flash, blank; `capacity_bytes` defaults to [`Profile::RUN_BYTES`].
    ///
    /// A block of the layer spans all dies: memory cards and the erase blocks of SSDs look like this from outside.
    ///
    /// # Errors
    /// If the profile is a hard disk, the capacity has no whole pages or is out of range, or the spare blocks do not
    /// allow the requested log blocks.
    pub fn layer(&self, layer: Layer, capacity_bytes: Option<u64>) -> Result<TimedFtl, Error> {
        let (model, layer) = self.layered(layer, capacity_bytes)?;
        Ok(TimedFtl::new(layer, model))
    }

    /// The layer of [`Profile::device`]; `None` for the page-level layer of the event-driven SSD and for a hard disk.
    pub fn own_layer(&self) -> Option<Layer> {
        let flash = self.flash.as_ref()?;
        match flash.ftl {
            FtlKind::Page => None,
            FtlKind::Fast => Some(Layer::Fast { random_blocks: flash.log_blocks }),
            FtlKind::Bast => Some(Layer::Bast { log_blocks: flash.log_blocks }),
            FtlKind::Dftl => Some(Layer::Dftl { cache_bytes: flash.map_cache_bytes }),
            FtlKind::Open => Some(Layer::Open { tail_bytes: flash.tail_bytes }),
        }
    }

    /// The profile with another translation layer; `None` for the page-level layer of the event-driven SSD. Options
    /// that `layer` leaves open stay as in the profile.
    ///
    /// # Errors
    /// If the profile is a hard disk.
    pub fn with_layer(mut self, layer: Option<Layer>) -> Result<Profile, Error> {
        let Some(flash) = &mut self.flash else { return Err(self.lacks_flash()) };
        match layer {
            None => flash.ftl = FtlKind::Page,
            Some(Layer::Fast { random_blocks }) => {
                (flash.ftl, flash.log_blocks) = (FtlKind::Fast, random_blocks.or(flash.log_blocks));
                flash.is_log_asked = random_blocks.is_some();
            }
            Some(Layer::Bast { log_blocks }) => {
                (flash.ftl, flash.log_blocks) = (FtlKind::Bast, log_blocks.or(flash.log_blocks));
                flash.is_log_asked = log_blocks.is_some();
            }
            Some(Layer::Open { tail_bytes }) => (flash.ftl, flash.tail_bytes) = (FtlKind::Open, tail_bytes),
            Some(Layer::Dftl { cache_bytes }) => {
                (flash.ftl, flash.map_cache_bytes) = (FtlKind::Dftl, cache_bytes.or(flash.map_cache_bytes));
            }
        }
        Ok(self)
    }

    /// The device for a file system that writes zones itself, with `tail_bytes` conventional bytes behind them.
    /// Unchanged unless the profile is an open-channel or zoned device.
    pub fn with_tail(mut self, tail_bytes: u64) -> Profile {
        if let Some(flash) = &mut self.flash {
            flash.tail_bytes = tail_bytes;
        }
        self
    }

    /// The device for what writes anywhere: an open-channel or zoned device goes under a translation layer of the host
    /// (PFTL, `papers/002` §5.1), [`Dftl`] here. Unchanged otherwise.
    pub fn translated(mut self) -> Profile {
        if let Some(flash) = &mut self.flash
            && flash.ftl == FtlKind::Open
        {
            flash.ftl = FtlKind::Dftl;
        }
        self
    }

    /// [`Profile::device`] as its concrete type, a translation layer with content and time, for callers that look
    /// inside.
    ///
    /// # Errors
    /// As [`Profile::device`], or if the profile has the page-level layer of the event-driven SSD or is a hard disk.
    pub fn ftl_device(&self, capacity_bytes: Option<u64>) -> Result<FtlDevice, Error> {
        let Some(layer) = self.own_layer() else {
            let message =
                "its translation layer is the page-level one of the event-driven SSD; name fast, bast, dftl or open";
            return Err(Error::Profile { name: self.name.clone(), message: message.into() });
        };
        // The profile's own number is for its full size; a smaller device takes fewer.
        let is_log_asked = self.flash.as_ref().is_some_and(|flash| flash.is_log_asked);
        let asked = if is_log_asked { layer } else { layer.open_log() };
        let (model, ftl) = self.layered(asked, capacity_bytes)?;
        if let Layer::Open { tail_bytes } = asked {
            return Ok(FtlDevice::new(ftl, self.open_model(model, tail_bytes)));
        }
        let what = format!("a translation layer of kind {} keeps one owner for each page", layer.name());
        let refusal = share_refusal(&what, &model.geometry);
        let geometry = Geometry {
            share_pairs_max: 0,
            share_atomic: false,
            share_refusal: Some(refusal),
            oob_hints: true,
            ..model.geometry.clone()
        };
        Ok(FtlDevice::new(ftl, Model { geometry, ..model }))
    }

    /// The model of a device without translation and without a buffer: what completes is durable.
    fn open_model(&self, model: Model, tail_bytes: u64) -> Model {
        let flash = self.flash.as_ref().expect("it has a layer");
        let space = space(Layer::Open { tail_bytes }, &model.shape, 0.0);
        let plan = open_plan(&space, tail_bytes, flash.open_zones_max).expect("the layer was checked");
        let geometry = Geometry {
            zones: Some(plan.zones),
            // The host's driver has a queue of its own, in which early writes wait.
            queue_depth: model.geometry.queue_depth.max(DRIVER_QUEUE),
            fua: true,
            share_pairs_max: 0,
            share_atomic: false,
            share_refusal: Some(share_refusal("an open-channel device has no map to change", &model.geometry)),
            on_power_loss: PowerLoss::KeepsCompleted,
            write_buffer: None,
            oob_hints: true,
            ..model.geometry.clone()
        };
        Model { geometry, ..model }
    }

    /// A blank layer over this profile's flash, and the model of the flash. Refuses more log blocks than are possible
    /// if `layer` requests them.
    fn layered(&self, layer: Layer, capacity_bytes: Option<u64>) -> Result<(Model, Box<dyn Ftl>), Error> {
        let (Some(flash), Some(buffer)) = (&self.flash, &self.buffer) else { return Err(self.lacks_flash()) };
        let model = self.model(flash, buffer, capacity_bytes)?;
        let space = space(layer, &model.shape, flash.spare_percent);
        layer.check(&space)?;
        let layer = match layer {
            Layer::Fast { random_blocks } => Layer::Fast { random_blocks: random_blocks.or(flash.log_blocks) },
            Layer::Bast { log_blocks } => Layer::Bast { log_blocks: log_blocks.or(flash.log_blocks) },
            other => other,
        };
        let mut ftl = layer.over(space);
        if let Some(faults) = flash.faults()
            && !ftl.set_faults(faults)
        {
            let what = "program_fails_one_in and erase_fails_one_in need the layer page or open";
            let message = format!("{what}; this one is {}: take them out, or name another --ftl", layer.name());
            return Err(Error::Profile { name: self.name.clone(), message });
        }
        Ok((model, ftl))
    }

    pub(super) fn lacks_flash(&self) -> Error {
        let message = "it is a hard disk and has no translation layer".into();
        Error::Profile { name: self.name.clone(), message }
    }
}

/// Why a device takes no SHARE, and what helps. `page_layer` is what it states over its translation layer of pages.
fn share_refusal(what: &str, page_layer: &Geometry) -> String {
    match page_layer.share_pairs_max {
        0 => {
            format!("{what}, and its profile has no SHARE over another; take a device that has it, such as nvme-share")
        }
        _ => format!("{what}; take --ftl page"),
    }
}

/// Fewest requests that the driver of an open-channel device takes at once.
const DRIVER_QUEUE: u32 = 64;

/// The zones of a device with this flash and host space; `None` if it is too small for one.
fn open_plan(space: &FtlPlan, tail_bytes: u64, open_max: u32) -> Option<OpenPlan> {
    let tail_pages = u32::try_from(tail_bytes.div_ceil(PAGE_SIZE as u64)).ok()?;
    OpenPlan::new(space.logical_pages, space.block_pages, tail_pages, open_max)
}

fn space(layer: Layer, shape: &Shape, spare_percent: f64) -> FtlPlan {
    let block_pages = shape.dies * shape.pages_per_block;
    let data_blocks = shape.logical_pages.div_ceil(block_pages);
    let spare_blocks = (f64::from(data_blocks) * spare_percent / 100.0).ceil() as u32;
    let least = layer.spare_blocks_min(shape.logical_pages, block_pages);
    FtlPlan { logical_pages: shape.logical_pages, block_pages, spare_blocks: spare_blocks.max(least) }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use super::*;
    use crate::address::Lpn;

    const LAYERS: [Layer; 3] =
        [Layer::Fast { random_blocks: None }, Layer::Bast { log_blocks: None }, Layer::Dftl { cache_bytes: None }];

    #[test]
    fn every_ssd_profile_takes_every_layer_and_gets_slower_by_writing() {
        for name in Profile::names().filter(|name| *name != "hdd-barracuda") {
            for layer in LAYERS {
                let mut device = Profile::load(name).unwrap().layer(layer, Some(64 * MIB)).unwrap();
                (0..64).for_each(|chunk| device.write(Lpn(chunk * 256).run(256)).unwrap());
                device.begin();
                (0..400).for_each(|turn| device.write(Lpn(turn * 7919 % 16384).run(1)).unwrap());
                let random = device.finish();
                assert!(random.0 > 0 || name == "ideal", "{name} {layer:?}");
                device.ftl().check().unwrap();
            }
        }
    }

    /// Requests of one kind.
    #[derive(Clone, Copy, Debug)]
    struct Load {
        is_write: bool,
        is_random: bool,
        pages: u32,
    }

    const READS: Load = Load { is_write: false, is_random: false, pages: 128 };
    const WRITES: Load = Load { is_write: true, ..READS };
    const RANDOM_READS: Load = Load { is_write: false, is_random: true, pages: 1 };
    const RANDOM_WRITES: Load = Load { is_write: true, ..RANDOM_READS };

    /// Megabytes per second of a load over a range, on a full device of 2 GiB.
    fn speed(name: &str, layer: Layer, load: Load) -> f64 {
        let Load { is_write, is_random, pages } = load;
        let mut device = Profile::load(name).unwrap().layer(layer, Some(2 << 30)).unwrap();
        (0..4096).for_each(|chunk| device.write(Lpn(chunk * 128).run(128)).unwrap());
        let range = 1_000_000_000 / PAGE_SIZE as u32 / pages;
        let requests = if is_random { 40_000 } else { range };
        for turn in 0..2 * requests {
            if turn == requests {
                device.begin();
            }
            let place =
                if is_random { (u64::from(turn) * 2_654_435_761 % u64::from(range)) as u32 } else { turn % range };
            let run = Lpn(place * pages).run(pages);
            let done = if is_write { device.write(run) } else { device.read(run) };
            done.unwrap();
        }
        f64::from(requests * pages) * PAGE_SIZE as f64 / 1e6 / device.finish().as_secs_f64()
    }

    /// A load, its published MB/s, and the accepted range of our value.
    type Published = (Load, f64, std::ops::Range<f64>);

    #[test]
    fn memory_cards_are_as_fast_as_published() {
        let card = |read, write, random_read, random_write| -> [Published; 4] {
            [
                (READS, read, 0.85..1.15),
                (WRITES, write, 0.85..1.15),
                (RANDOM_READS, random_read, 0.85..1.15),
                (RANDOM_WRITES, random_write, 0.5..2.0),
            ]
        };
        let cards = [("microsd-patriot", card(14.8, 5.0, 3.4, 0.1)), ("microsd-adata", card(30.0, 10.0, 3.4, 0.1))];
        let mut wrong = Vec::new();
        for (name, published) in cards {
            for (load, paper, near) in published {
                let found = speed(name, LAYERS[0], load);
                println!("{name}, {load:?}: {found:.3} MB/s, published {paper}");
                wrong.extend((!near.contains(&(found / paper))).then_some((name, load, found, paper)));
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn dies_work_side_by_side_and_a_missed_map_entry_costs_a_read() {
        let dftl = |cache_bytes| Layer::Dftl { cache_bytes: Some(cache_bytes) };
        let speed = |layer, load| speed("ssd-tlc-120g", layer, load);
        let (whole, little) = (dftl(32 << 20), dftl(64 << 10));
        let iops = |layer| speed(layer, RANDOM_READS) * 1e6 / PAGE_SIZE as f64;
        let (write, read) = (speed(whole, WRITES), iops(whole));
        println!("ssd-tlc-120g: {write:.1} MB/s written, published 130; {read:.0} random reads, published 86,000");
        assert!((0.85..1.15).contains(&(write / 130.0)) && (0.75..1.15).contains(&(read / 86_000.0)), "{write} {read}");
        let missed = iops(little);
        assert!(
            (0.4..0.7).contains(&(missed / read)),
            "{missed:.0} with a small mapping cache, {read:.0} with a large one"
        );
    }

    #[test]
    fn a_hard_disk_has_no_translation_layer() {
        let error = Profile::load("hdd-barracuda").unwrap().layer(LAYERS[0], None).unwrap_err();
        assert!(error.to_string().contains("hard disk"), "{error}");
    }
}
