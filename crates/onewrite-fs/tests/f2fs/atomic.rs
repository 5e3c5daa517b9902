//! Atomic files on F2FS: what a draft changes is seen by nobody before its commit, and whole after it. fsck.f2fs and
//! our checker call every image clean.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::support::f2fs_volume::{Left, assert_clean, new_disk, new_staged_disk, new_zoned_disk, with_mount};
use crate::support::shorthand::{content, content_at, exists, file};
use crate::support::volume::image;
use onewrite_block::{
    Bell, Completion, Counters, Device, DevicePort, Geometry, Image, Lpn, Nanos, NextEvent, Operation, Page, RamDisk,
    Request, Token,
};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{
    Allocation, AtomicFiles, AttributeChanges, Content, FileSystem, FileView, FsError, FsResult, Manner, NewNode,
    Position, RenameManner,
};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// The same image on another disk.
fn again(image: &Image) -> Box<dyn Device> {
    Box::new(RamDisk::with_image(image.clone(), Geometry::plain("ram", image.pages())))
}

/// Runs `work` on a new file system, unmounts it and has it checked. Returns the image.
fn on_new<F: Future<Output = FsResult<()>> + 'static>(work: impl FnOnce(Rc<F2fs>) -> F + 'static) -> Image {
    on_new_with(F2fsOptions::default(), Left::Unmounted, |fs, _| work(fs))
}

fn on_new_with<F: Future<Output = FsResult<()>> + 'static>(
    options: F2fsOptions,
    left: Left,
    work: impl FnOnce(Rc<F2fs>, DevicePort) -> F + 'static,
) -> Image {
    let ((), disk) = with_mount(Box::new(new_disk(64 * MIB)), options, left, work);
    let left_image = image(disk);
    if left == Left::Unmounted {
        assert_clean(&left_image);
    }
    left_image
}

/// Looks at an image, unmounts it and has it checked.
fn after<F: Future<Output = FsResult<()>> + 'static>(left: &Image, look: impl FnOnce(Rc<F2fs>) -> F + 'static) {
    let ((), disk) = with_mount(again(left), F2fsOptions::default(), Left::Unmounted, |fs, _| look(fs));
    assert_clean(&image(disk));
}

fn bytes(bytes: &[u8]) -> Content<'_> {
    Content::Bytes(bytes)
}

#[test]
fn changes_of_two_files_are_seen_at_once_and_survive_a_crash() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let (one, two) = (file(&fs, b"one", b"old one").await?, file(&fs, b"two", &[7; 10_000]).await?);
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.claim(draft, two).await?;
        fs.draft_write(draft, one, Position::At(4), bytes(b"ONE, and longer")).await?;
        fs.draft_write(draft, two, Position::At(5_000), bytes(&[8; 20_000])).await?;
        assert_eq!((content(&fs, one).await, content(&fs, two).await), (b"old one".to_vec(), vec![7; 10_000]));
        assert_eq!(fs.draft_read(draft, one, 0, 99).await?.to_vec(), b"old ONE, and longer");
        assert_eq!((fs.draft_size(draft, two)?, fs.attributes(two).await?.size), (25_000, 10_000));
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, b"old ONE, and longer");
        assert_eq!(content(&fs, two).await, [vec![7; 5_000], vec![8; 20_000]].concat());
        Ok(())
    });
    after(&left, |fs| async move {
        assert_eq!(content_at(&fs, b"one").await, b"old ONE, and longer");
        assert_eq!(content_at(&fs, b"two").await, [vec![7; 5_000], vec![8; 20_000]].concat());
        Ok(())
    });
}

#[test]
fn a_commit_of_one_file_is_a_chain_of_nodes() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, port| async move {
        let ino = file(&fs, b"base", &[1; 30 * 4096]).await?;
        fs.sync().await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, ino).await?;
        for pages in [1, 8, 20] {
            let before = (port.device().counters(), fs.counters().checkpoints);
            fs.draft_write(draft, ino, Position::At(0), bytes(&vec![pages as u8; pages * 4096])).await?;
            assert_eq!(port.device().counters(), before.0, "nothing is written before the commit");
            fs.commit_drafts(&[draft]).await?;
            let after = port.device().counters();
            let written = (after.host_write_bytes() - before.0.host_write_bytes()) / PAGE;
            let (flushes, fua_writes) = (after.flushes - before.0.flushes, after.fua_writes - before.0.fua_writes);
            assert_eq!((written, flushes, fua_writes), (pages as u64 + 1, 1, 1), "{pages} pages");
            assert_eq!(fs.counters().checkpoints, before.1);
        }
        Ok(())
    });
    after(&left, |fs| async move {
        assert_eq!(fs.recovered().map(|recovered| recovered.files), Some(1));
        assert_eq!(content_at(&fs, b"base").await, [vec![20; 20 * 4096], vec![1; 10 * 4096]].concat());
        Ok(())
    });
}

#[test]
fn an_abort_leaves_the_last_commit_and_writes_nothing() {
    on_new_with(F2fsOptions::default(), Left::Unmounted, |fs, port| async move {
        let one = file(&fs, b"one", &[1; 9_000]).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_write(draft, one, Position::At(0), bytes(&[2; 9_000])).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.sync().await?;
        let (space, written) = (fs.space().await?, port.device().counters().host_write_bytes());
        fs.draft_write(draft, one, Position::At(0), bytes(&[3; 50_000])).await?;
        assert_eq!(fs.space().await?.blocks_free, space.blocks_free - 10, "new pages are reserved");
        fs.draft_set_size(draft, one, 10).await?;
        fs.draft_punch(draft, one, 0, 5).await?;
        fs.abort_drafts(&[draft]).await?;
        assert_eq!((content(&fs, one).await, fs.draft_size(draft, one)?), (vec![2; 9_000], 9_000));
        assert_eq!((fs.space().await?, port.device().counters().host_write_bytes()), (space, written));
        fs.draft_write(draft, one, Position::End, bytes(b"end")).await?;
        fs.end_draft(draft).await?;
        assert_eq!(content(&fs, one).await, vec![2; 9_000], "a draft that ends is aborted");
        fs.check().expect("invariants");
        Ok(())
    });
}

#[test]
fn a_file_has_one_draft_and_others_cannot_change_it() {
    on_new(|fs| async move {
        let one = file(&fs, b"one", b"one").await?;
        let (draft, other) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(draft, one).await?;
        let is_busy = |outcome: FsResult<()>| match outcome {
            Err(FsError::Busy(said)) => assert!(said.contains("draft 1"), "{said}"),
            outcome => panic!("{outcome:?}"),
        };
        is_busy(fs.claim(other, one).await);
        is_busy(fs.write(one, Position::End, bytes(b"x"), Manner::default()).await.map(drop));
        let direct = Manner { direct: true, ..Manner::default() };
        is_busy(fs.write(one, Position::At(0), bytes(&[0; 4096]), direct).await.map(drop));
        is_busy(fs.allocate(one, 0, 10, Allocation::Extend).await);
        let resize = AttributeChanges { size: Some(1), ..AttributeChanges::default() };
        is_busy(fs.set_attributes(one, resize).await);
        assert_eq!((fs.claimant(one).await?, content(&fs, one).await), (Some(draft), b"one".to_vec()));
        fs.set_attributes(one, AttributeChanges { permissions: Some(0o600), ..AttributeChanges::default() }).await?;
        fs.rename((fs.root(), b"one"), (fs.root(), b"uno"), RenameManner::Replace).await?;
        fs.draft_write(draft, one, Position::End, bytes(b"!")).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await?;
        fs.claim(other, one).await?;
        fs.end_draft(other).await?;
        fs.write(one, Position::End, bytes(b"x"), Manner::default()).await?;
        assert_eq!(content_at(&fs, b"uno").await, b"one!x");
        Ok(())
    });
}

#[test]
fn a_staging_area_refuses_drafts_and_names_the_cure() {
    let disk = Box::new(new_staged_disk(65 * MIB, MIB));
    with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        assert!(!fs.has_drafts());
        let refused = fs.begin_draft().expect_err("refused").to_string();
        assert!(refused.contains("staging area") && refused.contains("without --stage"), "{refused}");
        Ok(())
    });
}

#[test]
fn sizes_and_holes_are_drafted_too() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let one = file(&fs, b"one", &[1; 40_000]).await?;
        fs.sync().await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_punch(draft, one, 4_000, 10_000).await?;
        fs.draft_set_size(draft, one, 20_000).await?;
        fs.draft_set_size(draft, one, 30_000).await?;
        let expected = [vec![1; 4_000], vec![0; 10_000], vec![1; 6_000], vec![0; 10_000]].concat();
        assert_eq!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec(), expected);
        assert_eq!(content(&fs, one).await, vec![1; 40_000]);
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, expected);
        // Far away: nodes are made, and go again.
        fs.draft_write(draft, one, Position::At(5_000 * MIB), bytes(b"far")).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.draft_set_size(draft, one, 30_000).await?;
        fs.draft_write(draft, one, Position::At(9 * MIB), bytes(b"near")).await?;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(fs.attributes(one).await?.size, 9 * MIB + 4);
        Ok(())
    });
    after(&left, |fs| async move {
        let found = content_at(&fs, b"one").await;
        assert_eq!((found.len() as u64, &found[found.len() - 4..]), (9 * MIB + 4, &b"near"[..]));
        let expected = [vec![1; 4_000], vec![0; 10_000], vec![1; 6_000], vec![0; 10_000]].concat();
        assert!(found[..30_000] == expected && found[30_000..][..5_000_000].iter().all(|byte| *byte == 0));
        Ok(())
    });
}

#[test]
fn names_change_with_the_content() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let root = fs.root();
        for name in [&b"gone"[..], b"old", b"target"] {
            file(&fs, name, name).await?;
        }
        let draft = fs.begin_draft()?;
        let new = fs.draft_create(draft, root, b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(&[9; 5_000])).await?;
        fs.draft_unlink(draft, root, b"gone").await?;
        fs.draft_rename(draft, (root, b"old"), (root, b"target")).await?;
        assert!(exists(&fs, b"gone").await && exists(&fs, b"old").await && !exists(&fs, b"new").await);
        fs.sync().await?;
        assert!(!exists(&fs, b"new").await);
        fs.commit_drafts(&[draft]).await?;
        assert!(!exists(&fs, b"gone").await && !exists(&fs, b"old").await);
        Ok(())
    });
    after(&left, |fs| async move {
        assert!(!exists(&fs, b"gone").await && !exists(&fs, b"old").await);
        assert_eq!(
            (content_at(&fs, b"new").await, content_at(&fs, b"target").await),
            (vec![9; 5_000], b"old".to_vec())
        );
        Ok(())
    });
}

#[test]
fn names_that_cannot_change_are_refused_and_nothing_happens() {
    on_new(|fs| async move {
        let root = fs.root();
        file(&fs, b"there", b"there").await?;
        fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        let draft = fs.begin_draft()?;
        let created = fs.draft_create(draft, root, b"there", NewNode::FILE).await;
        assert!(matches!(created, Err(FsError::Exists(_))), "{created:?}");
        assert!(matches!(fs.draft_unlink(draft, root, b"none").await, Err(FsError::NotFound(_))));
        assert!(matches!(fs.draft_unlink(draft, root, b"directory").await, Err(FsError::IsDirectory(_))));
        let new = fs.draft_create(draft, root, b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(b"new")).await?;
        // Others take the name: the commit fails, and the draft is as it was.
        let other = file(&fs, b"new", b"other").await?;
        assert!(matches!(fs.commit_drafts(&[draft]).await, Err(FsError::Exists(_))));
        assert_eq!(fs.draft_read(draft, new, 0, 9).await?.to_vec(), b"new");
        assert_eq!(content(&fs, other).await, b"other");
        fs.unlink(root, b"new").await?;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content_at(&fs, b"new").await, b"new");
        Ok(())
    });
}

#[test]
fn a_created_file_vanishes_with_its_draft_or_at_the_next_mount() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let space = fs.space().await?;
        let draft = fs.begin_draft()?;
        let new = fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(&[1; 9_000])).await?;
        fs.end_draft(draft).await?;
        assert_eq!(fs.space().await?, space);
        assert!(matches!(fs.attributes(new).await, Err(FsError::NotFound(_))));
        let draft = fs.begin_draft()?;
        let new = fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(&[1; 9_000])).await?;
        fs.sync().await
    });
    let empty = on_new(|_| async { Ok(()) });
    let space = Rc::new(Cell::new(None));
    let (of_empty, of_left) = (Rc::clone(&space), space);
    after(&empty, |fs| async move {
        of_empty.set(Some(fs.space().await?));
        Ok(())
    });
    after(&left, |fs| async move {
        assert!(!exists(&fs, b"new").await);
        assert_eq!(Some(fs.space().await?), of_left.get(), "nothing is left of it");
        Ok(())
    });
}

#[test]
fn more_than_one_commit_takes_is_refused_at_the_write() {
    let options = F2fsOptions { cache_pages: 256, ..F2fsOptions::default() };
    on_new_with(options, Left::Unmounted, |fs, _| async move {
        let (one, two) = (file(&fs, b"one", &[1; 9_000]).await?, file(&fs, b"two", b"two").await?);
        let (draft, other) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(draft, one).await?;
        fs.claim(other, two).await?;
        fs.draft_write(draft, one, Position::At(0), bytes(&[2; 40 * 4096])).await?;
        let refused = fs.draft_write(other, two, Position::At(0), bytes(&[3; 40 * 4096])).await;
        assert!(matches!(refused, Err(FsError::TooManyChanges { blocks: 82, blocks_max: 64 })), "{refused:?}");
        assert_eq!(fs.draft_read(other, two, 0, 9).await?.to_vec(), b"two");
        fs.draft_write(other, two, Position::At(0), bytes(b"TWO")).await?;
        fs.commit_drafts(&[draft, other]).await?;
        fs.draft_write(other, two, Position::At(0), bytes(&[3; 40 * 4096])).await?;
        fs.commit_drafts(&[other]).await?;
        assert_eq!((content(&fs, one).await, content(&fs, two).await), (vec![2; 40 * 4096], vec![3; 40 * 4096]));
        Ok(())
    });
}

#[test]
fn a_full_disk_refuses_the_write_and_a_commit_has_what_its_writes_were_promised() {
    on_new(|fs| async move {
        let (one, big) = (file(&fs, b"one", b"one").await?, fs.create(fs.root(), b"big", NewNode::FILE).await?);
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.draft_write(draft, one, Position::At(0), bytes(&[2; 200 * 4096])).await?;
        let full = loop {
            let written = fs.write(big, Position::End, bytes(&[5; 65_536]), Manner::default()).await;
            if let Err(error) = written {
                break error;
            }
        };
        assert!(matches!(full, FsError::NoSpace { .. }), "{full:?}");
        let refused = fs.draft_write(draft, one, Position::End, bytes(&[2; 200 * 4096])).await;
        assert!(matches!(refused, Err(FsError::NoSpace { .. })), "{refused:?}");
        assert_eq!(fs.draft_size(draft, one)?, 200 * PAGE);
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, vec![2; 200 * 4096]);
        fs.end_draft(draft).await
    });
}

#[test]
fn an_unlinked_file_keeps_its_draft_until_the_end() {
    on_new(|fs| async move {
        let one = file(&fs, b"one", b"one").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        fs.unlink(fs.root(), b"one").await?;
        fs.draft_write(draft, one, Position::End, bytes(b"!")).await?;
        fs.commit_drafts(&[draft]).await?;
        assert_eq!(content(&fs, one).await, b"one!");
        fs.end_draft(draft).await?;
        assert!(matches!(fs.attributes(one).await, Err(FsError::NotFound(_))));
        Ok(())
    });
}

#[test]
fn drafts_work_on_zones() {
    let work = |fs: Rc<F2fs>| async move {
        let one = file(&fs, b"one", &[1; 30_000]).await?;
        fs.sync().await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        for round in 0..40_u8 {
            fs.draft_write(draft, one, Position::At(u64::from(round) * 1_000), bytes(&[round; 9_000])).await?;
            fs.commit_drafts(&[draft]).await?;
        }
        let new = fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(b"new")).await?;
        fs.commit_drafts(&[draft]).await
    };
    let ((), disk) =
        with_mount(new_zoned_disk(128 * MIB, 0), F2fsOptions::default(), Left::AsItIs, move |fs, _| work(fs));
    with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let found = content_at(&fs, b"one").await;
        assert!(found[39_000..] == [39; 9_000] && found[..1_000] == [0; 1_000] && found.len() == 48_000);
        assert_eq!(content_at(&fs, b"new").await, b"new");
        Ok(())
    });
}

/// A name that was removed before a commit does not come back under it: SQLite removes its journal without a sync.
#[test]
fn a_commit_takes_removals_along() {
    let left = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let base = file(&fs, b"base", &[1; 30_000]).await?;
        fs.sync().await?;
        let journal = file(&fs, b"journal", &[2; 9_000]).await?;
        fs.fsync(journal).await?;
        fs.unlink(fs.root(), b"journal").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, base).await?;
        fs.draft_write(draft, base, Position::At(0), bytes(&[3; 5_000])).await?;
        fs.commit_drafts(&[draft]).await
    });
    after(&left, |fs| async move {
        assert!(!exists(&fs, b"journal").await);
        assert_eq!(content_at(&fs, b"base").await, [vec![3; 5_000], vec![1; 25_000]].concat());
        Ok(())
    });
}

type Written = Rc<RefCell<Vec<(Lpn, Page)>>>;

/// A disk that notes the pages that it is given.
struct Noting {
    disk: RamDisk,
    written: Written,
}

impl Device for Noting {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn attached(&mut self, bell: Option<Bell>) {
        self.disk.attached(bell);
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        if let Operation::Write { start, pages, .. } = &request.operation {
            self.written.borrow_mut().extend((start.0..).map(Lpn).zip(pages.iter().cloned()));
        }
        self.disk.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.disk.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.disk.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn reset_counters(&mut self) {
        self.disk.reset_counters();
    }
}

/// What `one`, `two` and `new` hold.
async fn three(fs: &Rc<F2fs>) -> FsResult<Vec<Option<Vec<u8>>>> {
    let mut found = Vec::new();
    for name in [&b"one"[..], b"two", b"new"] {
        found.push(if exists(fs, name).await { Some(content_at(fs, name).await) } else { None });
    }
    Ok(found)
}

/// Cuts a run of commits behind each page that it writes. `cache_pages` is that of the run.
fn cut_everywhere<F: Future<Output = FsResult<()>> + 'static>(
    cache_pages: usize,
    commits: impl FnOnce(Rc<F2fs>, Rc<RefCell<Vec<Vec<Option<Vec<u8>>>>>>) -> F + 'static,
) {
    let base = on_new_with(F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        file(&fs, b"one", &[1; 40_000]).await?;
        file(&fs, b"two", &[2; 9_000]).await?;
        fs.sync().await
    });
    let (written, states) = (Written::default(), Rc::new(RefCell::new(Vec::new())));
    let disk = RamDisk::with_image(base.clone(), Geometry::plain("ram", base.pages()));
    let device = Box::new(Noting { disk, written: Rc::clone(&written) });
    let (options, noted) = (F2fsOptions { cache_pages, ..F2fsOptions::default() }, Rc::clone(&states));
    with_mount(device, options, Left::AsItIs, |fs, _| async move {
        let first = three(&fs).await?;
        noted.borrow_mut().push(first);
        commits(fs, noted).await
    });
    let (written, states) = (written.take(), states.take());
    let (mut image_now, mut reached) = (base, 0);
    for cut in 0..=written.len() {
        let allowed = states.clone();
        let at = Rc::new(Cell::new(0));
        let found_at = Rc::clone(&at);
        after(&image_now, move |fs| async move {
            let found = three(&fs).await?;
            let place = allowed.iter().position(|state| *state == found);
            found_at.set(place.unwrap_or_else(|| panic!("cut behind {cut} pages: part of a commit")));
            Ok(())
        });
        assert!(at.get() >= reached, "cut behind {cut} pages: an older commit");
        reached = at.get();
        if let Some((lpn, page)) = written.get(cut) {
            image_now.set(*lpn, page.clone());
        }
    }
    assert_eq!(reached, states.len() - 1, "all commits are there in the end");
}

#[test]
fn a_cut_behind_any_page_leaves_whole_commits() {
    cut_everywhere(1024, |fs, states| async move {
        let (root, one) = (fs.root(), fs.lookup(fs.root(), b"one").await?);
        let (draft, other) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(draft, one).await?;
        for round in 0..3_u8 {
            fs.draft_write(draft, one, Position::At(u64::from(round) * 3_000), bytes(&[10 + round; 30_000])).await?;
            fs.commit_drafts(&[draft]).await?;
            let state = three(&fs).await?;
            states.borrow_mut().push(state);
        }
        fs.draft_set_size(draft, one, 100).await?;
        fs.commit_drafts(&[draft]).await?;
        let state = three(&fs).await?;
        states.borrow_mut().push(state);
        fs.draft_write(draft, one, Position::At(5_000), bytes(&[20; 9_000])).await?;
        let new = fs.draft_create(draft, root, b"new", NewNode::FILE).await?;
        fs.draft_write(draft, new, Position::At(0), bytes(&[21; 9_000])).await?;
        let two = fs.lookup(root, b"two").await?;
        fs.claim(other, two).await?;
        fs.draft_write(other, two, Position::End, bytes(&[22; 9_000])).await?;
        fs.commit_drafts(&[draft, other]).await?;
        let state = three(&fs).await?;
        states.borrow_mut().push(state);
        fs.draft_unlink(draft, root, b"two").await?;
        fs.draft_write(draft, new, Position::At(0), bytes(&[23; 5_000])).await?;
        fs.commit_drafts(&[draft]).await?;
        let state = three(&fs).await?;
        states.borrow_mut().push(state);
        Ok(())
    });
}

/// A file of two nodes and more: its chain has several.
#[test]
fn a_cut_in_a_chain_of_several_nodes_leaves_whole_commits() {
    cut_everywhere(1024, |fs, states| async move {
        let one = fs.lookup(fs.root(), b"one").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        for round in 0..2_u8 {
            for place in [0, 3_900_000, 8_100_000] {
                fs.draft_write(draft, one, Position::At(place), bytes(&[10 + round; 9_000])).await?;
            }
            let before = fs.counters().checkpoints;
            fs.commit_drafts(&[draft]).await?;
            assert_eq!(fs.counters().checkpoints, before, "a chain, also where nodes are new");
            let state = three(&fs).await?;
            states.borrow_mut().push(state);
        }
        Ok(())
    });
}
