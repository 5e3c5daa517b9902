//! `--ftl` and related options, for all commands that have them.

use anyhow::bail;
use onewrite_device::ftl::DftlPlan;
use onewrite_device::{Layer, Profile};

use crate::args::{Ftl, LayerArgs};

impl LayerArgs {
    /// Whether any of the options is given.
    pub fn is_given(&self) -> bool {
        self.ftl.is_some() || self.log_blocks.is_some() || self.map_cache.is_some()
    }

    /// The profile with the requested layer, or unchanged.
    pub fn over(&self, profile: Profile) -> anyhow::Result<Profile> {
        if !self.is_given() {
            return Ok(profile);
        }
        let own = match profile.own_layer() {
            None => Ftl::Page,
            Some(Layer::Fast { .. }) => Ftl::Fast,
            Some(Layer::Bast { .. }) => Ftl::Bast,
            Some(Layer::Dftl { .. }) => Ftl::Dftl,
        };
        Ok(profile.with_layer(layer(self.ftl.unwrap_or(own), self.log_blocks, self.map_cache)?)?)
    }
}

/// The layer; none for `page`, the layer of the event-driven SSD.
pub fn layer(ftl: Ftl, log_blocks: Option<u32>, map_cache: Option<u64>) -> anyhow::Result<Option<Layer>> {
    if log_blocks.is_some() && ![Ftl::Fast, Ftl::Bast].contains(&ftl) {
        bail!("--log-blocks belongs to --ftl fast and --ftl bast");
    }
    if log_blocks == Some(0) {
        bail!("--log-blocks 0: there is no such layer without a log block; give one at least");
    }
    if map_cache.is_some() && ftl != Ftl::Dftl {
        bail!("--map-cache belongs to --ftl dftl");
    }
    if map_cache.is_some_and(|bytes| bytes < DftlPlan::ENTRY_BYTES) {
        bail!("--map-cache takes {} bytes for an entry; give room for one at least", DftlPlan::ENTRY_BYTES);
    }
    Ok(match ftl {
        Ftl::Page => None,
        Ftl::Fast => Some(Layer::Fast { random_blocks: log_blocks }),
        Ftl::Bast => Some(Layer::Bast { log_blocks }),
        Ftl::Dftl => Some(Layer::Dftl { cache_bytes: map_cache }),
    })
}
