//! Waits of the page layer end though nobody makes progress any more: after a write error, and beside a direct write.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty};
use onewrite_block::mark::{self, Listener};
use onewrite_block::{
    Completion, Counters, Device, Executor, Geometry, Lpn, Nanos, NextEvent, PAGE_SIZE, Page, Request, Token,
};
use onewrite_fs::pages::{OwnerId, PAGE_BYTES, PagesOptions, page_key};
use onewrite_fs::{FsError, FsResult};

use super::tiny_log::{TinyFile, TinyLog};
use super::{BUFFERED, CACHE_PAGES, beside, disk, run};

/// A file with more dirty pages than a writer may add to. Its pages lie in two runs.
async fn file_beyond_the_limit(tiny: &Rc<TinyLog>) -> FsResult<Rc<TinyFile>> {
    let file = tiny.make(1);
    let half = (CACHE_PAGES / 10 + 1) * PAGE_BYTES;
    let bytes = vec![1; half as usize];
    tiny.write(&file, 0, &bytes).await?;
    tiny.write(&file, half + PAGE_BYTES, &bytes).await?;
    Ok(file)
}

#[test]
fn a_throttled_writer_goes_on_after_another_got_an_error() {
    run(Box::new(Faulty::new(disk(), FaultPlan::of(Fault::Request(0)))), PagesOptions::default(), |tiny| async move {
        file_beyond_the_limit(&tiny).await?;
        let other = tiny.make(2);
        let refused = tiny.write(&other, 0, &[1]).await;
        assert!(matches!(refused, Err(FsError::Device(_))), "{refused:?}");
        tiny.write(&other, 0, &[2]).await?;
        assert_eq!(tiny.read(&other, 0, 1, BUFFERED).await?, [2]);
        Ok(())
    });
}

#[test]
fn a_throttled_writer_goes_on_when_the_one_that_it_waits_for_is_refused() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        file_beyond_the_limit(&tiny).await?;
        tiny.refuses_to_prepare.set(true);
        let writers = [(); 2].map(|()| (Rc::clone(&tiny), tiny.make(2)));
        let [one, other] = writers.map(|(tiny, file)| async move { tiny.write(&file, 0, &[2]).await });
        let (refused, taken) = beside(&tiny, one, other).await;
        assert!(matches!(refused, Err(FsError::Invalid(_))), "{refused:?}");
        assert_eq!(taken, Ok(()));
        Ok(())
    });
}

#[test]
fn a_sync_beside_a_batch_that_is_given_up_ends_and_the_pages_stay_dirty() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = file_beyond_the_limit(&tiny).await?;
        tiny.targets_left.set(Some(1));
        let writer = (Rc::clone(&tiny), Rc::clone(&file));
        let write = async move { writer.0.pages.write_pages(&*writer.0, &writer.1, 0..u64::MAX).await };
        let waiter = (Rc::clone(&tiny), Rc::clone(&file));
        let wait = async move { waiter.0.pages.wait_for_writes(&*waiter.1).await };
        let (refused, ()) = beside(&tiny, write, wait).await;
        assert!(matches!(refused, Err(FsError::Invalid(_))), "{refused:?}");
        tiny.pages.check(&*tiny).expect("a file with dirty pages is in the line");
        assert!(tiny.sent.take().is_empty(), "the file system learns that no run arrived");
        tiny.pages.sync(&*tiny, &file).await?;
        tiny.pages.drop_clean(None);
        assert_eq!(tiny.read(&file, 0, PAGE_BYTES, BUFFERED).await?, [1; PAGE_SIZE]);
        Ok(())
    });
}

/// A file of eight pages on the device, of which none is in memory. Its next sequential read is that of page 3.
async fn file_read_up_to_page_3(tiny: &Rc<TinyLog>) -> FsResult<Rc<TinyFile>> {
    let file = tiny.make(1);
    tiny.write(&file, 0, &vec![1; 8 * PAGE_SIZE]).await?;
    tiny.pages.sync(&**tiny, &file).await?;
    tiny.read(&file, 0, 3 * PAGE_BYTES, BUFFERED).await?;
    tiny.pages.drop_clean(None);
    Ok(file)
}

#[test]
fn a_read_that_waits_for_a_direct_write_goes_on_and_its_read_ahead_takes_no_old_page() {
    for page in [3, 5] {
        run(disk(), PagesOptions::default(), move |tiny| async move {
            let file = file_read_up_to_page_3(&tiny).await?;
            let overwriting = tiny.pages.begin_overwrite(&*file, 5..6).expect("page 5 is not in memory");
            let (reader, read) = (Rc::clone(&tiny), Rc::clone(&file));
            let reading = async move { reader.read(&read, page * PAGE_BYTES, PAGE_BYTES, BUFFERED).await };
            let reading = tiny.runtime().start(reading);
            tiny.runtime().sleep(Nanos::from_secs(1)).await;
            assert!(!tiny.pages.holds(page_key(&*file, 5)), "read while it is being written");
            tiny.pages.write_past_cache(&*tiny, &file, vec![(5, Page::from_slice(&[2; PAGE_SIZE]))]).await?;
            drop(overwriting);
            assert_eq!(reading.await?[0], if page == 5 { 2 } else { 1 });
            assert_eq!(tiny.read(&file, 5 * PAGE_BYTES, PAGE_BYTES, BUFFERED).await?, [2; PAGE_SIZE]);
            Ok(())
        });
    }
}

#[test]
fn a_direct_write_waits_for_a_checkpoint_with_nothing_under_way() {
    run(disk(), PagesOptions::default(), |tiny| async move {
        let file = tiny.make(1);
        tiny.targets_to_checkpoint.set(Some(1));
        // More than one run.
        tiny.write_direct(&file, 0, vec![Page::from_slice(&[2; PAGE_SIZE]); 20]).await?;
        assert_eq!(tiny.targets_to_checkpoint.get(), None, "it met the checkpoint");
        assert_eq!(tiny.read(&file, 0, 20 * PAGE_BYTES, BUFFERED).await?, [2; 20 * PAGE_SIZE]);
        Ok(())
    });
}

#[test]
fn a_write_error_that_nobody_saw_outlives_a_direct_write() {
    run(
        Box::new(Faulty::new(disk(), FaultPlan::of(Fault::Page(Lpn(2))))),
        PagesOptions::default(),
        |tiny| async move {
            let file = tiny.make(1);
            tiny.write(&file, 0, &[1; 2 * PAGE_SIZE]).await?;
            tiny.pages.sync(&*tiny, &file).await?;
            tiny.pages.drop_clean(None);
            tiny.write(&file, 0, &[2; PAGE_SIZE]).await?;
            // The flusher, say, meets the bad block; nobody waits for its answer.
            let refused = tiny.pages.write_pages(&*tiny, &file, 0..u64::MAX).await;
            assert!(matches!(refused, Err(FsError::Device(_))), "{refused:?}");
            drop(tiny.pages.begin_overwrite(&*file, 1..2).expect("page 1 is not in memory"));
            let told = tiny.pages.sync(&*tiny, &file).await;
            assert!(matches!(told, Err(FsError::Device(_))), "{told:?}");
            assert_eq!(tiny.pages.sync(&*tiny, &file).await, Ok(()), "told once");
            Ok(())
        },
    );
}

/// Lets each request take a millisecond, many side by side.
struct Slow {
    disk: Box<dyn Device>,
    under_way: Vec<(Nanos, Completion)>,
}

impl Device for Slow {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn reset_counters(&mut self) {
        self.disk.reset_counters();
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let mut done = Vec::new();
        self.disk.submit(token, request, now);
        self.disk.advance(now, &mut done);
        self.under_way.extend(done.into_iter().map(|completion| (now + Nanos::from_millis(1), completion)));
    }

    fn next_event(&self) -> NextEvent {
        self.under_way.iter().map(|(due, _)| *due).min().into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        completed.extend(self.under_way.extract_if(.., |(due, _)| *due <= to).map(|(_, completion)| completion));
    }
}

/// When the last of eight writers has filled a file of its own, with so many that write back beside the first.
fn filled_after(further_writers: usize) -> Nanos {
    let executor = Executor::ideal();
    let options = PagesOptions { further_writers, ..PagesOptions::default() };
    let slow = Slow { disk: disk(), under_way: Vec::new() };
    let tiny = TinyLog::new(&executor, Box::new(slow), CACHE_PAGES, options);
    let ends = Rc::new(RefCell::new(Vec::new()));
    for number in 1..=8 {
        let (writer, file, ends) = (Rc::clone(&tiny), tiny.make(number), Rc::clone(&ends));
        executor.runtime().spawn(async move {
            for page in 0..CACHE_PAGES {
                writer.write(&file, page * PAGE_BYTES, &[1]).await.expect("a write");
            }
            ends.borrow_mut().push(writer.runtime().now());
        });
    }
    executor.run_until(Nanos::from_secs(60)).expect("no halt");
    assert_eq!(ends.borrow().len(), 8, "all have ended");
    let last = ends.borrow().iter().max().copied();
    last.expect("there are writers")
}

#[test]
fn throttled_writers_write_several_files_back_at_once_if_they_may() {
    let (alone, four, eight) = (filled_after(0), filled_after(3), filled_after(7));
    assert!(four.0 * 3 < alone.0 * 2 && eight.0 * 2 < alone.0, "{alone:?} {four:?} {eight:?}");
}

/// More than a fifth of the cache is dirty, and no page has a place: writers go on late, and the flusher rests.
#[test]
fn pages_without_a_place_neither_stop_writers_nor_keep_the_flusher_busy() {
    let executor = Executor::ideal();
    let tiny = TinyLog::new(&executor, disk(), CACHE_PAGES, PagesOptions::default());
    let flusher = Rc::clone(&tiny);
    executor.runtime().spawn(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    tiny.has_places.set(false);
    let (writer, file) = (Rc::clone(&tiny), tiny.make(1));
    let write = async move {
        for page in 0..CACHE_PAGES / 2 {
            writer.write(&file, page * PAGE_BYTES, &[1]).await?;
        }
        FsResult::Ok(writer.runtime().now())
    };
    let end = executor.block_on(write).expect("no halt").expect("no error");
    assert!(end > Nanos::from_millis(40) && end < Nanos::from_secs(2), "{end:?}");
    executor.run_until(Nanos::from_secs(40)).expect("no halt");
    assert_eq!(tiny.device_bytes(), 0);
    tiny.has_places.set(true);
    executor.run_until(Nanos::from_secs(50)).expect("no halt");
    assert_eq!(tiny.device_bytes(), CACHE_PAGES / 2 * PAGE_BYTES, "the flusher comes back");
}

/// Memory holds more pages than it should for as long as none of them may leave.
#[test]
fn kept_pages_that_fill_memory_stop_nobody() {
    let options = PagesOptions { owned_pages_max: 2 * CACHE_PAGES as usize, ..PagesOptions::default() };
    let _listener = Listener::new();
    let work = |tiny: Rc<TinyLog>| async move {
        let (kept, other) = (tiny.make(1), tiny.make(2));
        tiny.write(&other, 0, &[2; 4 * PAGE_SIZE]).await?;
        tiny.pages.sync(&*tiny, &other).await?;
        tiny.pages.drop_clean(None);
        for index in 0..CACHE_PAGES + 8 {
            tiny.write(&kept, index * PAGE_BYTES, &[1; PAGE_SIZE]).await?;
            tiny.pages.owned_pages().keep(OwnerId(7), page_key(&*kept, index)).expect("within the bound");
        }
        assert_eq!(tiny.read(&other, 0, u64::MAX, BUFFERED).await?, [2; 4 * PAGE_SIZE]);
        let held = || (0..CACHE_PAGES + 8).filter(|index| tiny.pages.holds(page_key(&*kept, *index))).count();
        assert_eq!(held() as u64, CACHE_PAGES + 8);
        tiny.pages.owned_pages().let_go(OwnerId(7));
        tiny.write(&other, 0, &[3; PAGE_SIZE]).await?;
        assert!(held() as u64 <= CACHE_PAGES, "{} pages", held());
        let all = tiny.read(&kept, 0, u64::MAX, BUFFERED).await?;
        assert_eq!(all, vec![1; (CACHE_PAGES as usize + 8) * PAGE_SIZE]);
        Ok(())
    };
    let ((), reached) = mark::during(|| run(disk(), options, work));
    assert!(reached.contains(mark::number("page cache stuck above its capacity")));
}
