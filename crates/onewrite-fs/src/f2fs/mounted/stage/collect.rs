//! Collect: puts a transaction together from what changed.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::file::File;
use super::super::views::Syncs;
use super::super::volume::node_key;
use super::Stage;
use super::inode_bytes::content_of;
use crate::api::FsResult;
use crate::f2fs::format::node::FOOTER_OFFSET;
use crate::f2fs::format::{Nid, node};
use crate::f2fs::stage::format::{MAPPED_MAX, Mapped, RECORD_HEAD, Record, Transaction};
use crate::f2fs::stage::pending::Pending;
use crate::pages::{PAGE_BYTES, changed_ranges};

/// A transaction, and whether it names blocks of the image.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) transaction: Transaction,
    pub(super) has_moves: bool,
}

impl Syncs<'_> {
    /// Takes all changes of inodes and names, and the content of the `wanted` files. The caller holds `changes` alone.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn collect(&self, stage: &Stage) -> FsResult<(Collected, BTreeSet<Nid>)> {
        loop {
            while let Some(file) = self.files.first_unsaved() {
                self.nodes().save_inode(&file).await?;
            }
            self.load_attributes(stage).await?;
            self.load_names(stage).await?;
            let wanted = stage.take_wanted();
            let synced = self.with_content(stage, &wanted);
            match synced.iter().find(|file| self.pages.is_writing(&***file)) {
                Some(file) => {
                    onewrite_block::reached!("staged sync waits for pages under way");
                    wanted.iter().for_each(|nid| _ = stage.join(*nid));
                    self.pages.wait_for_writes(&**file).await;
                }
                None if self.files.unsaved_count() > 0 => wanted.iter().for_each(|nid| _ = stage.join(*nid)),
                None => return Ok((self.gather(stage, &synced)?, wanted)),
            }
        }
    }

    /// The files whose content goes into a transaction: the `wanted` ones, and those whose names or content changed
    /// with their inode.
    fn with_content(&self, stage: &Stage, wanted: &BTreeSet<Nid>) -> Vec<Rc<File>> {
        let all: BTreeSet<Nid> = stage.pending.borrow().names.union(wanted).copied().collect();
        let in_memory = all.iter().filter_map(|nid| self.file_in_memory(*nid));
        in_memory.filter(|file| !file.is_deleted()).collect()
    }

    /// Brings the nodes of changed extended attributes into memory, where they stay: they are changed.
    async fn load_attributes(&self, stage: &Stage) -> FsResult<()> {
        let changed: Vec<Nid> = stage.pending.borrow().attributes.iter().copied().collect();
        for nid in changed {
            let file = self.nodes().file(nid.into()).await?;
            let more = Nid(file.raw().i_xattr_nid.get());
            if more.is_some() {
                self.nodes().load_node(more, nid, node::XATTR_OFFSET).await?;
            }
        }
        Ok(())
    }

    /// Brings files into memory whose content goes into the transaction, but left.
    async fn load_names(&self, stage: &Stage) -> FsResult<()> {
        let names: Vec<Nid> = stage.pending.borrow().names.iter().copied().collect();
        for nid in names.into_iter().filter(|nid| self.file_in_memory(*nid).is_none()) {
            self.nodes().file(nid.into()).await?;
        }
        Ok(())
    }

    fn gather(&self, stage: &Stage, synced: &[Rc<File>]) -> FsResult<Collected> {
        let mut pending = stage.pending.borrow_mut();
        let mut transaction = Transaction::default();
        for nid in std::mem::take(&mut pending.gone) {
            transaction.push(&Record::Gone(nid));
        }
        for nid in std::mem::take(&mut pending.touched) {
            self.put_inode(&mut pending, &mut transaction, nid)?;
        }
        for nid in std::mem::take(&mut pending.attributes) {
            self.put_attributes(&mut transaction, nid);
        }
        for (nid, holes) in std::mem::take(&mut pending.holes) {
            holes.into_iter().for_each(|hole| transaction.push(&Record::Hole(nid, hole)));
        }
        let (mut has_moves, _) = (false, std::mem::take(&mut pending.names));
        for file in synced {
            has_moves |= self.put_content(&mut pending, &mut transaction, file);
        }
        Ok(Collected { transaction, has_moves })
    }

    fn put_inode(&self, pending: &mut Pending, transaction: &mut Transaction, nid: Nid) -> FsResult<()> {
        let Some(page) = self.pages.peek(node_key(nid)).map(|page| page.clone()) else { return Ok(()) };
        let now = content_of(&page.bytes(), nid, &self.layout)?;
        onewrite_block::reached!("inode of a new file staged", self.numbers.borrow().is_new(nid));
        let is_first = self.numbers.borrow().is_new(nid) && pending.logged.insert(nid);
        let before = match (is_first, pending.shadows.get(&nid)) {
            (true, _) => {
                transaction.push(&Record::New(nid));
                pending.holes.remove(&nid);
                [0; PAGE_BYTES as usize]
            }
            (false, Some(shadow)) => content_of(&shadow.bytes(), nid, &self.layout)?,
            (false, None) => return Ok(()),
        };
        for range in changed_ranges(&before, &now, RECORD_HEAD) {
            transaction.push(&Record::Inode(nid, range.start as u16, &now[range]));
        }
        pending.shadows.insert(nid, page);
        Ok(())
    }

    fn put_attributes(&self, transaction: &mut Transaction, nid: Nid) {
        let Some(file) = self.file_in_memory(nid) else { return };
        let more = Nid(file.raw().i_xattr_nid.get());
        let page = self.pages.peek(node_key(more)).filter(|_| more.is_some()).map(|page| page.clone());
        let list = page.map_or_else(Vec::new, |page| page.bytes()[..FOOTER_OFFSET].to_vec());
        let used = list.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        transaction.push(&Record::Attributes(nid, &list[..used]));
    }

    /// Adds the content of a file; returns whether it names blocks.
    fn put_content(&self, pending: &mut Pending, transaction: &mut Transaction, file: &Rc<File>) -> bool {
        let nid = file.number();
        for pages in pending.reserved.remove(&nid).unwrap_or_default() {
            transaction.push(&Record::Reserved(nid, pages));
        }
        let moves = pending.take_moves(nid);
        for run in moves.chunk_by(|(one, _), (next, _)| one + 1 == *next).flat_map(|run| run.chunks(MAPPED_MAX)) {
            let mapped: Vec<Mapped> = run.iter().map(|(_, mapped)| *mapped).collect();
            transaction.push(&Record::Mapping(nid, run[0].0, mapped));
        }
        for (index, page, dirty) in self.pages.take_dirty_bytes(&**file) {
            let bytes = page.bytes();
            for range in dirty.ranges() {
                let (start, end) = (usize::from(range.start), usize::from(range.end));
                transaction.push(&Record::Data(nid, index * PAGE_BYTES + start as u64, &bytes[start..end]));
            }
            *pending.staged.entry((nid, index)).or_default() += 1;
        }
        !moves.is_empty()
    }
}
