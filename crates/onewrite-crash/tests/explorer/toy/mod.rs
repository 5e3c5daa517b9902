//! A second subject, to prove the trait: a file system that is a log of whole snapshots.
//!
//! ```text
//!   page 0 … 511:    snapshot with an even number        page: its content; the first begins with a head
//!   page 512 … 1023: snapshot with an odd number         head: magic | number | bytes | CRC32C over number and bytes
//! ```
//!
//! A sync writes everything into the older half, then sends FLUSH. A mount takes the newest valid snapshot. So the
//! state of the last sync survives, or that of the sync under way: the whole tree after a prefix of the steps.

mod toy_fs;

use std::rc::Rc;

use onewrite_block::{Choices, DevicePort, Image, Lpn, Page};
use onewrite_crash::{
    CrashError, CrashPlan, ExploreOptions, Flag, Keeps, Mounting, Promise, Promises, Replayed, Report, Steps, Subject,
    WorkloadSpec, crash,
};
use onewrite_fs::FsResult;
use toy_fs::{Toy, snapshot};

/// The toy, or a variant that forgets to flush.
#[derive(Clone, Copy)]
struct ToySubject {
    flushes: bool,
}

impl Subject for ToySubject {
    type Fs = Toy;
    type View = Toy;
    type Memory = ();

    fn format(&self, image: &mut Image, _: &Choices) -> Result<(), CrashError> {
        (0..image.pages()).for_each(|lpn| image.set(Lpn(lpn), Page::ZEROS));
        (0..).zip(snapshot(0, b"")).for_each(|(lpn, page)| image.set(Lpn(lpn), page));
        Ok(())
    }

    fn directories(&self) -> &'static [&'static str] {
        &[]
    }

    async fn mount(&self, port: DevicePort, _: Mounting) -> FsResult<Toy> {
        Toy::mount(port, self.flushes).await
    }

    async fn recover(&self, _: &DevicePort, _: &Rc<()>) -> FsResult<Option<Replayed>> {
        Ok(None)
    }

    fn findings(&self, _: &Image, _: &mut dyn FnMut(Lpn)) -> Vec<String> {
        Vec::new()
    }

    fn stranger_finding(&self, _: &Image) -> Result<Option<String>, CrashError> {
        Ok(None)
    }

    async fn view(&self, _: &DevicePort) -> FsResult<Option<Toy>> {
        Ok(None)
    }

    fn left_to_do(&self, _: &Image) -> Option<String> {
        None
    }

    fn check(&self, fs: &Toy) -> Result<(), String> {
        fs.check()
    }

    fn promises(&self) -> Promises {
        Promises { keeps: Keeps::Version, delays: false, overwrites: false, pads: false }
    }

    fn steps(&self) -> Steps {
        Steps { write_end: |_, end| end }
    }

    fn syncs_of_a_log(&self) -> u64 {
        0
    }

    fn flags(&self) -> Vec<Flag> {
        Vec::new()
    }
}

const WORKLOAD: &str = "script:create /a; write /a 0 9000 1; fsync /a; mkdir /d; rename /a /d/b; append /d/b 70000 2; \
                        sync; \
                        create /c; write /c 100 5000 3; fsync /c; unlink /d/b; rmdir /d; rename /c /e; sync \
                        | create /p; append /p 6000 4; fdatasync /p; truncate /p 10; append /p 5000 5; sync; unlink /p";

fn explored(subject: ToySubject, jobs: usize) -> Report {
    let options = ExploreOptions { samples: 12, ..ExploreOptions::default() };
    let spec: WorkloadSpec = WORKLOAD.parse().expect("workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan { jobs, ..CrashPlan::new(&options) }, |_| ()).expect("the run")
}

#[test]
fn another_file_system_is_explored_through_the_trait_alone() {
    let report = explored(ToySubject { flushes: true }, 1);
    assert!(report.is_sound() && report.states > 50, "{report:#?}");
}

#[test]
fn one_that_forgets_to_flush_is_caught() {
    let report = explored(ToySubject { flushes: false }, 2);
    let promise = report.violations.first().map(|violation| violation.promise);
    assert_eq!(promise, Some(Promise::Durability), "{report:#?}");
}
