//! Features: the bits of the superblock, their names, and which of them Onewrite supports.
//!
//! Names are those that `mkfs.f2fs -O` and `fsck.f2fs` use. An unknown bit forbids everything.

use std::fmt;

use super::error::FormatError;
use crate::bits::write_names;

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(pub u32);

impl Features {
    /// Encrypted files.
    pub const ENCRYPT: Features = Features(0x1);
    /// Zoned block devices.
    pub const BLKZONED: Features = Features(0x2);
    /// Files may be written atomically.
    pub const ATOMIC_WRITE: Features = Features(0x4);
    /// Inodes have extra attributes.
    pub const EXTRA_ATTR: Features = Features(0x8);
    /// Project quotas.
    pub const PROJECT_QUOTA: Features = Features(0x10);
    /// Inodes have a checksum.
    pub const INODE_CHECKSUM: Features = Features(0x20);
    /// Each inode says how much room it keeps for extended attributes.
    pub const FLEXIBLE_INLINE_XATTR: Features = Features(0x40);
    /// Quota files.
    pub const QUOTA: Features = Features(0x80);
    /// Inodes have a creation time.
    pub const INODE_CRTIME: Features = Features(0x100);
    /// There is a directory lost+found.
    pub const LOST_FOUND: Features = Features(0x200);
    /// Files sealed by a hash tree.
    pub const VERITY: Features = Features(0x400);
    /// The superblock has a checksum.
    pub const SB_CHECKSUM: Features = Features(0x800);
    /// Directories that fold case.
    pub const CASEFOLD: Features = Features(0x1000);
    /// Compressed files.
    pub const COMPRESSION: Features = Features(0x2000);
    /// The image must not be written.
    pub const READ_ONLY: Features = Features(0x4000);

    /// Features that Onewrite reads and checks.
    pub const SUPPORTED: Features = Features(
        Features::ATOMIC_WRITE.0
            | Features::EXTRA_ATTR.0
            | Features::PROJECT_QUOTA.0
            | Features::INODE_CHECKSUM.0
            | Features::FLEXIBLE_INLINE_XATTR.0
            | Features::QUOTA.0
            | Features::INODE_CRTIME.0
            | Features::LOST_FOUND.0
            | Features::SB_CHECKSUM.0,
    );

    const NAMES: [(Features, &'static str); 15] = [
        (Features::ENCRYPT, "encrypt"),
        (Features::BLKZONED, "blkzoned"),
        (Features::ATOMIC_WRITE, "atomic_write"),
        (Features::EXTRA_ATTR, "extra_attr"),
        (Features::PROJECT_QUOTA, "project_quota"),
        (Features::INODE_CHECKSUM, "inode_checksum"),
        (Features::FLEXIBLE_INLINE_XATTR, "flexible_inline_xattr"),
        (Features::QUOTA, "quota"),
        (Features::INODE_CRTIME, "inode_crtime"),
        (Features::LOST_FOUND, "lost_found"),
        (Features::VERITY, "verity"),
        (Features::SB_CHECKSUM, "sb_checksum"),
        (Features::CASEFOLD, "casefold"),
        (Features::COMPRESSION, "compression"),
        (Features::READ_ONLY, "ro"),
    ];

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// Refuses an image with features that Onewrite lacks.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] naming each of them.
    pub fn check_supported(self) -> Result<(), FormatError> {
        match Features(self.0 & !Features::SUPPORTED.0) {
            Features(0) => Ok(()),
            missing => Err(FormatError::Unsupported { what: format!("F2FS with the features {missing}") }),
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(f, self.0, &Features::NAMES.map(|(feature, name)| (feature.0, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_feature_is_named() {
        assert_eq!(Features::SUPPORTED.check_supported(), Ok(()));
        let set = Features(Features::SUPPORTED.0 | Features::COMPRESSION.0 | Features::VERITY.0 | 0x8000_0000);
        let said = set.check_supported().unwrap_err().to_string();
        assert_eq!(said, "unsupported: F2FS with the features verity, compression, 0x80000000");
        for name in ["encrypt", "blkzoned", "verity", "casefold", "compression", "ro"] {
            let (feature, _) = Features::NAMES.iter().find(|(_, known)| *known == name).expect("a feature");
            let said = Features(Features::SUPPORTED.0 | feature.0).check_supported().unwrap_err().to_string();
            assert_eq!(said, format!("unsupported: F2FS with the features {name}"));
        }
    }
}
