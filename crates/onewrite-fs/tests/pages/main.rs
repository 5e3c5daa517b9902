//! The page layer under a file system other than ext4, which gives every page a new address at writeback.

mod tiny_log;
mod waits;
mod writes;

use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::{Choices, Device, Executor, Lpn, Nanos, PAGE_SIZE, Page, RamDisk};
use onewrite_fs::pages::{DirtyBytes, OwnerId, PAGE_BYTES, PagedFile, PagesOptions, Tracking, page_key};
use onewrite_fs::{BlockNo, FsError, FsResult, Manner};
use tiny_log::TinyLog;

const CACHE_PAGES: u64 = 32;
const DIRECT: Manner = Manner { direct: true, once: false };
const BUFFERED: Manner = Manner { direct: false, once: false };
const ONCE: Manner = Manner { direct: false, once: true };

fn run<F>(device: Box<dyn Device>, options: PagesOptions, test: impl FnOnce(Rc<TinyLog>) -> F)
where
    F: Future<Output = FsResult<()>> + 'static,
{
    let executor = Executor::ideal();
    let tiny = TinyLog::new(&executor, device, CACHE_PAGES, options);
    let outcome = executor.block_on(test(tiny)).expect("nothing halts");
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn disk() -> Box<dyn Device> {
    Box::new(RamDisk::new(1 << 16))
}

#[test]
fn every_page_gets_a_new_address_and_reads_back() {
    for seed in 0..30 {
        run(disk(), PagesOptions::default(), |tiny| async move {
            let mut choices = Choices::new(seed);
            let files = [tiny.make(1), tiny.make(2), tiny.make(3)];
            let mut model: Vec<Vec<u8>> = vec![Vec::new(); 3];
            for step in 0..400 {
                let which = choices.below(3) as usize;
                let (file, plain) = (&files[which], &mut model[which]);
                let offset = choices.below(40 * PAGE_BYTES);
                match choices.below(10) {
                    0 => tiny.pages.sync(&*tiny, file).await?,
                    1 => tiny.pages.drop_clean(Some(which as u64 + 1)),
                    2 | 3 => {
                        let (first, count) = (offset / PAGE_BYTES, 1 + choices.below(4));
                        let bytes = vec![step as u8; (count * PAGE_BYTES) as usize];
                        let pages = bytes.chunks(PAGE_SIZE).map(Page::from_slice).collect();
                        tiny.write_direct(file, first, pages).await?;
                        put(plain, (first * PAGE_BYTES) as usize, &bytes);
                    }
                    4 | 5 => {
                        let manner = [DIRECT, BUFFERED, ONCE][choices.index(3)];
                        let (offset, length) = (offset / PAGE_BYTES * PAGE_BYTES, choices.below(8) * PAGE_BYTES);
                        let read = tiny.read(file, offset, length, manner).await?;
                        let end = plain.len().min((offset + length) as usize);
                        assert_eq!(read, plain.get(offset as usize..end).unwrap_or(&[]), "seed {seed}, step {step}");
                    }
                    _ => {
                        let bytes = vec![step as u8; 1 + choices.below(3 * PAGE_BYTES) as usize];
                        tiny.write(file, offset, &bytes).await?;
                        put(plain, offset as usize, &bytes);
                    }
                }
                tiny.pages.check(&*tiny).unwrap_or_else(|problem| panic!("seed {seed}, step {step}: {problem}"));
            }
            tiny.pages.dirty_files().sync_all(&*tiny).await?;
            tiny.pages.drop_clean(None);
            for (file, plain) in files.iter().zip(&model) {
                assert_eq!(&tiny.read(file, 0, u64::MAX, BUFFERED).await?, plain, "seed {seed}");
            }
            assert_eq!(tiny.device_bytes(), tiny.head() * PAGE_BYTES, "no block was written twice, none was skipped");
            Ok(())
        });
    }
}

fn put(plain: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if plain.len() < offset + bytes.len() {
        plain.resize(offset + bytes.len(), 0);
    }
    plain[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn bytes(range: Range<usize>) -> DirtyBytes {
    let mut dirty = DirtyBytes::default();
    dirty.add(range);
    dirty
}

#[test]
fn dirty_bytes_come_with_the_pages_that_are_written() {
    let options = PagesOptions { tracking: Tracking::DirtyBytes, ..PagesOptions::default() };
    run(disk(), options, |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 0, &vec![1; 3 * PAGE_SIZE]).await?;
        tiny.pages.sync(&*tiny, &file).await?;
        assert_eq!(tiny.sent.take(), [(1, 0, BlockNo(0), vec![bytes(0..PAGE_SIZE); 3])]);
        for offset in [100, 104, PAGE_BYTES + 500, 100 + 4] {
            tiny.write(&file, offset, b"four").await?;
        }
        tiny.pages.sync(&*tiny, &file).await?;
        assert_eq!(tiny.sent.take(), [(1, 0, BlockNo(3), vec![bytes(100..108), bytes(500..504)])]);
        tiny.write(&file, 0, b"dropped").await?;
        tiny.pages.discard(1, 0..1);
        tiny.write(&file, 50, b"kept").await?;
        tiny.pages.sync(&*tiny, &file).await?;
        assert_eq!(tiny.sent.take(), [(1, 0, BlockNo(5), vec![bytes(50..54)])]);
        Ok(())
    });
}

#[test]
fn a_kept_page_stays_until_its_owner_lets_go() {
    let options = PagesOptions { owned_pages_max: 3, ..PagesOptions::default() };
    run(disk(), options, |tiny| async move {
        let (kept, other) = (tiny.make(1), tiny.make(2));
        tiny.write(&kept, 0, &vec![1; 4 * PAGE_SIZE]).await?;
        for index in [0, 2, 3, 0] {
            tiny.pages.owned_pages().keep(OwnerId(7), page_key(&*kept, index)).expect("within the bound");
        }
        let refused = tiny.pages.owned_pages().keep(OwnerId(8), page_key(&*kept, 1)).expect_err("one too many");
        assert_eq!((refused.pages_max, tiny.pages.owned_pages().owned_count()), (3, 3));
        let push_out = async || -> FsResult<Vec<u64>> {
            tiny.write(&other, 0, &vec![2; 4 * CACHE_PAGES as usize * PAGE_SIZE]).await?;
            Ok((0..4).filter(|index| tiny.pages.holds(page_key(&*kept, *index))).collect())
        };
        assert_eq!(push_out().await?, [0, 2, 3]);
        tiny.pages.check(&*tiny).expect("the invariants hold");
        tiny.pages.owned_pages().let_go(OwnerId(7));
        assert_eq!((push_out().await?, tiny.pages.owned_pages().owned_count()), (vec![], 0));
        assert_eq!(tiny.read(&kept, 0, PAGE_BYTES, BUFFERED).await?, [1; PAGE_SIZE]);
        Ok(())
    });
}

#[test]
fn private_pages_are_their_owners_alone_until_all_are_published() {
    let options = PagesOptions { owned_pages_max: 4, ..PagesOptions::default() };
    run(disk(), options, |tiny| async move {
        let files = [tiny.make(1), tiny.make(2)];
        for file in &files {
            tiny.write(file, 0, &vec![1; 2 * PAGE_SIZE]).await?;
            tiny.pages.sync(&*tiny, file).await?;
        }
        let (owner, loser) = (OwnerId(1), OwnerId(2));
        let new = |byte: u8| Page::from_slice(&[byte; PAGE_SIZE]);
        for file in &files {
            tiny.pages.owned_pages().put_private(owner, page_key(&**file, 0), new(2)).expect("within the bound");
            tiny.pages.owned_pages().put_private(loser, page_key(&**file, 1), new(3)).expect("within the bound");
        }
        assert!(tiny.pages.owned_pages().put_private(owner, page_key(&*files[0], 1), new(4)).is_err(), "one too many");
        assert_eq!(tiny.pages.owned_pages().private_page(owner, page_key(&*files[0], 0)), Some(new(2)));
        assert_eq!(tiny.pages.owned_pages().private_page(loser, page_key(&*files[0], 0)), None);
        let written = tiny.device_bytes();
        tiny.pages.dirty_files().sync_all(&*tiny).await?;
        assert_eq!(tiny.device_bytes(), written, "no writeback takes private pages");
        for file in &files {
            assert_eq!(tiny.read(file, 0, u64::MAX, BUFFERED).await?, [1; 2 * PAGE_SIZE]);
        }
        tiny.pages.owned_pages().publish(&*tiny, owner);
        tiny.pages.owned_pages().drop_private(loser);
        assert_eq!(tiny.pages.owned_pages().owned_count(), 0);
        tiny.pages.dirty_files().sync_all(&*tiny).await?;
        tiny.pages.drop_clean(None);
        let both = [[2; PAGE_SIZE], [1; PAGE_SIZE]].concat();
        for file in &files {
            assert_eq!(tiny.read(file, 0, u64::MAX, BUFFERED).await?, both);
        }
        Ok(())
    });
}

#[test]
fn a_read_for_one_caller_takes_what_is_in_memory_and_leaves_no_more_there() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 0, &[1; 6 * PAGE_SIZE]).await?;
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        tiny.write(&file, 2 * PAGE_BYTES + 5, &[2; 10]).await?;
        let before: Vec<bool> = (0..6).map(|index| tiny.pages.holds(page_key(&*file, index))).collect();
        assert_eq!(before, [false, false, true, false, false, false]);
        let read = tiny.read(&file, 100, 6 * PAGE_BYTES, ONCE).await?;
        let mut expected = vec![1; 6 * PAGE_SIZE];
        expected[2 * PAGE_SIZE + 5..][..10].fill(2);
        assert_eq!(read, expected[100..]);
        let after: Vec<bool> = (0..6).map(|index| tiny.pages.holds(page_key(&*file, index))).collect();
        assert_eq!(after, before);
        Ok(())
    });
}

#[test]
fn what_the_device_refused_stays_dirty_and_is_told_once() {
    let options = PagesOptions { tracking: Tracking::DirtyBytes, ..PagesOptions::default() };
    let plan = FaultPlan::of(Fault::Page(Lpn(1)));
    // `sync` tries twice.
    plan.borrow_mut().faults.push(Fault::Page(Lpn(2)));
    run(Box::new(Faulty::new(disk(), plan)), options, |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 10, b"first").await?;
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.write(&file, 20, b"second").await?;
        let refused = tiny.pages.sync(&*tiny, &file).await;
        assert!(matches!(refused, Err(FsError::Device(_))), "{refused:?}");
        tiny.pages.check(&*tiny).expect("a file with dirty pages is in the line");
        tiny.sent.take();
        tiny.write(&file, 30, b"third").await?;
        tiny.pages.sync(&*tiny, &file).await?;
        let (_, _, block, dirty) = tiny.sent.take().remove(0);
        assert_eq!(dirty[0].ranges(), [20..26, 30..35]);
        assert_eq!(block, BlockNo(3), "the bad block is not used again: {block}");
        tiny.pages.drop_clean(None);
        assert_eq!(&tiny.read(&file, 10, 25, BUFFERED).await?[..16], b"first\0\0\0\0\0second");
        Ok(())
    });
}

/// Runs `one` until it waits for the device, then `other`, then both to their ends.
async fn beside<A: 'static, B: 'static>(
    tiny: &Rc<TinyLog>,
    one: impl Future<Output = A> + 'static,
    other: impl Future<Output = B> + 'static,
) -> (A, B) {
    let (one, other) = (tiny.runtime().start(one), tiny.runtime().start(other));
    (one.await, other.await)
}

#[test]
fn bytes_written_beside_a_failing_write_are_dirty_with_those_that_it_carried() {
    let options = PagesOptions { tracking: Tracking::DirtyBytes, ..PagesOptions::default() };
    let plan = FaultPlan::of(Fault::Page(Lpn(1)));
    run(Box::new(Faulty::new(disk(), Rc::clone(&plan))), options, |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 0, &[1; PAGE_SIZE]).await?;
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.write(&file, 20, b"second").await?;
        tiny.sent.take();
        let (syncer, writer, [synced, written]) = (Rc::clone(&tiny), Rc::clone(&tiny), [(); 2].map(|()| file.clone()));
        let sync = async move { syncer.pages.sync(&*syncer, &synced).await };
        let write = async move { writer.write(&written, 30, b"third").await };
        let (refused, taken) = beside(&tiny, sync, write).await;
        assert!(matches!(refused, Err(FsError::Device(_))), "{refused:?}");
        assert_eq!((taken, plan.borrow().failed), (Ok(()), 1));
        // The second attempt of `sync` reached the device.
        let (_, _, block, dirty) = tiny.sent.take().remove(0);
        assert_eq!((block, dirty[0].ranges()), (BlockNo(2), &[20..26, 30..35][..]));
        tiny.pages.drop_clean(None);
        assert_eq!(tiny.read(&file, 20, 15, BUFFERED).await?, *b"second\x01\x01\x01\x01third");
        Ok(())
    });
}

#[test]
fn a_page_dropped_beside_its_failing_write_stays_gone() {
    let options = PagesOptions { tracking: Tracking::DirtyBytes, ..PagesOptions::default() };
    run(Box::new(Faulty::new(disk(), FaultPlan::of(Fault::Page(Lpn(0))))), options, |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 0, &[1; PAGE_SIZE]).await?;
        let (syncer, dropper, synced) = (Rc::clone(&tiny), Rc::clone(&tiny), file.clone());
        let sync = async move { syncer.pages.sync(&*syncer, &synced).await };
        let drop = async move { dropper.pages.discard(1, 0..1) };
        let (refused, ()) = beside(&tiny, sync, drop).await;
        assert!(matches!(refused, Err(FsError::Device(_))), "{refused:?}");
        assert!(!tiny.pages.holds(page_key(&*file, 0)));
        tiny.write(&file, 50, b"kept").await?;
        tiny.pages.sync(&*tiny, &file).await?;
        let (_, _, _, dirty) = tiny.sent.take().remove(0);
        assert_eq!(dirty, [bytes(50..54)]);
        Ok(())
    });
}

#[test]
fn pages_read_ahead_do_not_replace_what_was_written_meanwhile() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = tiny.make(1);
        tiny.write(&file, 0, &vec![1; 4 * PAGE_SIZE]).await?;
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        let (reader, writer, [read, written]) = (Rc::clone(&tiny), Rc::clone(&tiny), [(); 2].map(|()| file.clone()));
        let reading = async move { reader.read(&read, 0, PAGE_BYTES, BUFFERED).await };
        let write = async move { writer.write(&written, 2 * PAGE_BYTES, &[2; PAGE_SIZE]).await };
        let (first, taken) = beside(&tiny, reading, write).await;
        assert_eq!((first?, taken), (vec![1; PAGE_SIZE], Ok(())));
        assert!(tiny.pages.holds(page_key(&*file, 3)), "the pages behind the first were read ahead");
        let whole = [[1; PAGE_SIZE], [1; PAGE_SIZE], [2; PAGE_SIZE], [1; PAGE_SIZE]].concat();
        assert_eq!(tiny.read(&file, 0, u64::MAX, BUFFERED).await?, whole);
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        assert_eq!(tiny.read(&file, 0, u64::MAX, BUFFERED).await?, whole, "on the device");
        Ok(())
    });
}

#[test]
fn the_flusher_writes_old_files_and_a_throttled_writer_helps() {
    let executor = Executor::ideal();
    let tiny = TinyLog::new(&executor, disk(), CACHE_PAGES, PagesOptions::default());
    let flusher = Rc::clone(&tiny);
    executor.runtime().spawn(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    let (writer, file) = (Rc::clone(&tiny), tiny.make(1));
    executor.block_on(async move { writer.write(&file, 0, &[1]).await }).expect("no halt").expect("no error");
    executor.run_until(Nanos::from_secs(29)).expect("no halt");
    assert_eq!(tiny.device_bytes(), 0, "too young");
    executor.run_until(Nanos::from_secs(36)).expect("no halt");
    assert_eq!(tiny.device_bytes(), PAGE_BYTES);
    let (writer, file) = (Rc::clone(&tiny), tiny.make(2));
    let pages = CACHE_PAGES / 5 + 2;
    executor
        .block_on(async move {
            for page in 0..pages {
                writer.write(&file, page * PAGE_BYTES, &[1]).await?;
            }
            FsResult::Ok(())
        })
        .expect("no halt")
        .expect("no error");
    assert_eq!(tiny.device_bytes(), (1 + CACHE_PAGES / 5 + 1) * PAGE_BYTES, "the last writer found a fifth dirty");
}

#[test]
fn a_prompt_flusher_begins_at_a_tenth_and_writers_go_on() {
    let executor = Executor::ideal();
    let options = PagesOptions { prompt_writeback: true, ..PagesOptions::default() };
    let tiny = TinyLog::new(&executor, disk(), CACHE_PAGES, options);
    let flusher = Rc::clone(&tiny);
    executor.runtime().spawn(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    let (writer, file) = (Rc::clone(&tiny), tiny.make(1));
    let write = async move {
        for page in 0..CACHE_PAGES / 10 + 2 {
            assert_eq!(writer.device_bytes(), 0, "page {page}");
            writer.write(&file, page * PAGE_BYTES, &[1]).await?;
        }
        writer.runtime().sleep(Nanos::from_millis(1)).await;
        FsResult::Ok(())
    };
    executor.block_on(write).expect("no halt").expect("no error");
    assert_eq!(tiny.device_bytes(), (CACHE_PAGES / 10 + 2) * PAGE_BYTES, "no writer waited, and all is written");
}

#[test]
fn a_prompt_flusher_on_a_failing_device_leaves_the_error_to_the_writers() {
    let executor = Executor::ideal();
    let options = PagesOptions { prompt_writeback: true, ..PagesOptions::default() };
    let failing = Box::new(Faulty::new(disk(), FaultPlan::of(Fault::From(0))));
    let tiny = TinyLog::new(&executor, failing, CACHE_PAGES, options);
    let flusher = Rc::clone(&tiny);
    executor.runtime().spawn(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    let (writer, file) = (Rc::clone(&tiny), tiny.make(1));
    let write = async move {
        for page in 0..CACHE_PAGES {
            writer.write(&file, page * PAGE_BYTES, &[1]).await?;
            // The flusher tries first.
            writer.runtime().sleep(Nanos::from_micros(1)).await;
            assert!(writer.runtime().now() < Nanos::from_secs(1), "a writer waits for a flusher that has failed");
        }
        FsResult::Ok(())
    };
    let outcome = executor.block_on(write).expect("no halt");
    assert!(matches!(outcome, Err(FsError::Device(_))), "{outcome:?}");
}

#[test]
fn a_file_that_is_synced_again_and_again_does_not_hold_up_older_ones() {
    let executor = Executor::ideal();
    let tiny = TinyLog::new(&executor, disk(), CACHE_PAGES, PagesOptions::default());
    let flusher = Rc::clone(&tiny);
    executor.runtime().spawn(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    let (busy, quiet) = (tiny.make(1), tiny.make(2));
    let (writer, old) = (Rc::clone(&tiny), Rc::clone(&quiet));
    let work = async move {
        writer.write(&busy, 0, &[1]).await?;
        writer.write(&old, 0, &[1]).await?;
        for _ in 0..41 {
            writer.pages.sync(&*writer, &busy).await?;
            writer.write(&busy, 0, &[1]).await?;
            writer.runtime().sleep(Nanos::from_secs(1)).await;
            writer.pages.check(&*writer).expect("the line is in order");
        }
        FsResult::Ok(())
    };
    executor.block_on(work).expect("no halt").expect("no error");
    assert!(!quiet.pages().is_dirty(), "dirty for 41 s");
}
