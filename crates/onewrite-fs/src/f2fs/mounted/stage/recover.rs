//! Recover: brings what the log says into memory, behind a crash. The checkpoint that follows brings it into the image.
//!
//! Nothing that the log names is overwritten before that checkpoint, nor is the log, so a recovery that is interrupted
//! begins anew.

use std::rc::Rc;

use onewrite_block::{Cause, PageBytes, Request};

use super::super::file::File;
use super::super::recover::Recovered;
use super::super::views::Recovery;
use super::Stage;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::{DataAddress, Inode, Nid};
use crate::f2fs::stage::area::{Found, Scanned};
use crate::f2fs::stage::format::{End, Mapped, Record, decode};
use crate::f2fs::stage::merge::{Merged, MergedFile, MergedPage, Patch};
use crate::pages::{PAGE_BYTES, PagedFile};

impl Recovery<'_> {
    /// Brings what the log says into memory; `None` if it says nothing that the checkpoint lacks. `orphans` are those
    /// of the checkpoint; those that the log adds join them.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if something else wrote the image since the log was written; [`FsError::Damaged`] if a
    /// durable transaction is missing, or a record contradicts the checkpoint; device errors.
    pub(in crate::f2fs::mounted) async fn recover_stage(&self, orphans: &mut Vec<Nid>) -> FsResult<Option<Recovered>> {
        let (Some(stage), Some(merged)) = (&self.stage, self.read_staged().await?) else { return Ok(None) };
        let _changes = self.changes.read().await;
        self.orphans.load(orphans);
        onewrite_block::reached!("staged transactions merged");
        self.bar_merged(&merged).await?;
        for (nid, _) in merged.files.iter().filter(|(_, file)| file.is_gone) {
            onewrite_block::reached!("staged deletion merged");
            self.end_inode(*nid).await?;
        }
        for (nid, merged) in merged.files.iter().filter(|(_, file)| !file.is_gone) {
            let file = self.merge_file(stage, *nid, merged).await?;
            if file.links() == 0 {
                orphans.push(*nid);
            }
            self.pages.dirty_files().throttle(self.volume()).await?;
        }
        let files = merged.files.len() as u64;
        Ok(Some(Recovered { files, nodes: 0, transactions: merged.transactions }))
    }

    /// What the log says that the checkpoint lacks; `None` if it says nothing.
    ///
    /// # Errors
    /// As [`Recovery::recover_stage`].
    pub(in crate::f2fs::mounted) async fn read_staged(&self) -> FsResult<Option<Merged>> {
        let Some(stage) = &self.stage else { return Ok(None) };
        let mark = self.checkpoint.borrow().stage;
        let mut scanned = stage.area.scan(self.version(), mark.is_some()).await?;
        stage.has_newer.set(scanned.newest() > self.version());
        if self.options.discard_stage && mark.is_some_and(|mark| mark != stage.mark()) {
            return Ok(None);
        }
        if self.options.discard_stage && Merged::of(&scanned).is_err() {
            return Ok(None);
        }
        if mark.is_some() && !self.options.discard_stage {
            scanned.expect_whole(self.version())?;
        }
        if !self.is_bound(stage, &scanned).await? {
            return Ok(None);
        }
        self.drop_unwritten(&mut scanned).await?;
        let merged = Merged::of(&scanned)?;
        Ok((merged.transactions > 0).then_some(merged))
    }

    /// Whether the log continues the image's checkpoint. If it does not, the area must say that the checkpoint is ours,
    /// unless nothing is lost with it.
    async fn is_bound(&self, stage: &Stage, scanned: &Scanned) -> FsResult<bool> {
        let version = self.version();
        if scanned.version == version {
            return Ok(true);
        }
        let transactions = Merged::of(scanned)?.transactions;
        let is_continued = self.checkpoint.borrow().stage.is_some();
        if transactions == 0 && !is_continued || self.options.discard_stage {
            onewrite_block::reached!("stage of an older checkpoint passed over");
            return Ok(false);
        }
        let head = self.layout.pack(self.checkpoint.borrow().pack);
        let digest = self.read_block(head).await?.digest();
        // One that is about to be followed was ours, and so is the one that an end names.
        let names = |end: &End| end.version == version || *end == End { version: version.wrapping_sub(1), digest };
        match stage.area.ends().await?.iter().any(names) {
            true => Ok(false),
            false if is_continued => Err(FsError::Unsupported(format!(
                "this staging area: it does not continue checkpoint {version} of the image, another one does; give \
                 that one, or mount with `-o discard_stage` to give up what fsyncs staged there"
            ))),
            false => Err(FsError::Unsupported(format!(
                "this staging area: it continues checkpoint {}, and the image has {version}, which something else \
                 wrote; mount with `-o discard_stage` to give up what {transactions} transactions staged",
                scanned.version
            ))),
        }
    }

    /// Drops transactions that name a block which was not written, and all behind them.
    async fn drop_unwritten(&self, scanned: &mut Scanned) -> FsResult<()> {
        let durable = scanned.found.iter().map(|found| found.durable).max().unwrap_or(0);
        for place in 0..scanned.found.len() {
            if scanned.found[place].number > durable && !self.is_written_whole(&scanned.found[place]).await? {
                onewrite_block::reached!("staged mapping without its content");
                scanned.found.truncate(place);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn is_written_whole(&self, found: &Found) -> FsResult<bool> {
        for record in records(found)? {
            let Record::Mapping(_, _, pages) = record else { continue };
            for Mapped { block, digest } in pages {
                if !self.layout.main.contains(block) {
                    return Ok(false);
                }
                let mut read = self.port.request(Request::read(block.page(), 1, Cause::Data)).await?;
                if read.pop().is_none_or(|page| page.digest() != digest) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Keeps the logs away from blocks that the log names, and its new inodes' numbers from other nodes.
    async fn bar_merged(&self, merged: &Merged) -> FsResult<()> {
        merged.files.keys().for_each(|nid| self.numbers.borrow_mut().hold(*nid));
        self.bar_staged(merged);
        self.open_room().await
    }

    /// Keeps the logs away from blocks that the log names.
    pub(in crate::f2fs::mounted) fn bar_staged(&self, merged: &Merged) {
        let blocks = merged.files.values().flat_map(|file| file.pages.values()).filter_map(|page| page.block);
        blocks.for_each(|mapped| self.space.borrow_mut().bar_block(mapped.block));
    }

    /// Deletes an inode of the checkpoint.
    async fn end_inode(&self, nid: Nid) -> FsResult<()> {
        match self.nodes().file(nid.into()).await {
            Ok(file) => {
                file.change_raw(|raw| raw.i_links.set(0));
                self.contents().delete(&file).await
            }
            Err(FsError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn merge_file(&self, stage: &Stage, nid: Nid, merged: &MergedFile) -> FsResult<Rc<File>> {
        let (file, size_before) = self.merge_inode(nid, merged).await?;
        if !file.is_inline() {
            if size_before < file.size() {
                self.contents().zero_tail(&file, size_before).await?;
            }
            for pages in &merged.holes {
                self.contents().free_pages(&file, pages.clone()).await?;
            }
            for pages in &merged.reserved {
                self.contents().reserve_pages(&file, pages.clone()).await.1?;
            }
            for (index, page) in &merged.pages {
                self.merge_page(stage, &file, *index, page).await?;
            }
            let tail = size_before / PAGE_BYTES;
            if self.pages.is_dirty(&*file, tail) {
                // The checkpoint that empties the log brings in what was made zeros, too.
                stage.pending.borrow_mut().staged.entry((file.number(), tail)).or_default();
            }
        }
        if let Some(list) = &merged.attributes {
            self.extended_attributes().put_rest(&file, list).await?;
        }
        if file.is_directory() {
            file.names().forget();
            self.note_names(&file);
        }
        Ok(file)
    }

    /// Gives an inode the bytes that the log has of it. Gives its size before, too.
    async fn merge_inode(&self, nid: Nid, merged: &MergedFile) -> FsResult<(Rc<File>, u64)> {
        let is_known = self.nodes().nat_entry(nid).await?.address != DataAddress::Hole;
        if is_known == merged.is_new {
            let place = format!("inode {nid} in the staging area");
            let problem = if is_known { "is new, and the checkpoint knows it" } else { "is unknown to the checkpoint" };
            return Err(FsError::Damaged { place, problem: problem.into() });
        }
        if !is_known {
            onewrite_block::reached!("new file merged from the stage");
            let bytes = patched([0; PAGE_BYTES as usize], merged);
            let inode = Inode::decode_unverified(&bytes[..], nid, &self.layout)?;
            self.note_orphan(&inode);
            return Ok((self.make_recovered(&inode, bytes).await?, 0));
        }
        let size_before = self.nodes().file(nid.into()).await?.size();
        if merged.inode.is_empty() {
            return Ok((self.nodes().file(nid.into()).await?, size_before));
        }
        self.nodes().load_node(nid, nid, 0).await?;
        let bytes = patched(self.nodes().read_node(nid, |bytes| FsResult::Ok(*bytes))?, merged);
        let inode = Inode::decode_unverified(&bytes[..], nid, &self.layout)?;
        self.note_orphan(&inode);
        Ok((self.renew_inode(&inode, &bytes).await?, size_before))
    }

    fn note_orphan(&self, inode: &Inode) {
        if inode.raw.i_links.get() == 0 {
            self.orphans.insert(inode.number);
        }
    }

    async fn merge_page(&self, stage: &Stage, file: &Rc<File>, index: u64, merged: &MergedPage) -> FsResult<()> {
        if let Some(Mapped { block, .. }) = merged.block {
            onewrite_block::reached!("staged mapping merged");
            let address = DataAddress::Block(block);
            if self.address_of(file, index).await? != address {
                self.contents().free_pages(file, index..index + 1).await?;
                self.recover_address(file, index, address).await?;
            }
        }
        for patch in &merged.patches {
            let is_zeros = matches!(patch, Patch::Zeros(_));
            if is_zeros && !self.contents().is_written(file, index).await? {
                continue;
            }
            self.contents().reserve_pages(file, index..index + 1).await.1?;
            self.pages.file_page(self.volume(), file, index, index + 1).await?;
            match patch {
                Patch::Bytes(at, bytes) => {
                    let range = *at..at + bytes.len();
                    self.pages.change_dirty(&**file, index, range, |page| page.copy_from_slice(bytes));
                }
                Patch::Zeros(range) => self.pages.change_dirty(&**file, index, range.clone(), |page| page.fill(0)),
            }
            *stage.pending.borrow_mut().staged.entry((file.number(), index)).or_default() += 1;
        }
        Ok(())
    }
}

fn records(found: &Found) -> FsResult<Vec<Record<'_>>> {
    let place = format!("transaction {} of the staging area", found.number);
    decode(&found.stream).map_err(|problem| FsError::Damaged { place, problem })
}

fn patched(mut bytes: PageBytes, merged: &MergedFile) -> PageBytes {
    for (at, patch) in &merged.inode {
        bytes[*at..at + patch.len()].copy_from_slice(patch);
    }
    bytes
}
