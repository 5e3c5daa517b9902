//! Dump: what a capacitor saves at a power cut.

use std::ops::Range;

use onewrite_block::Page;

use crate::address::Lpn;

/// The state that a capacitor saves.
#[derive(Clone, Debug)]
pub(super) struct Dump {
    /// Pages of the buffer, in the order of their last writes.
    pub(super) pages: Vec<(Lpn, Page)>,
    /// TRIMs under way. They may have dropped pages from the buffer; the flash then has only older versions of these.
    pub(super) trims: Vec<Range<Lpn>>,
}
