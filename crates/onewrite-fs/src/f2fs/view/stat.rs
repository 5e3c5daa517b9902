//! Attributes of an inode.

use crate::api::Attributes;
use crate::f2fs::format::Inode;

/// Sectors of 512 bytes of a block.
const BLOCK_SECTORS: u64 = 8;

/// Attributes of an inode, as Linux shows them: the inode's own block does not count.
pub(super) fn of(inode: &Inode) -> Attributes {
    let raw = &inode.raw;
    let [accessed, modified, changed] = inode.times();
    Attributes {
        ino: inode.number.into(),
        kind: inode.kind,
        permissions: raw.i_mode.get() & 0o7777,
        links: raw.i_links.get(),
        uid: raw.i_uid.get(),
        gid: raw.i_gid.get(),
        size: raw.i_size.get(),
        sectors: raw.i_blocks.get().saturating_sub(1).saturating_mul(BLOCK_SECTORS),
        accessed,
        modified,
        changed,
        created: inode.created,
        device: inode.device(),
        generation: raw.i_generation.get(),
    }
}
