//! Numbers: of nodes, of segments, and the addresses by which a node names blocks of content.

use std::fmt;

use crate::api::Ino;
use crate::block::BlockNo;

/// Number of a node. That of an inode's node is the inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(pub u32);

impl Nid {
    /// The number that stands for "no node".
    pub const NONE: Nid = Nid(0);

    /// The number of `ino`; [`Nid::NONE`] if it does not fit 32 bits.
    pub fn from_ino(ino: Ino) -> Nid {
        u32::try_from(ino.0).map_or(Nid::NONE, Nid)
    }

    /// Whether the number names no node.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether the number names a node.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Writes the number.
impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Nid> for Ino {
    fn from(nid: Nid) -> Ino {
        Ino(nid.0.into())
    }
}

/// Number of a segment of the main area, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNo(pub u32);

/// Writes the number.
impl fmt::Display for SegmentNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a slot of a node says about a block of content, or the NAT about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAddress {
    /// No block: reads as zeros.
    Hole,
    /// Space is reserved, nothing was written: reads as zeros.
    Reserved,
    /// The start of a compressed cluster.
    Compressed,
    /// The block.
    Block(BlockNo),
}

impl DataAddress {
    /// The address that a 32-bit field means.
    pub const fn from_disk(value: u32) -> DataAddress {
        match value {
            0 => DataAddress::Hole,
            0xffff_ffff => DataAddress::Reserved,
            0xffff_fffe => DataAddress::Compressed,
            number => DataAddress::Block(BlockNo(number as u64)),
        }
    }

    /// The 32-bit field that means this address.
    pub const fn to_disk(self) -> u32 {
        match self {
            DataAddress::Hole => 0,
            DataAddress::Reserved => 0xffff_ffff,
            DataAddress::Compressed => 0xffff_fffe,
            DataAddress::Block(block) => block.0 as u32,
        }
    }
}
