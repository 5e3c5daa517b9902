//! Parity: pages and FLUSHes of the same job on Linux's F2FS and on ours, counted by one recording disk from mount to
//! unmount.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onewrite_block::Choices;

use crate::disk::{Cost, Disk, PAGE};
use crate::machine::Kernel;
use crate::place::Place;

/// Pages of the file.
const FILE_PAGES: u64 = 4096;
/// Overwrites of a job.
const OVERWRITES: u64 = 1024;

/// Overwrites `count` pages of `ROOT/file` at random, with an fsync behind every `every` of them.
pub fn overwrite(root: &Path, every: u64, count: u64) {
    let file = OpenOptions::new().read(true).write(true).open(root.join("file")).unwrap();
    let mut chance = Choices::new(1).stream("overwrite", every);
    for number in 1..=count {
        file.write_all_at(&[number as u8; PAGE], chance.below(FILE_PAGES) * PAGE as u64).unwrap();
        if number % every == 0 {
            file.sync_all().unwrap();
        }
    }
}

fn on_linux(kernel: &Kernel, place: &Place, every: u64) -> Option<Cost> {
    let disk = Disk::new(&place.path("new"), &place.path(""))?;
    let script = format!("mount -t f2fs /dev/vda /m; guest overwrite /m {every} {OVERWRITES}; umount /m");
    kernel.run(&place.path(""), &[disk.path()], &script);
    Some(disk.finish().cost())
}

/// In-place updates as Linux has them by default, for fsyncs of up to eight pages.
const LIKE_LINUX: &str = "ipu=9";

fn on_ours(place: &Place, every: u64, options: &str) -> Option<Cost> {
    let disk = Disk::new(&place.path("new"), &place.path(""))?;
    let mount = place.mount(&disk.path(), options);
    overwrite(&mount.root(), every, OVERWRITES);
    mount.unmount();
    Some(disk.finish().cost())
}

/// Prints the table of docs/vm.md.
#[test]
fn pages_and_flushes_beside_linux() {
    let Some(kernel) = Kernel::get() else { return };
    let place = Place::new();
    std::fs::create_dir(place.path("from")).unwrap();
    std::fs::write(place.path("from/file"), vec![1; FILE_PAGES as usize * PAGE]).unwrap();
    place.onewrite("mkfs new --fs f2fs --size 256MiB --from from");
    for every in [1, 8, 128] {
        let Some(linux) = on_linux(kernel, &place, every) else { return };
        for options in ["", LIKE_LINUX] {
            let Some(ours) = on_ours(&place, every, options) else { return };
            let bytes = ours.pages as f64 / linux.pages as f64;
            let flushes = ours.flushes as f64 / linux.flushes as f64;
            eprintln!(
                "| {every} | {options} | {} | {} | {bytes:.2} | {} | {} | {flushes:.2} |",
                linux.pages, ours.pages, linux.flushes, ours.flushes
            );
            assert!(ours.pages >= OVERWRITES && linux.pages >= OVERWRITES, "{linux:?}, {ours:?}");
            if options == LIKE_LINUX {
                assert!(bytes <= 1.1 && flushes <= 1.4, "pages {bytes:.2} and FLUSHes {flushes:.2} of Linux's");
            }
        }
    }
}
