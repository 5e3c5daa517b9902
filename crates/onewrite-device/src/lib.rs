//! Emulated and real devices behind the door of onewrite-block.
