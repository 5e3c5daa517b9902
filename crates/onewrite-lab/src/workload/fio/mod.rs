//! fio jobs as workloads: names and sizes of files, layout, clones and groups, as fio 3.33 sets them up (its
//! `add_job`, `setup_files` and `extend_file`).

mod places;
mod stream;

use onewrite_block::{Choices, PAGE_SIZE};

use crate::error::LabError;
use crate::job::{Amount, Engine, Fallocate, Job, JobFile, Options};
use crate::workload::{FileId, FilePlan, JobPlan, Layout, Task, Workload};
use places::FileSpan;
use stream::FioStream;

/// What fio jobs run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Files of a file system.
    Files,
    /// A device without one, of so many bytes.
    Device {
        /// Its size.
        bytes: u64,
    },
}

/// Turns a job file into a workload; all chance comes from `choices`.
///
/// # Errors
/// [`LabError::Option`] if a job does not fit `target`.
pub fn plan(file: &JobFile, target: Target, choices: &Choices) -> Result<Workload, LabError> {
    let mut planner = Planner::new(file, target, choices);
    for job in &file.jobs {
        planner.begin_job(job);
        for clone in 0..job.options.clones {
            planner.add_clone(job, clone)?;
        }
    }
    Ok(planner.workload)
}

struct Planner<'a> {
    workload: Workload,
    target: Target,
    choices: &'a Choices,
    clones: u64,
}

impl<'a> Planner<'a> {
    fn new(file: &JobFile, target: Target, choices: &'a Choices) -> Planner<'a> {
        let (directories, files, jobs, groups) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let workload = Workload { name: file.origin.clone(), directories, files, jobs, groups };
        Planner { workload, target, choices, clones: 0 }
    }

    /// A stonewall ends the group, unless the group is empty.
    fn begin_job(&mut self, job: &Job) {
        let groups = &mut self.workload.groups;
        let begins = groups.last().is_none_or(|group| job.options.stonewall && !group.is_empty());
        if begins {
            groups.push(Vec::new());
        }
    }

    fn add_clone(&mut self, job: &Job, clone: u32) -> Result<(), LabError> {
        let options = &job.options;
        let mut choices = self.choices.stream("fio job", self.clones);
        if let Some(seed) = options.seed {
            choices = choices.stream("randseed", seed);
        }
        self.clones += 1;
        let files = self.files(job, clone, &mut choices)?;
        let job_index = self.job_index(job);
        let stream = FioStream::new(options, files, choices);
        let task = Task {
            job: job_index,
            stream: Box::new(stream),
            concurrency: options.concurrency(),
            ramp_time: options.ramp_time,
        };
        self.workload.groups.last_mut().expect("a group has begun").push(task);
        Ok(())
    }

    /// With `group_reporting` the jobs of one group share one report.
    fn job_index(&mut self, job: &Job) -> usize {
        let group = self.workload.groups.len() - 1;
        let jobs = &mut self.workload.jobs;
        let shared = job.options.group_reporting.then(|| jobs.iter().position(|plan| plan.group == group)).flatten();
        shared.unwrap_or_else(|| {
            jobs.push(JobPlan { name: job.name().to_owned(), group, operations_count: false });
            jobs.len() - 1
        })
    }

    fn files(&mut self, job: &Job, clone: u32, choices: &mut Choices) -> Result<Vec<FileSpan>, LabError> {
        match self.target {
            Target::Device { bytes } => self.device(job, bytes),
            Target::Files => self.named_files(job, clone, choices),
        }
    }

    fn device(&mut self, job: &Job, bytes: u64) -> Result<Vec<FileSpan>, LabError> {
        let options = &job.options;
        let bytes = bytes - bytes % PAGE_SIZE as u64;
        let size = options.size.map_or(bytes, |size| size.of(bytes)).min(bytes);
        if size < options.block_size_least() {
            return Err(LabError::Option(format!(
                "job [{}]: the device holds {bytes} bytes, less than a block",
                job.section
            )));
        }
        let file = self.file("device", Layout::None, options.verify);
        Ok(vec![FileSpan { file, size, whole: bytes }])
    }

    fn named_files(&mut self, job: &Job, clone: u32, choices: &mut Choices) -> Result<Vec<FileSpan>, LabError> {
        let options = &job.options;
        if options.trims() {
            return Err(LabError::Option(format!("job [{}]: trim needs a raw device; add --fs raw", job.section)));
        }
        let names = names(job, clone);
        let sizes = sizes(job, names.len() as u64, choices)?;
        names.iter().zip(sizes).map(|(name, size)| self.named_file(options, name, size, choices)).collect()
    }

    fn named_file(
        &mut self,
        options: &Options,
        path: &str,
        (size, whole): (u64, u64),
        choices: &mut Choices,
    ) -> Result<FileSpan, LabError> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Err(LabError::Option("filename= names no file".to_owned()));
        }
        self.directories_of(path);
        let layout = layout(options, whole, choices.bits());
        let file = self.file(path, layout, options.verify);
        Ok(FileSpan { file, size, whole })
    }

    /// Adds a file, or joins what another job wants of the same one.
    fn file(&mut self, path: &str, layout: Layout, verified: bool) -> FileId {
        let files = &mut self.workload.files;
        match files.iter().position(|plan| plan.path == path) {
            Some(index) => {
                files[index].layout = files[index].layout.joined(layout);
                files[index].verified |= verified;
                FileId(index as u32)
            }
            None => {
                files.push(FilePlan { path: path.to_owned(), layout, verified });
                FileId(files.len() as u32 - 1)
            }
        }
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

impl Layout {
    /// What satisfies two jobs that use one file: the larger size, filled if either wants it filled.
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

/// `directory/name` for each file of one clone.
fn names(job: &Job, clone: u32) -> Vec<String> {
    let options = &job.options;
    let directory = match options.directories.len() {
        0 => String::new(),
        count => options.directories[clone as usize % count].clone() + "/",
    };
    if !options.file_names.is_empty() {
        return options.file_names.iter().map(|name| directory.clone() + name).collect();
    }
    (0..options.file_count).map(|file| format!("{directory}{}.{clone}.{file}", job.section)).collect()
}

/// Bytes used and bytes in all of each file (`setup_files`).
fn sizes(job: &Job, count: u64, choices: &mut Choices) -> Result<Vec<(u64, u64)>, LabError> {
    let options = &job.options;
    let block = options.block_size_least();
    let refuse = |problem: String| Err(LabError::Option(format!("job [{}]: {problem}", job.section)));
    let sizes: Vec<(u64, u64)> = match (options.file_size, options.size) {
        (Some((least, most)), size) => (0..count)
            .map(|_| file_size(least, most, block, choices))
            .map(|whole| (percent_of(size, whole, block), whole))
            .collect(),
        (None, Some(Amount::Bytes(size))) => equal_parts(size, count, block),
        (None, _) => return refuse("size=N% needs filesize= or a raw device".to_owned()),
    };
    match sizes.iter().find(|(size, _)| *size < block) {
        Some((size, _)) => refuse(format!("a file of {size} bytes is smaller than a block of {block}; raise size=")),
        None => Ok(sizes),
    }
}

fn equal_parts(size: u64, count: u64, block: u64) -> Vec<(u64, u64)> {
    let (each, larger) = (size / count, (size - size / count * count) / block);
    (0..count).map(|index| each + if index < larger { block } else { 0 }).map(|size| (size, size)).collect()
}

fn file_size(least: u64, most: u64, block: u64, choices: &mut Choices) -> u64 {
    if least == most {
        return least;
    }
    let size = least + choices.below(most - least + 1);
    (size - size % block).max(least)
}

fn percent_of(size: Option<Amount>, whole: u64, block: u64) -> u64 {
    match size {
        Some(Amount::Percent(percent)) if percent < 100 => {
            let size = Amount::Percent(percent).of(whole);
            size - size % block
        }
        _ => whole,
    }
}

/// Files that are read or overwritten are filled and synced first (`extend_file`).
fn layout(options: &Options, size: u64, seed: u64) -> Layout {
    if options.create_on_open {
        return Layout::None;
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

/// Whether an fsync lets nothing begin before its end.
const fn sync_blocks(engine: Engine) -> bool {
    !matches!(engine, Engine::IoUring)
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
