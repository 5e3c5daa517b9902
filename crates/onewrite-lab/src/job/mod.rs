//! Job files: what to run, in the words of fio 3.33.
//!
//! Its one idea: a job file that fio takes means here what it means there, and whatever this laboratory cannot do is
//! refused with its place and its name. Nothing is ignored silently: a benchmark that drops an option measures
//! something else.
//!
//! ```text
//!   text ──lines──► sections of settings ──keys──► Options of each job ──validate──► JobFile
//! ```
//!
//! # Invariants
//! - `[global]` applies to the jobs after it; a job's own settings come on top, in their order.
//! - A [`Job`] is complete: every default is filled in, and it can run.
//!
//! Where fio reads on past nonsense (`bs=4q` is 4 bytes to it), this parser refuses; it never accepts what fio refuses.

mod keys;
mod lines;
mod options;
mod validate;
mod value;

use std::path::Path;

pub use keys::{KEYS, Key};
pub use options::{
    Access, Amount, BlockSizes, Direction, Distribution, Engine, Fallocate, Options, PerDirection, SplitPart, SyncMode,
};

use crate::error::LabError;
use lines::{Section, Setting};

/// One job: a section of the file with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The section's name; its files are named after it.
    pub section: String,
    /// What it does.
    pub options: Options,
}

impl Job {
    /// The name in reports: `name=` if given, else the section's.
    pub fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or(&self.section)
    }
}

/// A parsed job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Where it came from, for reports.
    pub origin: String,
    /// Its jobs in their order.
    pub jobs: Vec<Job>,
}

impl JobFile {
    /// Reads and parses the file at `path`.
    ///
    /// # Errors
    /// [`LabError::ReadFile`] if it cannot be read; [`LabError::Job`] with line and key if it is not understood.
    pub fn load(path: &Path) -> Result<JobFile, LabError> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| LabError::ReadFile { path: origin.clone(), message: error.to_string() })?;
        JobFile::parse(&origin, &text)
    }

    /// Parses `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`LabError::Job`] with line and key.
    pub fn parse(origin: &str, text: &str) -> Result<JobFile, LabError> {
        let refuse = |(line, problem)| LabError::Job { file: origin.to_owned(), line, problem };
        let mut global = Options::default();
        let mut jobs = Vec::new();
        for section in lines::sections(text).map_err(refuse)? {
            if section.is_global() {
                apply(&mut global, &section.settings).map_err(refuse)?;
            } else {
                jobs.push(job(&global, section).map_err(refuse)?);
            }
        }
        if jobs.is_empty() {
            return Err(refuse((0, "no jobs defined; add a section `[name]` with `rw=` and `size=`".to_owned())));
        }
        Ok(JobFile { origin: origin.to_owned(), jobs })
    }
}

fn job(global: &Options, section: Section) -> Result<Job, (usize, String)> {
    let mut options = global.clone();
    apply(&mut options, &section.settings)?;
    validate::validate(&options).map_err(|problem| (section.line, format!("job [{}]: {problem}", section.name)))?;
    Ok(Job { section: section.name, options })
}

fn apply(options: &mut Options, settings: &[Setting]) -> Result<(), (usize, String)> {
    for setting in settings {
        keys::apply(options, &setting.key, setting.value.as_deref()).map_err(|problem| (setting.line, problem))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> JobFile {
        JobFile::parse("test.fio", text).unwrap()
    }

    fn refusal(text: &str) -> String {
        JobFile::parse("test.fio", text).unwrap_err().to_string()
    }

    #[test]
    fn global_applies_to_later_sections_only() {
        let file = parse("[global]\nsize=1m\n[a]\n[global]\nbs=8k\n[b]\n");
        assert_eq!(file.jobs[0].options.block_sizes.write, BlockSizes::Fixed(4096));
        assert_eq!(file.jobs[1].options.block_sizes.write, BlockSizes::Fixed(8192));
        assert_eq!(file.jobs[1].options.size, Some(Amount::Bytes(1 << 20)));
    }

    #[test]
    fn a_jobs_own_setting_wins() {
        let file = parse("[global]\nsize=1m\niodepth=4\n[a]\niodepth=8\n");
        assert_eq!(file.jobs[0].options.depth, 8);
    }

    #[test]
    fn an_unknown_key_is_refused_with_file_line_and_name() {
        let text = refusal("[a]\nsize=1m\nzonemode=zbd\n");
        assert!(text.starts_with("test.fio:3: "), "{text}");
        assert!(text.contains("`zonemode`"), "{text}");
    }

    #[test]
    fn an_unsupported_value_is_refused_with_what_is_supported() {
        let text = refusal("[a]\nsize=1m\nioengine=rados\n");
        assert!(text.contains("test.fio:3") && text.contains("`rados`") && text.contains("io_uring"), "{text}");
    }

    #[test]
    fn a_file_without_jobs_is_refused() {
        assert!(refusal("; nothing\n[global]\nbs=4k\n").contains("no jobs defined"));
    }

    #[test]
    fn a_job_without_size_is_refused() {
        assert!(refusal("[a]\nrw=write\n").contains("size="));
    }
}
