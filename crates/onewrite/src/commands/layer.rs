//! `--ftl` and related options, for all commands that have them.

use onewrite_lab::experiment::{self, LayerChoice};

use crate::args::{Ftl, LayerArgs};

impl LayerArgs {
    /// What is asked for.
    pub fn choice(&self) -> LayerChoice {
        LayerChoice { ftl: self.ftl.map(experiment::Ftl::from), log_blocks: self.log_blocks, map_cache: self.map_cache }
    }
}

impl From<Ftl> for experiment::Ftl {
    fn from(ftl: Ftl) -> experiment::Ftl {
        match ftl {
            Ftl::Page => experiment::Ftl::Page,
            Ftl::Fast => experiment::Ftl::Fast,
            Ftl::Bast => experiment::Ftl::Bast,
            Ftl::Dftl => experiment::Ftl::Dftl,
            Ftl::Open => experiment::Ftl::Open,
        }
    }
}
