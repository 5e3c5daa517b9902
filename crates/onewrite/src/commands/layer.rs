//! `--ftl` and what belongs to it, for the commands that have it.

use anyhow::bail;
use onewrite_device::Layer;
use onewrite_device::ftl::DftlPlan;

use crate::args::Ftl;

/// The layer that counts; none for `page`, which is the emulated device itself.
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
