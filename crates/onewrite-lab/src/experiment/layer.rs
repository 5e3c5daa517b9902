//! Layer: the translation layer of an emulated device, as it is asked for.

use onewrite_device::ftl::DftlPlan;
use onewrite_device::{Layer, Profile};

use super::refused;
use crate::error::LabError;

/// A translation layer by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ftl {
    /// A page map.
    Page,
    /// A block map, and log blocks with a page map.
    Fast,
    /// A block map, and one log block for each written block.
    Bast,
    /// A page map on flash, with a mapping cache.
    Dftl,
    /// None: the host writes flash as zones.
    Open,
}

/// What is asked of a device's layer; `None` leaves it as the profile says.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayerChoice {
    /// The layer.
    pub ftl: Option<Ftl>,
    /// Log blocks of FAST and BAST.
    pub log_blocks: Option<u32>,
    /// Bytes of DFTL's mapping cache.
    pub map_cache: Option<u64>,
}

impl LayerChoice {
    /// Whether anything is asked for.
    pub fn is_given(&self) -> bool {
        self.ftl.is_some() || self.log_blocks.is_some() || self.map_cache.is_some()
    }

    /// The profile with the layer, or unchanged.
    ///
    /// # Errors
    /// What does not belong to the layer, or has no room in the profile.
    pub fn over(&self, profile: Profile) -> Result<Profile, LabError> {
        if !self.is_given() {
            return Ok(profile);
        }
        let own = match profile.own_layer() {
            None => Ftl::Page,
            Some(Layer::Fast { .. }) => Ftl::Fast,
            Some(Layer::Bast { .. }) => Ftl::Bast,
            Some(Layer::Dftl { .. }) => Ftl::Dftl,
            // The options that belong to a layer are for PFTL.
            Some(Layer::Open { .. }) if self.map_cache.is_some() => Ftl::Dftl,
            Some(Layer::Open { .. }) => Ftl::Open,
        };
        let layer = LayerChoice { ftl: Some(self.ftl.unwrap_or(own)), ..*self }.layer()?;
        Ok(profile.with_layer(layer)?)
    }

    /// The layer; none for `page`, the layer of the event-driven SSD, which is also the default.
    ///
    /// # Errors
    /// What does not belong to the layer.
    pub fn layer(&self) -> Result<Option<Layer>, LabError> {
        let LayerChoice { ftl, log_blocks, map_cache } = *self;
        let ftl = ftl.unwrap_or(Ftl::Page);
        if log_blocks.is_some() && ![Ftl::Fast, Ftl::Bast].contains(&ftl) {
            return refused("--log-blocks belongs to --ftl fast and --ftl bast");
        }
        if log_blocks == Some(0) {
            return refused("--log-blocks 0: there is no such layer without a log block; give one at least");
        }
        if map_cache.is_some() && ftl != Ftl::Dftl {
            return refused("--map-cache belongs to --ftl dftl");
        }
        if map_cache.is_some_and(|bytes| bytes < DftlPlan::ENTRY_BYTES) {
            return refused(format!(
                "--map-cache takes {} bytes for an entry; give room for one at least",
                DftlPlan::ENTRY_BYTES
            ));
        }
        Ok(match ftl {
            Ftl::Page => None,
            Ftl::Fast => Some(Layer::Fast { random_blocks: log_blocks }),
            Ftl::Bast => Some(Layer::Bast { log_blocks }),
            Ftl::Dftl => Some(Layer::Dftl { cache_bytes: map_cache }),
            Ftl::Open => Some(Layer::Open { tail_bytes: 0 }),
        })
    }
}
