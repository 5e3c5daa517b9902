//! Attacks on drafts: changes beside aborts, directories that were replaced, refusals, full disks, foreign images.

use std::rc::Rc;

use onewrite_block::{Cause, Device, DevicePort, Executor, Lpn, Request};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, AtomicFiles, AttributeChanges, Content, DraftId, FileSystem, FileView, FsError, FsResult, Ino, Manner,
    NewNode, Position, SharePages, ShareRange,
};

use super::{MIB, PAGE, content_at, file};
use crate::support::volume::{new_disk, with_mount};

/// A disk with a file `one`; its pages are cold at the next mount.
fn prepared(content: Vec<u8>) -> Box<dyn Device> {
    let make = move |fs: Rc<Ext4>, _| async move { file(&fs, b"one", &content).await.map(drop) };
    let (outcome, device) = with_mount(Box::new(new_disk(64 * MIB, 4096)), MountOptions::new(Mode::Data), make);
    outcome.expect("prepare");
    device
}

fn mounted<F: Future<Output = FsResult<()>> + 'static>(
    device: Box<dyn Device>,
    work: impl FnOnce(Rc<Ext4>, DevicePort) -> F + 'static,
) -> Box<dyn Device> {
    let (outcome, device) = with_mount(device, MountOptions::new(Mode::Data), work);
    outcome.expect("mount");
    device
}

/// A draft that has `one`.
async fn claimed(fs: &Rc<Ext4>) -> FsResult<(DraftId, Ino)> {
    let (one, draft) = (fs.lookup(fs.root(), b"one").await?, fs.begin_draft()?);
    fs.claim(draft, one).await?;
    Ok((draft, one))
}

/// Aborts a draft while another task writes a part of a cold page of it.
async fn abort_beside_write(fs: &Rc<Ext4>, port: &DevicePort, (draft, one): (DraftId, Ino)) -> FsResult<()> {
    let (writer, aborter) = (Rc::clone(fs), Rc::clone(fs));
    let write = port.runtime().start(async move {
        writer.draft_write(draft, one, Position::At(20_000), Content::Bytes(b"xyz")).await.map(drop)
    });
    let abort = port.runtime().start(async move { aborter.abort_drafts(&[draft]).await });
    abort.await?;
    write.await
}

#[test]
fn nothing_of_a_draft_comes_back_with_a_write_beside_its_abort() {
    mounted(prepared(vec![1; 40_960]), |fs, port| async move {
        let (draft, one) = claimed(&fs).await?;
        fs.draft_write(draft, one, Position::At(0), Content::Bytes(&[2; 4096])).await?;
        abort_beside_write(&fs, &port, (draft, one)).await?;
        assert_eq!(fs.draft_read(draft, one, 0, 10).await?.to_vec(), [1; 10]);
        fs.check().expect("invariants");
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await
    });
}

#[test]
fn no_truncation_comes_back_with_a_write_beside_its_abort() {
    mounted(prepared(vec![1; 40_960]), |fs, port| async move {
        let (draft, one) = claimed(&fs).await?;
        fs.draft_set_size(draft, one, 8192).await?;
        abort_beside_write(&fs, &port, (draft, one)).await?;
        assert_eq!(fs.draft_size(draft, one)?, 40_960);
        fs.end_draft(draft).await
    });
}

#[test]
fn a_directory_that_was_replaced_gets_no_names() {
    mounted(prepared(vec![1]), |fs, _| async move {
        let directory = fs.create(fs.root(), b"d", NewNode::DIRECTORY).await?;
        let draft = fs.begin_draft()?;
        fs.draft_create(draft, directory, b"x", NewNode::FILE).await?;
        fs.remove_directory(fs.root(), b"d").await?;
        let other = fs.create(fs.root(), b"e", NewNode::DIRECTORY).await?;
        assert!(matches!(fs.commit_drafts(&[draft]).await, Err(FsError::NotFound(_))));
        assert!(fs.lookup(other, b"x").await.is_err(), "the file is in a directory that nobody named");
        fs.end_draft(draft).await?;
        fs.check().expect("invariants");
        Ok(())
    });
}

#[test]
fn refused_creations_leave_nothing() {
    mounted(prepared(vec![1]), |fs, _| async move {
        let draft = fs.begin_draft()?;
        let mut made = 0;
        while fs.draft_create(draft, fs.root(), format!("{made}").as_bytes(), NewNode::FILE).await.is_ok() {
            made += 1;
        }
        let before = fs.space().await?;
        for _ in 0..100 {
            let refusal = fs.draft_create(draft, fs.root(), b"more", NewNode::FILE).await;
            assert!(matches!(refusal, Err(FsError::TooManyChanges { .. })), "{refusal:?}");
        }
        assert_eq!(fs.space().await?, before);
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await
    });
}

/// Puts bytes behind the end of file `one`, which has 100 bytes `a`, as another implementation may have left them.
fn with_bytes_behind_the_end(device: Box<dyn Device>) -> Box<dyn Device> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    let door = port.clone();
    let patch = async move {
        let mut patched = 0;
        for lpn in (0..door.geometry().pages).map(Lpn) {
            let mut page = door.request(Request::read(lpn, 1, Cause::Data)).await.expect("read").remove(0);
            let is_content = page.bytes()[..100] == [b'a'; 100] && page.bytes()[100] == 0;
            if is_content {
                page.bytes_mut()[100..300].fill(b'S');
                door.request(Request::write(lpn, vec![page], Cause::Data)).await.expect("write");
                patched += 1;
            }
        }
        patched
    };
    assert!(executor.block_on(patch).expect("nothing halts") >= 1);
    drop(executor);
    port.unplug()
}

/// Lets a draft of such a file grow, and looks at it after a remount.
fn grow(grow: impl AsyncFnOnce(&Ext4, DraftId, Ino) -> FsResult<()> + 'static) {
    let device = with_bytes_behind_the_end(prepared(vec![b'a'; 100]));
    let device = mounted(device, |fs, _| async move {
        let (draft, one) = claimed(&fs).await?;
        grow(&fs, draft, one).await?;
        fs.commit_drafts(&[draft]).await?;
        fs.end_draft(draft).await
    });
    mounted(device, |fs, _| async move {
        let one = fs.lookup(fs.root(), b"one").await?;
        assert_eq!(fs.read(one, 0, 300, Manner::default()).await?.to_vec()[100..], [0; 200]);
        Ok(())
    });
}

#[test]
fn what_lay_behind_the_end_does_not_come_back() {
    grow(async |fs, draft, one| fs.draft_set_size(draft, one, 300).await);
    grow(async |fs, draft, one| fs.draft_set_size(draft, one, 3 * PAGE).await);
    grow(async |fs, draft, one| fs.draft_write(draft, one, Position::At(PAGE), Content::Bytes(b"z")).await.map(drop));
}

#[test]
fn what_lay_behind_the_end_does_not_come_back_with_a_share() {
    let device = mounted(with_bytes_behind_the_end(prepared(vec![b'a'; 100])), |fs, _| async move {
        let (source, target) = (file(&fs, b"source", &[7; 4096]).await?, fs.lookup(fs.root(), b"one").await?);
        let range = ShareRange { source, source_offset: 0, target, target_offset: PAGE, length: PAGE };
        fs.share(&[range]).await.map(drop)
    });
    mounted(device, |fs, _| async move {
        let found = content_at(&fs, b"one").await;
        assert!(found[100..4096] == [0; 3996] && found[4096..] == [7; 4096]);
        Ok(())
    });
}

#[test]
fn what_lay_behind_the_end_does_not_come_back_with_a_larger_size() {
    for size in [300, 3 * PAGE] {
        let device = mounted(with_bytes_behind_the_end(prepared(vec![b'a'; 100])), move |fs, _| async move {
            let one = fs.lookup(fs.root(), b"one").await?;
            fs.set_attributes(one, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
        });
        mounted(device, move |fs, _| async move {
            assert!(content_at(&fs, b"one").await[100..] == vec![0; size as usize - 100]);
            Ok(())
        });
    }
}

/// Fills the disk to the last block.
async fn fill(fs: &Rc<Ext4>) -> FsResult<()> {
    let filler = file(fs, b"filler", b"").await?;
    for length in [MIB, 65_536, PAGE] {
        let fill = Content::Pattern { seed: 2, compressible_percent: 0, length };
        while fs.write(filler, Position::End, fill, Manner::default()).await.is_ok() {}
    }
    fs.sync().await
}

/// Changes every second page of a file of one extent on a full disk: what was accepted can be committed.
fn split_on_a_full_disk(change: impl AsyncFn(&Ext4, DraftId, Ino, u64) -> FsResult<()> + 'static, is_written: bool) {
    mounted(prepared(vec![1]), move |fs, _| async move {
        let big = file(&fs, b"big", b"").await?;
        match is_written {
            true => {
                let content = Content::Pattern { seed: 1, compressible_percent: 0, length: 8 * MIB };
                fs.write(big, Position::At(0), content, Manner::default()).await?;
            }
            false => fs.allocate(big, 0, 8 * MIB, Allocation::Extend).await?,
        }
        fs.sync().await?;
        fill(&fs).await?;
        let draft = fs.begin_draft()?;
        fs.claim(draft, big).await?;
        for index in (1..120).step_by(2) {
            match change(&fs, draft, big, index * PAGE).await {
                Ok(()) => (),
                Err(FsError::NoSpace { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        fs.commit_drafts(&[draft]).await?;
        fs.check().expect("invariants");
        fs.unlink(fs.root(), b"filler").await?;
        fs.end_draft(draft).await
    });
}

#[test]
fn extents_that_split_on_a_full_disk_have_their_blocks() {
    let punch = async |fs: &Ext4, draft, big, offset| fs.draft_punch(draft, big, offset, PAGE).await;
    split_on_a_full_disk(punch, true);
    let write = async |fs: &Ext4, draft, big, offset| {
        fs.draft_write(draft, big, Position::At(offset), Content::Bytes(&[7; PAGE as usize])).await.map(drop)
    };
    split_on_a_full_disk(write, false);
}

#[test]
fn unwritten_pages_that_split_full_leaves_have_their_credits() {
    mounted(prepared(vec![1]), |fs, _| async move {
        let big = file(&fs, b"big", b"").await?;
        for index in 0..250 {
            fs.allocate(big, index * 4 * PAGE, 3 * PAGE, Allocation::Extend).await?;
            // Blocks of the running transaction cost no credits: begin a new one.
            fs.sync().await?;
            let draft = fs.begin_draft()?;
            fs.claim(draft, big).await?;
            fs.draft_write(draft, big, Position::At((index * 4 + 1) * PAGE), Content::Bytes(&[7; 4096])).await?;
            fs.commit_drafts(&[draft]).await?;
            fs.end_draft(draft).await?;
        }
        Ok(())
    });
}

#[test]
fn a_rename_of_nothing_to_nothing_is_refused() {
    mounted(prepared(vec![1]), |fs, _| async move {
        let (draft, root) = (fs.begin_draft()?, fs.root());
        let refused = fs.draft_rename(draft, (root, b"nothing"), (root, b"nowhere")).await;
        assert!(matches!(refused, Err(FsError::NotFound(_))), "{refused:?}");
        file(&fs, b"two", b"2").await?;
        fs.draft_rename(draft, (root, b"two"), (root, b"three")).await?;
        fs.unlink(root, b"two").await?;
        assert!(matches!(fs.commit_drafts(&[draft]).await, Err(FsError::NotFound(_))));
        file(&fs, b"alive", b"the mount takes changes").await?;
        fs.end_draft(draft).await
    });
}
