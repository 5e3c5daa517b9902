//! `onewrite names`

use onewrite_fs::ext4::Mode;

use crate::args::{Names, page_cache_policies, way};

/// Prints names, one a line.
pub fn names(names: &Names) -> anyhow::Result<()> {
    match names {
        Names::Modes => Mode::ALL.into_iter().for_each(|mode| outln!("{mode} {}", way(mode))),
        Names::Padded => Mode::padded().for_each(|mode| outln!("{mode}")),
        Names::Policies => page_cache_policies().for_each(|kind| outln!("{kind}")),
    }
    Ok(())
}
