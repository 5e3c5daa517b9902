//! Turns fio jobs into workloads: names and sizes of files, layout, clones and groups, as in fio 3.33 (its `add_job`,
//! `setup_files` and `extend_file`).

mod chooser;
mod depth;
mod goals;
mod nodes;
mod pace;
mod places;
mod replay;
mod shared;
mod sizes;
mod steady;
mod stream;
mod task;
mod turns;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::{Choices, Nanos, PAGE_SIZE};

use crate::error::LabError;
use crate::job::{Fallocate, Iolog, Job, JobFile, Options, Steadiness, Work};
use crate::workload::{self, FileId, FilePlan, JobPlan, Layout, ReadBefore, Stream, Workload};
use goals::Goals;
use nodes::NodeStream;
use places::FileSpan;
use replay::ReplayStream;
use shared::{Membership, Shared};
use sizes::{Amounts, Extent, Sizes};
use steady::{Detector, SharedDetector};
use stream::FioStream;
use task::Task;

/// Target of fio jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Files of a file system.
    Files,
    /// A device without a file system.
    Device {
        /// Its size in bytes.
        bytes: u64,
    },
}

/// Turns a job file into a workload; all chance comes from `choices`.
///
/// # Errors
/// [`LabError::Job`] if a job does not fit `target`.
pub fn plan(file: &JobFile, target: Target, choices: &Choices) -> Result<Workload, LabError> {
    let mut planner = Planner::new(file, target, choices);
    for (index, job) in file.jobs.iter().enumerate() {
        planner.begin_job(job, &file.jobs[..index])?;
        for clone in 0..job.options.clones {
            planner.add_clone(job, clone)?;
        }
    }
    Ok(planner.workload)
}

/// End of the last byte that the jobs of `file` use of a raw device, as far as they give it in bytes.
pub(crate) fn bytes_reached(file: &JobFile) -> u64 {
    let reach = |job: &Job| {
        let options = &job.options;
        let replayed = options
            .iologs
            .iter()
            .flat_map(|log| (0..log.files.len()).map(|index| replay::bytes_needed(options, log, index)));
        let last = options.clones - 1;
        sizes::of_device(options, last, u64::MAX >> 8).last_byte(options).max(replayed.max().unwrap_or(0))
    };
    file.jobs.iter().map(reach).max().unwrap_or(0)
}

struct Planner<'a> {
    workload: Workload,
    target: Target,
    choices: &'a Choices,
    clones: u64,
    shared: Rc<Shared>,
    /// Number of the group in reports.
    group: usize,
    /// Names of the jobs of this stonewall.
    names: Vec<String>,
    /// The files by their paths.
    files: BTreeMap<String, FileId>,
    /// Detectors of groups that report together, with their options.
    detectors: BTreeMap<usize, (Steadiness, Option<SharedDetector>)>,
}

impl<'a> Planner<'a> {
    fn new(file: &JobFile, target: Target, choices: &'a Choices) -> Planner<'a> {
        let (directories, files, jobs, groups) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let workload = Workload { name: file.origin.clone(), directories, files, jobs, groups };
        Planner {
            workload,
            target,
            choices,
            clones: 0,
            shared: Rc::default(),
            group: 0,
            names: Vec::new(),
            files: BTreeMap::new(),
            detectors: BTreeMap::new(),
        }
    }

    /// A stonewall ends the group, unless the group is empty. So does waiting for a job of the group.
    fn begin_job(&mut self, job: &Job, before: &[Job]) -> Result<(), LabError> {
        let options = &job.options;
        let mut waits = options.stonewall;
        if let Some(name) = &options.wait_for {
            if !before.iter().any(|job| job.name() == name || job.section == *name) {
                return Err(refusal(job, &format!("wait_for={name} names no job before it")));
            }
            waits |= self.names.contains(name);
        }
        let groups = &mut self.workload.groups;
        let begins = groups.last().is_none_or(|group| waits && !group.is_empty());
        if begins {
            groups.push(Vec::new());
            self.names.clear();
        }
        if (begins && groups.len() > 1) || (options.new_group && self.clones > 0) {
            self.group += 1;
        }
        self.names.extend([job.name().to_owned(), job.section.clone()]);
        Ok(())
    }

    fn add_clone(&mut self, job: &Job, clone: u32) -> Result<(), LabError> {
        let options = &job.options;
        let mut choices = self.choices.stream("fio job", self.clones);
        if let Some(seed) = options.seed {
            choices = choices.stream("randseed", seed);
        }
        self.clones += 1;
        let delay = delay(options, &mut choices);
        let detector = self.detector(job)?;
        let member = Membership { group: self.group, stonewall: self.workload.groups.len() };
        let goals = Goals::new(options, detector, delay);
        let (stream, read_before) =
            self.stream(job, clone, choices, Task { shared: Rc::clone(&self.shared), member, goals })?;
        let task = workload::Task {
            job: self.job_index(job),
            stream,
            concurrency: options.concurrency(),
            start_delay: delay,
            ramp_time: options.ramp_time,
            read_before,
        };
        if !options.create_only {
            self.workload.groups.last_mut().expect("a group has begun").push(task);
        }
        Ok(())
    }

    /// Jobs that report together share a detector.
    fn detector(&mut self, job: &Job) -> Result<Option<SharedDetector>, LabError> {
        let options = &job.options;
        let new = || Detector::new(&options.steadiness, options.ramp_time).map(RefCell::new).map(Rc::new);
        if !options.group_reporting {
            return Ok(new());
        }
        let (wanted, detector) = self.detectors.entry(self.group).or_insert_with(|| (options.steadiness, new()));
        match *wanted == options.steadiness {
            true => Ok(detector.clone()),
            false => Err(refusal(job, "steadystate must be the same for all jobs that report together")),
        }
    }

    /// The stream of one clone, and the parts of files to read before it begins.
    fn stream(
        &mut self,
        job: &Job,
        clone: u32,
        mut choices: Choices,
        task: Task,
    ) -> Result<(Box<dyn Stream>, Vec<ReadBefore>), LabError> {
        let options = &job.options;
        if !options.iologs.is_empty() {
            let log = options.iologs[clone as usize % options.iologs.len()].clone();
            let files = self.replayed(job, &log, &mut choices)?;
            let ends = (0..files.len()).map(|index| replay::bytes_needed(options, &log, index));
            let spans = files.iter().zip(ends).map(|(&file, end)| FileSpan { file, offset: 0, size: end, whole: end });
            let read_before = read_before(options, spans);
            return Ok((Box::new(ReplayStream::new(options, log, files, choices, task)), read_before));
        }
        let sizes = match self.target {
            Target::Device { bytes } => self.device(job, clone, bytes)?,
            Target::Files => self.named_files(job, clone, &mut choices)?,
        };
        let read_before = read_before(options, sizes.spans.iter().copied());
        if options.work.is_on_nodes() {
            let files = sizes.spans.iter().map(|span| span.file).collect();
            return Ok((Box::new(NodeStream::new(options, files, task)), read_before));
        }
        Ok((Box::new(FioStream::new(options, sizes.spans, sizes.amounts, choices, task)), read_before))
    }

    /// With `group_reporting` the jobs of one group share one report.
    fn job_index(&mut self, job: &Job) -> usize {
        let group = self.group;
        let jobs = &mut self.workload.jobs;
        let shared = job.options.group_reporting.then(|| jobs.iter().position(|plan| plan.group == group)).flatten();
        let operations_count = job.options.work.is_on_nodes();
        if let Some(index) = shared {
            jobs[index].operations_count |= operations_count;
        }
        shared.unwrap_or_else(|| {
            let (name, options) = (job.name().to_owned(), job.given.clone());
            jobs.push(JobPlan { name, group, operations_count, options });
            jobs.len() - 1
        })
    }

    fn device(&mut self, job: &Job, clone: u32, bytes: u64) -> Result<Placed, LabError> {
        let options = &job.options;
        if options.work != Work::Accesses {
            return Err(refusal(job, "its engine works on files; leave --fs raw out"));
        }
        let bytes = bytes - bytes % PAGE_SIZE as u64;
        let extents = sizes::of_device(options, clone, bytes);
        if extents.amounts.size < options.block_size_least() {
            return Err(refusal(job, &format!("the device holds {bytes} bytes, less than a block behind its offset")));
        }
        let file = self.file("device", Layout::None, options.verify, 0);
        let span = |extent: &Extent| FileSpan { file, offset: extent.offset, size: extent.size, whole: extent.whole };
        Ok(Placed { spans: extents.files.iter().map(span).collect(), amounts: extents.amounts })
    }

    fn named_files(&mut self, job: &Job, clone: u32, choices: &mut Choices) -> Result<Placed, LabError> {
        let options = &job.options;
        if options.trims() && options.work != Work::Allocate {
            return Err(refusal(
                job,
                "trim needs a raw device; add --fs raw (or ioengine=falloc, which punches holes)",
            ));
        }
        if !options.may_create {
            return Err(refusal(job, "allow_file_create=0, but every file of a run is new; it is for --fs raw"));
        }
        let names = names(job, clone);
        let existing: Vec<u64> = names.iter().map(|name| self.bytes_of(name)).collect();
        let Sizes { files, amounts } =
            sizes::of_files(options, clone, &existing, choices).map_err(|problem| refusal(job, &problem))?;
        let extents = names.iter().zip(&files);
        let spans = extents.map(|(name, extent)| self.named_file(options, name, extent, choices));
        Ok(Placed { spans: spans.collect::<Result<Vec<FileSpan>, LabError>>()?, amounts })
    }

    /// Bytes of a file that an earlier job uses too; zero if none does.
    fn bytes_of(&self, path: &str) -> u64 {
        let known = self.files.get(path.trim_matches('/'));
        known.map_or(0, |file| self.workload.files[file.0 as usize].bytes)
    }

    fn named_file(
        &mut self,
        options: &Options,
        path: &str,
        extent: &Extent,
        choices: &mut Choices,
    ) -> Result<FileSpan, LabError> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Err(LabError::Option("filename= names no file".to_owned()));
        }
        self.directories_of(path);
        let &Extent { offset, size, whole } = extent;
        let layout = layout(options, whole, choices.bits());
        let bytes = if options.fill_device { 0 } else { whole };
        let file = self.file(path, layout, options.verify, bytes);
        Ok(FileSpan { file, offset, size, whole })
    }

    /// The files of a recorded run, each as large as its accesses need.
    fn replayed(&mut self, job: &Job, log: &Iolog, choices: &mut Choices) -> Result<Vec<FileId>, LabError> {
        let options = &job.options;
        let mut files = Vec::new();
        for (index, name) in log.files.iter().enumerate() {
            let bytes = replay::bytes_needed(options, log, index);
            if let Target::Device { bytes: device } = self.target {
                if bytes > device {
                    let needs = format!("the iolog reaches byte {bytes}, the device has {device}; raise --size");
                    return Err(refusal(job, &needs));
                }
                files.push(self.file("device", Layout::None, false, 0));
                continue;
            }
            let name = options.replay_redirect.as_deref().unwrap_or(name).trim_matches('/');
            self.directories_of(name);
            let chunk = (64 * PAGE_SIZE as u64).clamp(1, bytes.max(1));
            let layout = Layout::Filled {
                size: bytes,
                fallocate: options.fallocate,
                chunk,
                seed: choices.bits(),
                compressible_percent: options.compressible_percent,
                synced: true,
            };
            files.push(self.file(name, layout, false, bytes));
        }
        match log.files.is_empty() {
            true => Err(refusal(job, "the iolog names no file")),
            false => Ok(files),
        }
    }

    /// Adds a file, or joins the needs of another job for the same file.
    fn file(&mut self, path: &str, layout: Layout, verified: bool, bytes: u64) -> FileId {
        let files = &mut self.workload.files;
        if let Some(&known) = self.files.get(path) {
            let plan = &mut files[known.0 as usize];
            plan.layout = plan.layout.joined(layout);
            plan.verified |= verified;
            plan.bytes = plan.bytes.max(bytes);
            return known;
        }
        let file = FileId(files.len() as u32);
        files.push(FilePlan { path: path.to_owned(), layout, verified, bytes });
        self.files.insert(path.to_owned(), file);
        file
    }

    fn directories_of(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(end, _)| end);
        for directory in ends.map(|end| &path[..end]) {
            if !self.workload.directories.iter().any(|known| known == directory) {
                self.workload.directories.push(directory.to_owned());
            }
        }
    }
}

/// Files of a job, and the amounts that it moves.
struct Placed {
    spans: Vec<FileSpan>,
    amounts: Amounts,
}

fn refusal(job: &Job, problem: &str) -> LabError {
    LabError::Job { refusals: vec![job.place.refuse(format!("job [{}]: {problem}", job.section))] }
}

/// `startdelay`: one time span, or a random one between two.
fn delay(options: &Options, choices: &mut Choices) -> Nanos {
    let (least, most) = options.start_delay;
    if least == most { least } else { least + Nanos(choices.below(most.0 - least.0 + 1)) }
}

impl Layout {
    /// A layout that satisfies two jobs with one file: the larger size, filled if one of them wants it filled.
    fn joined(self, other: Layout) -> Layout {
        match (self, other) {
            (Layout::Filled { size, .. }, Layout::Filled { size: larger, .. }) if larger > size => other,
            (Layout::Filled { .. }, _) => self,
            (_, Layout::Filled { .. }) => other,
            (Layout::Reserved { size, .. }, Layout::Reserved { size: larger, .. }) if larger > size => other,
            (Layout::Reserved { .. }, _) => self,
            (Layout::None, other) => other,
        }
    }
}

/// Paths `directory/name` of the files of one clone.
fn names(job: &Job, clone: u32) -> Vec<String> {
    let options = &job.options;
    let directory = match options.directories.len() {
        0 => String::new(),
        count => options.directories[clone as usize % count].clone() + "/",
    };
    if !options.file_names.is_empty() {
        return options.file_names.iter().map(|name| directory.clone() + name).collect();
    }
    let Some(format) = &options.file_name_format else {
        return (0..options.file_count).map(|file| format!("{directory}{}.{clone}.{file}", job.section)).collect();
    };
    let name = |file: u32| {
        let words = [("$jobname", job.section.clone()), ("$jobnum", clone.to_string()), ("$filenum", file.to_string())];
        let name = words.iter().fold(format.clone(), |name, (word, value)| name.replace(word, value));
        directory.clone() + &name.replace("$clientuid", "localhost")
    };
    (0..options.file_count).map(name).collect()
}

/// Files that will be read or overwritten are filled and synced first (`extend_file`).
fn layout(options: &Options, size: u64, seed: u64) -> Layout {
    if options.create_on_open || options.work == Work::Create {
        return Layout::None;
    }
    // A job that fills the device takes its room while it runs.
    if options.fill_device && !options.reads() {
        return Layout::Reserved { size: 0, fallocate: Fallocate::None };
    }
    if !(options.reads() || options.overwrite) {
        return Layout::Reserved { size, fallocate: options.fallocate };
    }
    Layout::Filled {
        size,
        fallocate: if options.fallocate == Fallocate::Truncate { Fallocate::None } else { options.fallocate },
        chunk: options.block_sizes.write.most().clamp(1, size),
        seed,
        compressible_percent: options.compressible_percent,
        synced: true,
    }
}

/// The parts of files for `pre_read`.
fn read_before(options: &Options, spans: impl Iterator<Item = FileSpan>) -> Vec<ReadBefore> {
    let part = |FileSpan { file, offset, size, .. }| ReadBefore {
        file,
        range: offset..offset.saturating_add(size),
        chunk: options.block_sizes.read.most().max(1),
    };
    if options.pre_read { spans.map(part).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> Workload {
        let file = JobFile::parse("test.fio", text).unwrap();
        plan(&file, Target::Files, &Choices::new(1)).unwrap()
    }

    #[test]
    fn files_are_named_after_job_clone_and_number() {
        let workload = planned("[a]\nsize=1m\ndirectory=d/e\nnumjobs=2\nnrfiles=2\n");
        let paths: Vec<&str> = workload.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["d/e/a.0.0", "d/e/a.0.1", "d/e/a.1.0", "d/e/a.1.1"]);
        assert_eq!(workload.directories, ["d", "d/e"]);
    }

    #[test]
    fn a_stonewall_begins_a_group() {
        let workload = planned("[global]\nsize=1m\n[a]\nstonewall\n[b]\n[c]\nstonewall\nnumjobs=2\n");
        let sizes: Vec<usize> = workload.groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2]);
    }

    #[test]
    fn group_reporting_joins_the_jobs_of_a_group() {
        let workload = planned("[global]\nsize=1m\ngroup_reporting\n[a]\nnumjobs=3\n[b]\nstonewall\n");
        let names: Vec<&str> = workload.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_is_read_is_filled_and_what_is_written_is_reserved() {
        let workload = planned("[global]\nsize=1m\n[r]\nrw=randread\n[w]\nrw=write\n");
        assert!(matches!(workload.files[0].layout, Layout::Filled { size: 0x10_0000, chunk: 4096, synced: true, .. }));
        assert_eq!(workload.files[1].layout, Layout::Reserved { size: 1 << 20, fallocate: Fallocate::Extend });
    }

    #[test]
    fn trim_on_files_is_refused() {
        let file = JobFile::parse("test.fio", "[a]\nsize=1m\nrw=trim\n").unwrap();
        let error = plan(&file, Target::Files, &Choices::new(1)).err().unwrap();
        assert!(error.to_string().contains("--fs raw"));
    }
}
