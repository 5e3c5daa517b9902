//! Sparse files up to the limit: the model keeps what a file holds, not its pages.

use onewrite_block::MIB;
use onewrite_crash::{Ext4Subject, F2fsSubject, Workload, explore};
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::options;

/// The largest file of ext4 with blocks of 4 KiB has 4,096 bytes less than 16 TiB; F2FS refuses so large a one.
const SCRIPTS: [&str; 7] = [
    "create /a; write /a 0 9000 1; punch /a 4096 17592186036224; sync",
    "create /a; truncate /a 17592186040320; write /a 4096 5000 3; fsync /a; punch /a 4096 17592186036224; sync",
    "create /a; write /a 1000000000000 9000 1; fsync /a; truncate /a 4096; truncate /a 2000000000000; sync",
    "create /a; write /a 1000000000000 9000 1; sync >> punch /a 0 2000000000000; read /a; zero /a 4096 4096; fsync /a",
    "create /a; truncate /a 4000000000000; write /a 3999999995904 4096 3; read /a; fsync /a; insert /a 0 4096; \
     fsync /a; collapse /a 4096 8192; sync",
    "create /a; write /a 0 9000 1; write /a 5000000000 9000 2; write /a 3000000000000 5000 3; sync >> \
     insert /a 4096 8192; read /a; fsync /a; collapse /a 0 4096; read /a; collapse /a 1048576 8192; read /a; sync",
    "create /a; sync >> write /a 5000000000 9000 2; insert /a 0 8192; read /a; collapse /a 4096 4096; read /a; sync",
];

#[test]
fn sparse_files_up_to_the_limit_are_explored_on_ext4() {
    for script in SCRIPTS {
        let workload: Workload = script.parse().expect("workload");
        for mode in [Mode::Writeback, Mode::Ordered, Mode::Data] {
            let report = explore(Ext4Subject::new(mode), &workload, &options(500)).expect("the run");
            assert!(report.is_sound() && report.states > 5, "{mode}: {script}: {:#?}", report.violations);
        }
    }
}

#[test]
fn sparse_files_up_to_the_limit_are_explored_on_f2fs() {
    for script in SCRIPTS {
        let workload: Workload = script.parse().expect("workload");
        let f2fs = F2fsSubject::new(FsyncMode::Posix);
        let report = explore(f2fs, &workload, &options(500).with_size(64 * MIB)).expect("the run");
        assert!(report.is_sound() && report.states > 5, "{script}: {:#?}", report.violations);
    }
}
