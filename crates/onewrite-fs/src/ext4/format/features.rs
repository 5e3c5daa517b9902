//! Features: the three bit sets of the superblock, their names, and which of them Onewrite supports.
//!
//! An unknown compatible bit may be ignored; an unknown read-only-compatible bit allows reading; an unknown
//! incompatible bit forbids everything. Names are those that `mke2fs -O` and `dumpe2fs` use.

use std::fmt;

use super::error::FormatError;
use crate::bits::write_names;

macro_rules! feature_set {
    ($(#[$meta:meta])* $set:ident { $($(#[$bit_meta:meta])* $bit:ident = $value:expr, $name:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $set(pub u32);

        impl $set {
            $($(#[$bit_meta])* pub const $bit: $set = $set($value);)*

            const NAMES: &'static [(u32, &'static str)] = &[$(($value, $name)),*];

            /// Whether all bits of `other` are set.
            pub const fn contains(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits of both.
            pub const fn with(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }

            /// The bits of `self` that `other` lacks.
            pub const fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_names(f, self.0, Self::NAMES)
            }
        }
    };
}

feature_set! {
    /// Software may ignore such a feature if it does not know it.
    Compat {
        /// Directories may be preallocated.
        DIR_PREALLOC = 0x1, "dir_prealloc";
        /// May hold inodes of AFS.
        IMAGIC_INODES = 0x2, "imagic_inodes";
        /// Has a journal.
        HAS_JOURNAL = 0x4, "has_journal";
        /// Has extended attributes.
        EXT_ATTR = 0x8, "ext_attr";
        /// Reserves blocks for the descriptors of future groups.
        RESIZE_INODE = 0x10, "resize_inode";
        /// Directories may have hash trees.
        DIR_INDEX = 0x20, "dir_index";
        /// Backup superblocks lie in two named groups only.
        SPARSE_SUPER2 = 0x200, "sparse_super2";
        /// The journal may hold fast commits.
        FAST_COMMIT = 0x400, "fast_commit";
        /// Block and inode numbers never change.
        STABLE_INODES = 0x800, "stable_inodes";
        /// Orphans may be kept in a file.
        ORPHAN_FILE = 0x1000, "orphan_file";
    }
}

feature_set! {
    /// Software must not mount the image if it does not know such a feature.
    Incompat {
        /// Compressed files.
        COMPRESSION = 0x1, "compression";
        /// Directory entries hold the file's type.
        FILETYPE = 0x2, "filetype";
        /// The journal holds something to replay.
        RECOVER = 0x4, "needs_recovery";
        /// This is a journal device.
        JOURNAL_DEV = 0x8, "journal_dev";
        /// Group descriptors are spread over the image.
        META_BG = 0x10, "meta_bg";
        /// Files may use extents.
        EXTENTS = 0x40, "extent";
        /// 64-bit block numbers and descriptors of 64 bytes.
        BITS_64 = 0x80, "64bit";
        /// Multiple-mount protection.
        MMP = 0x100, "mmp";
        /// Bitmaps and inode tables may lie outside their group.
        FLEX_BG = 0x200, "flex_bg";
        /// Large attribute values in inodes.
        EA_INODE = 0x400, "ea_inode";
        /// Data in directory entries.
        DIRDATA = 0x1000, "dirdata";
        /// The checksum seed is stored, not derived from the UUID.
        CSUM_SEED = 0x2000, "metadata_csum_seed";
        /// Directories beyond 2 GiB, hash trees of three levels.
        LARGEDIR = 0x4000, "large_dir";
        /// Small files inside their inodes.
        INLINE_DATA = 0x8000, "inline_data";
        /// Encrypted inodes.
        ENCRYPT = 0x1_0000, "encrypt";
        /// Directories that fold case.
        CASEFOLD = 0x2_0000, "casefold";
    }
}

feature_set! {
    /// Software must not write the image if it does not know such a feature.
    RoCompat {
        /// Backup superblocks only in groups 0, 1 and powers of 3, 5 and 7.
        SPARSE_SUPER = 0x1, "sparse_super";
        /// Files beyond 2 GiB.
        LARGE_FILE = 0x2, "large_file";
        /// Never used by Linux.
        BTREE_DIR = 0x4, "btree_dir";
        /// Block counts of files may have 48 bits and count file-system blocks.
        HUGE_FILE = 0x8, "huge_file";
        /// Group descriptors have CRC16 checksums.
        GDT_CSUM = 0x10, "uninit_bg";
        /// Directories may have more subdirectories than the link count can say.
        DIR_NLINK = 0x20, "dir_nlink";
        /// Every inode has room for extra fields.
        EXTRA_ISIZE = 0x40, "extra_isize";
        /// Snapshots.
        HAS_SNAPSHOT = 0x80, "snapshot";
        /// Quota files.
        QUOTA = 0x100, "quota";
        /// Allocation in clusters.
        BIGALLOC = 0x200, "bigalloc";
        /// All metadata has CRC32C checksums.
        METADATA_CSUM = 0x400, "metadata_csum";
        /// Replicas.
        REPLICA = 0x800, "replica";
        /// The image must not be written.
        READONLY = 0x1000, "read-only";
        /// Project quotas.
        PROJECT = 0x2000, "project";
        /// Blocks shared between files.
        SHARED_BLOCKS = 0x4000, "shared_blocks";
        /// Files sealed by a hash tree.
        VERITY = 0x8000, "verity";
        /// The orphan file holds something.
        ORPHAN_PRESENT = 0x1_0000, "orphan_present";
    }
}

/// The three sets together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// May be ignored.
    pub compat: Compat,
    /// Forbid mounting.
    pub incompat: Incompat,
    /// Forbid writing.
    pub ro_compat: RoCompat,
}

impl Features {
    /// Features that Onewrite can read and write. It keeps and ignores compatible bits that are not here.
    pub const SUPPORTED: Features = Features {
        compat: Compat::HAS_JOURNAL
            .with(Compat::EXT_ATTR)
            .with(Compat::RESIZE_INODE)
            .with(Compat::DIR_INDEX)
            .with(Compat::SPARSE_SUPER2)
            .with(Compat::DIR_PREALLOC)
            .with(Compat::STABLE_INODES),
        incompat: Incompat::FILETYPE
            .with(Incompat::RECOVER)
            .with(Incompat::EXTENTS)
            .with(Incompat::BITS_64)
            .with(Incompat::FLEX_BG)
            .with(Incompat::CSUM_SEED),
        ro_compat: RoCompat::SPARSE_SUPER
            .with(RoCompat::LARGE_FILE)
            .with(RoCompat::HUGE_FILE)
            .with(RoCompat::GDT_CSUM)
            .with(RoCompat::DIR_NLINK)
            .with(RoCompat::EXTRA_ISIZE)
            .with(RoCompat::METADATA_CSUM),
    };

    /// Whether metadata carries CRC32C checksums.
    pub const fn metadata_csum(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// Whether group descriptors carry a checksum of either kind. Only then do their uninitialized flags count.
    pub(crate) const fn group_checksums(&self) -> bool {
        self.ro_compat.0 & (RoCompat::METADATA_CSUM.0 | RoCompat::GDT_CSUM.0) != 0
    }

    /// Refuses an image that cannot even be read.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] naming every incompatible feature that Onewrite lacks.
    pub(crate) fn check_readable(&self) -> Result<(), FormatError> {
        let missing = self.incompat.without(Features::SUPPORTED.incompat);
        match missing.0 {
            0 => Ok(()),
            _ => Err(FormatError::Unsupported { what: format!("incompatible features {missing}") }),
        }
    }

    /// Incompatible features of images that can be viewed. Excluded are journal devices and features whose layout Linux
    /// never had (compression, dirdata).
    pub const VIEWABLE: Incompat = Features::SUPPORTED
        .incompat
        .with(Incompat::META_BG)
        .with(Incompat::MMP)
        .with(Incompat::EA_INODE)
        .with(Incompat::LARGEDIR)
        .with(Incompat::INLINE_DATA)
        .with(Incompat::ENCRYPT)
        .with(Incompat::CASEFOLD);

    /// Refuses an image that cannot even be viewed. Accepts more than [`Features::check_readable`].
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] naming every incompatible feature that Onewrite lacks.
    pub(crate) fn check_viewable(&self) -> Result<(), FormatError> {
        match self.incompat.without(Features::VIEWABLE) {
            Incompat(0) => Ok(()),
            missing => Err(FormatError::Unsupported { what: format!("incompatible features {missing}") }),
        }
    }

    /// Refuses an image with unknown features, compatible ones too, as a checker must.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] with the bits.
    pub(crate) fn check_known(&self) -> Result<(), FormatError> {
        let known = Compat::NAMES.iter().fold(0, |bits, (bit, _)| bits | bit);
        match self.compat.without(Compat(known)) {
            Compat(0) => Ok(()),
            unknown => Err(FormatError::Unsupported { what: format!("compatible features {unknown}") }),
        }
    }

    /// Refuses an image that cannot be written.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] naming every feature that Onewrite lacks.
    pub(crate) fn check_writable(&self) -> Result<(), FormatError> {
        self.check_readable()?;
        let missing = self.ro_compat.without(Features::SUPPORTED.ro_compat);
        match missing.0 {
            0 => Ok(()),
            _ => Err(FormatError::Unsupported { what: format!("features {missing}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_feature_is_named() {
        let mut features = Features::SUPPORTED;
        assert_eq!(features.check_writable(), Ok(()));
        features.ro_compat = features.ro_compat.with(RoCompat::QUOTA).with(RoCompat::VERITY);
        assert_eq!(features.check_readable(), Ok(()));
        assert_eq!(features.check_writable().unwrap_err().to_string(), "unsupported: features quota, verity");
        features.incompat = features.incompat.with(Incompat::INLINE_DATA).with(Incompat(0x800_0000));
        assert_eq!(
            features.check_readable().unwrap_err().to_string(),
            "unsupported: incompatible features inline_data, 0x8000000"
        );
    }
}
