//! Progress on standard error: how far a run or a transfer is, how long it will take yet, and what it cost in the end.
//!
//! Nothing is drawn where standard error is no terminal, or with `--quiet`.

use std::cell::Cell;
use std::mem::discriminant;
use std::rc::Rc;
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, ProgressBar, ProgressStyle};
use onewrite_lab::LabError;
use onewrite_lab::driver::{LaidOut, Phase, Progress, Watcher};
use onewrite_lab::transfer::{self, Source};

use crate::{escape, output, stop};

/// Steps of a bar whose end is a share of the whole.
const STEPS: u64 = 10_000;

/// How far one run is: a spinner, which turns into a bar once the share that is done is known.
pub struct Spinner {
    bar: ProgressBar,
    begin: Instant,
}

impl Spinner {
    /// Begins to spin with `name` before it.
    pub fn new(name: &str) -> Spinner {
        let bar = drawn(ProgressBar::new_spinner(), OPEN, name);
        bar.enable_steady_tick(Duration::from_millis(120));
        Spinner { bar, begin: now() }
    }

    /// What tells the spinner how far the run is.
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
        })
    }

    /// Ends it and says what the run cost this machine.
    pub fn finish(self, name: &str, count: u64) {
        self.bar.finish_and_clear();
        say(name, count, self.begin);
    }
}

/// A phase whose end is not known yet.
const OPEN: &str = "{spinner} {prefix}: {msg}";

/// Forgets how far the phase before came.
fn open(bar: &ProgressBar) {
    bar.unset_length();
    bar.set_position(0);
    bar.reset_eta();
    bar.set_style(style(OPEN));
}

/// The part of the phase that is done, where that is known.
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

/// Making a file takes as long as writing so many bytes.
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

/// What a bar towards a known end shows.
const BAR: &str = "{prefix} {wide_bar} {human_pos} of {human_len} {msg}, {eta} left";

/// Work whose end is not known: its name and the time since it began, until this is dropped.
pub struct Waiting(ProgressBar);

impl Waiting {
    /// Begins.
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

/// A bar towards a known end, for work on several cores.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
}

impl Bar {
    /// Begins with `name` before it and `unit` after the numbers.
    pub fn new(name: &str, unit: &str) -> Bar {
        let bar = drawn(ProgressBar::no_length(), BAR, name).with_message(unit.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, begin: now() }
    }

    /// So much more is done, out of so much in all.
    pub fn advance(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
        }
        self.bar.inc(done);
    }

    /// It is at `stage` now, of which so many `unit` are done, out of so many in all; zero if that is not known.
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
        say(name, count, self.begin);
    }
}

/// How far a transfer is; ends it where an end was asked for.
pub struct Copying(ProgressBar);

impl Copying {
    /// Begins to copy something; how much is not known yet.
    pub fn new(name: &str) -> Copying {
        Copying(drawn(ProgressBar::new_spinner(), "{spinner} {prefix}: {bytes}, {bytes_per_sec}", name))
    }

    /// Finds out how much `nodes` of `source` are, so that the time left can be told. If it is time to stop, the copy
    /// itself hears of it next.
    pub async fn weigh<S: Source>(&mut self, source: &S, nodes: impl Iterator<Item = S::Node>) {
        // Only a bar that is seen is worth a walk.
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
