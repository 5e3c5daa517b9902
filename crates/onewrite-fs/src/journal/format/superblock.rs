//! Superblock: the log's superblock on disk, version 2.

use onewrite_block::{PAGE_SIZE, PageBytes, crc32c};

use super::{Checksums, Kind, MAGIC, Sequence, Style, UUID_SIZE, be32, compat, incompat, put32};

/// The log's superblock: 1,024 bytes at the beginning of its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSuperblock {
    /// Bytes in a log block.
    pub block_size: u32,
    /// Blocks of the log, this one included.
    pub length: u32,
    /// First block that can hold a transaction.
    pub first: u32,
    /// Sequence of the first transaction to expect.
    pub sequence: Sequence,
    /// Log block where that transaction starts; 0 if the log is empty.
    pub start: u32,
    /// Error that aborted the log; 0 for none.
    pub error: u32,
    /// Compatible features.
    pub compat: u32,
    /// Incompatible features.
    pub incompat: u32,
    /// UUID of the log.
    pub uuid: [u8; UUID_SIZE],
    /// Number of file systems that use it.
    pub users: u32,
}

const SUPERBLOCK_SIZE: usize = 1024;
const SUPERBLOCK_CHECKSUM_OFFSET: usize = 0xfc;
const CHECKSUM_KIND_OFFSET: usize = 0x50;
const USERS_OFFSET: usize = 0x100;
const CRC32C: u8 = 4;

const _: () = {
    assert!(USERS_OFFSET == SUPERBLOCK_CHECKSUM_OFFSET + 4);
    // Nine words and the UUID: a new field needs a place in `decode` and in `encode_into`.
    assert!(size_of::<JournalSuperblock>() == 9 * size_of::<u32>() + UUID_SIZE);
    // The UUIDs of 48 users fill the rest.
    assert!(USERS_OFFSET + 48 * UUID_SIZE == SUPERBLOCK_SIZE);
};

impl JournalSuperblock {
    /// An empty log of `length` blocks.
    pub fn empty(length: u32, uuid: [u8; UUID_SIZE]) -> JournalSuperblock {
        JournalSuperblock {
            block_size: PAGE_SIZE as u32,
            length,
            first: 1,
            sequence: Sequence(1),
            start: 0,
            error: 0,
            compat: 0,
            incompat: 0,
            uuid,
            users: 1,
        }
    }

    /// Reads the superblock of a log with blocks of 4 KiB.
    ///
    /// # Errors
    /// What is wrong with it, with the number found.
    pub fn decode(bytes: &PageBytes) -> Result<JournalSuperblock, String> {
        JournalSuperblock::decode_sized(bytes, PAGE_SIZE)
    }

    /// Reads the superblock of a log with blocks of `block_size` bytes. The superblock lies at the beginning of the
    /// page.
    ///
    /// # Errors
    /// What is wrong with it, with the number found.
    pub(crate) fn decode_sized(bytes: &PageBytes, block_size: usize) -> Result<JournalSuperblock, String> {
        match (be32(bytes, 0), be32(bytes, 4)) {
            (MAGIC, 4) => (),
            (MAGIC, 3) => return Err("superblock of version 1, which Linux has not written since 2000".into()),
            (magic, kind) => return Err(format!("magic {magic:#x}, kind {kind}; expected {MAGIC:#x}, kind 4")),
        }
        let superblock = JournalSuperblock {
            block_size: be32(bytes, 0x0c),
            length: be32(bytes, 0x10),
            first: be32(bytes, 0x14),
            sequence: Sequence(be32(bytes, 0x18)),
            start: be32(bytes, 0x1c),
            error: be32(bytes, 0x20),
            compat: be32(bytes, 0x24),
            incompat: be32(bytes, 0x28),
            uuid: bytes[0x30..0x40].try_into().expect("sixteen bytes"),
            users: be32(bytes, 0x40),
        };
        superblock.validate(bytes, block_size)?;
        Ok(superblock)
    }

    /// Why this version cannot replay the log, with the feature's name and the cure; `None` if it can.
    pub(crate) fn replay_refusal(&self) -> Option<String> {
        let fast = "a log that holds fast commits (feature fast_commit); e2fsck replays it, or a mount by Linux";
        (self.start != 0 && self.incompat & incompat::FAST_COMMIT != 0).then(|| fast.into())
    }

    fn validate(&self, bytes: &PageBytes, block_size: usize) -> Result<(), String> {
        if self.block_size as usize != block_size {
            return Err(format!("block size {}; expected {block_size}", self.block_size));
        }
        let unknown = self.incompat & !(incompat::KNOWN | incompat::FAST_COMMIT);
        if unknown != 0 {
            return Err(format!("unsupported incompatible features {unknown:#x}"));
        }
        if block_size != PAGE_SIZE && self.incompat & (incompat::FRAMES | incompat::STREAMS) != 0 {
            return Err(format!("compressed transactions in blocks of {block_size} bytes; they need {PAGE_SIZE}"));
        }
        if self.first == 0 || self.first >= self.length || self.start >= self.length {
            let JournalSuperblock { first, start, length, .. } = self;
            return Err(format!("first block {first}, start {start} of {length} blocks"));
        }
        if self.has_own_checksum() && be32(bytes, SUPERBLOCK_CHECKSUM_OFFSET) != superblock_checksum(bytes) {
            return Err("checksum of the superblock is wrong".into());
        }
        Ok(())
    }

    fn has_own_checksum(&self) -> bool {
        self.incompat & (incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3) != 0
    }

    /// Writes the fields into a block that holds a superblock or zeros; keeps its other bytes.
    pub fn encode_into(&self, bytes: &mut PageBytes) {
        let fields = [
            (0, MAGIC),
            (4, Kind::Superblock.number()),
            (0x0c, self.block_size),
            (0x10, self.length),
            (0x14, self.first),
            (0x18, self.sequence.0),
            (0x1c, self.start),
            (0x20, self.error),
            (0x24, self.compat),
            (0x28, self.incompat),
            (0x40, self.users),
        ];
        fields.into_iter().for_each(|(offset, value)| put32(bytes, offset, value));
        bytes[0x30..0x40].copy_from_slice(&self.uuid);
        bytes[CHECKSUM_KIND_OFFSET] = if self.has_own_checksum() { CRC32C } else { 0 };
        if bytes[USERS_OFFSET..USERS_OFFSET + UUID_SIZE] == [0; UUID_SIZE] {
            bytes[USERS_OFFSET..USERS_OFFSET + UUID_SIZE].copy_from_slice(&self.uuid);
        }
        let sum = if self.has_own_checksum() { superblock_checksum(bytes) } else { 0 };
        put32(bytes, SUPERBLOCK_CHECKSUM_OFFSET, sum);
    }

    /// Layout of the log's blocks.
    pub fn style(&self) -> Style {
        let checksums = match (self.compat, self.incompat) {
            (_, bits) if bits & incompat::CHECKSUM_V3 != 0 => Checksums::V3,
            (_, bits) if bits & incompat::CHECKSUM_V2 != 0 => Checksums::V2,
            (bits, _) if bits & compat::CHECKSUM != 0 => Checksums::V1,
            _ => Checksums::No,
        };
        Style {
            block_size: self.block_size as usize,
            is_64bit: self.incompat & incompat::BITS_64 != 0,
            checksums,
            seed: crc32c(!0, &self.uuid),
            uuid: self.uuid,
        }
    }
}

fn superblock_checksum(bytes: &PageBytes) -> u32 {
    let before = crc32c(!0, &bytes[..SUPERBLOCK_CHECKSUM_OFFSET]);
    crc32c(crc32c(before, &[0; 4]), &bytes[SUPERBLOCK_CHECKSUM_OFFSET + 4..SUPERBLOCK_SIZE])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back_and_a_changed_one_is_refused() {
        let incompat = incompat::REVOKE | incompat::BITS_64 | incompat::CHECKSUM_V3;
        let superblock = JournalSuperblock { incompat, start: 5, ..JournalSuperblock::empty(1024, [3; 16]) };
        let mut bytes = [0; PAGE_SIZE];
        superblock.encode_into(&mut bytes);
        assert_eq!(JournalSuperblock::decode(&bytes), Ok(superblock));
        bytes[0x18] ^= 1;
        assert!(JournalSuperblock::decode(&bytes).unwrap_err().contains("checksum"));
    }
}
