//! Bytes that another implementation left behind the end of a file never become readable, by whatever the file grows.

use std::rc::Rc;

use onewrite_block::MIB;
use onewrite_fs::f2fs::{F2fs, F2fsOptions};

use crate::support::f2fs_volume::{Left, new_disk, with_mount};
use crate::support::grown::{ALL, grow, leave_bytes, make, shown};

#[test]
fn f2fs_hides_them() {
    for growth in ALL {
        let (options, left) = (F2fsOptions::default, Left::Unmounted);
        let disk = Box::new(new_disk(64 * MIB));
        let ((), disk) = with_mount(disk, options(), left, |fs, _| async move { make(&*fs).await });
        let work = move |fs: Rc<F2fs>, _| async move { grow(&*fs, growth).await };
        let ((), disk) = with_mount(leave_bytes(disk), options(), left, work);
        let look = move |fs: Rc<F2fs>, _| async move { shown(&*fs, growth).await };
        let (shown, _) = with_mount(disk, options(), left, look);
        assert!(shown.is_empty(), "{growth:?} shows what lay behind the end");
    }
}
