//! Types that C programs see. Their widths do not depend on the C library.

use std::ffi::c_char;

use onewrite_fs::Timestamp;
use onewrite_host::Metadata;

/// Longest name in a directory, in bytes.
pub const OW_NAME_MAX: usize = 255;

/// A point in time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ow_time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// 0 to 999999999.
    pub nanoseconds: u32,
}

/// What is known of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ow_stat {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Type and permissions, as st_mode of stat(2): S_ISDIR(mode) and the like work.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device node: number of the driver.
    pub device_major: u32,
    /// Of a device node: number of the device among those of the driver.
    pub device_minor: u32,
    /// Last read.
    pub atime: ow_time,
    /// Last change of content.
    pub mtime: ow_time,
    /// Last change of anything.
    pub ctime: ow_time,
    /// Creation; zeros where the image does not keep it.
    pub btime: ow_time,
}

/// A name in a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ow_dirent {
    /// Inode number.
    pub ino: u64,
    /// Type, as d_type of readdir(3): DT_REG, DT_DIR, DT_LNK, ...
    pub kind: u8,
    /// The name, with a zero byte at its end. Any other bytes are possible in it but a slash.
    pub name: [c_char; 256],
}

impl Default for ow_dirent {
    fn default() -> ow_dirent {
        ow_dirent { ino: 0, kind: 0, name: [0; OW_NAME_MAX + 1] }
    }
}

impl From<Metadata> for ow_stat {
    fn from(metadata: Metadata) -> ow_stat {
        ow_stat {
            ino: metadata.ino.0,
            size: metadata.size,
            blocks: metadata.sectors,
            mode: metadata.kind.type_bits() | u32::from(metadata.permissions),
            nlink: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            device_major: metadata.device.major,
            device_minor: metadata.device.minor,
            atime: metadata.accessed.into(),
            mtime: metadata.modified.into(),
            ctime: metadata.changed.into(),
            btime: metadata.created.unwrap_or_default().into(),
        }
    }
}

impl From<Timestamp> for ow_time {
    fn from(time: Timestamp) -> ow_time {
        ow_time { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}
