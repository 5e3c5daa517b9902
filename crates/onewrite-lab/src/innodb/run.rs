//! Run: the clients and the cleaner as tasks, side by side.

use std::rc::{Rc, Weak};

use onewrite_block::{Choices, Nanos, Runtime};
use onewrite_fs::FileSystem;
use onewrite_fs::ext4::Mode;

use super::cleaner;
use super::engine::Engine;
use super::job::{InnodbJob, LogSyncs};
use crate::driver::JobMeasure;
use crate::error::LabError;

/// Lays the files out, runs the clients, and gives their measures.
///
/// # Errors
/// The first failure of the file system.
pub(crate) async fn run<F: FileSystem + 'static>(
    runtime: &Runtime,
    fs: Rc<F>,
    (job, mode): (InnodbJob, Mode),
    choices: &Choices,
) -> Result<Vec<JobMeasure>, LabError> {
    let engine = Rc::new(Engine::lay_out(runtime, fs, (job, mode), choices).await?);
    let cleaner = runtime.start(cleaner::clean(Rc::clone(&engine)));
    if job.log_syncs == LogSyncs::EachSecond {
        // Ends with the run.
        runtime.spawn(sync_log(Rc::downgrade(&engine), runtime.clone()));
    }
    let clients: Vec<_> = (0..job.clients).map(|_| runtime.start(client(Rc::clone(&engine)))).collect();
    for client in clients {
        client.await;
    }
    engine.is_over.set(true);
    // What ends later is none of the clients' time.
    engine.fsyncs.count(&mut engine.measure.borrow_mut());
    engine.work.notify_all();
    cleaner.await;
    // Behind this no sync of the log is under way.
    if job.log_syncs == LogSyncs::EachSecond && !engine.has_failed() {
        let done = engine.log.commit(engine.log.end()).await;
        engine.note(done);
    }
    engine.failure.take().map_or(Ok(()), Err)?;
    Ok(vec![engine.measure.borrow().clone()])
}

async fn client<F: FileSystem>(engine: Rc<Engine<F>>) {
    while let Some(transaction) = engine.next() {
        let done = engine.transact(transaction).await;
        engine.note(done);
    }
}

/// Syncs the log once a second until the run is over.
async fn sync_log<F: FileSystem>(engine: Weak<Engine<F>>, runtime: Runtime) {
    loop {
        runtime.sleep(Nanos::from_secs(1)).await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_over.get()) else { return };
        let done = engine.log.commit(engine.log.end()).await;
        engine.note(done);
    }
}
