//! Progress on standard error: a spinner while a run goes on, and what it cost in the end.

use std::rc::Rc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use onewrite_lab::driver::{Progress, Watcher};

/// A spinner for one run; invisible where standard error is no terminal.
pub struct Spinner {
    bar: ProgressBar,
    begin: Instant,
}

impl Spinner {
    /// Begins to spin with `name` before it.
    pub fn new(name: &str) -> Spinner {
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}").expect("the template is right");
        let bar = ProgressBar::new_spinner().with_style(style).with_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Spinner { bar, begin: now() }
    }

    /// What tells the spinner how far the run is.
    pub fn watcher(&self) -> Watcher {
        let bar = self.bar.clone();
        Rc::new(move |progress: Progress| {
            bar.set_message(format!("{} operations, the clock of the run is at {}", progress.operations, progress.now));
        })
    }

    /// Says how far it is.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// Ends it and says what the run cost this machine.
    pub fn finish(self, name: &str, count: u64) {
        self.bar.finish_and_clear();
        let seconds = self.begin.elapsed().as_secs_f64();
        let rate = count as f64 / seconds.max(1e-9);
        eprintln!("{name}: {count} in {seconds:.2} s of this machine's time, {rate:.0} a second");
    }
}

#[expect(clippy::disallowed_methods, reason = "what a run costs this machine is told in its own time")]
fn now() -> Instant {
    Instant::now()
}
