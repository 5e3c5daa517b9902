//! Beside: blocking code on a thread of its own, whose calls the core carries out. The one place of the laboratory
//! where a thread takes part in a run.
//!
//! The two threads hand one token to and fro. A call sends a letter and waits for its answer; the core waits for the
//! next letter without giving way to any other task, so that no virtual time passes and nothing else happens while the
//! other thread computes:
//!
//! ```text
//!   core     waits ──────► carries out the letter (time passes) ─► waits ──────► …
//!   thread   computes ─► call: waits ───────────────────────────► computes ─► …
//! ```
//!
//! # Invariants
//! - Exactly one of the two threads runs, so what it does is as deterministic as each of them.
//! - The thread has ended when [`beside`] has, or its future was dropped: a call of a dropped run answers `None`.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use onewrite_block::{Nanos, Runtime};
use onewrite_fs::{AnyFs, AtomicFiles};
use onewrite_sqlite::storage::Promise;

use crate::error::LabError;

/// What letters work on.
pub(super) struct Core {
    pub(super) fs: Rc<AnyFs>,
    pub(super) runtime: Runtime,
    marker: Box<dyn Fn(u64)>,
}

impl Core {
    pub(super) fn new(fs: Rc<AnyFs>, runtime: Runtime) -> Core {
        Core { fs, runtime, marker: Box::new(|_| ()) }
    }

    /// The same, which calls `marker` for each [`Core::mark`].
    pub(super) fn with_marker(self, marker: impl Fn(u64) + 'static) -> Core {
        Core { marker: Box::new(marker), ..self }
    }

    /// Notes that what happened so far has come to `number`.
    pub(super) fn mark(&self, number: u64) {
        (self.marker)(number);
    }

    /// What a power cut leaves, and whether there are atomic files.
    pub(super) fn promise(&self) -> Promise {
        Promise::of(self.fs.has_drafts(), self.fs.keeps_order())
    }
}

/// What a letter is turned into when it has reached the core.
type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Work for the core.
type Letter = Box<dyn FnOnce(Rc<Core>) -> Work + Send>;

/// The other thread's way to the core.
#[derive(Clone)]
pub(super) struct Caller {
    letters: Sender<Letter>,
    /// The clock of the run, and civil time, at the last answer; in nanoseconds.
    now: Arc<[AtomicU64; 2]>,
}

impl Caller {
    /// Lets the core carry out `work`, and waits for it; `None` if the run has ended.
    pub(super) fn call<T, Fut>(&self, work: impl FnOnce(Rc<Core>) -> Fut + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (tell, told) = sync_channel(1);
        let now = Arc::clone(&self.now);
        let letter: Letter = Box::new(move |core| {
            Box::pin(async move {
                let answer = work(Rc::clone(&core)).await;
                set(&now, &core.runtime);
                // From here on the other thread runs.
                let _ = tell.send(answer);
            })
        });
        self.letters.send(letter).ok()?;
        told.recv().ok()
    }

    /// The clock of the run; it stands between two calls.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.now[0].load(Ordering::Relaxed))
    }

    /// Nanoseconds since 1970.
    pub(super) fn civil_now(&self) -> Nanos {
        Nanos(self.now[1].load(Ordering::Relaxed))
    }
}

fn set(now: &[AtomicU64; 2], runtime: &Runtime) {
    now[0].store(runtime.now().0, Ordering::Relaxed);
    now[1].store(runtime.civil_now().0, Ordering::Relaxed);
}

/// The other thread; dropped, waits for its end.
struct Other<T>(Option<JoinHandle<T>>);

impl<T> Drop for Other<T> {
    fn drop(&mut self) {
        drop(self.0.take().map(JoinHandle::join));
    }
}

/// Runs `body` on a thread of its own and carries out its calls on `core`; what it returns.
///
/// # Errors
/// No thread to be had; a `body` that panicked.
pub(super) async fn beside<T: Send + 'static>(
    core: Rc<Core>,
    body: impl FnOnce(&Caller) -> T + Send + 'static,
) -> Result<T, LabError> {
    // Dropped after the channel: a thread that is waited for finds nobody to call.
    let mut other = Other(None);
    let (letters, inbox) = channel::<Letter>();
    let caller = Caller { letters, now: Arc::default() };
    set(&caller.now, &core.runtime);
    #[expect(clippy::disallowed_methods, reason = "blocking C code; it runs only while the core waits for it")]
    let started = Builder::new().name("sqlite".to_owned()).spawn(move || body(&caller));
    other.0 = Some(started.map_err(|error| LabError::Database(format!("no thread for SQLite: {error}")))?);
    while let Ok(letter) = inbox.recv() {
        letter(Rc::clone(&core)).await;
    }
    let ended = other.0.take().map(JoinHandle::join);
    ended
        .and_then(Result::ok)
        .ok_or_else(|| LabError::Database("a defect in Onewrite: SQLite's thread panicked".into()))
}
