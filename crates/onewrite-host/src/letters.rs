//! Letters: work that other threads send to the core, which carries out each in a task of its own.
//!
//! The core is one run with the file system on it. Work that waits (for a device, a lock, a commit) lets other work
//! run, so that what many threads ask overlaps, and their syncs share commits. The core has a thread of its own; while
//! that one waits, the thread that sends a letter carries the core on.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use onewrite_block::sync::Signal;
use onewrite_block::{Executor, Halt, Inbox, InboxSender, Nanos, Runtime};

/// What a letter is turned into when it has reached the core.
type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Work for the core, which gives it its state `S`.
pub struct Letter<S>(Content<S>);

enum Content<S> {
    /// Work of this kind, sent at this moment.
    Work(&'static str, Instant, Box<dyn FnOnce(Rc<S>) -> Work + Send>),
    /// Take nothing more.
    Stop,
}

impl<S> Letter<S> {
    pub(crate) fn work<Fut>(kind: &'static str, work: impl FnOnce(Rc<S>) -> Fut + Send + 'static) -> Letter<S>
    where
        Fut: Future<Output = ()> + 'static,
    {
        #[expect(clippy::disallowed_methods, reason = "programs wait from the moment at which a letter is sent")]
        let sent = Instant::now();
        Letter(Content::Work(kind, sent, Box::new(move |state| Box::pin(work(state)))))
    }

    pub(crate) const fn stop() -> Letter<S> {
        Letter(Content::Stop)
    }
}

/// Ends the work of a core from any thread.
pub struct Stop<S>(InboxSender<Letter<S>>);

impl<S> Stop<S> {
    /// Of the core that `sender` sends to.
    pub fn new(sender: InboxSender<Letter<S>>) -> Stop<S> {
        Stop(sender)
    }

    /// Letters that the core has not taken yet are dropped; work that has begun ends first.
    pub fn stop(&self) {
        let _ = self.0.send(Letter::stop());
    }
}

/// Carries the core on until `future` is done; senders of letters may do it meanwhile.
///
/// # Errors
/// [`Halt`], as of [`Executor::block_on`].
pub(crate) fn block_on<F: Future + 'static>(executor: &Executor, future: F) -> Result<F::Output, Halt>
where
    F::Output: 'static,
{
    #[expect(unsafe_code, reason = "thread-local variables are beyond the compiler's sight")]
    // SAFETY: the tasks of a core are those of the file systems, the devices and this crate. `tidy` holds that none of
    // them has a thread-local variable.
    unsafe {
        executor.block_on_with_senders(future)
    }
}

/// Work that has begun and not ended.
pub(crate) struct UnderWay {
    runtime: Runtime,
    count: Cell<u64>,
    ended: Signal,
}

impl UnderWay {
    pub(crate) fn new(runtime: &Runtime) -> Rc<UnderWay> {
        Rc::new(UnderWay { runtime: runtime.clone(), count: Cell::new(0), ended: Signal::new(runtime) })
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Carries out letters until one says stop or no sender is left, and ends when all work has ended. Each work's kind
    /// and the time since its letter was sent go to `note`.
    pub(crate) async fn serve<S: 'static>(
        self: &Rc<UnderWay>,
        state: &Rc<S>,
        mut inbox: Inbox<Letter<S>>,
        note: fn(&S, &'static str, Nanos),
    ) {
        while let Some(Letter(Content::Work(kind, sent, work))) = inbox.receive().await {
            self.begin((kind, sent, work(Rc::clone(state))), state, note);
        }
        drop(inbox);
        self.ended.until(|| self.count.get() == 0).await;
    }

    fn begin<S: 'static>(
        self: &Rc<UnderWay>,
        (kind, sent, work): (&'static str, Instant, Work),
        state: &Rc<S>,
        note: fn(&S, &'static str, Nanos),
    ) {
        let (under_way, state) = (Rc::clone(self), Rc::clone(state));
        self.count.set(self.count.get() + 1);
        self.runtime.spawn(async move {
            work.await;
            note(&state, kind, Nanos(sent.elapsed().as_nanos() as u64));
            under_way.count.set(under_way.count.get() - 1);
            if under_way.count.get() == 0 {
                under_way.ended.notify_all();
            }
        });
    }
}
