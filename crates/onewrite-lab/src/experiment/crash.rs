//! Crash: what an exploration of crash states is made of, as people name it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onewrite_block::{Geometry, HostProfile, MIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    BaseImage, CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, Guided, Keeps, MakeDevice, Report, Stage, Subject,
    SwarmMachine, Violation, Workload, WorkloadSpec, device_pages,
};
use onewrite_device::{Layer, Profile};
use onewrite_fs::f2fs::{Clean, FsyncMode};
use onewrite_fs::journal::padding_warnings;
use onewrite_fs::{AnyFs, PolicyKind};

use super::{FileChanges, LayerChoice, Machine, eviction_spot, job_file, mode, refused, streams};
use crate::error::LabError;
use crate::session::{JobSpec, crash_workloads};
use crate::sqlite::{SqliteProof, SqliteProved, prove};
use crate::workload::filebench::Personality;
use crate::workload::postmark;

/// Of random workloads one of so many is judged at every place.
const THOROUGH_EVERY: u64 = 15;
/// Largest image: a state of a larger one would take seconds.
const SIZE_MAX: u64 = 16 << 30;
/// How the name of workloads begins that marks guide.
const GUIDED: &str = "guided:";
/// How the name of workloads begins whose seed gives the image and the log, too.
const SWARM: &str = "swarm:";

/// The file system under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrashFs {
    /// ext4 in a journal mode.
    #[default]
    Ext4,
    /// F2FS in a mode of fsync.
    F2fs,
}

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
    /// The file system.
    pub fs: CrashFs,
    /// Journal mode of ext4, by default ordered; or which blocks the logs of F2FS take, by default adaptive.
    pub mode: Option<String>,
    /// What an fsync of F2FS promises about names; by default posix.
    pub fsync_mode: Option<FsyncMode>,
    /// How cleaning of F2FS gives content another address; by default it copies.
    pub clean: Option<Clean>,
    /// Pages from which on an fsync of F2FS writes nothing in place; 0 for never in place.
    pub in_place_below: u32,
    /// Bytes for a staging area of F2FS, beside the image; by default none.
    pub stage: Option<u64>,
    /// Profile whose promises the disk keeps.
    pub device: Option<String>,
    /// Its translation layer.
    pub layer: LayerChoice,
    /// For modes that pad: bytes, or the file of a probe.
    pub eviction_spot: Option<String>,
    /// Bytes of the image; by default 32 MiB, of F2FS 64 MiB.
    pub size: Option<u64>,
    /// Blocks of ext4's log; by default 1024.
    pub journal_blocks: Option<u32>,
    /// Pages of the page cache.
    pub cache_pages: usize,
    /// Its replacement policy.
    pub cache_policy: PolicyKind,
    /// Whether blocks are allocated when pages are written out, where the mode can.
    pub delayed_allocation: bool,
    /// Age at which a transaction commits, or a change is in a checkpoint of F2FS.
    pub commit_interval: Duration,
    /// Age at which a committed block is written home.
    pub checkpoint_age: Duration,
    /// Whether writeback begins as soon as a tenth of the cache is dirty.
    pub prompt_writeback: bool,
    /// On the modelled disk one of so many requests takes milliseconds.
    pub slow_one_in: Option<u64>,
    /// A shell command that makes the image with which workloads begin, in the file `$IMAGE`.
    pub mkfs: Option<String>,
    /// Distinct states to judge.
    pub states: u64,
    /// The seed of all chance.
    pub seed: u64,
    /// `e2fsck` checks every so many states, too; 0: none.
    pub e2fsck_every: u64,
    /// Of an endless series, one of so many workloads is judged at every place, the others at some; by default
    /// 15, but 1 for `scarce`, whose runs are long.
    pub thorough_every: Option<u64>,
    /// Of the states that replay something, the recovery of one in so many is cut; by default 50, and 0 cuts none.
    pub nested_every: Option<u64>,
    /// Whether pages tear.
    pub torn_pages: bool,
    /// Whether SHAREs tear.
    pub torn_shares: bool,
    /// Whether requests fail and space runs out, instead of power cuts.
    pub faults: bool,
    /// Workloads side by side; `None`: one on each core.
    pub jobs: Option<u16>,
    /// Most judgements spent on making each violation smaller; 0: none.
    pub minimise: u64,
}

/// An exploration that can begin.
pub struct Exploration {
    /// The file system, in its mode.
    subject: Explored,
    /// The disk and the bounds.
    pub options: ExploreOptions,
    /// What to know before its findings are believed.
    pub warnings: Vec<String>,
    profile: Option<Profile>,
    faults: bool,
    jobs: Option<u16>,
    minimise: u64,
}

/// The file system, in its mode.
#[derive(Clone, Copy, Debug)]
enum Explored {
    Ext4(Ext4Subject),
    F2fs(F2fsSubject),
}

impl CrashExperiment {
    /// `workload` with seed 1 and all other defaults.
    pub fn new(workload: &str) -> CrashExperiment {
        CrashExperiment {
            workload: workload.to_owned(),
            job_text: None,
            file: FileChanges::default(),
            runtime: None,
            fs: CrashFs::default(),
            mode: None,
            fsync_mode: None,
            clean: None,
            in_place_below: 0,
            stage: None,
            device: None,
            layer: LayerChoice::default(),
            eviction_spot: None,
            size: None,
            journal_blocks: None,
            cache_pages: 256,
            cache_policy: PolicyKind::Lru,
            delayed_allocation: true,
            commit_interval: Duration::from_millis(50),
            checkpoint_age: Duration::from_millis(200),
            prompt_writeback: false,
            slow_one_in: None,
            mkfs: None,
            states: 10_000,
            seed: 1,
            e2fsck_every: 1000,
            thorough_every: None,
            nested_every: None,
            torn_pages: false,
            torn_shares: false,
            faults: false,
            minimise: 60_000,
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
        let mut subject = self.subject()?;
        let profile = profile.map(|profile| match subject {
            Explored::Ext4(_) => profile.translated(),
            Explored::F2fs(_) => profile,
        });
        let (options, warnings) = self.options(subject, profile.as_ref())?;
        if let Explored::F2fs(f2fs) = &mut subject {
            f2fs.zones = options.geometry.zones;
        }
        Ok(Exploration {
            subject,
            options,
            warnings,
            profile,
            faults: self.faults,
            jobs: self.jobs,
            minimise: self.minimise,
        })
    }

    /// The file system under test, in its mode.
    fn subject(&self) -> Result<Explored, LabError> {
        match self.fs {
            CrashFs::Ext4 => Ok(Explored::Ext4(self.ext4()?)),
            CrashFs::F2fs => Ok(Explored::F2fs(self.f2fs()?)),
        }
    }

    fn f2fs(&self) -> Result<F2fsSubject, LabError> {
        let given = [
            ("--journal-blocks", self.journal_blocks.is_some()),
            ("--nodelalloc", !self.delayed_allocation),
            ("--eviction-spot", self.eviction_spot.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return refused(format!("{option} is for ext4, and --fs is f2fs; leave it out"));
        }
        let (fsync_mode, clean) = (self.fsync_mode.unwrap_or_default(), self.clean.unwrap_or_default());
        let wrong = |error: String| LabError::Option(format!("--mode: {error}"));
        let log_mode = self.mode.as_deref().map(str::parse).transpose().map_err(wrong)?;
        Ok(F2fsSubject {
            fsync_mode,
            clean,
            log_mode: log_mode.unwrap_or_default(),
            in_place_below: self.in_place_below,
            stage_bytes: self.stage.unwrap_or(0),
            zones: None,
        })
    }

    fn ext4(&self) -> Result<Ext4Subject, LabError> {
        if self.fsync_mode.is_some() {
            return refused("--fsync-mode is for F2FS; leave it out, or add --fs f2fs");
        }
        if self.clean.is_some() {
            return refused("--clean is for F2FS; leave it out, or add --fs f2fs");
        }
        if self.in_place_below > 0 {
            return refused("--ipu is for F2FS; leave it out, or add --fs f2fs");
        }
        if self.stage.is_some() {
            return refused("--stage is for F2FS; leave it out, or add --fs f2fs");
        }
        let plain = Ext4Subject::new(mode(self.mode.as_deref().unwrap_or("ordered"))?);
        let drawn = self.swarm_machine().map(|machine| machine.journal_blocks);
        let subject = Ext4Subject {
            journal_blocks: self.journal_blocks.or(drawn).unwrap_or(plain.journal_blocks),
            delayed_allocation: self.delayed_allocation,
            eviction_spot: self.eviction_spot.as_deref().map(eviction_spot).transpose()?,
            ..plain
        };
        if subject.eviction_spot.is_some() && !subject.promises().pads {
            return refused(format!(
                "--eviction-spot says how much zp and zp-data pad, and {} never pads; leave it out, or take --mode zp",
                subject.mode
            ));
        }
        Ok(subject)
    }

    /// What the seed gives to swarm workloads.
    fn swarm_machine(&self) -> Option<SwarmMachine> {
        self.workload.starts_with(SWARM).then(|| SwarmMachine::of(self.seed))
    }

    /// 1 for what is not an endless series of random workloads: each of those is there to be judged at every place.
    fn thorough_every(&self) -> Result<u64, LabError> {
        let spec = self.workload.parse::<WorkloadSpec>().ok().filter(|spec| spec.count().is_none() && !self.faults);
        match (self.thorough_every, spec) {
            (Some(0), _) => refused("--thorough-every 0: at least 1 is needed, which judges all at every place"),
            (Some(every), Some(_)) => Ok(every),
            (Some(_), None) => refused(format!(
                "--thorough-every is for series without an end, judged at cuts, such as random:60; leave it out for {}",
                if self.faults { "--faults" } else { &self.workload }
            )),
            (None, Some(WorkloadSpec::Scarce(_)) | None) => Ok(1),
            (None, Some(_)) => Ok(THOROUGH_EVERY),
        }
    }

    /// The image of another program, if one is asked for.
    fn base(&self, size_bytes: u64) -> Result<Option<Arc<BaseImage>>, LabError> {
        let given = [("--stage", self.stage.is_some()), ("--journal-blocks", self.journal_blocks.is_some())];
        let Some(command) = &self.mkfs else { return Ok(None) };
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return refused(format!("{option} is for images of onewrite's own mkfs, and --mkfs names another"));
        }
        Ok(Some(Arc::new(BaseImage::made_by(command, size_bytes)?)))
    }

    fn options(&self, subject: Explored, profile: Option<&Profile>) -> Result<(ExploreOptions, Vec<String>), LabError> {
        let least = match subject {
            Explored::Ext4(_) => 32 * MIB,
            // The pages of a staging area that are rewritten need spare blocks, too.
            Explored::F2fs(f2fs) if has_zones(profile) => {
                ZONED_SIZE_MIN.saturating_add(f2fs.stage_bytes.saturating_mul(2))
            }
            Explored::F2fs(f2fs) => F2fsSubject::SIZE_MIN.saturating_add(f2fs.stage_bytes),
        };
        let factor = self.swarm_machine().map_or(1, |machine| machine.size_factor);
        let size_bytes = self.size.unwrap_or(least.saturating_mul(factor));
        if size_bytes > SIZE_MAX {
            return Err(LabError::Option(format!(
                "--size (with --stage): an image of {} MiB; the explorer judges whole images, of at most {} MiB",
                size_bytes / MIB,
                SIZE_MAX / MIB
            )));
        }
        let defaults = ExploreOptions::default();
        let plain = ExploreOptions {
            size_bytes,
            cache_pages: self.cache_pages,
            cache_policy: self.cache_policy,
            commit_interval: Nanos(self.commit_interval.as_nanos() as u64),
            checkpoint_age: Nanos(self.checkpoint_age.as_nanos() as u64),
            prompt_writeback: self.prompt_writeback,
            slow_one_in: self.slow_one_in.unwrap_or(0),
            base: self.base(size_bytes)?,
            seed: self.seed,
            states_max: self.states,
            e2fsck_every: self.e2fsck_every,
            thorough_every: self.thorough_every()?,
            nested_every: self.nested_every.unwrap_or(defaults.nested_every),
            ..defaults
        };
        let geometry = match profile {
            Some(profile) if has_zones(Some(profile)) => zoned(profile, subject, size_bytes)?.geometry().clone(),
            Some(profile) => profile.device(Some(size_bytes))?.geometry().clone(),
            None => plain.geometry.clone(),
        };
        let warnings = match subject {
            Explored::Ext4(ext4) => {
                let padding = ext4.mode.padding();
                padding.map_or_else(Vec::new, |it| padding_warnings(it, &geometry, ext4.eviction_spot))
            }
            Explored::F2fs(f2fs) => {
                f2fs.clean.check_device(&geometry)?;
                Vec::new()
            }
        };
        let atomic_write_pages = if self.torn_pages { 0 } else { geometry.atomic_write_pages };
        let share_atomic = geometry.share_atomic && !self.torn_shares;
        Ok((plain.on(&Geometry { atomic_write_pages, share_atomic, ..geometry }), warnings))
    }

    /// The workloads to explore: by name, from a job file, or of a personality.
    ///
    /// # Errors
    /// One that is not known or not understood.
    pub fn workloads(&self, exploration: &Exploration) -> Result<Box<dyn Iterator<Item = Workload>>, LabError> {
        let name = self.workload.as_str();
        if let Some(operations) = name.strip_prefix(GUIDED) {
            return exploration.guided(operations);
        }
        let is_own = self.job_text.is_none() && WorkloadSpec::is_named(name);
        let personality = Personality::from_name(name).filter(|_| self.job_text.is_none());
        let is_postmark = name == postmark::NAME && self.job_text.is_none();
        let for_files = self.file.given().or(self.runtime.map(|_| "--runtime"));
        if let Some(option) = for_files.filter(|_| is_own || personality.is_some() || is_postmark) {
            return refused(format!("{option} is for job files, and {name} is none"));
        }
        if is_own {
            let spec = name.parse::<WorkloadSpec>()?;
            exploration.subject.expect_able(name, &spec)?;
            return Ok(match &exploration.subject {
                Explored::Ext4(ext4) => spec.workloads(ext4, self.seed),
                Explored::F2fs(f2fs) => spec.workloads(f2fs, self.seed),
            });
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
                let forms = format!("{}, {}", WorkloadSpec::forms(), SqliteProof::FORM);
                return refused(format!("{name}: neither a job file nor {forms}, {}", streams()));
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

impl Explored {
    /// # Errors
    /// If a workload has operations that the file system lacks.
    fn expect_able(&self, name: &str, spec: &WorkloadSpec) -> Result<(), LabError> {
        let atomic = name.starts_with("atomic:");
        match self {
            Explored::Ext4(ext4) if atomic && ext4.promises().keeps != Keeps::Version => refused(format!(
                "{name} commits drafts of atomic files, and {} writes content in place; take a mode that logs content, \
                 such as --mode data",
                ext4.mode
            )),
            Explored::F2fs(f2fs) if f2fs.stage_bytes > 0 && (atomic || spec.has_drafts()) => refused(format!(
                "{name} changes drafts of atomic files, which F2FS with a staging area has not; leave --stage out"
            )),
            Explored::F2fs(_) if name.starts_with("shares:") || spec.has_shares() => refused(format!(
                "{name} shares pages of files, which F2FS cannot; take random:OPERATIONS, or --fs ext4"
            )),
            Explored::Ext4(_) if name.starts_with("scarce:") => {
                refused(format!("{name} is about segments to clean, which ext4 has not; add --fs f2fs"))
            }
            Explored::F2fs(_) if name.starts_with("full-log:") => {
                refused(format!("{name} is about ext4's log, which F2FS has not; take scarce:ROUNDS, or --fs ext4"))
            }
            _ => Ok(()),
        }
    }
}

impl Exploration {
    /// Workloads that marks guide, of so many operations.
    fn guided(&self, operations: &str) -> Result<Box<dyn Iterator<Item = Workload>>, LabError> {
        let Some(operations) = operations.parse().ok().filter(|operations| (1..=100_000).contains(operations)) else {
            return refused(format!("{GUIDED}{operations}: 1 to 100000 operations are needed, such as {GUIDED}60"));
        };
        Ok(match self.subject {
            Explored::Ext4(ext4) => Box::new(Guided::new(ext4, &self.options, operations)),
            Explored::F2fs(f2fs) => Box::new(Guided::new(f2fs, &self.options, operations)),
        })
    }

    /// The file system, if it is ext4.
    pub fn ext4(&self) -> Option<&Ext4Subject> {
        match &self.subject {
            Explored::Ext4(ext4) => Some(ext4),
            Explored::F2fs(_) => None,
        }
    }

    /// Names of the directories in the root of a new file system.
    pub fn directories(&self) -> &'static [&'static str] {
        match &self.subject {
            Explored::Ext4(ext4) => ext4.directories(),
            Explored::F2fs(f2fs) => f2fs.directories(),
        }
    }

    /// Judges what power cuts leave of databases of SQLite, in the empty directory `room`; `watch` hears the numbers of
    /// states and of checks.
    ///
    /// # Errors
    /// If the run or the exploration itself fails.
    pub fn prove_sqlite(
        &self,
        proof: SqliteProof,
        room: &Path,
        watch: &dyn Fn(u64, u64),
    ) -> Result<SqliteProved, LabError> {
        match self.subject {
            Explored::Ext4(ext4) => prove(ext4, |fs| AnyFs::Ext4(Box::new(fs)), (proof, &self.options), room, watch),
            Explored::F2fs(f2fs) => prove(f2fs, |fs| AnyFs::F2fs(Box::new(fs)), (proof, &self.options), room, watch),
        }
    }

    /// Explores `workloads`; `progress` hears of it now and then, `found` of each violation at once, before it is made
    /// smaller.
    ///
    /// # Errors
    /// If the exploration itself fails; the report contains what a cut breaks.
    pub fn explore(
        &self,
        workloads: impl Iterator<Item = Workload>,
        progress: impl Fn(Stage),
        found: impl Fn(&Violation),
    ) -> Result<Report, LabError> {
        match self.subject {
            Explored::Ext4(ext4) => self.explore_subject(ext4, workloads, progress, found),
            Explored::F2fs(f2fs) => self.explore_subject(f2fs, workloads, progress, found),
        }
    }

    fn explore_subject<S: Subject + Clone + Send>(
        &self,
        subject: S,
        workloads: impl Iterator<Item = Workload>,
        progress: impl Fn(Stage),
        found: impl Fn(&Violation),
    ) -> Result<Report, LabError> {
        self.with_plan(|plan| {
            let told = |stage| match stage {
                Stage::Broken(violation) => found(&violation),
                stage => progress(stage),
            };
            let mut report = onewrite_crash::crash(subject.clone(), workloads, plan, told)?;
            if self.minimise > 0 {
                onewrite_crash::minimise(&subject, &mut report, (plan, self.minimise), progress)?;
            }
            Ok(report)
        })
    }

    /// Judges one state of `script` again.
    ///
    /// # Errors
    /// If there is no such state.
    pub fn replay(&self, script: &Workload, state: &str) -> Result<Report, LabError> {
        self.with_plan(|plan| match self.subject {
            Explored::Ext4(ext4) => onewrite_crash::replay(ext4, script, state, plan),
            Explored::F2fs(f2fs) => onewrite_crash::replay(f2fs, script, state, plan),
        })
    }

    fn with_plan(
        &self,
        work: impl FnOnce(CrashPlan<'_>) -> Result<Report, onewrite_crash::CrashError>,
    ) -> Result<Report, LabError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(cores, usize::from);
        let plan = CrashPlan { faults: self.faults, jobs, ..CrashPlan::new(&self.options) };
        match &self.profile {
            None => Ok(work(plan)?),
            Some(profile) => {
                let image_pages = self.options.size_bytes / PAGE_SIZE as u64;
                let stage_bytes = if let Explored::F2fs(f2fs) = self.subject { f2fs.stage_bytes } else { 0 };
                let make = |pages: u64| device(profile, pages, (pages - image_pages) * PAGE_SIZE as u64 + stage_bytes);
                Ok(work(CrashPlan { device: Some(&make as &MakeDevice<'_>), ..plan })?)
            }
        }
    }
}

/// Smallest device with zones: 39 zones of 2 MiB, and what F2FS rewrites in place.
const ZONED_SIZE_MIN: u64 = 128 * MIB;

fn has_zones(profile: Option<&Profile>) -> bool {
    profile.is_some_and(|profile| matches!(profile.own_layer(), Some(Layer::Open { .. })))
}

/// A device with zones for an image of `size_bytes` and the background load behind it.
fn zoned(profile: &Profile, subject: Explored, size_bytes: u64) -> Result<Box<dyn PowerCut>, LabError> {
    let stage_bytes = if let Explored::F2fs(f2fs) = subject { f2fs.stage_bytes } else { 0 };
    let bytes = device_pages(size_bytes / PAGE_SIZE as u64) * PAGE_SIZE as u64;
    let profile = profile.clone().with_tail(bytes - size_bytes + stage_bytes);
    Ok(profile.device(Some(bytes))?)
}

/// A device of `pages`; the last `tail_bytes` take writes in any order.
fn device(profile: &Profile, pages: u64, tail_bytes: u64) -> Box<dyn PowerCut> {
    let profile = profile.clone().with_tail(tail_bytes);
    profile.device(Some(pages * PAGE_SIZE as u64)).expect("the profile gave a smaller device before")
}
