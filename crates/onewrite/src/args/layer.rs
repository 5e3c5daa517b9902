//! Arguments of an emulated device besides its profile: its translation layer and its age.

use clap::{Args, ValueEnum};

use onewrite_lab::size;

/// A translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ftl {
    /// A page map.
    Page,
    /// A block map, and log blocks with a page map.
    Fast,
    /// A block map, and one log block for each written block: memory cards that keep a few blocks open.
    Bast,
    /// A page map on flash, with a mapping cache.
    Dftl,
    /// None: F2FS writes flash blocks itself, as zones. ext4 and raw jobs take `dftl` instead.
    Open,
}

/// Translation layer of an emulated device.
#[derive(Clone, Debug, Args)]
pub struct LayerArgs {
    /// Translation layer of the emulated device [default: the profile's].
    #[arg(long, value_enum)]
    pub ftl: Option<Ftl>,
    /// Log blocks of `--ftl fast` and `bast`; refused if the spare blocks do not allow so many [default: the profile's,
    /// else as many as the spare blocks allow].
    #[arg(long, value_name = "COUNT")]
    pub log_blocks: Option<u32>,
    /// Mapping cache of `--ftl dftl`, 8 bytes for each page in it [default: a 2048th of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub map_cache: Option<u64>,
}

/// Age of an emulated device: the writes done to it before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgeArg {
    /// Nothing: all its flash is blank.
    None,
    /// Every page once, in order.
    Filled,
    /// The same, then random pages until write amplification is stable, at most twice the device.
    Steady,
}
