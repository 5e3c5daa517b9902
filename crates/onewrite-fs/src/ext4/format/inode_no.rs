//! Inode numbers as ext4 stores them: 32 bits, from 1; 0 names no inode.

use std::fmt;

use crate::api::Ino;

/// Number of an inode of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNo(pub u32);

impl InodeNo {
    /// The number that stands for "no inode": in free directory entries, and at the end of the orphan list.
    pub const NONE: InodeNo = InodeNo(0);

    /// The number of `ino`; [`InodeNo::NONE`] if it does not fit 32 bits.
    pub(crate) fn from_ino(ino: Ino) -> InodeNo {
        u32::try_from(ino.0).map_or(InodeNo::NONE, InodeNo)
    }

    /// Whether the number names an inode; see [`InodeNo::NONE`].
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether the number names no inode; see [`InodeNo::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Inodes before this one; `None` if the number names no inode.
    pub const fn index(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// Writes the number.
impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<InodeNo> for Ino {
    fn from(number: InodeNo) -> Ino {
        Ino(number.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_more_than_32_bits_names_no_inode() {
        assert_eq!(InodeNo::from_ino(Ino(0xffff_ffff)), InodeNo(0xffff_ffff));
        assert!(InodeNo::from_ino(Ino(0x1_0000_0002)).is_none());
        assert_eq!((InodeNo::NONE.index(), InodeNo(1).index()), (None, Some(0)));
    }
}
