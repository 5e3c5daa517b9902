//! A device that fails during a commit: what a later mount finds is all of the draft, or nothing of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::Nanos;
use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{AtomicFiles, Content, FileSystem, FileView, FsError, FsResult, NewNode, Position};

use super::{MIB, content_at, exists, file};
use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean};

/// What the draft writes into each of its files, and when requests begin to count.
#[derive(Clone, Copy)]
enum Case {
    /// Pages that memory holds; from the commit on.
    Small,
    /// Pages of which most are spilled; from the commit on.
    Spilled,
    /// The same; from the first write on.
    Spilling,
}

impl Case {
    const fn content(self) -> Content<'static> {
        let length = if matches!(self, Case::Small) { 30_000 } else { 1_200_000 };
        Content::Pattern { seed: 7, compressible_percent: 0, length }
    }

    /// The content as bytes.
    fn bytes(self) -> Vec<u8> {
        let content = self.content();
        let pages = (0..content.length().div_ceil(4096)).map(|index| content.part_of_page(0, index).1.to_vec());
        pages.flatten().collect()
    }
}

/// What is there before the draft.
async fn prepare(fs: Rc<Ext4>) -> FsResult<()> {
    for name in [b"one", b"two"] {
        file(&fs, name, b"old").await?;
    }
    file(&fs, b"gone", b"old").await.map(drop)
}

/// Changes two files, new pages included, and three names. `fault` makes requests fail, by their number from the
/// first that counts.
async fn change(
    fs: Rc<Ext4>,
    plan: Rc<RefCell<FaultPlan>>,
    (case, fault): (Case, impl Fn(u64) -> Fault),
) -> FsResult<()> {
    let begin = || {
        let first = plan.borrow().requests;
        plan.borrow_mut().faults.push(fault(first));
    };
    let (one, two) = (fs.lookup(fs.root(), b"one").await?, fs.lookup(fs.root(), b"two").await?);
    let draft = fs.begin_draft()?;
    fs.claim(draft, one).await?;
    fs.claim(draft, two).await?;
    let made = fs.draft_create(draft, fs.root(), b"made", NewNode::FILE).await?;
    if matches!(case, Case::Spilling) {
        begin();
    }
    for ino in [one, two, made] {
        fs.draft_write(draft, ino, Position::At(0), case.content()).await?;
    }
    fs.draft_unlink(draft, fs.root(), b"gone").await?;
    // Bitmaps and directories leave memory: the commit has to read them again.
    fs.drop_caches();
    if !matches!(case, Case::Spilling) {
        begin();
    }
    let committed = fs.commit_drafts(&[draft]).await;
    if let Err(error) = &committed {
        assert!(matches!(error, FsError::Device(_) | FsError::ReadOnly(_)), "{error}");
    }
    committed
}

/// Whether the draft is there, whole; fails if a part of it is.
async fn is_there(fs: &Rc<Ext4>, new: Vec<u8>) -> bool {
    let contents = [content_at(fs, b"one").await, content_at(fs, b"two").await];
    let names = (exists(fs, b"made").await, exists(fs, b"gone").await);
    match names {
        (true, false) => assert!(contents == [new.clone(), new.clone()] && content_at(fs, b"made").await == new),
        (false, true) => assert!(contents == [b"old".to_vec(), b"old".to_vec()]),
        _ => panic!("a part of the names changed: {names:?}"),
    }
    names.0
}

/// Tries commits in which the request number `survivors` fails as `fault` says.
fn try_faults(kind: &str, case: Case, fault: impl Fn(u64) -> Fault + Copy + 'static) {
    for mode in [Mode::Data, Mode::DataAsync, Mode::Ldj] {
        let (mut absent, mut whole) = (0, 0);
        for survivors in 0..60 {
            let plan = Rc::new(RefCell::new(FaultPlan::default()));
            let disk = Box::new(Faulty::new(Box::new(new_disk(32 * MIB, 1024)), Rc::clone(&plan)));
            let (outcome, device) = with_mount(disk, MountOptions::new(mode), |fs, _| prepare(fs));
            outcome.expect("nothing fails yet");
            let (during, acknowledged) = (Rc::clone(&plan), Rc::new(Cell::new(false)));
            let heard = Rc::clone(&acknowledged);
            let (_, device) = with_mount(device, MountOptions::new(mode), move |fs, port| async move {
                heard.set(change(fs, during, (case, move |first| fault(first + survivors))).await.is_ok());
                // Long enough for a commit by age: it must not take a part of the draft along.
                port.runtime().sleep(Nanos::from_secs(6)).await;
                Ok(())
            });
            plan.borrow_mut().faults.clear();
            let (found, device) = with_mount(device, MountOptions::new(mode), move |fs, _| async move {
                Ok(is_there(&fs, case.bytes()).await)
            });
            let found = found.unwrap_or_else(|error| panic!("{mode}, {survivors} requests: {error}"));
            assert!(found || !acknowledged.get(), "{mode}, {survivors} requests: acknowledged and lost");
            if found {
                whole += 1
            } else {
                absent += 1
            };
            let scratch = Scratch::new(&format!("atomic-faults-{kind}-{mode}"));
            save(&image(device), &scratch.path("image"));
            assert_clean(&scratch.path("image"));
        }
        assert!(absent >= 3 && whole >= 3, "{mode}: {absent} absent, {whole} whole: the faults fell beside the commit");
    }
}

#[test]
fn a_commit_on_a_device_that_dies_is_whole_or_absent() {
    try_faults("dies", Case::Small, Fault::From);
}

#[test]
fn a_commit_in_which_one_request_fails_is_whole_or_absent() {
    try_faults("one", Case::Small, Fault::Request);
}

#[test]
fn a_commit_of_spilled_pages_on_a_device_that_dies_is_whole_or_absent() {
    try_faults("spilled-dies", Case::Spilled, Fault::From);
}

#[test]
fn a_commit_of_spilled_pages_in_which_one_request_fails_is_whole_or_absent() {
    try_faults("spilled-one", Case::Spilled, Fault::Request);
}

#[test]
fn a_spill_in_which_one_request_fails_leaves_the_draft_whole_or_absent() {
    try_faults("spilling", Case::Spilling, Fault::Request);
}
