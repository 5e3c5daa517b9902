//! NAT (node address table): where each node lies. 455 entries of 9 bytes in a block, by node number.
//!
//! A checkpoint may hold newer entries in the journal of its hot-data summary.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::{DataAddress, Nid};

/// Entries of a block.
pub const ENTRIES_PER_BLOCK: usize = 455;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = size_of::<RawNatEntry>();

/// An entry as it lies on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNatEntry {
    /// Counts reuses of the number.
    pub version: u8,
    /// The inode that the node belongs to.
    pub ino: U32,
    /// Its block; 0 for a free number.
    pub block_addr: U32,
}

const _: () = {
    assert!(ENTRY_SIZE == 9);
    assert!(ENTRIES_PER_BLOCK == 4096 / ENTRY_SIZE);
};

/// Where a node lies, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatEntry {
    /// Counts reuses of the number.
    pub version: u8,
    /// The inode that the node belongs to.
    pub ino: Nid,
    /// Its block; a hole for a free number.
    pub address: DataAddress,
}

impl NatEntry {
    /// The entry of a number that names no node.
    pub const FREE: NatEntry = NatEntry { version: 0, ino: Nid::NONE, address: DataAddress::Hole };
}

impl From<NatEntry> for RawNatEntry {
    fn from(entry: NatEntry) -> RawNatEntry {
        let NatEntry { version, ino, address } = entry;
        RawNatEntry { version, ino: U32::new(ino.0), block_addr: U32::new(address.to_disk()) }
    }
}

impl From<&RawNatEntry> for NatEntry {
    fn from(raw: &RawNatEntry) -> NatEntry {
        let address = DataAddress::from_disk(raw.block_addr.get());
        NatEntry { version: raw.version, ino: Nid(raw.ino.get()), address }
    }
}

/// Block of one copy of the NAT that holds the entry of `nid`, and the entry's place in it.
pub fn position(nid: Nid) -> (u64, usize) {
    (u64::from(nid.0) / ENTRIES_PER_BLOCK as u64, nid.0 as usize % ENTRIES_PER_BLOCK)
}

/// Entry `index` of a block.
///
/// # Panics
/// If `index` is not below [`ENTRIES_PER_BLOCK`] or the block is short.
pub fn entry(block: &[u8], index: usize) -> NatEntry {
    let (raw, _) = RawNatEntry::ref_from_prefix(&block[index * ENTRY_SIZE..]).expect("an entry fits");
    raw.into()
}

/// Puts entry `index` into a block.
///
/// # Panics
/// If `index` is not below [`ENTRIES_PER_BLOCK`] or the block is short.
pub fn put_entry(block: &mut [u8], index: usize, entry: NatEntry) {
    assert!(index < ENTRIES_PER_BLOCK, "entry {index} of a block of the NAT");
    block[index * ENTRY_SIZE..][..ENTRY_SIZE].copy_from_slice(RawNatEntry::from(entry).as_bytes());
}
