//! Sys: kernel calls that no library offers. With `ring`, the only place of this crate with `unsafe`.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::ioctl::{Getter, Opcode, ioctl};

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopStatus {
    device: u64,
    inode: u64,
    rest: [u64; 27],
}

/// LOOP_GET_STATUS64 of linux/loop.h.
const LOOP_GET_STATUS64: Opcode = 0x4c05;

/// Device and inode of the file behind a loop device, as the kernel reports them; `None` if it does not.
pub(super) fn file_behind(device: &Path) -> Option<(u64, u64)> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(device).ok()?;
    // SAFETY: the request writes one `struct loop_info64`, of 232 bytes like `LoopStatus`, and keeps no pointer.
    #[expect(unsafe_code, reason = "only the kernel knows which file it is, and no library asks it")]
    let status = unsafe { ioctl(&file, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) }.ok()?;
    Some((status.device, status.inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_the_kernel_has_its_size() {
        assert_eq!(size_of::<LoopStatus>(), 232);
    }
}
