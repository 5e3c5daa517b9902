//! Support: what tests of the explorer have in common.

pub mod altered_disk;
pub mod disobedient;
pub mod returns_early;

use onewrite_block::Nanos;
use onewrite_crash::ExploreOptions;

/// Up to `states_max` states of a file system with little memory that commits and checkpoints often.
pub fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions {
        states_max,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        ..ExploreOptions::default()
    }
}
