//! Help for tests: a file system in memory, and runs on it.

use std::rc::Rc;

use onewrite_block::{Choices, Executor};
use onewrite_lab::LabError;
use onewrite_lab::driver::{self, Files, JobMeasure};
use onewrite_lab::job::JobFile;
use onewrite_lab::workload::fio::{self, Target};
use onewrite_lab::workload::{Workload, filebench};

use crate::memory::MemoryFs;

/// Runs `workload` on a fresh file system in memory.
pub fn run(workload: Workload) -> (Result<Vec<JobMeasure>, LabError>, Rc<MemoryFs>) {
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let fs = Rc::new(MemoryFs::new(&runtime));
    let target = Rc::new(Files::new(Rc::clone(&fs)));
    let measures =
        executor.block_on(async move { driver::run(&runtime, target, workload, driver::RunOptions::default()).await });
    (measures.unwrap(), fs)
}

/// Runs the job file `text`.
pub fn run_job(text: &str) -> (Result<Vec<JobMeasure>, LabError>, Rc<MemoryFs>) {
    let file = JobFile::parse("test.fio", text).unwrap();
    run(fio::plan(&file, Target::Files, &Choices::new(1)).unwrap())
}

/// Runs a personality for `operations` operations with `files` files.
pub fn run_personality(personality: filebench::Personality, files: u32, operations: u64, seed: u64) -> Vec<JobMeasure> {
    let length = filebench::Length::Operations(operations);
    let parameters = filebench::Parameters { files, length, ..personality.parameters() };
    run(filebench::plan(personality, parameters, &Choices::new(seed)).unwrap()).0.unwrap()
}
