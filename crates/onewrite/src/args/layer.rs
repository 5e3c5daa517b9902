//! What an emulated device is besides its profile: its translation layer, its past.

use clap::{Args, ValueEnum};

use crate::size;

/// What translates pages to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ftl {
    /// A map of pages.
    Page,
    /// A map of blocks, and a log of blocks with a map of pages.
    Fast,
    /// A map of blocks, and log blocks of one block each: memory cards that keep a few blocks open.
    Bast,
    /// A map of pages that lies on flash, and a cache for it.
    Dftl,
}

/// What translates pages to flash in an emulated device.
#[derive(Clone, Debug, Args)]
pub struct LayerArgs {
    /// What translates pages to flash in the emulated device [default: as its profile says].
    #[arg(long, value_enum)]
    pub ftl: Option<Ftl>,
    /// Log blocks of `--ftl fast` and `bast`; more than the spare blocks allow are refused
    /// [default: the profile's, else as many as those allow].
    #[arg(long, value_name = "COUNT")]
    pub log_blocks: Option<u32>,
    /// Mapping cache of `--ftl dftl`, 8 bytes for each page that it knows [default: a 2048th of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub map_cache: Option<u64>,
}

/// What was written to an emulated device before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgeArg {
    /// Nothing: all its flash is blank.
    None,
    /// Every page once, in order.
    Filled,
    /// After that random pages until write amplification rests, at most twice the device.
    Steady,
}
