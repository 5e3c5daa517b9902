//! Cleaning by SHARE: the content of a victim gets new addresses; the device moves nothing, and neither do we.
//!
//! ```text
//!   cold log: blocks taken ─► SHARE (new ◄─ old), durable on completion ─► nodes name the new blocks,
//!     the old ones are given back ─► checkpoint: nodes, NAT, SIT, SSA ─► the segment is free, and trimmed
//! ```
//!
//! Content that is dirty in memory is written as ever: what the victim holds of it is old. Source: dissertation §3.7.
//!
//! # Invariants
//! - No node names a new block before the SHARE that fills it has completed; so neither a checkpoint nor an fsync does.
//! - An old block is given back only then, and is neither trimmed nor taken before the next checkpoint is durable:
//!   each node that the device may hold then, old or new, names a block with the content.
//! - A SHARE that fails, or of which a part arrives, leaves all nodes as they were.
//! - Cleaning holds `changes` alone, so while a SHARE is under way, no clean page becomes dirty and no address
//!   changes.

use std::rc::Rc;

use onewrite_block::{Cause, DeviceError, Remap, Request};

use super::file::File;
use super::map::{Named, NodeSlot};
use super::views::Cleaner;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::DataAddress;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::space::Owner;
use crate::pages::page_key;

/// Content on its way to another block.
struct Move {
    owner: Summary,
    file: Rc<File>,
    logical: u64,
    source: BlockNo,
    target: BlockNo,
}

impl Cleaner<'_> {
    /// Empties a victim of its content, `owned` by what its summary says.
    ///
    /// # Errors
    /// Device errors and damage; what was shared before keeps its new address.
    pub(super) async fn share_content(&self, owned: &[(Summary, BlockNo)]) -> FsResult<()> {
        let mut moves = Vec::new();
        let planned = self.plan_moves(owned, &mut moves).await;
        planned.inspect_err(|_| moves.iter().for_each(|one| self.space.borrow_mut().give_back(one.target)))?;
        let pairs_max = self.port.geometry().share_pairs_max.max(1) as usize;
        let mut left = moves.chunks(pairs_max);
        while let Some(part) = left.next() {
            if let Err(error) = self.share_part(part).await {
                left.flatten().for_each(|one| self.space.borrow_mut().give_back(one.target));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes a block for each page of the victim that is clean, and writes the others.
    async fn plan_moves(&self, owned: &[(Summary, BlockNo)], moves: &mut Vec<Move>) -> FsResult<()> {
        let mut dirty = Vec::new();
        for (owner, source) in owned {
            let Some((file, logical, slot)) = self.content_in(*owner, *source).await? else { continue };
            if self.pages.is_newer(page_key(&*file, logical)) {
                onewrite_block::reached!("dirty page in a victim that is shared");
                dirty.push((file, logical));
                continue;
            }
            // Without room they stay until the next checkpoint made some.
            let Some(target) = self.take_cold(&slot) else { break };
            moves.push(Move { owner: *owner, file, logical, source: *source, target });
        }
        self.write_scattered(dirty).await
    }

    /// The next block of the cold log, for the content that `slot` names; `None` if there is no room.
    fn take_cold(&self, slot: &NodeSlot) -> Option<BlockNo> {
        let version = self.numbers.borrow().known(slot.node).map_or(0, |entry| entry.version);
        let summary = Summary { nid: slot.node, slot: slot.index as u16 };
        self.space.borrow_mut().take(LogKind::ColdData, Owner { summary, version })
    }

    /// Shares what one request takes, and lets the nodes name it. Afterwards each block is named or given back.
    async fn share_part(&self, part: &[Move]) -> FsResult<()> {
        let pairs = part.iter().map(|one| Remap { target: one.target.page(), source: one.source.page() });
        onewrite_block::reached!("victim under SHARE");
        match self.port.request(Request::share(pairs.collect(), Cause::Cleaning)).await {
            Ok(_) => self.name_shared(part).await,
            Err(error) => {
                part.iter().for_each(|one| self.space.borrow_mut().give_back(one.target));
                match error {
                    // Written as a hole of the host's file, for example; a copy of it is as good.
                    DeviceError::ShareSource { .. } => {
                        onewrite_block::reached!("victim copied, for it cannot be shared");
                        let owned: Vec<_> = part.iter().map(|one| (one.owner, one.source)).collect();
                        self.copy_content(&owned).await
                    }
                    error => Err(FsError::from(error)),
                }
            }
        }
    }

    async fn name_shared(&self, part: &[Move]) -> FsResult<()> {
        for (place, one) in part.iter().enumerate() {
            let found = self.maps().find(&one.file, one.logical).await.inspect_err(|_| {
                part[place..].iter().for_each(|left| self.space.borrow_mut().give_back(left.target));
            })?;
            let given_back = match found {
                Named::By(slot) if self.maps().address(&slot) == DataAddress::Block(one.source) => {
                    self.maps().set_address(&one.file, &slot, DataAddress::Block(one.target));
                    self.count(|counters| counters.cleaning.shared_blocks += 1);
                    one.source
                }
                _ => one.target,
            };
            self.space.borrow_mut().give_back(given_back);
        }
        Ok(())
    }
}
