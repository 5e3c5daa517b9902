//! The translation layers of [`crate::ftl`] on the flash of a profile.

use super::Profile;
use crate::error::Error;
use crate::ftl::{Fast, FastPlan, Ftl, FtlPlan, TimedFtl};
use crate::ssd::shape::Shape;

/// A translation layer and what it leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// [`Fast`] with so many random log blocks at most; none for as many as the spare blocks allow.
    Fast {
        /// [`FastPlan::random_blocks`].
        random_blocks: Option<u32>,
    },
}

impl Layer {
    /// The name by which users know it.
    pub fn name(&self) -> &'static str {
        match self {
            Layer::Fast { .. } => "fast",
        }
    }
}

impl Profile {
    /// A translation layer on this profile's flash, blank; `capacity_bytes` defaults to [`Profile::RUN_BYTES`].
    ///
    /// A block of the layer lies over all dies, as in memory cards and as erase blocks of SSDs look from outside.
    ///
    /// # Errors
    /// If the profile is a hard disk's, or the capacity has no whole pages or is out of bounds.
    pub fn layer(&self, layer: Layer, capacity_bytes: Option<u64>) -> Result<TimedFtl, Error> {
        let (Some(flash), Some(buffer)) = (&self.flash, &self.buffer) else {
            let message = "it is a hard disk and has no translation layer".into();
            return Err(Error::Profile { name: self.name.clone(), message });
        };
        let model = self.model(flash, buffer, capacity_bytes)?;
        let space = space(&model.shape, flash.spare_percent);
        let ftl: Box<dyn Ftl> = match layer {
            Layer::Fast { random_blocks } => Box::new(Fast::new(FastPlan { space, random_blocks })),
        };
        Ok(TimedFtl::new(ftl, model))
    }
}

fn space(shape: &Shape, spare_percent: f64) -> FtlPlan {
    let block_pages = shape.dies * shape.pages_per_block;
    let data_blocks = shape.logical_pages.div_ceil(block_pages);
    let spare_blocks = (f64::from(data_blocks) * spare_percent / 100.0).ceil() as u32;
    FtlPlan {
        logical_pages: shape.logical_pages,
        block_pages,
        spare_blocks: spare_blocks.max(FastPlan::SPARE_BLOCKS_MIN),
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use super::*;

    const LAYERS: [Layer; 1] = [Layer::Fast { random_blocks: None }];

    #[test]
    fn every_ssd_profile_takes_every_layer_and_gets_slower_by_writing() {
        for name in Profile::names().filter(|name| *name != "hdd-barracuda") {
            for layer in LAYERS {
                let mut device = Profile::load(name).unwrap().layer(layer, Some(64 * MIB)).unwrap();
                (0..64).for_each(|chunk| device.write(chunk * 256, 256).unwrap());
                device.begin();
                (0..400).for_each(|turn| device.write(turn * 7919 % 16384, 1).unwrap());
                let random = device.finish();
                assert!(random.0 > 0 || name == "ideal", "{name} {layer:?}");
                device.ftl().check().unwrap();
            }
        }
    }

    #[test]
    fn a_hard_disk_has_no_translation_layer() {
        let error = Profile::load("hdd-barracuda").unwrap().layer(LAYERS[0], None).unwrap_err();
        assert!(error.to_string().contains("hard disk"), "{error}");
    }
}
