//! Writes for which no image has room: each page that may have been written is a step, and no more than these.

use onewrite_block::MIB;
use onewrite_crash::{Ext4Subject, F2fsSubject, Workload, explore};
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::options;

/// More than the image holds, than a file may have, and than a number can say.
const SCRIPTS: [&str; 4] = [
    "create /a; append /a 3000000000000 1; sync",
    "create /a; append /a 17592186044416 1; append /a 5000 2; fsync /a; sync",
    "create /a; append /a 5000 2; write /a 18446744073709551615 5 1; zero /a 18446744073709551000 4096; sync",
    "create /a; append /a 70000000 1; sync | create /b; append /b 70000000 2; sync",
];

#[test]
fn writes_that_run_out_of_room_are_explored_on_ext4() {
    for script in SCRIPTS {
        let workload: Workload = script.parse().expect("workload");
        for mode in [Mode::Ordered, Mode::Data] {
            let report = explore(Ext4Subject::new(mode), &workload, &options(60)).expect("the run");
            assert!(report.is_sound() && report.states > 5, "{mode}: {script}: {:#?}", report.violations);
        }
    }
}

#[test]
fn writes_that_run_out_of_room_are_explored_on_f2fs() {
    for script in SCRIPTS {
        let workload: Workload = script.parse().expect("workload");
        let f2fs = F2fsSubject::new(FsyncMode::Posix);
        let report = explore(f2fs, &workload, &options(60).with_size(64 * MIB)).expect("the run");
        assert!(report.is_sound() && report.states > 5, "{script}: {:#?}", report.violations);
    }
}
