//! Threads: do work with blocking calls beside the run, if io_uring is not available or lacks an operation.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use onewrite_block::Bell;

use super::carrier::{Carrier, Ended};
use super::work::Work;

/// A few threads; they start with the first work.
pub(super) struct Threads {
    file: Arc<File>,
    bell: Bell,
    count: usize,
    crew: Option<Crew>,
    under_way: usize,
}

struct Crew {
    work: Sender<(usize, Work)>,
    ended: Receiver<Ended>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(file: &Arc<File>, bell: &Bell, count: usize) -> Threads {
        Threads { file: Arc::clone(file), bell: bell.clone(), count, crew: None, under_way: 0 }
    }

    fn crew(&mut self) -> &Crew {
        self.crew.get_or_insert_with(|| Crew::hire(&self.file, &self.bell, self.count))
    }
}

impl Crew {
    #[expect(
        clippy::disallowed_methods,
        reason = "wall time only: blocking calls beside the run; their order is the line's"
    )]
    fn hire(file: &Arc<File>, bell: &Bell, count: usize) -> Crew {
        let (work, queue) = channel::<(usize, Work)>();
        let (done, ended) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..count).map(|_| {
            let (file, bell, queue, done) = (Arc::clone(file), bell.clone(), Arc::clone(&queue), done.clone());
            std::thread::spawn(move || {
                loop {
                    let next = queue.lock().expect("nobody panics while holding this").recv();
                    let Ok((number, mut work)) = next else { return };
                    let result = work.carry_out(&file);
                    // The disk waits for work under way, so there is a receiver.
                    let _ = done.send(Ended { number, work, result });
                    bell.ring();
                }
            })
        });
        let threads = threads.collect();
        Crew { work, ended, threads }
    }
}

impl Carrier for Threads {
    fn give(&mut self, number: usize, work: Work) -> Option<Ended> {
        self.under_way += 1;
        self.crew().work.send((number, work)).expect("the threads live as long as this");
        None
    }

    fn collect(&mut self, ended: &mut Vec<Ended>) {
        let Some(crew) = &self.crew else { return };
        let seen = ended.len();
        ended.extend(crew.ended.try_iter());
        self.under_way -= ended.len() - seen;
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn finish(&mut self, ended: &mut Vec<Ended>) {
        let Some(crew) = &self.crew else { return };
        ended.extend(crew.ended.iter().take(self.under_way));
        self.under_way = 0;
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let Some(Crew { work, threads, .. }) = self.crew.take() else { return };
        drop(work);
        for thread in threads {
            // A panic was already reported; there is nothing to clean up.
            let _ = thread.join();
        }
    }
}
