//! SHARE for applications: pages of files take the content of other pages.
//!
//! ext4 sees nothing of it. Each page keeps its own block, counted once; the device makes the block of the target read
//! as the block of the source does. So the image stays plain, and a page that two files name costs no special care.
//!
//! A call that replaces content is one SHARE of the device, which is atomic and durable. A call that extends files
//! shares into unwritten blocks, and one transaction then says that they are written: until then they read as zeros.
//! A call that does both would have two such moments and is refused.
//!
//! # Invariants
//! - While a call runs, it holds the locks of all files that it names, by inode number.
//! - Before a SHARE that replaces content, the maps and sizes of its targets are durable.
//! - Before the SHARE, the log holds no version of a target block: a replay would bring it back. It holds none of a
//!   source block that is newer than the block.
//! - No target page is in memory when the locks are released.
//!
//! Without SHARE, a mode that logs content does it with a draft (`atomic`): the content is logged once more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::RwGuard;
use onewrite_block::{Cause, Remap, Request};

use super::format::InodeNo;
use super::inodes::Node;
use super::mode::Scope;
use super::mount::Ext4;
use super::ops::with_space;
use super::survey::Part;
use super::views::Shares;
use super::write::{NewBlocks, map_credits};
use crate::api::{FsError, FsResult, Manner, Position};
use crate::atomic::{AtomicFiles, DraftId};
use crate::block::BlockNo;
use crate::content::Content;
use crate::drafts::expect_unclaimed;
use crate::journal::Handle;
use crate::pages::{Access, PAGE_BYTES};
use crate::share::{ShareBy, SharePages, ShareRange, Sharing, check_ranges};

type Nodes = BTreeMap<InodeNo, Rc<Node>>;

/// What a call finds at its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Targets {
    /// All pages have written blocks within the file.
    Written,
    /// No page has a written block.
    New,
    /// Some have, and the others are holes within the file.
    WithHoles,
}

impl SharePages for Ext4 {
    fn sharing(&self) -> FsResult<Sharing> {
        let geometry = self.volume().port().geometry();
        match (geometry.share_atomic, self.volume().scope()) {
            (true, _) => Ok(Sharing { by: ShareBy::Remapping, pages_max: geometry.share_pairs_max.into() }),
            (false, Scope::Full) => {
                let pages_max = self.volume().journal().transaction_blocks_max() as u64;
                Ok(Sharing { by: ShareBy::Logging, pages_max })
            }
            (false, _) => {
                let message =
                    format!("device {} has no atomic SHARE, and this mode does not log content", geometry.name);
                Err(FsError::Unsupported(message + "; mount with data=data+async, or copy the pages"))
            }
        }
    }

    async fn share(&self, ranges: &[ShareRange]) -> FsResult<()> {
        let nodes = self.volume().shares().nodes_of(ranges).await?;
        self.share_lazily(ranges).await?;
        let last = nodes.values().map(|node| node.data_changed_in()).max().unwrap_or_default();
        self.volume().journal().request_commit(last);
        self.volume().journal().wait_committed(last).await
    }

    async fn share_lazily(&self, ranges: &[ShareRange]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let Sharing { by, pages_max } = self.sharing()?;
        let count = |sum: u64, range: &ShareRange| sum.saturating_add((range.length / PAGE_BYTES).max(1));
        let pages = ranges.iter().fold(0, count);
        if pages > pages_max {
            return Err(FsError::TooManyPages { pages, pages_max });
        }
        check_ranges(ranges)?;
        match by {
            _ if ranges.is_empty() => Ok(()),
            ShareBy::Remapping => with_space!(volume, volume.shares().share_by_remapping(ranges)),
            ShareBy::Logging => self.share_by_logging(ranges).await,
        }
    }
}

impl Ext4 {
    /// Writes the content of the sources into a draft of the targets and commits it.
    async fn share_by_logging(&self, ranges: &[ShareRange]) -> FsResult<()> {
        let contents = self.volume().shares().read_sources(ranges).await?;
        onewrite_block::reached!("share carried out as a draft");
        let draft = self.begin_draft()?;
        let outcome = self.write_and_commit(draft, ranges, &contents).await;
        let ended = self.end_draft(draft).await;
        outcome.and(ended)
    }

    async fn write_and_commit(&self, draft: DraftId, ranges: &[ShareRange], contents: &[Vec<u8>]) -> FsResult<()> {
        for (range, bytes) in ranges.iter().zip(contents) {
            self.claim(draft, range.target).await?;
            let position = Position::At(range.target_offset);
            self.draft_write(draft, range.target, position, Content::Bytes(bytes)).await?;
        }
        self.commit_drafts(&[draft]).await
    }
}

impl Shares<'_> {
    async fn share_by_remapping(&self, ranges: &[ShareRange]) -> FsResult<()> {
        let nodes = self.nodes_of(ranges).await?;
        let _held = lock_all(&nodes).await;
        self.share_locked(&nodes, ranges).await
    }

    /// The content of all sources at one moment.
    async fn read_sources(&self, ranges: &[ShareRange]) -> FsResult<Vec<Vec<u8>>> {
        let nodes = self.nodes_of(ranges).await?;
        let _held = lock_all(&nodes).await;
        let mut contents = Vec::with_capacity(ranges.len());
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.source)];
            self.source_blocks(node, range).await?;
            let pages = range.source_pages();
            let mut bytes = Vec::with_capacity(range.length as usize);
            for index in pages.clone() {
                let page = self.pages().file_page(self.volume(), node, index, pages.end).await?;
                bytes.extend_from_slice(&page.bytes()[..]);
            }
            contents.push(bytes);
        }
        Ok(contents)
    }

    async fn nodes_of(&self, ranges: &[ShareRange]) -> FsResult<Nodes> {
        let mut nodes = Nodes::new();
        for ino in ranges.iter().flat_map(|range| [range.source, range.target]) {
            let node = self.node(ino).await?;
            node.expect_file()?;
            nodes.insert(node.number(), node);
        }
        Ok(nodes)
    }

    /// The caller holds all locks.
    async fn share_locked(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<()> {
        self.prepare_files(nodes, ranges).await?;
        let mut sources = Vec::new();
        for range in ranges {
            sources.extend(self.source_blocks(&nodes[&InodeNo::from_ino(range.source)], range).await?);
        }
        onewrite_block::reached!("share within one file", ranges.iter().any(|range| range.source == range.target));
        let kind = self.targets(nodes, ranges).await?;
        onewrite_block::reached!("share over written pages", matches!(kind, Targets::Written));
        onewrite_block::reached!("share over written pages and holes", matches!(kind, Targets::WithHoles));
        onewrite_block::reached!("share into holes", matches!(kind, Targets::New));
        match kind {
            Targets::Written => self.commit_maps(nodes, ranges).await?,
            Targets::WithHoles => self.fill_holes(nodes, ranges).await?,
            Targets::New => {
                let runs = target_runs(nodes, ranges);
                self.check_credits(&runs)?;
                let mut holes = Vec::new();
                for (node, pages) in &runs {
                    let survey = self.extents().survey(node, pages.clone()).await?;
                    holes.extend(survey.holes().map(|pages| (Rc::clone(node), pages)));
                }
                let shared = match self.allocate_targets(&runs).await {
                    Ok(()) => self.share_blocks(nodes, ranges, &sources).await,
                    refused => refused,
                };
                if shared.is_err() {
                    onewrite_block::reached!("share refused once blocks were there");
                    self.free_again(&holes).await?;
                }
                shared?;
                return self.note_written(&runs, ranges, nodes).await;
            }
        }
        self.share_blocks(nodes, ranges, &sources).await?;
        self.note_times(nodes, ranges).await
    }

    /// Checks the files, and brings their content to its blocks.
    async fn prepare_files(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<()> {
        for node in nodes.values() {
            node.expect_undeleted()?;
        }
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.target)];
            expect_unclaimed(&**node)?;
            self.contents().check_end(node, range.target_end())?;
            self.pages().tell(&**node, range.target_pages(), Access::Write);
            if range.target_end() > node.size() {
                onewrite_block::reached!("share extends a file");
                // What lies behind the end becomes readable.
                let mut handle = self.journal().start(1).await?;
                self.contents().zero_tail(&mut handle, node, node.size()).await?;
            }
        }
        self.write_out(nodes).await
    }

    /// Makes the blocks of the targets read as `sources` do.
    async fn share_blocks(&self, nodes: &Nodes, ranges: &[ShareRange], sources: &[BlockNo]) -> FsResult<()> {
        let mut targets = Vec::new();
        for range in ranges {
            targets.extend(self.blocks(&nodes[&InodeNo::from_ino(range.target)], range.target_pages()).await?);
        }
        self.journal().bring_home_for_good(&targets, sources).await?;
        let remapped = self.remap(sources, &targets).await;
        // A device that fails may have remapped all the same.
        for range in ranges {
            self.pages().discard(nodes[&InodeNo::from_ino(range.target)].file_number(), range.target_pages());
        }
        remapped
    }

    /// Brings the content of the files to their blocks, or into the log.
    async fn write_out(&self, nodes: &Nodes) -> FsResult<()> {
        for node in nodes.values() {
            self.contents().write_and_convert(node).await?;
        }
        if self.scope() == Scope::Full { self.commit_now().await } else { Ok(()) }
    }

    /// Makes the maps and sizes of the targets durable: a power loss after the SHARE takes no page from them.
    async fn commit_maps(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<()> {
        let changed_in = |range: &ShareRange| nodes[&InodeNo::from_ino(range.target)].data_changed_in();
        let last = ranges.iter().map(changed_in).max().unwrap_or_default();
        self.journal().request_commit(last);
        self.journal().wait_committed(last).await
    }

    /// Blocks of the pages whose content a range takes.
    ///
    /// # Errors
    /// A range that is not within the file, or that touches a hole.
    async fn source_blocks(&self, node: &Node, range: &ShareRange) -> FsResult<Vec<BlockNo>> {
        node.expect_undeleted()?;
        if range.source_offset + range.length > node.size() {
            let end = range.source_offset + range.length;
            let message = format!("the source ends at byte {end} of {}, which has {} bytes", node.ino(), node.size());
            return Err(FsError::Invalid(message));
        }
        let survey = self.extents().survey(node, range.source_pages()).await?;
        if !survey.is_written() {
            let message = format!("a hole in {} bytes at {} of {}", range.length, range.source_offset, node.ino());
            return Err(FsError::Invalid(message + " has no content to share; punch a hole in the target instead"));
        }
        self.blocks(node, range.source_pages()).await
    }

    async fn blocks(&self, node: &Node, pages: Range<u64>) -> FsResult<Vec<BlockNo>> {
        let survey = self.extents().survey(node, pages.clone()).await?;
        Ok(pages.map(|index| survey.block_of(index).expect("all pages have blocks")).collect())
    }

    /// # Errors
    /// Targets that are partly written and partly beyond the end.
    async fn targets(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<Targets> {
        let (mut has_written, mut has_new, mut grows) = (false, false, None);
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.target)];
            for part in self.extents().survey(node, range.target_pages()).await?.into_parts() {
                let is_written = matches!(part, Part::Mapped(extent) if !extent.unwritten);
                has_written |= is_written;
                has_new |= !is_written;
            }
            if range.target_end() > node.size() {
                grows = Some(node.ino());
            }
        }
        match (has_written, has_new, grows) {
            (false, ..) => Ok(Targets::New),
            (true, false, None) => Ok(Targets::Written),
            (true, true, None) => Ok(Targets::WithHoles),
            (true, _, Some(ino)) => {
                let message =
                    format!("the call replaces pages and extends {ino}; that cannot be one step of the device");
                Err(FsError::Invalid(message + ": set the size first, or share by two calls"))
            }
        }
    }

    /// # Errors
    /// [`FsError::TooManyPages`] if one transaction cannot say of all runs that they are written.
    fn check_credits(&self, runs: &[TargetRun]) -> FsResult<()> {
        let (credits, blocks_max) = (credits(runs), self.journal().transaction_blocks_max());
        let pages: u64 = runs.iter().map(|(_, pages)| pages.end - pages.start).sum();
        match credits > blocks_max {
            true => Err(FsError::TooManyPages { pages, pages_max: pages * blocks_max as u64 / credits as u64 }),
            false => Ok(()),
        }
    }

    /// Gives all target pages blocks, which read as zeros.
    async fn allocate_targets(&self, runs: &[TargetRun]) -> FsResult<()> {
        for (node, pages) in runs {
            let mut handle = self.journal().start(map_credits((pages.end - pages.start) as usize) + 1).await?;
            let map = node.map_lock().write().await;
            let survey = self.extents().survey(node, pages.clone()).await?;
            let allocated = self.contents().allocate_range(&mut handle, node, survey, NewBlocks::Unwritten).await;
            drop(map);
            self.load_inode_block(node.number()).await?;
            self.save(&mut handle, node);
            node.note_data_change(handle.tid());
            allocated.outcome?;
        }
        Ok(())
    }

    /// Frees the blocks that [`Shares::allocate_targets`] gave to `holes`.
    async fn free_again(&self, holes: &[TargetRun]) -> FsResult<()> {
        onewrite_block::reached!("refused share gives blocks back", !holes.is_empty());
        for (node, pages) in holes {
            self.contents().free_blocks_of(node, pages.clone()).await?;
        }
        Ok(())
    }

    /// Writes zeros where target pages are holes, durably: nobody sees a difference.
    async fn fill_holes(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<()> {
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.target)];
            for part in self.extents().survey(node, range.target_pages()).await?.into_parts() {
                let pages = match part {
                    Part::Mapped(extent) if !extent.unwritten => continue,
                    Part::Mapped(extent) => u64::from(extent.logical)..extent.logical_end(),
                    Part::Hole(pages) => pages,
                };
                let zeros = vec![0; ((pages.end - pages.start) * PAGE_BYTES) as usize];
                self.contents()
                    .write_file(node, pages.start * PAGE_BYTES, Content::Bytes(&zeros), Manner::default())
                    .await?;
            }
        }
        self.write_out(nodes).await?;
        self.commit_now().await
    }

    async fn remap(&self, sources: &[BlockNo], targets: &[BlockNo]) -> FsResult<()> {
        let pair = |(source, target): (&BlockNo, &BlockNo)| Remap { source: source.page(), target: target.page() };
        let pairs: Vec<Remap> = sources.iter().zip(targets).map(pair).collect();
        self.port().send(Request::share(pairs, Cause::Data)).await.await?;
        Ok(())
    }

    /// Says in the maps, the sizes and the times of new targets what has happened, in one transaction.
    async fn note_written(&self, runs: &[TargetRun], ranges: &[ShareRange], nodes: &Nodes) -> FsResult<()> {
        let mut handle = self.journal().start(credits(runs)).await?;
        let outcome = self.note_in(&mut handle, runs, ranges, nodes).await;
        // A part of the changes must never become durable.
        outcome.inspect_err(|error| self.journal().abort(error))
    }

    async fn note_in(
        &self,
        handle: &mut Handle,
        runs: &[TargetRun],
        ranges: &[ShareRange],
        nodes: &Nodes,
    ) -> FsResult<()> {
        for (node, pages) in runs {
            let _map = node.map_lock().write().await;
            self.extents().mark_written(handle, node, pages.clone()).await?;
        }
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.target)];
            if range.target_end() > node.size() {
                node.set_size(range.target_end());
            }
        }
        for (node, _) in runs {
            self.load_inode_block(node.number()).await?;
            node.stamp_modified(self.timestamp());
            self.save(handle, node);
            node.note_data_change(handle.tid());
        }
        Ok(())
    }

    /// Stamps the targets as modified.
    async fn note_times(&self, nodes: &Nodes, ranges: &[ShareRange]) -> FsResult<()> {
        let mut handle = self.journal().start(nodes.len()).await?;
        for range in ranges {
            let node = &nodes[&InodeNo::from_ino(range.target)];
            self.load_inode_block(node.number()).await?;
            node.stamp_modified(self.timestamp());
            self.save(&mut handle, node);
        }
        Ok(())
    }
}

/// Target pages that follow each other, and their file.
type TargetRun = (Rc<Node>, Range<u64>);

/// The targets, with ranges that follow each other as one.
fn target_runs(nodes: &Nodes, ranges: &[ShareRange]) -> Vec<TargetRun> {
    let mut targets: Vec<_> = ranges.iter().map(|range| (range.target, range.target_pages())).collect();
    targets.sort_by_key(|(ino, pages)| (ino.0, pages.start));
    let mut runs: Vec<TargetRun> = Vec::new();
    for (ino, pages) in targets {
        match runs.last_mut() {
            Some((node, run)) if node.ino() == ino && run.end == pages.start => run.end = pages.end,
            _ => runs.push((Rc::clone(&nodes[&InodeNo::from_ino(ino)]), pages)),
        }
    }
    runs
}

/// Blocks that [`Shares::note_written`] may change.
fn credits(runs: &[TargetRun]) -> usize {
    runs.iter().map(|(_, pages)| map_credits((pages.end - pages.start) as usize) + 1).sum()
}

async fn lock_all(nodes: &Nodes) -> Vec<RwGuard<'_>> {
    let mut held = Vec::with_capacity(nodes.len());
    for node in nodes.values() {
        held.push(node.lock().write().await);
    }
    held
}
