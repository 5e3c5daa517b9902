//! Bytes that another implementation left behind the end of a file never become readable, by whatever the file grows.

use onewrite_block::MIB;
use onewrite_fs::ext4::{Mode, MountOptions};

use crate::support::grown::{ALL, Growth, grow, leave_bytes, make, shown};
use crate::support::volume;

fn assert_hidden_by_ext4(growth: Growth, mode: Mode) {
    let options = || MountOptions::new(mode);
    let disk = Box::new(volume::new_disk(64 * MIB, 1024));
    let (made, disk) = volume::with_mount(disk, options(), |fs, _| async move { make(&*fs).await });
    made.expect("make");
    let disk = leave_bytes(disk);
    let (grown, disk) = volume::with_mount(disk, options(), move |fs, _| async move { grow(&*fs, growth).await });
    grown.unwrap_or_else(|error| panic!("{growth:?} {mode}: {error}"));
    let (left, _) = volume::with_mount(disk, options(), move |fs, _| async move { shown(&*fs, growth).await });
    assert!(left.expect("read").is_empty(), "{growth:?} in {mode} shows what lay behind the end");
}

#[test]
fn ext4_hides_them_in_each_scope() {
    for mode in [Mode::Ordered, Mode::Writeback, Mode::Data] {
        ALL.iter().for_each(|growth| assert_hidden_by_ext4(*growth, mode));
    }
}
