//! Spec: what a run is made of, and the options that its file system gets from it.

use std::borrow::Cow;

use onewrite_block::{Choices, DevicePort, HostProfile, MIB, Nanos, PAGE_SIZE, Time};
use onewrite_fs::ext4::{Mode, MountOptions, PolicyKind, Scope};
use onewrite_fs::f2fs::F2fsOptions;
use onewrite_fs::journal::EvictionSpot;

use super::format::lazy_journal_bytes;
use super::stack::{F2fsStack, Stack};
use crate::error::LabError;
use crate::innodb::{Doublewrite, InnodbJob};
use crate::job::JobFile;
use crate::results::DeviceSetup;
use crate::sqlite::{Journal, SqliteJob};
use crate::workload::filebench::{self, Parameters, Personality};
use crate::workload::{Workload, fio, postmark};

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub enum JobSpec {
    /// A fio job file.
    Fio(JobFile),
    /// A filebench personality.
    Personality(Personality, Parameters),
    /// PostMark.
    PostMark(postmark::Parameters),
    /// An application of SQLite.
    Sqlite(SqliteJob),
    /// A load on an engine of InnoDB's shape.
    Innodb(InnodbJob),
}

impl JobSpec {
    /// Name in reports, with the variant of a database job that was asked for.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            JobSpec::Fio(file) => (&file.origin).into(),
            JobSpec::Personality(personality, _) => personality.name().into(),
            JobSpec::PostMark(_) => postmark::NAME.into(),
            JobSpec::Sqlite(job) => job.to_string().into(),
            JobSpec::Innodb(job) => job.to_string().into(),
        }
    }

    /// Whether a database decides what is read and written, so that it is not known beforehand.
    pub const fn is_database(&self) -> bool {
        matches!(self, JobSpec::Sqlite(_) | JobSpec::Innodb(_))
    }

    /// Note on a database that leaves out what would protect it, on ext4 in `mode`.
    pub(super) fn risk(&self, mode: Mode) -> Option<String> {
        let (part, cure) = match self {
            JobSpec::Innodb(job) if job.doublewrite == Some(Doublewrite::Off) => ("page", "double"),
            JobSpec::Sqlite(SqliteJob { journal: Some(Journal::Off | Journal::Memory), kind, .. }) => {
                ("transaction", kind.journal().name())
            }
            _ => return None,
        };
        let note = format!(
            "{mode}: {}: a power cut may leave a part of a {part}, for {mode} does not log content; take :{cure}",
            self.name()
        );
        (mode.scope() != Scope::Full).then_some(note)
    }

    pub(super) fn plan(&self, target: fio::Target, choices: &Choices) -> Result<Workload, LabError> {
        match self {
            JobSpec::Fio(file) => fio::plan(file, target, choices),
            JobSpec::Personality(personality, parameters) => filebench::plan(*personality, *parameters, choices),
            JobSpec::PostMark(parameters) => postmark::plan(*parameters, choices),
            JobSpec::Sqlite(_) | JobSpec::Innodb(_) => Err(LabError::Option(format!(
                "{}: a database decides itself what it reads and writes; it takes a file system, in `onewrite run` or \
                 `onewrite compare`",
                self.name()
            ))),
        }
    }
}

/// Everything that decides a run, except the device itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// What to run.
    pub job: JobSpec,
    /// Where to run it.
    pub stack: Stack,
    /// Name of the device in reports.
    pub device: String,
    /// Other properties of the device for reports.
    pub setup: DeviceSetup,
    /// Clock: virtual for emulated devices, wall for real ones.
    pub time: Time,
    /// Name of the host profile in reports.
    pub host_name: String,
    /// The modelled machine.
    pub host: HostProfile,
    /// Bytes of the journal. `None` for the size that mke2fs chooses; in lazy modes, for [`lazy_journal_bytes`].
    pub journal_bytes: Option<u64>,
    /// Bytes of the page cache.
    pub cache_bytes: u64,
    /// Replacement policy of the page cache.
    pub cache_policy: PolicyKind,
    /// Whether blocks are allocated only at writeback, in modes that can.
    pub delayed_allocation: bool,
    /// Longest time for which a commit of ext4 waits for other tasks that sync; see [`MountOptions::max_batch_time`].
    pub max_batch_time: Nanos,
    /// For modes that pad: a measured eviction spot of the write buffer; else the one that the device states.
    pub eviction_spot: Option<EvictionSpot>,
    /// Whether the page cache is emptied before the jobs, so that no read finds pages of the layout in memory.
    pub drop_caches: bool,
    /// The seed of all chance.
    pub seed: u64,
}

impl RunSpec {
    /// A run on the emulated device `device` in virtual time, with seed 1, the default host, 64 MiB of page cache and
    /// all other defaults.
    pub fn new(job: JobSpec, stack: Stack, device: &str) -> RunSpec {
        RunSpec {
            job,
            stack,
            device: device.to_owned(),
            setup: DeviceSetup::default(),
            time: Time::Virtual,
            host_name: "default".to_owned(),
            host: HostProfile::default(),
            journal_bytes: None,
            cache_bytes: 64 * MIB,
            cache_policy: PolicyKind::Lru,
            delayed_allocation: true,
            max_batch_time: Nanos::ZERO,
            eviction_spot: None,
            drop_caches: false,
            seed: 1,
        }
    }
    /// The options of ext4 in `mode`.
    pub(super) fn ext4_options(&self, mode: Mode) -> MountOptions {
        let cache_pages = (self.cache_bytes / PAGE_SIZE as u64) as usize;
        let RunSpec { delayed_allocation, max_batch_time, cache_policy, eviction_spot, .. } = *self;
        let options = MountOptions::new(mode);
        MountOptions { cache_pages, cache_policy, delayed_allocation, max_batch_time, eviction_spot, ..options }
    }

    /// The options of F2FS with what `stack` says.
    pub(super) fn f2fs_options(&self, stack: F2fsStack) -> F2fsOptions {
        let cache_pages = (self.cache_bytes / PAGE_SIZE as u64) as usize;
        F2fsOptions {
            cache_pages,
            cache_policy: self.cache_policy,
            fsync_mode: stack.fsync_mode,
            clean: stack.clean,
            log_mode: stack.log_mode,
            in_place_below: stack.in_place_below,
            ..F2fsOptions::default()
        }
    }

    /// Whether blocks get their place only at writeback; `None` without a file system.
    pub(super) fn delays(&self) -> Option<bool> {
        match self.stack {
            Stack::Ext4(mode) => Some(self.delayed_allocation && mode.scope() != Scope::Full),
            Stack::F2fs(_) => Some(true),
            Stack::Raw => None,
        }
    }

    /// Bytes of the journal for mkfs of ext4 in `mode`.
    pub(super) fn journal_bytes(&self, mode: Mode, port: &DevicePort) -> Option<u64> {
        self.journal_bytes.or_else(|| mode.is_lazy().then(|| lazy_journal_bytes(device_bytes(port))))
    }
}

/// Bytes of the device behind `port`.
pub(super) fn device_bytes(port: &DevicePort) -> u64 {
    port.geometry().pages * PAGE_SIZE as u64
}
