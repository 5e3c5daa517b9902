//! Attributes of an inode.

use crate::api::{Attributes, DeviceNumber, FileKind, Timestamp};
use crate::f2fs::format::Nid;
use crate::f2fs::format::inode::{RawInode, times};

/// Sectors of 512 bytes of a block.
const BLOCK_SECTORS: u64 = 8;

/// Attributes of an inode, as Linux shows them: the inode's own block does not count.
pub(in crate::f2fs) fn of(
    number: Nid,
    kind: FileKind,
    raw: &RawInode,
    created: Option<Timestamp>,
    device: DeviceNumber,
) -> Attributes {
    let [accessed, modified, changed] = times(raw);
    Attributes {
        ino: number.into(),
        kind,
        permissions: raw.i_mode.get() & 0o7777,
        links: raw.i_links.get(),
        uid: raw.i_uid.get(),
        gid: raw.i_gid.get(),
        size: raw.i_size.get(),
        sectors: raw.i_blocks.get().saturating_sub(1).saturating_mul(BLOCK_SECTORS),
        accessed,
        modified,
        changed,
        created,
        device,
        generation: raw.i_generation.get(),
    }
}
