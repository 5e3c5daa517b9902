//! Random drafts and ordinary traffic against a model: committed content, and what each draft sees.

use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::Choices;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AtomicFiles, Content, DraftId, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use super::{MIB, content};
use crate::support::seeds;
use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

const FILES: u64 = 4;
/// More than the drafts of all files may keep in memory, 128 pages.
const BYTES: u64 = 300_000;

/// A file's committed content and what its draft makes of it.
struct File {
    ino: Ino,
    draft: DraftId,
    committed: Vec<u8>,
    drafted: Vec<u8>,
}

impl File {
    async fn change(&mut self, fs: &Rc<Ext4>, choices: &mut Choices) -> FsResult<()> {
        let (offset, length) = (choices.below(BYTES), 1 + choices.below(BYTES / 3));
        match choices.below(6) {
            0 => {
                fs.draft_set_size(self.draft, self.ino, offset).await?;
                self.drafted.resize(offset as usize, 0);
            }
            1 => {
                fs.draft_punch(self.draft, self.ino, offset, length).await?;
                let size = self.drafted.len();
                let (start, end) = ((offset as usize).min(size), ((offset + length) as usize).min(size));
                self.drafted[start..end].fill(0);
            }
            _ => {
                let bytes = vec![1 + choices.below(255) as u8; length as usize];
                fs.draft_write(self.draft, self.ino, Position::At(offset), Content::Bytes(&bytes)).await?;
                let end = (offset + length) as usize;
                self.drafted.resize(self.drafted.len().max(end), 0);
                self.drafted[offset as usize..end].copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    async fn check(&self, fs: &Rc<Ext4>, step: u64) -> FsResult<()> {
        assert!(content(fs, self.ino).await == self.committed, "step {step}: {} as committed", self.ino);
        let drafted = fs.draft_read(self.draft, self.ino, 0, u64::MAX).await?.to_vec();
        assert!(drafted == self.drafted, "step {step}: {} as drafted", self.ino);
        Ok(())
    }
}

async fn run(fs: Rc<Ext4>, seed: u64) -> FsResult<BTreeMap<Ino, Vec<u8>>> {
    let mut choices = Choices::new(seed);
    let mut files = Vec::new();
    for number in 0..FILES {
        let ino = fs.create(fs.root(), format!("{number}").as_bytes(), NewNode::FILE).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, ino).await?;
        files.push(File { ino, draft, committed: Vec::new(), drafted: Vec::new() });
    }
    let plain = fs.create(fs.root(), b"plain", NewNode::FILE).await?;
    for step in 0..400 {
        let at = choices.below(FILES) as usize;
        match choices.below(12) {
            0..=6 => files[at].change(&fs, &mut choices).await?,
            7 => {
                let other = choices.below(FILES) as usize;
                let together = if at == other { vec![at] } else { vec![at, other] };
                let drafts: Vec<_> = together.iter().map(|at| files[*at].draft).collect();
                fs.commit_drafts(&drafts).await?;
                together.iter().for_each(|at| files[*at].committed = files[*at].drafted.clone());
            }
            8 => {
                fs.abort_drafts(&[files[at].draft]).await?;
                files[at].drafted = files[at].committed.clone();
            }
            9 => fs.sync().await?,
            10 => fs.drop_caches(),
            _ => {
                let bytes = Content::Pattern { seed: step, compressible_percent: 0, length: 100_000 };
                fs.write(plain, Position::At(choices.below(MIB)), bytes, Manner::default()).await.map(drop)?;
            }
        }
        files[at].check(&fs, step).await?;
        fs.check().unwrap_or_else(|broken| panic!("step {step}: {broken}"));
    }
    Ok(files.into_iter().map(|file| (file.ino, file.committed)).collect())
}

#[test]
fn random_drafts_are_as_the_model_says() {
    for seed in seeds(1, 6) {
        for mode in [Mode::Data, Mode::Ldj] {
            let mut options = MountOptions::new(mode);
            // A small cache: pages leave it and come back, and drafts reach their bound.
            options.cache_pages = 512;
            let disk = Box::new(new_disk(64 * MIB, 2048));
            let (outcome, device) = with_mount(disk, options, move |fs, _| run(fs, seed));
            let committed = outcome.unwrap_or_else(|error| panic!("seed {seed}, {mode}: {error}"));
            let (outcome, device) = with_mount(device, options, move |fs, _| async move {
                for (ino, expected) in committed {
                    assert!(content(&fs, ino).await == expected, "seed {seed}, {mode}: {ino} after a remount");
                }
                Ok(())
            });
            outcome.expect("remount");
            let scratch = Scratch::new(&format!("atomic-model-{seed}-{mode}"));
            save(&image(device), &scratch.path("image"));
            assert_clean(&scratch.path("image"));
        }
    }
}
