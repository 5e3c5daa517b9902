//! Dump: what a capacitor saves at a power cut, in flash of its own.

use onewrite_block::Page;

use super::mapping::Record;
use crate::address::Lpn;

/// The state that a capacitor saves.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    /// Pages of the buffer in the order of their last write; `None` for a trim that is not done yet.
    pub(crate) buffered: Vec<(Lpn, Option<Page>)>,
    /// Changes of the map that are not in the log.
    pub(crate) dirty: Vec<Record>,
}
