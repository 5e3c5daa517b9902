//! Jobs: what both sides run, and what is counted.

use std::time::Duration;

use onewrite_block::Choices;

/// A journal mode of both sides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Ordered,
    /// Ordered, with blocks allocated at write.
    Nodelalloc,
    Data,
    DataAsync,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Ordered, Mode::Nodelalloc, Mode::Data, Mode::DataAsync];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Ordered => "ordered",
            Mode::Nodelalloc => "ordered, nodelalloc",
            Mode::Data => "data",
            Mode::DataAsync => "data+async",
        }
    }

    /// The kernel's mount options.
    pub fn options(self) -> &'static str {
        match self {
            Mode::Ordered => "data=ordered,commit=5",
            Mode::Nodelalloc => "data=ordered,nodelalloc,commit=5",
            Mode::Data => "data=journal,commit=5",
            Mode::DataAsync => "data=journal,journal_async_commit,commit=5",
        }
    }
}

/// What the tasks do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Each task appends 4 KiB to its own file and syncs, again and again (fio).
    Append,
    /// Varmail: see [`Mail`].
    Mail,
    /// Each task changes the mode bits of its own file and syncs, again and again: metadata alone.
    Chmod,
}

impl Job {
    pub const ALL: [Job; 3] = [Job::Append, Job::Mail, Job::Chmod];

    pub fn name(self) -> &'static str {
        match self {
            Job::Append => "append",
            Job::Mail => "mail",
            Job::Chmod => "chmod",
        }
    }
}

/// The job file of [`Job::Append`], for fio and for ours.
pub fn fio_job(tasks: u64, span: Duration) -> String {
    format!(
        "[append]\nioengine=psync\nthread=1\nrw=write\nbs=4k\nfsync=1\nsize=64m\nfallocate=none\ntime_based\n\
         runtime={}ms\ngroup_reporting\nnumjobs={tasks}\n",
        span.as_millis()
    )
}

/// Mails of each task.
pub const MAILS: u64 = 30;

/// One round of a varmail task, as in filebench. Deletes one mail; writes and syncs a new one; reads, appends to and
/// syncs one; reads one.
pub struct Mail {
    pub replaced: u64,
    pub new_bytes: u64,
    pub answered: u64,
    pub more_bytes: u64,
    pub read: u64,
}

impl Mail {
    /// Rounds of a task without end.
    pub fn rounds(task: u64) -> impl Iterator<Item = Mail> {
        let mut choices = Choices::new(1).stream("mail", task);
        std::iter::repeat_with(move || Mail {
            replaced: choices.below(MAILS),
            new_bytes: 1 + choices.below(32 * 1024),
            answered: choices.below(MAILS),
            more_bytes: 1 + choices.below(32 * 1024),
            read: choices.below(MAILS),
        })
    }

    pub fn name(task: u64, mail: u64) -> String {
        format!("mail-{task:02}-{mail:02}")
    }
}

/// What one run counted.
pub struct Figures {
    pub syncs: u64,
    pub commits: u64,
    pub bytes: u64,
    pub flushes: u64,
    pub span: Duration,
    /// Other averages, as text.
    pub note: String,
}

impl Figures {
    pub fn syncs_per_commit(&self) -> f64 {
        self.syncs as f64 / self.commits.max(1) as f64
    }

    pub fn kib_per_sync(&self) -> f64 {
        self.bytes as f64 / 1024.0 / self.syncs.max(1) as f64
    }

    pub fn syncs_per_second(&self) -> f64 {
        self.syncs as f64 / self.span.as_secs_f64()
    }

    pub fn flushes_per_commit(&self) -> f64 {
        self.flushes as f64 / self.commits.max(1) as f64
    }
}
