//! Sync: a round of fsyncs is one transaction of the log.

use std::rc::Rc;

use super::super::file::File;
use super::super::views::Syncs;
use super::Stage;
use super::collect::Collected;
use super::state::Placed;
use crate::api::FsResult;
use crate::pages::DirtyBytes;
use crate::transfer::Durability;

/// Dirty bytes of a page from which on the page itself is written: a record would save less than a quarter of it.
const WHOLE_FROM: usize = 3072;

impl Syncs<'_> {
    /// See `FileSystem::fsync`, with a staging area.
    pub(in crate::f2fs::mounted) async fn stage_file(&self, stage: &Stage, file: &Rc<File>) -> FsResult<()> {
        self.check_writable()?;
        {
            let _held = file.lock().read().await;
            self.pages.sync_wanted(self.volume(), file, |dirty: &DirtyBytes| dirty.count() >= WHOLE_FROM).await?;
        }
        let round = stage.join(file.number());
        while !stage.has_ended(round) {
            onewrite_block::reached!("staged sync waits for the round of others", stage.is_running());
            match stage.is_running() {
                true => self.pages.progress().wait().await,
                false => self.run_stage_round(stage).await?,
            }
        }
        self.check_failure()
    }

    async fn run_stage_round(&self, stage: &Stage) -> FsResult<()> {
        stage.begin_round();
        let outcome = self.write_stage_round(stage).await;
        stage.end_writing();
        stage.end_round();
        self.pages.progress().notify_all();
        outcome.inspect_err(|error| self.fail(error))
    }

    async fn write_stage_round(&self, stage: &Stage) -> FsResult<()> {
        let (collected, placed, wanted) = {
            let _alone = self.changes.write().await;
            self.check_failure()?;
            let has_too_many_moves = stage.pending.borrow().has_too_many_moves();
            if has_too_many_moves || self.would_stage_too_much() {
                onewrite_block::reached!("too many moves to stage", has_too_many_moves);
                onewrite_block::reached!("too little room to patch what would be staged", !has_too_many_moves);
                (Collected::default(), None, stage.take_wanted())
            } else {
                let (collected, wanted) = self.collect(stage).await?;
                if collected.transaction.is_empty() {
                    return Ok(());
                }
                let placed = stage.place(&collected.transaction, self.version());
                (collected, placed, wanted)
            }
        };
        let Some(placed) = placed else {
            onewrite_block::reached!("staging area full");
            return self.checkpoints().patch_files(&wanted).await;
        };
        self.write_transaction(stage, collected, placed).await?;
        if stage.is_nearly_full() {
            onewrite_block::reached!("staging area nearly full");
            self.wanted.ask();
        }
        Ok(())
    }

    /// Writes a transaction and makes it durable, with the blocks that it names.
    async fn write_transaction(&self, stage: &Stage, collected: Collected, placed: Placed) -> FsResult<()> {
        let pages = collected.transaction.pages(placed.head, stage.area.seed);
        let needs_flush = collected.has_moves && self.is_unflushed.replace(false);
        self.count(|counters| {
            counters.commits += 1;
            counters.journal_bytes += pages.len() as u64 * 4096;
        });
        let is_durable = stage.area.takes_durably(pages.len()) && (stage.area.is_apart || !needs_flush);
        onewrite_block::reached!("staged transaction is not durable on completion", !is_durable);
        let durability = if is_durable { Durability::Fua } else { Durability::Volatile };
        stage.area.write(placed.first, pages, durability).await?;
        onewrite_block::reached!("content flushed behind its staged mapping", needs_flush);
        if needs_flush || !is_durable && !stage.area.is_apart {
            self.flush().await?;
        }
        if !is_durable && stage.area.is_apart {
            stage.area.flush().await?;
        }
        stage.note_durable();
        Ok(())
    }
}
