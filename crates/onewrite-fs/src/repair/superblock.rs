//! Pass 0: the superblock, from a backup if the primary one is unusable.

use onewrite_block::Page;
use zerocopy::IntoBytes;

use super::change::Change;
use super::overlay::Overlay;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::check::orphans::impossible_orphan_file;
use crate::ext4::format::features::{Compat, Features, Incompat, RoCompat};
use crate::ext4::format::{InodeNo, JOURNAL_INODE, Layout, Place, RawSuperblock, SUPERBLOCK_OFFSET};
use crate::ext4::lost::{LOG_OF_4_KIB, backup_at, places};

/// The superblock and its numbers; `None` if no copy is usable.
pub(super) async fn take<R: ReadBlocks>(
    image: &Overlay<'_, R>,
    changes: &mut Vec<Change>,
) -> Option<(RawSuperblock, Layout)> {
    let page = image.read_block(BlockNo::FIRST).await.ok()?;
    let found = RawSuperblock::in_first_block(&page.bytes()[..]).ok().cloned();
    if let Some(mut raw) = found {
        if let Ok(layout) = Layout::decode(&raw) {
            return tidy(image, &page, (raw, layout), changes);
        }
        // If only the checksum is wrong, correct it.
        raw.checksum.set(raw.computed_checksum());
        if is_whole(image, &raw).await
            && let Ok(layout) = Layout::decode(&raw)
        {
            changes.push(change("the checksum is made anew"));
            store(image, &page, &raw);
            return Some((raw, layout));
        }
    }
    let (block, raw) = backup(image).await?;
    let layout = Layout::decode(&raw).ok()?;
    changes.push(loss(&format!("restored from its backup in block {block}")));
    store(image, &page, &raw);
    Some((raw, layout))
}

/// The first sound backup and its block. The fields are set as in a primary superblock.
pub(super) async fn backup<R: ReadBlocks>(image: &Overlay<'_, R>) -> Option<(BlockNo, RawSuperblock)> {
    for place in places(LOG_OF_4_KIB) {
        let Some(mut raw) = backup_at(image, place).await else { continue };
        if !is_whole(image, &raw).await || Layout::decode(&raw).is_err() {
            continue;
        }
        raw.block_group_nr.set(0);
        raw.set_checksum();
        return Some((place.block, raw));
    }
    None
}

/// Whether the image has all the blocks that the superblock counts.
async fn is_whole<R: ReadBlocks>(image: &Overlay<'_, R>, raw: &RawSuperblock) -> bool {
    match raw.block_count().checked_sub(1).map(BlockNo) {
        Some(last) => image.read_block(last).await.is_ok() && image.read_block(last + 1).await.is_err(),
        None => false,
    }
}

/// Corrects fields that contradict the features.
fn tidy<R: ReadBlocks>(
    image: &Overlay<'_, R>,
    page: &Page,
    (mut raw, layout): (RawSuperblock, Layout),
    changes: &mut Vec<Change>,
) -> Option<(RawSuperblock, Layout)> {
    let before = raw.clone();
    let Features { mut compat, mut incompat, mut ro_compat } = raw.features();
    let size = raw.desc_size.get();
    if !incompat.contains(Incompat::BITS_64) && size != 0 && size != 32 {
        raw.desc_size.set(32);
        changes.push(loss("the size of descriptors is set"));
    }
    let names_journal = raw.journal_inum.get() != 0 || raw.journal_dev.get() != 0;
    if !compat.contains(Compat::HAS_JOURNAL) && (names_journal || incompat.contains(Incompat::RECOVER)) {
        incompat = incompat.without(Incompat::RECOVER);
        raw.journal_dev.set(0);
        if InodeNo(raw.journal_inum.get()) == JOURNAL_INODE {
            compat = compat.with(Compat::HAS_JOURNAL);
            changes.push(loss("the feature has_journal is set again: there is a journal"));
        } else {
            raw.journal_inum.set(0);
            changes.push(loss("no longer names a journal"));
        }
    }
    if compat.contains(Compat::HAS_JOURNAL) && raw.journal_dev.get() == 0 && raw.journal_uuid != [0; 16] {
        raw.journal_uuid = [0; 16];
        changes.push(loss("no longer names a journal on another device"));
    }
    if impossible_orphan_file(&raw, &layout).is_some() {
        compat = compat.without(Compat::ORPHAN_FILE);
        ro_compat = ro_compat.without(RoCompat::ORPHAN_PRESENT);
        raw.orphan_file_inum.set(0);
        changes.push(loss("the feature orphan_file is taken out: there is no such file"));
    }
    if !compat.contains(Compat::RESIZE_INODE) && raw.reserved_gdt_blocks.get() != 0 {
        compat = compat.with(Compat::RESIZE_INODE);
        changes.push(loss("the feature resize_inode is set again: blocks are kept for it"));
    }
    if !ro_compat.contains(RoCompat::LARGE_FILE) {
        ro_compat = ro_compat.with(RoCompat::LARGE_FILE);
    }
    // Attributes that lie in blocks stay so.
    compat = compat.with(Compat::EXT_ATTR);
    raw.set_features(Features { compat, incompat, ro_compat });
    if raw == before {
        return Some((raw, layout));
    }
    raw.set_checksum();
    store(image, page, &raw);
    let layout = Layout::decode(&raw).ok()?;
    Some((raw, layout))
}

/// A repair that loses nothing.
fn change(what: &str) -> Change {
    Change { place: Place::Superblock, what: what.to_owned(), is_safe: true }
}

/// A repair that may lose something.
fn loss(what: &str) -> Change {
    Change { is_safe: false, ..change(what) }
}

/// Puts a superblock into its page.
pub(super) fn store<R: ReadBlocks>(image: &Overlay<'_, R>, page: &Page, raw: &RawSuperblock) {
    let mut page = page.clone();
    page.write(SUPERBLOCK_OFFSET, raw.as_bytes());
    image.put(BlockNo::FIRST, page);
}
