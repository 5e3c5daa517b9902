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

    /// Ends it and says what the run cost this machine.
    pub fn finish(self, name: &str, count: u64) {
        self.bar.finish_and_clear();
        let seconds = self.begin.elapsed().as_secs_f64();
        let rate = count as f64 / seconds.max(1e-9);
        eprintln!("{name}: {count} in {seconds:.2} s of this machine's time, {rate:.0} a second");
    }
}

/// A bar towards a known end, for work on several cores; invisible where standard error is no terminal.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
}

impl Bar {
    /// Begins with `name` before it and `unit` after the numbers.
    pub fn new(name: &str, unit: &str) -> Bar {
        let form = format!("{{prefix}} {{wide_bar}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left");
        let style = ProgressStyle::with_template(&form).expect("the template is right");
        Bar { bar: ProgressBar::new(0).with_style(style).with_prefix(name.to_owned()), begin: now() }
    }

    /// So much more is done, out of so much in all.
    pub fn advance(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
        }
        self.bar.inc(done);
    }

    /// So much is done by now, out of so much in all.
    pub fn reach(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Ends it; gives the seconds of this machine that it took.
    pub fn end(self) -> f64 {
        self.bar.finish_and_clear();
        self.begin.elapsed().as_secs_f64()
    }

    /// Ends it and says what the work cost this machine.
    pub fn finish(self, name: &str) {
        let count = self.bar.position();
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
