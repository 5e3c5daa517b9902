//! The personalities of filebench 1.5: `varmail`, `fileserver`, `webserver` and `webproxy`.
//!
//! Flows and parameters are those of filebench's published `.f` files. Files are picked in rotation, and made, opened
//! and deleted by the rules of its `fileset.c`. Sizes are drawn as in its `cvar-gamma`. The user can set the number and
//! mean size of files, the threads, how well content compresses, and the time or number of operations.

mod fileset;
mod flow;
mod parameters;

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Choices, KIB, MIB, Nanos};

use crate::error::LabError;
use crate::workload::{FileId, FilePlan, Gamma, JobPlan, Layout, Task, Workload};
use fileset::FileSet;
use flow::{Flow, FlowStream, Pace};
pub use parameters::{Length, Parameters};

/// The four personalities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personality {
    /// A mail server: each message is a file of its own, and synced.
    Varmail,
    /// A file server: writes, reads, appends to and deletes whole files.
    Fileserver,
    /// A web server: reads whole files and appends to one log.
    Webserver,
    /// A web proxy: replaces files, then reads five.
    Webproxy,
}

impl Personality {
    /// All personalities.
    pub const ALL: [Personality; 4] =
        [Personality::Varmail, Personality::Fileserver, Personality::Webserver, Personality::Webproxy];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Personality::Varmail => "varmail",
            Personality::Fileserver => "fileserver",
            Personality::Webserver => "webserver",
            Personality::Webproxy => "webproxy",
        }
    }

    /// The personality of this name.
    pub fn from_name(name: &str) -> Option<Personality> {
        Personality::ALL.into_iter().find(|personality| personality.name() == name)
    }

    /// The published parameters, for a run of 60 seconds.
    pub const fn parameters(self) -> Parameters {
        let (files, file_size, threads) = match self {
            Personality::Varmail => (1000, 16 * KIB, 16),
            Personality::Fileserver => (10_000, 128 * KIB, 50),
            Personality::Webserver => (1000, 16 * KIB, 100),
            Personality::Webproxy => (10_000, 16 * KIB, 100),
        };
        let length = Length::Time(Nanos::from_secs(60));
        Parameters { files, file_size, threads, append_size: 16 * KIB, compressible_percent: 0, length }
    }

    const fn flows(self) -> &'static [Flow] {
        match self {
            Personality::Varmail => flow::VARMAIL,
            Personality::Fileserver => flow::FILESERVER,
            Personality::Webserver => flow::WEBSERVER,
            Personality::Webproxy => flow::WEBPROXY,
        }
    }

    /// Files in one directory, on average.
    const fn directory_width(self) -> u32 {
        match self {
            Personality::Varmail | Personality::Webproxy => 1_000_000,
            Personality::Fileserver | Personality::Webserver => 20,
        }
    }

    /// Percent of the files that exist at the beginning.
    const fn preallocated_percent(self) -> u64 {
        if matches!(self, Personality::Webserver) { 100 } else { 80 }
    }

    /// Shape of the distribution of file sizes; `None` if all have the same size.
    const fn size_shape(self) -> Option<f64> {
        if matches!(self, Personality::Webproxy) { None } else { Some(1.5) }
    }
}

/// Turns a personality into a workload; all chance comes from `choices`.
///
/// # Errors
/// [`LabError::Option`] if a parameter is zero or there are too few files for the threads.
pub fn plan(personality: Personality, parameters: Parameters, choices: &Choices) -> Result<Workload, LabError> {
    check(personality, parameters)?;
    let mut chance = choices.stream("file set", 0);
    let (directories, mut paths) =
        fileset::tree("bigfileset", parameters.files, personality.directory_width(), &mut chance);
    let sizes: Vec<u64> = (0..parameters.files).map(|_| size(personality, parameters, &mut chance)).collect();
    let mut order: Vec<u32> = (0..parameters.files).collect();
    chance.shuffle(&mut order);
    let exists: Vec<bool> = order.iter().map(|_| chance.chance(personality.preallocated_percent(), 100)).collect();

    let mut set = FileSet::new(&order, &sizes, &exists);
    let mut files: Vec<FilePlan> = order
        .iter()
        .zip(&exists)
        .map(|(&entry, &exists)| {
            let size = if exists { Some(sizes[entry as usize]) } else { None };
            file(std::mem::take(&mut paths[entry as usize]), size, parameters, &mut chance)
        })
        .collect();
    let mut all_directories = directories;
    if personality == Personality::Webserver {
        set.log = Some(FileId(files.len() as u32));
        all_directories.push("logfiles".to_owned());
        let size = size(personality, parameters, &mut chance);
        files.push(file("logfiles/00000001".to_owned(), Some(size), parameters, &mut chance));
    }
    Ok(Workload {
        name: personality.name().to_owned(),
        directories: all_directories,
        files,
        jobs: vec![JobPlan {
            name: personality.name().to_owned(),
            group: 0,
            operations_count: true,
            options: Vec::new(),
        }],
        groups: vec![tasks(personality, parameters, set, choices)],
    })
}

fn check(personality: Personality, parameters: Parameters) -> Result<(), LabError> {
    let refuse = |problem: &str| Err(LabError::Option(format!("{}: {problem}", personality.name())));
    if parameters.files == 0 || parameters.threads == 0 || parameters.file_size == 0 || parameters.append_size < 2 {
        return refuse("files, threads and file size are at least 1, the append size at least 2");
    }
    if parameters.compressible_percent > 100 {
        return refuse("the compressible share is a percentage, 0 to 100");
    }
    Ok(())
}

fn size(personality: Personality, parameters: Parameters, choices: &mut Choices) -> u64 {
    match personality.size_shape() {
        Some(shape) => Gamma::new(parameters.file_size as f64, shape).draw(choices),
        None => parameters.file_size,
    }
}

fn file(path: String, size: Option<u64>, parameters: Parameters, choices: &mut Choices) -> FilePlan {
    let layout = size.map_or(Layout::None, |size| Layout::Filled {
        size,
        fallocate: crate::job::Fallocate::None,
        chunk: MIB,
        seed: choices.bits(),
        compressible_percent: parameters.compressible_percent,
        synced: false,
    });
    FilePlan { path, layout, verified: false, bytes: size.unwrap_or(parameters.file_size) }
}

fn tasks(personality: Personality, parameters: Parameters, set: FileSet, choices: &Choices) -> Vec<Task> {
    let set = Rc::new(RefCell::new(set));
    let pace = Rc::new(Pace::new(parameters.length));
    (0..parameters.threads)
        .map(|thread| {
            let choices = choices.stream("filebench thread", u64::from(thread));
            let flows = personality.flows();
            let stream =
                FlowStream::new(personality.name(), flows, parameters, Rc::clone(&set), Rc::clone(&pace), choices);
            Task {
                job: 0,
                stream: Box::new(stream),
                concurrency: 1,
                start_delay: Nanos::ZERO,
                ramp_time: Nanos::ZERO,
                read_before: Vec::new(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varmail_has_its_published_size() {
        let workload = plan(Personality::Varmail, Personality::Varmail.parameters(), &Choices::new(1)).unwrap();
        let sizes: Vec<u64> = workload.files.iter().filter_map(|file| filled(file.layout)).collect();
        assert_eq!((workload.files.len(), workload.groups[0].len()), (1000, 16));
        assert!((760..840).contains(&sizes.len()), "{} of 1000 exist", sizes.len());
        let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
        assert!((15_000..18_000).contains(&mean), "{mean}");
    }

    fn filled(layout: Layout) -> Option<u64> {
        let Layout::Filled { size, .. } = layout else { return None };
        Some(size)
    }

    #[test]
    fn a_narrow_tree_has_many_directories() {
        let parameters = Parameters { files: 500, ..Personality::Fileserver.parameters() };
        let workload = plan(Personality::Fileserver, parameters, &Choices::new(1)).unwrap();
        assert!(workload.directories.len() > 20, "{}", workload.directories.len());
        let has_directory =
            |file: &FilePlan| workload.directories.iter().any(|name| file.path.starts_with(&(name.clone() + "/")));
        assert!(workload.files.iter().all(has_directory));
    }

    #[test]
    fn one_seed_gives_one_plan() {
        let plan = |seed| {
            plan(Personality::Webserver, Personality::Webserver.parameters(), &Choices::new(seed)).unwrap().files
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }
}
