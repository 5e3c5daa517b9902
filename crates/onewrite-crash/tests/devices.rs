//! Cuts inside emulated SSDs, through `PowerCut` alone.

use onewrite_block::{PAGE_SIZE, PowerCut};
use onewrite_crash::{DeviceCuts, ExploreOptions, Explorer, Report, Sound, Workload};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

const WORKLOAD: &str = "mkdir /d; create /a; write /a 0 60000 1; fsync /a; append /a 5000 2; rename /a /d/a; fsync /d/a; \
                        truncate /d/a 3000; write /d/a 8192 30000 3; sync; unlink /d/a; sync \
                        | create /p; write /p 0 70000 4; fsync /p; unlink /p; create /q; append /q 90000 6; fsync /q";

fn device(profile: &str, pages: u64) -> Box<dyn PowerCut> {
    Profile::load(profile).expect("profile").device(Some(pages * PAGE_SIZE as u64)).expect("device")
}

fn explored(profile: &'static str, mode: Mode, cuts: &DeviceCuts) -> Report {
    let options = ExploreOptions::new(mode).on(device(profile, 8192).geometry());
    let workload: Workload = WORKLOAD.parse().expect("workload");
    let mut explorer = Explorer::new(Sound, &options);
    explorer.explore_device(&|pages| device(profile, pages), &workload, cuts).expect("the run");
    explorer.into_report()
}

#[test]
fn cuts_inside_an_ssd_break_no_promise() {
    for profile in ["sata-850pro", "nvme-share"] {
        for mode in [Mode::Ordered, Mode::Data, Mode::DataAsync] {
            let report = explored(profile, mode, &DeviceCuts { points: 60, chances: 2, only: None });
            println!("{profile} {mode}: {report:?}");
            assert!(report.is_sound(), "{profile} {mode}: {:#?}", report.violations);
            assert!(report.judged >= 100 && report.states_by_kind.inside_device > 20, "{profile} {mode}: {report:?}");
        }
    }
}
