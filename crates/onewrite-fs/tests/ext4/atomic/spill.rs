//! Drafts that are larger than memory and log: their pages wait on the device.

use std::cell::Cell;
use std::rc::Rc;

use onewrite_block::{Choices, DevicePort};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    AtomicFiles, AttributeChanges, Content, DraftId, FileSystem, FileView, FsError, FsResult, Ino, NewNode, Position,
};

use super::{MIB, PAGE, modes, on, on_data};
use crate::support::shorthand::{content, content_at, exists, file};
use crate::support::volume::{new_disk, with_mount};

/// Pages that drafts keep in memory: a quarter of the log's 4,096 blocks.
const IN_MEMORY: u64 = 1_024;

pub(super) async fn overwrite(fs: &Rc<Ext4>, (draft, ino): (DraftId, Ino), page: u64, byte: u8) -> FsResult<()> {
    let bytes = [byte; PAGE as usize];
    fs.draft_write(draft, ino, Position::At(page * PAGE), Content::Bytes(&bytes)).await.map(drop)
}

#[test]
fn a_draft_larger_than_the_log_is_one_commit_and_its_content_is_written_once() {
    for mode in modes() {
        let work = move |fs: Rc<Ext4>, port: DevicePort| async move {
            let (one, two) = (file(&fs, b"one", &[1; 50_000]).await?, file(&fs, b"two", b"old").await?);
            fs.sync().await?;
            let draft = fs.begin_draft()?;
            fs.claim(draft, one).await?;
            fs.claim(draft, two).await?;
            let before = port.device().counters().host_write_bytes();
            let whole = Content::Pattern { seed: 7, compressible_percent: 0, length: 20 * MIB };
            fs.draft_write(draft, one, Position::At(10_000), whole).await?;
            fs.draft_write(draft, two, Position::At(0), Content::Bytes(b"new")).await?;
            assert_eq!((content(&fs, one).await, content(&fs, two).await), (vec![1; 50_000], b"old".to_vec()));
            assert_eq!(fs.draft_size(draft, one)?, 20 * MIB + 10_000);
            assert_eq!(fs.draft_read(draft, one, 0, 10_000).await?.to_vec(), [1; 10_000]);
            let commits = fs.counters().commits;
            fs.commit_drafts(&[draft]).await?;
            assert!(fs.counters().commits <= commits + 1, "one transaction has both files");
            let written = port.device().counters().host_write_bytes() - before;
            assert!(written < 20 * MIB + 400_000, "{mode}: {written} bytes written for 20 MiB");
            assert!(written >= 20 * MIB, "{mode}: {written} bytes written for 20 MiB");
            fs.check().expect("invariants");
            fs.end_draft(draft).await
        };
        let device = on("spilled", mode, work);
        let (outcome, _) = with_mount(device, MountOptions::new(mode), |fs, _| async move {
            let (one, expected) = (content_at(&fs, b"one").await, file(&fs, b"again", &[1; 10_000]).await?);
            let whole = Content::Pattern { seed: 7, compressible_percent: 0, length: 20 * MIB };
            fs.write(expected, Position::At(10_000), whole, onewrite_fs::Manner::default()).await?;
            assert!(one == content(&fs, expected).await, "content after a remount");
            assert_eq!(content_at(&fs, b"two").await, b"new");
            Ok(())
        });
        outcome.expect("remount");
    }
}

/// A file of `pages` pages, page `n` full of `n % 251`.
async fn numbered(fs: &Rc<Ext4>, pages: u64) -> FsResult<(Ino, Vec<u8>)> {
    let bytes: Vec<u8> = (0..pages).flat_map(|page| vec![(page % 251) as u8; PAGE as usize]).collect();
    Ok((file(fs, b"one", &bytes).await?, bytes))
}

#[test]
fn scattered_pages_beyond_the_bound_are_one_commit() {
    on_data("scattered", |fs| async move {
        let (one, mut expected) = numbered(&fs, 6_000).await?;
        let old = expected.clone();
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        let mut choices = Choices::new(3);
        for _ in 0..4 * IN_MEMORY {
            let page = choices.below(6_000);
            overwrite(&fs, (draft, one), page, 252).await?;
            expected[(page * PAGE) as usize..((page + 1) * PAGE) as usize].fill(252);
        }
        assert!(content(&fs, one).await == old, "readers see the last commit");
        assert!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec() == expected, "the owner sees its changes");
        fs.check().expect("invariants");
        fs.commit_drafts(&[draft]).await?;
        fs.drop_caches();
        assert!(content(&fs, one).await == expected, "what was committed");
        fs.check().expect("invariants");
        // Each page has its own place now; a second round frees it again.
        for page in (0..6_000).step_by(2) {
            overwrite(&fs, (draft, one), page, 253).await?;
        }
        fs.commit_drafts(&[draft]).await?;
        let now = content(&fs, one).await;
        assert!((0..6_000).all(|page| page % 2 == 1 || now[(page * PAGE) as usize] == 253));
        fs.end_draft(draft).await
    });
}

#[test]
fn spilled_pages_are_truncated_punched_and_written_again() {
    on_data("again", |fs| async move {
        let (one, mut expected) = numbered(&fs, 4_000).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        for page in 0..2 * IN_MEMORY {
            overwrite(&fs, (draft, one), page, 252).await?;
        }
        overwrite(&fs, (draft, one), 5, 253).await?;
        fs.draft_write(draft, one, Position::At(7 * PAGE + 100), Content::Bytes(b"part of a page")).await?;
        fs.draft_punch(draft, one, 10 * PAGE + 1, 20 * PAGE).await?;
        fs.draft_set_size(draft, one, 1_000 * PAGE + 77).await?;
        fs.draft_set_size(draft, one, 1_200 * PAGE).await?;
        fs.draft_write(draft, one, Position::End, Content::Bytes(b"end")).await?;
        let page = PAGE as usize;
        expected[..1_000 * page + 77].fill(252);
        expected[5 * page..6 * page].fill(253);
        expected[7 * page + 100..7 * page + 114].copy_from_slice(b"part of a page");
        expected[10 * page + 1..30 * page + 1].fill(0);
        expected.truncate(1_000 * page + 77);
        expected.resize(1_200 * page, 0);
        expected.extend(b"end");
        assert!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec() == expected, "before the commit");
        fs.commit_drafts(&[draft]).await?;
        fs.drop_caches();
        assert!(content(&fs, one).await == expected, "after it");
        fs.end_draft(draft).await
    });
}

#[test]
fn an_abort_gives_the_space_of_spilled_pages_back() {
    on_data("aborted", |fs| async move {
        let (one, old) = numbered(&fs, 100).await?;
        fs.sync().await?;
        let before = fs.space().await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        let whole = Content::Pattern { seed: 7, compressible_percent: 0, length: 20 * MIB };
        for round in 0..2 {
            let new = fs.draft_create(draft, fs.root(), b"new", NewNode::FILE).await?;
            fs.draft_write(draft, one, Position::At(0), whole).await?;
            fs.draft_write(draft, new, Position::At(0), whole).await?;
            assert!(fs.space().await?.blocks_free + 10_000 < before.blocks_free, "round {round}: spilled");
            fs.abort_drafts(&[draft]).await?;
            fs.sync().await?;
            assert_eq!(fs.space().await?, before, "round {round}");
            assert!(content(&fs, one).await == old && !exists(&fs, b"new").await);
            assert!(fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec() == old);
            fs.check().expect("invariants");
        }
        fs.draft_write(draft, one, Position::At(0), whole).await?;
        // The unmount ends the draft.
        Ok(())
    });
}

#[test]
fn drafts_make_room_for_each_other() {
    on_data("others", |fs| async move {
        let (one, two) = (file(&fs, b"one", b"").await?, file(&fs, b"two", b"").await?);
        let (first, second) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(first, one).await?;
        fs.claim(second, two).await?;
        for page in 0..IN_MEMORY * 9 / 10 {
            overwrite(&fs, (first, one), page, 1).await?;
        }
        fs.draft_write(second, two, Position::At(0), Content::Bytes(&[2; 1_000_000])).await?;
        for name in 0..10 {
            fs.draft_create(second, fs.root(), format!("{name}").as_bytes(), NewNode::FILE).await?;
        }
        fs.commit_drafts(&[second]).await?;
        assert_eq!(content(&fs, two).await, vec![2; 1_000_000]);
        fs.commit_drafts(&[first]).await?;
        assert_eq!(content(&fs, one).await, vec![1; (IN_MEMORY * 9 / 10 * PAGE) as usize]);
        fs.end_draft(first).await?;
        fs.end_draft(second).await
    });
}

#[test]
fn a_full_disk_refuses_a_spill_and_keeps_the_draft() {
    on_data("full-spill", |fs| async move {
        let (one, old) = numbered(&fs, 3_000).await?;
        let filler = file(&fs, b"filler", b"").await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        let fill = Content::Pattern { seed: 2, compressible_percent: 0, length: 100_000 };
        while fs.write(filler, Position::End, fill, onewrite_fs::Manner::default()).await.is_ok() {}
        let (mut written, mut refusal) = (0, None);
        while refusal.is_none() && written < 3_000 {
            match overwrite(&fs, (draft, one), written, 252).await {
                Ok(()) => written += 1,
                Err(error) => refusal = Some(error),
            }
        }
        assert!(matches!(refusal, Some(FsError::NoSpace { .. })), "{refusal:?}");
        assert!(written > IN_MEMORY / 2, "{written}");
        let (long, size) = (vec![9; 9_000_000], fs.draft_size(draft, one)?);
        for position in [Position::At(0), Position::End] {
            let refusal = fs.draft_write(draft, one, position, Content::Bytes(&long)).await;
            assert!(matches!(refusal, Err(FsError::NoSpace { .. })), "{refusal:?}");
            assert_eq!(fs.draft_size(draft, one)?, size);
        }
        assert!(content(&fs, one).await == old);
        fs.commit_drafts(&[draft]).await?;
        let now = content(&fs, one).await;
        assert!(now[..(written * PAGE) as usize].iter().all(|byte| *byte == 252));
        assert!(now[(written * PAGE) as usize..] == old[(written * PAGE) as usize..]);
        fs.end_draft(draft).await
    });
}

/// Pages of a draft that replace others need blocks once they leave memory; another draft keeps those that its writes
/// were promised.
#[test]
fn a_spill_leaves_what_another_draft_was_promised() {
    on_data("promised", |fs| async move {
        let (one, _) = numbered(&fs, 3_000).await?;
        let (two, filler) = (file(&fs, b"two", b"").await?, file(&fs, b"filler", b"").await?);
        let (first, second) = (fs.begin_draft()?, fs.begin_draft()?);
        fs.claim(first, two).await?;
        fs.claim(second, one).await?;
        let promised = 600;
        fs.draft_write(first, two, Position::At(0), Content::Bytes(&vec![7; (promised * PAGE) as usize])).await?;
        let fill = Content::Pattern { seed: 2, compressible_percent: 0, length: PAGE };
        while fs.write(filler, Position::End, fill, onewrite_fs::Manner::default()).await.is_ok() {}
        let size = fs.attributes(filler).await?.size;
        let size = AttributeChanges { size: Some(size - 300 * PAGE), ..AttributeChanges::default() };
        fs.set_attributes(filler, size).await?;
        fs.sync().await?;
        let mut refusal = None;
        for page in 0..3_000 {
            if let Err(error) = overwrite(&fs, (second, one), page, 252).await {
                refusal = Some(error);
                break;
            }
        }
        assert!(matches!(refusal, Some(FsError::NoSpace { .. })), "{refusal:?}");
        fs.commit_drafts(&[first]).await?;
        assert!(content(&fs, two).await == vec![7; (promised * PAGE) as usize]);
        fs.commit_drafts(&[second]).await?;
        fs.check().expect("invariants");
        fs.end_draft(first).await?;
        fs.end_draft(second).await
    });
}

#[test]
fn a_file_in_many_pieces_is_emptied_by_a_new_map() {
    on_data("pieces", |fs| async move {
        let pages = 4_000;
        let (one, mut expected) = numbered(&fs, pages).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, one).await?;
        // Every second page goes; freed extent by extent, this would be more than a transaction.
        for page in (0..pages).step_by(2) {
            fs.draft_punch(draft, one, page * PAGE, PAGE).await?;
            expected[(page * PAGE) as usize..((page + 1) * PAGE) as usize].fill(0);
        }
        overwrite(&fs, (draft, one), 2, 9).await?;
        expected[2 * PAGE as usize..3 * PAGE as usize].fill(9);
        let free = fs.space().await?.blocks_free;
        fs.commit_drafts(&[draft]).await?;
        fs.drop_caches();
        assert!(content(&fs, one).await == expected);
        fs.sync().await?;
        assert!(fs.space().await?.blocks_free > free + pages / 2 - 50, "blocks are free again");
        fs.draft_set_size(draft, one, 3 * PAGE).await?;
        fs.commit_drafts(&[draft]).await?;
        assert!(content(&fs, one).await == expected[..3 * PAGE as usize]);
        fs.check().expect("invariants");
        fs.end_draft(draft).await
    });
}

/// Names take what one commit can change, up to a few blocks: a write is made as a whole or refused as a whole.
#[test]
fn a_write_that_metadata_leave_little_room_for_is_whole_or_absent() {
    let refused = Rc::new(Cell::new(0));
    let cases = (0..24).flat_map(|left| [2, 16, 300].map(|pages| (left, pages)));
    for (left, length) in cases {
        // A quarter of the cache is what one commit changes at most; a name takes 55 blocks, and its file one.
        let options = MountOptions { cache_pages: 4 * (3 * 56 + left), ..MountOptions::new(Mode::Data) };
        let refused = Rc::clone(&refused);
        let work = move |fs: Rc<Ext4>, _| async move {
            let one = file(&fs, b"one", &[1; 20_000]).await?;
            let (draft, names) = (fs.begin_draft()?, fs.begin_draft()?);
            fs.claim(draft, one).await?;
            for name in [b"a", b"b", b"c"] {
                fs.draft_create(names, fs.root(), name, NewNode::FILE).await?;
            }
            let content = vec![9; (length * PAGE) as usize];
            let outcome = fs.draft_write(draft, one, Position::End, Content::Bytes(&content)).await;
            let now = fs.draft_read(draft, one, 0, u64::MAX).await?.to_vec();
            match outcome {
                Ok(_) => assert!(now == [vec![1; 20_000], content].concat(), "{left} left, {length} pages"),
                Err(error) => {
                    assert!(matches!(error, FsError::TooManyChanges { .. }), "{error}");
                    refused.set(refused.get() + 1);
                    assert!(now == [1; 20_000], "{left} left, {length} pages: refused, but {} bytes", now.len());
                }
            }
            fs.commit_drafts(&[draft, names]).await?;
            assert_eq!(fs.attributes(one).await?.size, now.len() as u64);
            fs.check().expect("invariants");
            fs.end_draft(names).await
        };
        let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 4096)), options, work);
        outcome.unwrap_or_else(|error| panic!("{left} left, {length} pages: {error}"));
    }
    assert!((3..40).contains(&refused.get()), "{} refused", refused.get());
}
