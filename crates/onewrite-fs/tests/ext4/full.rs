//! A full disk and a full inode table: the right error, no loss, and all space free again after everything is removed.
//!
//! A stream of operations runs on a disk that is too small for it, beside a model. An operation without room changes
//! nothing, except that a write or a reservation may happen in part. Then each byte is the old or the new one. Removing
//! names never needs room.

use onewrite_block::{Choices, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileKind, FileSystem, FileView, FsResult, Manner, NewNode, Position, Space};

use crate::operations::entry::{Entry, assert_same, assert_same_entry};
use crate::operations::model::{Model, Slots};
use crate::operations::operation::{Answer, Operation, Outcome, SLOTS, Stream, Target};
use crate::operations::ours::Ours;
use crate::support::volume::{image, save, with_mount};
use crate::support::{Scratch, assert_clean, seeds};

const MIB: u64 = 1024 * 1024;
const OPERATIONS: u64 = 1_200;
const NO_SPACE: i32 = 28;

/// A disk with a log of 4 MiB and one inode for each `inode_ratio` bytes.
fn small_disk(size_bytes: u64, inode_ratio: u32) -> RamDisk {
    let mut options = MkfsOptions::new(size_bytes, &mut Choices::new(1));
    (options.journal_blocks, options.inode_ratio) = (Some(1024), Some(inode_ratio));
    options.device_is_zeroed = true;
    let mut disk = RamDisk::volatile(size_bytes / PAGE_SIZE as u64);
    for (block, page) in plan(&options).expect("plan") {
        disk.put(block.page(), page);
    }
    disk
}

struct Beside {
    name: String,
    model: Model,
    slots: Slots,
    ours: Ours<Ext4>,
    refusals: u64,
}

impl Beside {
    async fn take(&mut self, number: u64, operation: &Operation) {
        let what = format!("{}, operation {number}, {operation:.150?}", self.name);
        let (before, slots) = (self.model.clone(), self.slots);
        let (expected, found) = (self.model.apply(&mut self.slots, operation), self.ours.apply(operation).await);
        if found == Err(NO_SPACE) {
            self.refusals += 1;
            self.slots = slots;
            self.no_space(before, operation, &what).await;
        } else if !matches!(operation, Operation::Seek(..)) {
            assert!(expected == found, "{what}: {} and {}", short(&expected), short(&found));
        }
    }

    /// Checks that an operation without room lost nothing.
    async fn no_space(&mut self, before: Model, operation: &Operation, what: &str) {
        assert!(
            !matches!(
                operation,
                Operation::Unlink(_) | Operation::RemoveDirectory(_) | Operation::Clear(..) | Operation::Sync(..)
            ),
            "{what}"
        );
        match operation {
            Operation::Open(_, slot, _) => {
                self.model = before;
                self.model.apply(&mut self.slots, &Operation::Close(*slot)).expect("closes");
            }
            Operation::Fill(directory, ..) => {
                self.model = before;
                self.take_names_over(directory, operation).await;
            }
            Operation::Write(target, ..)
            | Operation::Append(target, _)
            | Operation::Allocate(target, ..)
            | Operation::Truncate(target, _) => {
                let id = match target {
                    Target::Path(path) => self.model.find(path).expect(what),
                    Target::Slot(slot) => self.slots[*slot].expect(what),
                };
                let found = match target {
                    Target::Path(path) => self.ours.entry_at(path).await.expect(what),
                    Target::Slot(slot) => self.ours.entry_of_slot(*slot).await.expect(what),
                };
                assert_is_mixed(&found, &before.entry(id), &self.model.entry(id), what);
                self.model = before;
                self.model.set_content(id, found.content);
            }
            _ => {
                self.model = before;
                let Some(path) = operation.paths().first().copied() else { return };
                if let Ok(id) = self.model.find(path) {
                    let found = self.ours.entry_at(path).await.expect(what);
                    assert_same_entry(&self.model.entry(id), &plain(found), what);
                }
            }
        }
    }

    /// Copies to the model the files that an incomplete [`Operation::Fill`] has made, in order.
    async fn take_names_over(&mut self, directory: &str, operation: &Operation) {
        let list = Operation::List(directory.into());
        let Ok(Answer::Names(names)) = self.ours.apply(&list).await else { panic!("{operation:?}: no directory") };
        let Operation::Fill(_, first, count) = operation else { unreachable!("names are taken over after Fill only") };
        let there = |number: &u32| names.contains(&crate::operations::operation::filled_name(*number).into_bytes());
        let made = (*first..first + count).take_while(there).count() as u32;
        self.model.apply(&mut self.slots, &Operation::Fill(directory.into(), *first, made)).expect("a directory");
    }

    /// Fills the disk until only `free_bytes` of content and `free_inodes` are left.
    async fn ballast(&mut self, free_bytes: u64, free_inodes: u32) {
        let many = "ballast-of-inodes".to_owned();
        self.take(0, &Operation::Make(many.clone(), FileKind::Directory, 0o755)).await;
        let mut count = 0;
        while self.refusals == 0 {
            self.take(0, &Operation::Fill(many.clone(), count, 50)).await;
            count += 50;
        }
        let names = self.model.paths().iter().filter(|(path, _)| path.starts_with(&many)).count() as u32 - 1;
        self.take(0, &Operation::Clear(many, names - free_inodes - 1, free_inodes + 1)).await;
        let path = "ballast-of-bytes".to_owned();
        self.take(0, &Operation::Make(path.clone(), FileKind::Regular, 0o644)).await;
        let refusals = self.refusals;
        while self.refusals == refusals {
            self.take(0, &Operation::Append(Target::Path(path.clone()), vec![9; 100_000])).await;
        }
        let size = self.model.entry(self.model.find(&path).expect("ballast")).size;
        self.take(0, &Operation::Truncate(Target::Path(path), size - free_bytes)).await;
    }

    async fn compare(&self, what: &str) -> FsResult<()> {
        let found = self.ours.tree().await?.into_iter().map(|(path, entry)| (path, plain(entry))).collect();
        assert_same(&self.model.tree(), &found, &format!("{}, {what}: model, then ours", self.name));
        Ok(())
    }

    /// Removes everything, deepest first.
    async fn remove_all(&mut self) {
        for slot in 0..SLOTS {
            self.take(OPERATIONS, &Operation::Close(slot)).await;
        }
        for (path, kind) in self.model.paths().into_iter().rev() {
            let operation =
                if kind == FileKind::Directory { Operation::RemoveDirectory(path) } else { Operation::Unlink(path) };
            self.take(OPERATIONS, &operation).await;
        }
    }
}

/// Fails unless size and each byte equal those of `before` or of `after`.
fn assert_is_mixed(found: &Entry, before: &Entry, after: &Entry, what: &str) {
    let sizes = before.size.min(after.size)..=before.size.max(after.size);
    assert!(sizes.contains(&found.size), "{what}: {} bytes, not {sizes:?}", found.size);
    let byte = |entry: &Entry, at: usize| entry.content.get(at).copied().unwrap_or(0);
    let is_odd = |at: &usize| ![byte(before, *at), byte(after, *at), 0].contains(&found.content[*at]);
    let is_lost = |at: &usize| found.content[*at] == 0 && byte(before, *at) != 0 && byte(after, *at) != 0;
    let place = (0..found.content.len()).find(|at| is_odd(at) || is_lost(at));
    assert_eq!(place, None, "{what}: neither old nor new");
}

fn plain(mut entry: Entry) -> Entry {
    if entry.kind == FileKind::Directory {
        entry.size = 0;
    }
    entry
}

fn short(outcome: &Outcome) -> String {
    format!("{outcome:.200?}")
}

/// Runs the stream of `seed`; returns the number of operations without room.
fn fill(seed: u64, disk: RamDisk, options: MountOptions) -> u64 {
    let name = format!("ONEWRITE_SEED={seed}, {}, delayed {}", options.mode, options.delayed_allocation);
    let scratch = Scratch::new(&format!("full-{seed}-{}-{}", options.mode, options.delayed_allocation));
    let path = scratch.path("image");
    let run_name = name.clone();
    let (outcome, device) = with_mount(Box::new(disk), options, move |fs, _| async move {
        let ours = Ours::new(&fs);
        let mut both = Beside { name: run_name, model: Model::default(), slots: [None; SLOTS], ours, refusals: 0 };
        let empty = fs.space().await?;
        both.ballast(120_000, 10).await;
        let mut stream = Stream::new(Choices::new(seed), &[""]);
        for number in 0..OPERATIONS {
            both.take(number, &stream.next()).await;
            if number % 200 == 199 {
                both.compare(&format!("operation {number}")).await?;
            }
        }
        for slot in 0..SLOTS {
            both.take(OPERATIONS, &Operation::Close(slot)).await;
        }
        Ok((both.model, both.refusals, empty))
    });
    let (model, refusals, empty) = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = image(device);
    save(&written, &path);
    assert_clean(&path);
    assert_emptied(&name, &written, model, options, empty);
    refusals
}

/// Checks that a remount shows everything, and that removing everything frees all space.
fn assert_emptied(name: &str, written: &onewrite_block::Image, model: Model, options: MountOptions, empty: Space) {
    let geometry = onewrite_block::Geometry::plain("ram", written.pages());
    let disk = RamDisk::with_image(written.clone(), geometry);
    let name = name.to_owned();
    let (outcome, _) = with_mount(Box::new(disk), options, move |fs, _| async move {
        let ours = Ours::new(&fs);
        let mut both = Beside { name, model, slots: [None; SLOTS], ours, refusals: 0 };
        both.compare("mounted again").await?;
        both.remove_all().await;
        fs.sync().await?;
        assert_eq!(fs.space().await?, empty, "{}: space is lost", both.name);
        Ok(())
    });
    outcome.expect("no error");
}

fn fill_seeds(first: u64, options: MountOptions) {
    for seed in seeds(first, 3) {
        let refusals = fill(seed, small_disk(8 * MIB, 16_384), options);
        assert!((20..OPERATIONS * 2 / 3).contains(&refusals), "seed {seed}: {refusals} times no space");
    }
}

#[test]
fn a_full_disk_in_ordered_mode_loses_nothing() {
    fill_seeds(1, MountOptions::new(Mode::Ordered));
}

#[test]
fn a_full_disk_without_delayed_allocation_loses_nothing() {
    fill_seeds(11, MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Ordered) });
}

#[test]
fn a_full_disk_in_data_mode_loses_nothing() {
    fill_seeds(21, MountOptions::new(Mode::Data));
}

/// A directory has four extents and takes the last free block, so its map needs a block that is not there.
#[test]
fn a_directory_that_finds_no_block_for_its_map_gives_its_own_block_back() {
    let options = MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Ordered) };
    let (outcome, device) = with_mount(Box::new(small_disk(16 * MIB, 16_384)), options, |fs, _| async move {
        let root = fs.root();
        let page = || Content::Pattern { seed: 1, compressible_percent: 0, length: PAGE_SIZE as u64 };
        let apart = fs.create(root, b"apart", NewNode::DIRECTORY).await?;
        let grows = fs.create(root, b"grows", NewNode::DIRECTORY).await?;
        for number in 0..40 {
            let file = fs.create(apart, format!("{number}").as_bytes(), NewNode::FILE).await?;
            fs.write(file, Position::At(0), page(), Manner::default()).await?;
        }
        let ballast = fs.create(root, b"ballast", NewNode::FILE).await?;
        while fs.write(ballast, Position::End, page(), Manner::default()).await.is_ok() {}
        let mut names = 0;
        for number in 0..12 {
            fs.unlink(apart, format!("{}", 2 * number + 1).as_bytes()).await?;
            fs.sync().await?;
            while fs.link(ballast, grows, format!("{names:0255}").as_bytes()).await.is_ok() {
                names += 1;
            }
        }
        assert!(names > 60, "the directory has {names} names only: it stopped growing");
        Ok(())
    });
    outcome.expect("work");
    let scratch = Scratch::new("last-block-to-a-directory");
    save(&image(device), &scratch.path("image"));
    assert_clean(&scratch.path("image"));
}
