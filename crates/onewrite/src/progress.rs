//! Progress on standard error: shows how far a run or a transfer is, the time left, and finally what it cost.
//!
//! Nothing is drawn if standard error is no terminal, or with `--quiet`.

use std::cell::Cell;
use std::mem::discriminant;
use std::rc::Rc;
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, ProgressBar, ProgressStyle};
use onewrite_lab::LabError;
use onewrite_lab::driver::{LaidOut, Phase, Progress, Watcher};
use onewrite_lab::transfer::{self, Source};

use crate::{escape, output, stop};

/// Length of a bar that shows a share of the whole.
const STEPS: u64 = 10_000;

/// Progress of one run: a spinner, which becomes a bar when the share that is done is known.
pub struct Spinner {
    bar: ProgressBar,
    begin: Instant,
}

impl Spinner {
    /// Starts a spinner with `name` before it.
    pub fn new(name: &str) -> Spinner {
        let bar = drawn(ProgressBar::new_spinner(), OPEN, name);
        bar.enable_steady_tick(Duration::from_millis(120));
        Spinner { bar, begin: now() }
    }

    /// The callback that tells the spinner how far the run is.
    pub fn watcher(&self) -> Watcher {
        let bar = self.bar.clone();
        let before = Cell::new(None);
        Rc::new(move |progress: Progress| {
            let phase = discriminant(&progress.phase);
            if before.replace(Some(phase)) != Some(phase) {
                open(&bar);
            }
            if let Some(share) = share(&progress) {
                if bar.length().is_none() {
                    bar.set_style(style("{spinner} {prefix}: {percent}%, {eta} left; {msg}"));
                    bar.set_length(STEPS);
                }
                bar.set_position((share * STEPS as f64) as u64);
            }
            bar.set_message(words(&progress));
            Ok(())
        })
    }

    /// Ends the spinner and prints what the run cost this machine.
    pub fn finish(self, name: &str, count: u64) {
        self.bar.finish_and_clear();
        say(name, count, self.begin);
    }
}

/// Template for a phase of unknown length.
const OPEN: &str = "{spinner} {prefix}: {msg}";

/// Resets the bar for the next phase.
fn open(bar: &ProgressBar) {
    bar.unset_length();
    bar.set_position(0);
    bar.reset_eta();
    bar.set_style(style(OPEN));
}

/// The share of the phase that is done, if known.
fn share(progress: &Progress) -> Option<f64> {
    match progress.phase {
        Phase::LayingOut(laid) => {
            let weigh = |bytes: u64, files: u64| bytes as f64 + files as f64 * FILE_WEIGHT;
            Some(weigh(laid.bytes, laid.files) / weigh(laid.bytes_total, laid.files_total).max(1.0))
        }
        Phase::Jobs => progress.share,
        Phase::Formatting | Phase::Unmounting => None,
    }
}

/// Making a file takes about as long as writing this number of bytes.
const FILE_WEIGHT: f64 = 4096.0;

fn words(progress: &Progress) -> String {
    match progress.phase {
        Phase::Formatting => "making the file system".to_owned(),
        Phase::LayingOut(LaidOut { files, files_total, bytes, bytes_total }) => {
            let (bytes, total) = (BinaryBytes(bytes), BinaryBytes(bytes_total));
            format!("laying out files: {files} of {files_total}, {bytes} of {total}")
        }
        Phase::Jobs => format!("{} operations, the clock of the run is at {}", progress.operations, progress.now),
        Phase::Unmounting => "unmounting".to_owned(),
    }
}

/// Template for work of known length.
const BAR: &str = "{prefix} {wide_bar} {human_pos} of {human_len} {msg}, {eta} left";

/// Work of unknown length: shows its name and the time since it began, until dropped.
pub struct Waiting(ProgressBar);

impl Waiting {
    /// Starts to wait.
    pub fn new(name: &str) -> Waiting {
        let bar = drawn(ProgressBar::new_spinner(), "{spinner} {prefix}, {elapsed}", name);
        bar.enable_steady_tick(Duration::from_millis(120));
        Waiting(bar)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar for work of known length on several cores.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
}

impl Bar {
    /// Starts a bar with `name` before it and `unit` after the numbers.
    pub fn new(name: &str, unit: &str) -> Bar {
        let bar = drawn(ProgressBar::no_length(), BAR, name).with_message(unit.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, begin: now() }
    }

    /// Adds `done`, out of `total`.
    pub fn advance(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
        }
        self.bar.inc(done);
    }

    /// Shows `stage`, with `done` out of `total` units; a zero `total` means unknown.
    pub fn stage(&self, (stage, unit): (&str, &'static str), done: u64, total: u64) {
        self.bar.set_prefix(stage.to_owned());
        self.bar.set_message(unit);
        match total {
            0 if self.bar.length() != Some(0) => {
                self.bar.set_style(style("{prefix}: {human_pos} {msg}, {elapsed}"));
                self.bar.set_length(0);
                self.bar.reset_elapsed();
            }
            total if self.bar.length() != Some(total) => {
                self.bar.set_style(style(BAR));
                self.bar.set_length(total);
                self.bar.set_position(0);
                self.bar.reset_eta();
            }
            _ => (),
        }
        self.bar.set_position(done);
    }

    /// Shows `done` out of `total`.
    pub fn reach(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Ends the bar. Returns the seconds that the work took on this machine.
    pub fn end(self) -> f64 {
        self.bar.finish_and_clear();
        self.begin.elapsed().as_secs_f64()
    }

    /// Ends the bar and prints what the work cost this machine.
    pub fn finish(self, name: &str) {
        let count = self.bar.position();
        self.bar.finish_and_clear();
        say(name, count, self.begin);
    }
}

/// Progress of a transfer; stops the transfer if a stop was requested.
pub struct Copying(ProgressBar);

impl Copying {
    /// Starts to show a copy of unknown size.
    pub fn new(name: &str) -> Copying {
        Copying(drawn(ProgressBar::new_spinner(), "{spinner} {prefix}: {bytes}, {bytes_per_sec}", name))
    }

    /// Computes the size of `nodes` of `source`, to show the time left. If a stop is requested meanwhile, the copy
    /// itself notices it.
    pub async fn weigh<S: Source>(&mut self, source: &S, nodes: impl Iterator<Item = S::Node>) {
        // The walk is worth its time only if the bar is visible.
        if !self.0.is_hidden()
            && let Ok(weight) = transfer::weigh(source, nodes.collect(), self).await
        {
            self.0.set_style(style("{prefix} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"));
            self.0.set_length(weight.bytes);
        }
    }
}

impl transfer::Watcher for Copying {
    fn moved(&mut self, bytes: u64) -> Result<(), LabError> {
        self.0.inc(bytes);
        stop::check()
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(form: &str) -> ProgressStyle {
    ProgressStyle::with_template(form).expect("the template is right")
}

fn drawn(bar: ProgressBar, form: &str, name: &str) -> ProgressBar {
    if output::is_quiet() {
        return ProgressBar::hidden();
    }
    bar.with_style(style(form)).with_prefix(escape::message(name).into_owned())
}

fn say(name: &str, count: u64, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    let rate = count as f64 / seconds.max(1e-9);
    note!("{name}: {count} in {seconds:.2} s of this machine's time, {rate:.0} a second");
}

#[expect(clippy::disallowed_methods, reason = "what a run costs this machine is told in its own time")]
fn now() -> Instant {
    Instant::now()
}
