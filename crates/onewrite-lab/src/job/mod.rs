//! Job files: describe what to run, in the language of fio 3.33.
//!
//! Its one idea: a job file that fio accepts has the same meaning here. What this laboratory cannot do is refused, with
//! place and name. Nothing is ignored silently, because a benchmark that drops an option measures something else. Keys
//! without effect here are listed with the reason (`known.rs`).
//!
//! ```text
//!   text ──lines──► sections of settings ──keys──► Options of each job ──validate──► JobFile
//!            ▲ variables, included files                    ▲ --set, --runtime
//! ```
//!
//! # Invariants
//! - `[global]` applies to the jobs after it. A job's own settings come on top, in their order. Settings of the command
//!   line come last.
//! - A [`Job`] is complete: every default is filled in, and it can run.
//! - All faults are reported at once, each with file and line.
//!
//! fio accepts some nonsense (`bs=4q` means 4 bytes to it); this parser refuses it.

mod arithmetic;
mod behaviour;
mod direction;
mod iolog;
mod keys;
pub(crate) mod known;
mod lines;
mod options;
mod parse;
mod size;
mod validate;
mod value;
mod variables;

use std::path::Path;
use std::sync::Arc;

pub use behaviour::{
    Checking, Criterion, ExitScope, FileService, Flow, LatencyAim, Pace, Steadiness, Strided, Think, Tolerance, Work,
};
pub use direction::{Direction, PerDirection};
pub use iolog::{Action as IologAction, Event as IologEvent, Iolog};
pub use keys::{KEYS, Key};
pub use known::{ENGINES_ELSEWHERE, INERT, OF_ENGINES, UNSUPPORTED};
pub use options::{Access, BlockSizes, Distribution, Engine, Fallocate, Options, SyncMode, ZoneShare};
pub use size::{Amount, SplitPart};
pub use variables::Variables;

use crate::error::{LabError, Refusal};
use keys::Fault;
pub use lines::SourceLine;
use lines::{Reader, Section};

/// One job: a section of the file with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the section; names of files begin with it.
    pub section: String,
    /// SourceLine of the section's head.
    pub place: SourceLine,
    /// What it does.
    pub options: Options,
    /// Settings of its section and of the command line, as key and value; keys without a value are left out.
    pub given: Vec<(String, String)>,
}

impl Job {
    /// Name in reports: `name=` if given, else the name of the section.
    pub fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or(&self.section)
    }
}

/// A parsed job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Name of its source, for reports.
    pub origin: String,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
}

/// How to read a job file, and what to change in it.
#[derive(Default)]
pub struct Reading<'a> {
    /// Values of `$…`.
    pub variables: Variables<'a>,
    /// Sections to run; all if empty.
    pub sections: Vec<String>,
    /// Settings `key=value` for every job, applied after its own.
    pub settings: Vec<String>,
}

impl JobFile {
    /// Reads and parses the file at `path`.
    ///
    /// # Errors
    /// [`LabError::ReadFile`] if it cannot be read; [`LabError::Job`] with line and key if it is not understood.
    pub fn load(path: &Path) -> Result<JobFile, LabError> {
        Reading::default().load(path)
    }

    /// Parses `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`LabError::Job`] with line and key.
    pub fn parse(origin: &str, text: &str) -> Result<JobFile, LabError> {
        Reading::default().parse(origin, text)
    }
}

impl Reading<'_> {
    /// Reads and parses the file at `path`.
    ///
    /// # Errors
    /// As [`JobFile::load`].
    pub fn load(&self, path: &Path) -> Result<JobFile, LabError> {
        let origin = path.display().to_string();
        let unreadable = |message: String| LabError::ReadFile { path: origin.clone(), message };
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            unreadable("it is no text, so no job file; a job file has lines such as `rw=randwrite`".into())
        })?;
        self.parse(&origin, &text)
    }

    /// Parses `text`; `origin` names it in errors. Included files lie beside it.
    ///
    /// # Errors
    /// [`LabError::Job`] with all faults.
    pub fn parse(&self, origin: &str, text: &str) -> Result<JobFile, LabError> {
        let mut reader = Reader::new(&self.variables);
        reader.read(Path::new(origin), text);
        let (sections, mut refusals) = (reader.sections, reader.refusals);
        let whole = SourceLine { file: origin.into(), line: 0 };
        self.check_names(&sections, &whole, &mut refusals);
        let mut globals: Vec<Section> = Vec::new();
        let mut jobs = Vec::new();
        for section in sections {
            if section.is_global() {
                check(&section, &mut refusals);
                globals.push(section);
            } else if self.sections.is_empty() || self.sections.contains(&section.name) {
                jobs.push(self.job(&globals, section, &mut refusals));
            }
        }
        if jobs.is_empty() && refusals.is_empty() {
            refusals.push(whole.refuse("no jobs defined; add a section `[name]` with `rw=` and `size=`"));
        }
        // A wrong setting of the command line is wrong for every job, but is reported once.
        let mut told = Vec::new();
        refusals.retain(|refusal| {
            let is_new = !told.contains(refusal);
            told.push(refusal.clone());
            is_new
        });
        match refusals.is_empty() {
            true => Ok(JobFile { origin: origin.to_owned(), jobs }),
            false => Err(LabError::Job { refusals }),
        }
    }

    fn check_names(&self, sections: &[Section], whole: &SourceLine, refusals: &mut Vec<Refusal>) {
        for name in &self.sections {
            if !sections.iter().any(|section| !section.is_global() && section.name == *name) {
                let names: Vec<&str> = sections
                    .iter()
                    .filter(|section| !section.is_global())
                    .map(|section| section.name.as_str())
                    .collect();
                refusals.push(whole.refuse(format!("it has no section [{name}]; it has {}", names.join(", "))));
            }
        }
    }

    /// Makes a job from the defaults before it, its own settings and those of the command line.
    fn job(&self, globals: &[Section], section: Section, refusals: &mut Vec<Refusal>) -> Job {
        let before = refusals.len();
        let mut options = Options::default();
        for global in globals {
            // Its faults were reported when it was read.
            apply(&mut options, global, &mut Vec::new());
        }
        apply(&mut options, &section, refusals);
        let changed = self.command_line(&section);
        let plain = options.clone();
        apply(&mut options, &changed, refusals);
        if refusals.len() == before {
            let refuse = |problem: String| {
                let place = blamed(&plain, &changed).unwrap_or(&section.place);
                place.refuse(format!("job [{}]: {problem}", section.name))
            };
            let checked = load_iologs(&mut options).and_then(|()| validate::validate(&options));
            refusals.extend(checked.err().map(refuse));
        }
        let settings = section.settings.into_iter().chain(changed.settings);
        let given = settings.filter_map(|setting| Some((setting.key, setting.value?))).collect();
        Job { section: section.name, place: section.place, options, given }
    }

    fn command_line(&self, section: &Section) -> Section {
        let mut reader = Reader::new(&self.variables);
        let (place, name) = (section.place.clone(), section.name.clone());
        reader.sections.push(Section { place, name, settings: Vec::new() });
        for setting in &self.settings {
            reader.read_argument(&format!("--set {setting}"), setting);
        }
        reader.sections.swap_remove(0)
    }
}

/// The setting of the command line that makes the job impossible; `plain` are the options without `changed`, the
/// settings of the command line. None if the job was impossible without them.
fn blamed<'c>(plain: &Options, changed: &'c Section) -> Option<&'c SourceLine> {
    let is_refused = |count: &usize| {
        let mut options = plain.clone();
        for setting in &changed.settings[..*count] {
            let _ = keys::apply(&mut options, &setting.key, setting.value.as_deref());
        }
        load_iologs(&mut options).and_then(|()| validate::validate(&options)).is_err()
    };
    let first = (0..=changed.settings.len()).rev().take_while(is_refused).last()?;
    first.checked_sub(1).map(|index| &changed.settings[index].place)
}

/// Reports the faults in the defaults of `section`, even if no job follows.
fn check(section: &Section, refusals: &mut Vec<Refusal>) {
    apply(&mut Options::default(), section, refusals);
}

/// Applies the settings of a section. If its engine is refused, faults in keys of engines are not reported.
fn apply(options: &mut Options, section: &Section, refusals: &mut Vec<Refusal>) {
    let faults: Vec<(&lines::Setting, Fault)> = section
        .settings
        .iter()
        .filter_map(|setting| Some((setting, keys::apply(options, &setting.key, setting.value.as_deref()).err()?)))
        .collect();
    let engine_refused = faults.iter().any(|(setting, _)| setting.key == "ioengine");
    for (setting, fault) in faults {
        let problem = match fault {
            Fault::OfEngine(_) if engine_refused => continue,
            Fault::OfEngine(problem) | Fault::Other(problem) => problem,
        };
        let unset = setting.unset.as_ref().map(|name| format!("; ${{{name}}} is not set: {name}=… onewrite …"));
        refusals.push(setting.place.refuse(problem + &unset.unwrap_or_default()));
    }
}

/// Reads the iologs that a job replays.
fn load_iologs(options: &mut Options) -> Result<(), String> {
    let mut logs = Vec::new();
    for path in &options.iolog_paths {
        let text = std::fs::read_to_string(path).map_err(|error| format!("read_iolog: cannot read {path}: {error}"))?;
        logs.push(Iolog::parse(&text).map_err(|(line, problem)| format!("read_iolog: {path}:{line}: {problem}"))?);
    }
    options.iologs = Arc::new(logs);
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
    fn all_that_is_wrong_is_told_at_once() {
        let text = refusal("[global]\nbs=4q\n[a]\nsize=1m\niodept=4\nopendir=d\nzonemode=zbd\nfoo=1\n");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("test.fio:2: `bs`"), "{text}");
        assert!(
            lines[1].starts_with("test.fio:5: key `iodept`") && lines[1].ends_with("did you mean `iodepth`?"),
            "{text}"
        );
        assert!(lines[2].contains("fio knows it, Onewrite does not"), "{text}");
        assert!(lines[3].starts_with("test.fio:7: `zonemode`") && lines[3].contains("strided"), "{text}");
        assert!(lines[4].contains("unknown to fio"), "{text}");
    }

    #[test]
    fn an_unsupported_value_is_refused_with_what_is_supported() {
        let text = refusal("[a]\nsize=1m\nioengine=rados\npool=x\n");
        assert!(text.contains("test.fio:3") && text.contains("`rados`") && text.contains("io_uring"), "{text}");
        assert_eq!(text.lines().count(), 1, "the engine's own keys go with it: {text}");
    }

    #[test]
    fn a_file_without_jobs_is_refused() {
        assert!(refusal("; nothing\n[global]\nbs=4k\n").contains("no jobs defined"));
    }

    #[test]
    fn a_key_is_in_one_list_only() {
        let inert = INERT.iter().flat_map(|(_, keys)| keys.iter().copied());
        let engines = OF_ENGINES.iter().flat_map(|(_, keys)| keys.iter().copied());
        let table = KEYS.iter().flat_map(|key| std::iter::once(key.name).chain(key.alias));
        let mut all: Vec<&str> = inert.chain(engines).chain(table).chain(UNSUPPORTED.iter().copied()).collect();
        all.sort_unstable();
        let twice = all.windows(2).find(|two| two[0] == two[1]);
        assert_eq!(twice, None);
    }

    #[test]
    fn the_command_line_has_the_last_word_and_picks_sections() {
        let reading = Reading {
            sections: vec!["b".to_owned()],
            settings: vec!["bs=8k".to_owned(), "runtime=3".to_owned()],
            ..Reading::default()
        };
        let file = reading.parse("t", "[a]\nsize=1m\n[b]\nsize=1m\nbs=4k\n").unwrap();
        assert_eq!((file.jobs.len(), file.jobs[0].section.as_str()), (1, "b"));
        assert_eq!(file.jobs[0].options.block_sizes.read, BlockSizes::Fixed(8192));
        let reading =
            Reading { sections: vec!["c".to_owned()], settings: vec!["bz=8k".to_owned()], ..Reading::default() };
        let text = reading.parse("t", "[a]\nsize=1m\n[b]\nsize=1m\n").unwrap_err().to_string();
        assert!(text.contains("no section [c]; it has a, b"), "{text}");
        let reading = Reading { settings: vec!["bz=8k".to_owned()], ..Reading::default() };
        let text = reading.parse("t", "[a]\nsize=1m\n[b]\nsize=1m\n").unwrap_err().to_string();
        assert_eq!(text, "--set bz=8k: key `bz` is unknown to fio and to Onewrite; did you mean `bs`?");
    }

    #[test]
    fn what_the_command_line_made_impossible_is_blamed_on_it() {
        let told = |settings: &[&str]| {
            let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
            let text = "; head\n[a]\nsize=1m\n";
            Reading { settings, ..Reading::default() }.parse("t.fio", text).unwrap_err().to_string()
        };
        let text = told(&["iodepth=4", "bs=32m", "direct=1"]);
        assert!(text.starts_with("--set bs=32m: job [a]: size=1048576 is smaller"), "{text}");
        let text = refusal("; head\n[a]\nsize=1m\nbs=32m\n");
        assert!(text.starts_with("test.fio:2: job [a]: size=1048576"), "{text}");
        let reading = Reading { sections: vec!["x".to_owned()], ..Reading::default() };
        let text = reading.parse("t.fio", "[a]\nsize=1m\n").unwrap_err().to_string();
        assert_eq!(text, "t.fio: it has no section [x]; it has a");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named_where_its_value_is_refused() {
        let text = refusal("[a]\nsize=${SIZE}\n");
        assert!(text.contains("${SIZE} is not set"), "{text}");
    }

    #[test]
    fn included_lines_stand_where_they_are_included() {
        let directory = std::env::temp_dir().join(format!("onewrite-include-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("a.fio", "[a]\ninclude b.inc\nsize=1m\n");
        write("b.inc", "bs=16k\n");
        write("loop.fio", "[a]\ninclude loop.fio\nsize=1m\n");
        write("wrong.fio", "[a]\nsize=1m\ninclude wrong.inc\n");
        write("wrong.inc", "\niodept=3\n");
        let load = |name: &str| JobFile::load(&directory.join(name));
        assert_eq!(load("a.fio").unwrap().jobs[0].options.block_sizes.write, BlockSizes::Fixed(16384));
        let told = load("loop.fio").unwrap_err().to_string();
        assert!(told.contains("loop.fio:2: ") && told.contains("includes itself"), "{told}");
        let told = load("wrong.fio").unwrap_err().to_string();
        assert!(told.contains("wrong.inc:2: ") && told.contains("did you mean `iodepth`"), "{told}");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
