//! Helpers for tests: a file system in memory, and runs on it.

use std::rc::Rc;

use onewrite_block::{Choices, Executor};
use onewrite_lab::LabError;
use onewrite_lab::driver::{self, Files, JobMeasure};
use onewrite_lab::job::JobFile;
use onewrite_lab::workload::fio::{self, Target};
use onewrite_lab::workload::{Workload, filebench};

use crate::memory::MemoryFs;

type Outcome = (Result<Vec<JobMeasure>, LabError>, Rc<MemoryFs>);

/// Runs `workload` on a new file system in memory, after `prepare` has changed it.
pub fn run_on(workload: Workload, options: driver::RunOptions, prepare: impl FnOnce(&MemoryFs)) -> Outcome {
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let fs = Rc::new(MemoryFs::new(&runtime));
    prepare(&fs);
    let target = Rc::new(Files::new(Rc::clone(&fs)));
    let measures = executor.block_on(async move { driver::run(&runtime, target, workload, options).await });
    (measures.unwrap(), fs)
}

/// Runs `workload` on a new file system in memory.
pub fn run(workload: Workload) -> Outcome {
    run_on(workload, driver::RunOptions::default(), |_| ())
}

/// Runs the job file `text`.
pub fn run_job(text: &str) -> Outcome {
    run(planned(text))
}

/// The workload of the job file `text`.
pub fn planned(text: &str) -> Workload {
    let file = JobFile::parse("test.fio", text).unwrap();
    fio::plan(&file, Target::Files, &Choices::new(1)).unwrap()
}

/// Runs a personality for `operations` operations with `files` files.
pub fn run_personality(personality: filebench::Personality, files: u32, operations: u64, seed: u64) -> Vec<JobMeasure> {
    let length = filebench::Length::Operations(operations);
    let parameters = filebench::Parameters { files, length, ..personality.parameters() };
    run(filebench::plan(personality, parameters, &Choices::new(seed)).unwrap()).0.unwrap()
}
