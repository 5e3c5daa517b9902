//! Crash: what an exploration of crash states is made of, as people name it.

use std::path::Path;
use std::time::Duration;

use onewrite_block::{Geometry, HostProfile, MIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    CrashPlan, ExploreOptions, Ext4Subject, Keeps, MakeDevice, Report, Stage, Subject, Workload, WorkloadSpec,
};
use onewrite_device::Profile;
use onewrite_fs::ext4::PolicyKind;
use onewrite_fs::journal::padding_warnings;

use super::{FileChanges, LayerChoice, Machine, eviction_spot, job_file, mode, refused, streams};
use crate::error::LabError;
use crate::session::{JobSpec, crash_workloads};
use crate::workload::filebench::Personality;
use crate::workload::postmark;

/// The fields are the options of `onewrite crash`.
#[derive(Clone, Debug)]
pub struct CrashExperiment {
    /// `ace:1`, `random:OPERATIONS`, `script:ACTIONS`, …, a job file, a personality or `postmark`.
    pub workload: String,
    /// The text of the job file, if it is not at the path `workload`.
    pub job_text: Option<String>,
    /// Changes to a job file.
    pub file: FileChanges,
    /// Runtime of every job of a job file.
    pub runtime: Option<Duration>,
    /// Journal mode.
    pub mode: String,
    /// Profile whose promises the disk keeps.
    pub device: Option<String>,
    /// Its translation layer.
    pub layer: LayerChoice,
    /// For modes that pad: bytes, or the file of a probe.
    pub eviction_spot: Option<String>,
    /// Bytes of the image.
    pub size: u64,
    /// Blocks of the log.
    pub journal_blocks: u32,
    /// Pages of the page cache.
    pub cache_pages: usize,
    /// Its replacement policy.
    pub cache_policy: PolicyKind,
    /// Whether blocks are allocated when pages are written out, where the mode can.
    pub delayed_allocation: bool,
    /// Age at which a transaction commits.
    pub commit_interval: Duration,
    /// Age at which a committed block is written home.
    pub checkpoint_age: Duration,
    /// Distinct states to judge.
    pub states: u64,
    /// The seed of all chance.
    pub seed: u64,
    /// `e2fsck` checks every so many states, too; 0: none.
    pub e2fsck_every: u64,
    /// Whether pages tear.
    pub torn_pages: bool,
    /// Whether SHAREs tear.
    pub torn_shares: bool,
    /// Whether requests fail and space runs out, instead of power cuts.
    pub faults: bool,
    /// Workloads side by side; `None`: one on each core.
    pub jobs: Option<u16>,
}

/// An exploration that can begin.
pub struct Exploration {
    /// The file system, in its mode.
    pub subject: Ext4Subject,
    /// The disk and the bounds.
    pub options: ExploreOptions,
    /// What to know before its findings are believed.
    pub warnings: Vec<String>,
    profile: Option<Profile>,
    faults: bool,
    jobs: Option<u16>,
}

impl CrashExperiment {
    /// `workload` with seed 1 and all other defaults.
    pub fn new(workload: &str) -> CrashExperiment {
        CrashExperiment {
            workload: workload.to_owned(),
            job_text: None,
            file: FileChanges::default(),
            runtime: None,
            mode: "ordered".to_owned(),
            device: None,
            layer: LayerChoice::default(),
            eviction_spot: None,
            size: 32 * MIB,
            journal_blocks: 1024,
            cache_pages: 256,
            cache_policy: PolicyKind::Lru,
            delayed_allocation: true,
            commit_interval: Duration::from_millis(50),
            checkpoint_age: Duration::from_millis(200),
            states: 10_000,
            seed: 1,
            e2fsck_every: 1000,
            torn_pages: false,
            torn_shares: false,
            faults: false,
            jobs: None,
        }
    }

    /// File system and disk.
    ///
    /// # Errors
    /// What is not known or makes no sense.
    pub fn exploration(&self) -> Result<Exploration, LabError> {
        if self.device.is_none() && self.layer.is_given() {
            return refused("--ftl, --log-blocks and --map-cache belong to --device; name one");
        }
        let profile = self.device.as_deref().map(Profile::named).transpose()?;
        let profile = profile.map(|profile| self.layer.over(profile)).transpose()?;
        let subject = self.subject()?;
        let (options, warnings) = self.options(&subject, profile.as_ref())?;
        Ok(Exploration { subject, options, warnings, profile, faults: self.faults, jobs: self.jobs })
    }

    /// The file system under test, in its mode.
    fn subject(&self) -> Result<Ext4Subject, LabError> {
        let subject = Ext4Subject {
            journal_blocks: self.journal_blocks,
            delayed_allocation: self.delayed_allocation,
            eviction_spot: self.eviction_spot.as_deref().map(eviction_spot).transpose()?,
            ..Ext4Subject::new(mode(&self.mode)?)
        };
        if subject.eviction_spot.is_some() && !subject.promises().pads {
            return refused(format!(
                "--eviction-spot says how much zp and zp-data pad, and {} never pads; leave it out, or take --mode zp",
                subject.mode
            ));
        }
        Ok(subject)
    }

    fn options(
        &self,
        subject: &Ext4Subject,
        profile: Option<&Profile>,
    ) -> Result<(ExploreOptions, Vec<String>), LabError> {
        let plain = ExploreOptions {
            size_bytes: self.size,
            cache_pages: self.cache_pages,
            cache_policy: self.cache_policy,
            commit_interval: Nanos(self.commit_interval.as_nanos() as u64),
            checkpoint_age: Nanos(self.checkpoint_age.as_nanos() as u64),
            seed: self.seed,
            states_max: self.states,
            e2fsck_every: self.e2fsck_every,
            ..ExploreOptions::default()
        };
        let geometry = match profile {
            Some(profile) => profile.device(Some(self.size))?.geometry().clone(),
            None => plain.geometry.clone(),
        };
        let padding = subject.mode.padding();
        let warnings = padding.map_or_else(Vec::new, |it| padding_warnings(it, &geometry, subject.eviction_spot));
        let atomic_write_pages = if self.torn_pages { 0 } else { geometry.atomic_write_pages };
        let share_atomic = geometry.share_atomic && !self.torn_shares;
        Ok((plain.on(&Geometry { atomic_write_pages, share_atomic, ..geometry }), warnings))
    }

    /// The workloads to explore: by name, from a job file, or of a personality.
    ///
    /// # Errors
    /// One that is not known or not understood.
    pub fn workloads(&self, subject: &Ext4Subject) -> Result<Box<dyn Iterator<Item = Workload>>, LabError> {
        let name = self.workload.as_str();
        let is_own = self.job_text.is_none() && WorkloadSpec::is_named(name);
        let personality = Personality::from_name(name).filter(|_| self.job_text.is_none());
        let is_postmark = name == postmark::NAME && self.job_text.is_none();
        let for_files = self.file.given().or(self.runtime.map(|_| "--runtime"));
        if let Some(option) = for_files.filter(|_| is_own || personality.is_some() || is_postmark) {
            return refused(format!("{option} is for job files, and {name} is none"));
        }
        if name.starts_with("atomic:") && subject.promises().keeps != Keeps::Version {
            return refused(format!(
                "{name} commits drafts of atomic files, and {} writes content in place; take a mode that logs content, \
                 such as --mode data",
                subject.mode
            ));
        }
        if is_own {
            return Ok(name.parse::<WorkloadSpec>()?.workloads(subject, self.seed));
        }
        let job = match personality {
            Some(personality) => JobSpec::Personality(personality, personality.parameters()),
            None if is_postmark => JobSpec::PostMark(postmark::Parameters::default()),
            None if self.job_text.is_some() || Path::new(name).exists() => {
                let cache_bytes = self.cache_pages as u64 * PAGE_SIZE as u64;
                let machine = Machine { cores: HostProfile::default().cores as u64, cache_bytes };
                JobSpec::Fio(job_file((name, self.job_text.as_deref()), &self.file, self.runtime, machine)?)
            }
            None => {
                return refused(format!("{name}: neither a job file nor {}, {}", WorkloadSpec::forms(), streams()));
            }
        };
        Ok(Box::new(crash_workloads(&job, self.seed)?))
    }

    /// The workload, if it is written out.
    ///
    /// # Errors
    /// If it is not.
    pub fn script(&self) -> Result<Workload, LabError> {
        match self.workload.parse() {
            Ok(WorkloadSpec::Script(script)) => Ok(script),
            _ => refused("--state names a state of one workload: write it out as `script:…`"),
        }
    }
}

impl Exploration {
    /// Explores `workloads`; `progress` hears of it now and then.
    ///
    /// # Errors
    /// If the exploration itself fails; the report contains what a cut breaks.
    pub fn explore(
        &self,
        workloads: impl Iterator<Item = Workload>,
        progress: impl Fn(Stage),
    ) -> Result<Report, LabError> {
        self.with_plan(|plan| onewrite_crash::crash(self.subject, workloads, plan, progress))
    }

    /// Judges one state of `script` again.
    ///
    /// # Errors
    /// If there is no such state.
    pub fn replay(&self, script: &Workload, state: &str) -> Result<Report, LabError> {
        self.with_plan(|plan| onewrite_crash::replay(self.subject, script, state, plan))
    }

    fn with_plan(
        &self,
        work: impl FnOnce(CrashPlan<'_>) -> Result<Report, onewrite_crash::CrashError>,
    ) -> Result<Report, LabError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(cores, usize::from);
        let plan = CrashPlan { faults: self.faults, minimises: true, jobs, ..CrashPlan::new(&self.options) };
        match &self.profile {
            None => Ok(work(plan)?),
            Some(profile) => {
                let make = |pages: u64| device(profile, pages);
                Ok(work(CrashPlan { device: Some(&make as &MakeDevice<'_>), ..plan })?)
            }
        }
    }
}

fn device(profile: &Profile, pages: u64) -> Box<dyn PowerCut> {
    profile.device(Some(pages * PAGE_SIZE as u64)).expect("the profile gave a smaller device before")
}
