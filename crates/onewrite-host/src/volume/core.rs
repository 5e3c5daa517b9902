//! Core: the thread with the file system on it, and how calls reach it.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process;
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use onewrite_block::layer::Overlay;
use onewrite_block::{Counters, Device, DevicePort, Executor, HostProfile, InboxSender, Nanos, Time};
use onewrite_device::FileDisk;
use onewrite_fs::AnyFs;
use onewrite_fs::ext4::MountOptions;
use onewrite_fs::{FileSystem, FsResult};

use super::error::VolumeError;
use crate::letters::{Letter, UnderWay, block_on};

/// What letters work on.
struct Hosted {
    fs: Rc<AnyFs>,
    port: DevicePort,
}

/// What the core tells when it is ready, or why it is not.
type Ready = Result<InboxSender<Letter<Hosted>>, VolumeError>;

/// A running core.
pub(super) struct Core {
    /// The process that has the thread. A child of fork has none, and would wait for ever.
    process: u32,
    letters: InboxSender<Letter<Hosted>>,
    thread: Mutex<Option<JoinHandle<Result<(), VolumeError>>>>,
}

impl Core {
    /// Starts a core on the image at `path`; returns when it is mounted.
    pub(super) fn start(path: PathBuf, options: MountOptions) -> Result<Core, VolumeError> {
        let (tell, told) = sync_channel(1);
        #[expect(clippy::disallowed_methods, reason = "the core, which blocking calls wait for")]
        let thread = std::thread::spawn(move || run(&path, options, &tell));
        match told.recv() {
            Ok(Ok(letters)) => Ok(Core { process: process::id(), letters, thread: Mutex::new(Some(thread)) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(VolumeError::Closed),
        }
    }

    /// Has `work` done on the core, and waits for its result.
    pub(super) fn call<T, Fut>(&self, work: impl FnOnce(Rc<AnyFs>) -> Fut + Send + 'static) -> Result<T, VolumeError>
    where
        T: Send + 'static,
        Fut: Future<Output = FsResult<T>> + 'static,
    {
        self.ask(move |hosted| work(Rc::clone(&hosted.fs)))
    }

    /// What the device has counted.
    pub(super) fn device_counters(&self) -> Result<Counters, VolumeError> {
        self.ask(async |hosted| Ok(hosted.port.device().counters()))
    }

    fn ask<T, Fut>(&self, work: impl FnOnce(Rc<Hosted>) -> Fut + Send + 'static) -> Result<T, VolumeError>
    where
        T: Send + 'static,
        Fut: Future<Output = FsResult<T>> + 'static,
    {
        self.check_process()?;
        let (tell, told) = sync_channel(1);
        let letter = Letter::work("call", move |hosted| {
            let result = work(hosted);
            async move {
                // Whoever asked waits, so the result is taken.
                let _ = tell.send(result.await);
            }
        });
        self.letters.send_and_run(letter).map_err(|_| VolumeError::Closed)?;
        Ok(told.recv().map_err(|_| VolumeError::Closed)??)
    }

    /// Ends the core: calls that have begun end, then it unmounts.
    pub(super) fn close(&self) -> Result<(), VolumeError> {
        self.check_process()?;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = thread.ok_or(VolumeError::Closed)?;
        let _ = self.letters.send(Letter::stop());
        thread.join().unwrap_or(Err(VolumeError::Closed))
    }

    fn check_process(&self) -> Result<(), VolumeError> {
        if self.process == process::id() { Ok(()) } else { Err(VolumeError::Closed) }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// The core's life.
fn run(path: &Path, options: MountOptions, tell: &SyncSender<Ready>) -> Result<(), VolumeError> {
    let executor = Executor::new(wall_time(), HostProfile::default());
    let hosted = match mount(&executor, path, options) {
        Ok(hosted) => hosted,
        Err(error) => {
            let _ = tell.send(Err(error));
            return Ok(());
        }
    };
    let runtime = executor.runtime();
    let (letters, inbox) = runtime.inbox();
    let _ = tell.send(Ok(letters));
    let under_way = UnderWay::new(&runtime);
    let ended = block_on(&executor, async move {
        let hosted = Rc::new(hosted);
        under_way.serve(&hosted, inbox, |_, _, _| ()).await;
        hosted.fs.unmount().await
    });
    Ok(ended.map_err(|_| VolumeError::Closed)??)
}

fn mount(executor: &Executor, path: &Path, options: MountOptions) -> Result<Hosted, VolumeError> {
    let device: Box<dyn Device> = match options.read_only {
        true => Box::new(Overlay::new(Box::new(FileDisk::view(path)?))),
        false => Box::new(FileDisk::open(path)?),
    };
    let port = executor.runtime().attach(device);
    let below = port.clone();
    let mounted = executor.block_on(async move { AnyFs::mount(below, options).await });
    Ok(Hosted { fs: Rc::new(mounted.map_err(|_| VolumeError::Closed)??), port })
}

/// Wall time from now on.
fn wall_time() -> Time {
    #[expect(clippy::disallowed_methods, reason = "files in an image carry the date")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::Wall { civil_start: Nanos(since.as_nanos() as u64) }
}
