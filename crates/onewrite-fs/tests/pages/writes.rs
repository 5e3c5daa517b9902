//! Writes beside other writes: what changes while a page is under way is dirty behind that write; a sync waits for all.

use std::rc::Rc;

use onewrite_block::PAGE_SIZE;
use onewrite_fs::FsResult;
use onewrite_fs::pages::{PAGE_BYTES, PagesOptions, page_key};

use super::tiny_log::{TinyFile, TinyLog};
use super::{BUFFERED, beside, disk, run};

/// A file of two dirty pages.
async fn dirty_file(tiny: &Rc<TinyLog>) -> FsResult<Rc<TinyFile>> {
    let file = tiny.make(1);
    tiny.write(&file, 0, &[1; 2 * PAGE_SIZE]).await?;
    Ok(file)
}

/// Writes the dirty pages of the file, as the flusher does.
async fn flush((tiny, file): (Rc<TinyLog>, Rc<TinyFile>)) -> FsResult<()> {
    tiny.pages.write_pages(&*tiny, &file, 0..u64::MAX).await
}

/// Whether a page of the file is newer than its copy on the device.
fn is_newer(tiny: &TinyLog, file: &TinyFile) -> bool {
    (0..2).any(|index| tiny.pages.is_newer(page_key(file, index)))
}

#[test]
fn a_page_that_changes_while_it_is_written_is_written_again() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        let (writer, changed) = (Rc::clone(&tiny), Rc::clone(&file));
        let change = async move { writer.write(&changed, PAGE_BYTES, &[2; PAGE_SIZE]).await };
        let outcomes = beside(&tiny, flush((Rc::clone(&tiny), Rc::clone(&file))), change).await;
        assert_eq!(outcomes, (Ok(()), Ok(())));
        tiny.pages.check(&*tiny).expect("a file with dirty pages is in the line");
        tiny.pages.dirty_files().sync_all(&*tiny).await?;
        tiny.pages.drop_clean(None);
        assert_eq!(tiny.read(&file, PAGE_BYTES, PAGE_BYTES, BUFFERED).await?, [2; PAGE_SIZE]);
        Ok(())
    });
}

#[test]
fn a_sync_writes_what_changed_while_an_older_version_was_under_way() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        let (syncer, synced) = (Rc::clone(&tiny), Rc::clone(&file));
        let sync = async move {
            syncer.write(&synced, 0, &[2; PAGE_SIZE]).await?;
            syncer.pages.sync(&*syncer, &synced).await?;
            FsResult::Ok(is_newer(&syncer, &synced))
        };
        let outcomes = beside(&tiny, flush((Rc::clone(&tiny), Rc::clone(&file))), sync).await;
        assert_eq!(outcomes, (Ok(()), Ok(false)));
        Ok(())
    });
}

#[test]
fn a_sync_waits_for_pages_that_another_task_has_under_way() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        let (syncer, synced) = (Rc::clone(&tiny), Rc::clone(&file));
        let sync = async move {
            assert!(is_newer(&syncer, &synced), "they are under way");
            syncer.pages.sync(&*syncer, &synced).await?;
            FsResult::Ok(is_newer(&syncer, &synced))
        };
        let outcomes = beside(&tiny, flush((Rc::clone(&tiny), Rc::clone(&file))), sync).await;
        assert_eq!(outcomes, (Ok(()), Ok(false)));
        Ok(())
    });
}

#[test]
fn a_sync_of_all_files_waits_for_one_whose_last_pages_are_under_way() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        let (syncer, synced) = (Rc::clone(&tiny), Rc::clone(&file));
        let sync = async move {
            // Finds nothing to write.
            flush((Rc::clone(&syncer), Rc::clone(&synced))).await?;
            assert!(is_newer(&syncer, &synced), "they are under way");
            syncer.pages.dirty_files().sync_all(&*syncer).await?;
            FsResult::Ok(is_newer(&syncer, &synced))
        };
        let outcomes = beside(&tiny, flush((Rc::clone(&tiny), Rc::clone(&file))), sync).await;
        assert_eq!(outcomes, (Ok(()), Ok(false)));
        Ok(())
    });
}

#[test]
fn a_page_under_way_is_not_sent_again_before_it_arrived() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        let (first, sent) = (Rc::clone(&tiny), Rc::clone(&file));
        let flush_second = async move { first.pages.write_pages(&*first, &sent, 1..2).await };
        let (other, changed) = (Rc::clone(&tiny), Rc::clone(&file));
        let change = async move {
            other.write(&changed, 0, &[2; 2 * PAGE_SIZE]).await?;
            flush((Rc::clone(&other), changed)).await?;
            FsResult::Ok(other.head())
        };
        let outcomes = beside(&tiny, flush_second, change).await;
        assert_eq!(outcomes, (Ok(()), Ok(2)), "the second page once, then the first");
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        assert_eq!(tiny.read(&file, 0, u64::MAX, BUFFERED).await?, [2; 2 * PAGE_SIZE]);
        Ok(())
    });
}

#[test]
fn what_lies_behind_the_end_on_the_device_reads_as_zeros_when_the_file_grows() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = dirty_file(&tiny).await?;
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        file.set_size(100);
        assert_eq!(tiny.read(&file, 0, PAGE_BYTES, BUFFERED).await?, [1; 100]);
        file.set_size(PAGE_BYTES);
        assert_eq!(tiny.read(&file, 0, PAGE_BYTES, BUFFERED).await?[100..], [0; PAGE_SIZE - 100]);
        Ok(())
    });
}
