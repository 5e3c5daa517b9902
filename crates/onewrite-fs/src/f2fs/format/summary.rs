//! Summaries: which node owns each block of a segment, for cleaning. A block of the SSA for each segment; those of the
//! logs' segments lie in the checkpoint.
//!
//! ```text
//!   block:    512 entries (3584) │ journal (507) │ kind (1) │ checksum (4)
//!   compact:  NAT journal (507) │ SIT journal (507) │ entries of the three data logs …, in each block up to the footer
//! ```
//!
//! The journal of the hot-data log holds newer NAT entries, that of the cold-data log newer SIT entries.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::{Nid, SegmentNo};
use super::error::{FormatError, Place};
use super::nat::{self, NatEntry, RawNatEntry};
use super::sit::{self, SitEntry};

/// Entries of a block: one for each block of a segment.
pub const ENTRIES: usize = 512;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = size_of::<RawSummary>();
/// Byte of a block at which its journal begins.
pub const JOURNAL_OFFSET: usize = ENTRIES * ENTRY_SIZE;
/// Bytes of a journal.
pub const JOURNAL_SIZE: usize = 507;
/// Byte of a block at which its footer begins.
pub const FOOTER_OFFSET: usize = JOURNAL_OFFSET + JOURNAL_SIZE;
/// Most entries of a NAT journal.
pub const NAT_JOURNAL_MAX: usize = (JOURNAL_SIZE - 2) / (4 + nat::ENTRY_SIZE);
/// Most entries of a SIT journal.
pub const SIT_JOURNAL_MAX: usize = (JOURNAL_SIZE - 2) / (4 + sit::ENTRY_SIZE);

/// An entry as it lies on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSummary {
    /// For content: the node that names the block. For nodes: the node itself.
    pub nid: U32,
    /// Version of the node's NAT entry.
    pub version: u8,
    /// For content: the slot of the node that names the block.
    pub ofs_in_node: U16,
}

const _: () = {
    assert!(ENTRY_SIZE == 7);
    assert!(FOOTER_OFFSET + 5 == 4096);
    assert!(NAT_JOURNAL_MAX == 38 && SIT_JOURNAL_MAX == 6);
};

/// The owner of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// For content: the node that names the block. For nodes: the node itself.
    pub nid: Nid,
    /// For content: the slot of the node that names the block.
    pub slot: u16,
}

/// What the blocks of a segment are, by the footer of its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryKind {
    /// Content.
    Data,
    /// Nodes.
    Node,
}

impl SummaryKind {
    /// What a finding calls it.
    pub const fn name(self) -> &'static str {
        match self {
            SummaryKind::Data => "content",
            SummaryKind::Node => "a node",
        }
    }
}

/// Entry `index` of a list of entries.
///
/// # Panics
/// If the list is too short.
pub fn entry(entries: &[u8], index: usize) -> Summary {
    let (raw, _) = RawSummary::ref_from_prefix(&entries[index * ENTRY_SIZE..]).expect("an entry fits");
    Summary { nid: Nid(raw.nid.get()), slot: raw.ofs_in_node.get() }
}

/// Puts entry `index` into a list of entries. `version` is that of the node's entry in the NAT.
///
/// # Panics
/// If the list is too short.
pub fn put_entry(entries: &mut [u8], index: usize, summary: Summary, version: u8) {
    let raw = RawSummary { nid: U32::new(summary.nid.0), version, ofs_in_node: U16::new(summary.slot) };
    entries[index * ENTRY_SIZE..][..ENTRY_SIZE].copy_from_slice(raw.as_bytes());
}

/// Puts the footer into a block of a segment's summary.
pub fn put_kind(block: &mut [u8], kind: SummaryKind) {
    block[FOOTER_OFFSET] = u8::from(kind == SummaryKind::Node);
}

/// A NAT journal of these entries.
///
/// # Panics
/// If there are more than [`NAT_JOURNAL_MAX`].
pub fn nat_journal_of(entries: &[(Nid, NatEntry)]) -> [u8; JOURNAL_SIZE] {
    assert!(entries.len() <= NAT_JOURNAL_MAX, "{} entries of a NAT journal", entries.len());
    journal_of(entries.iter().map(|(nid, entry)| (nid.0, RawNatEntry::from(*entry))))
}

/// A SIT journal of these entries.
///
/// # Panics
/// If there are more than [`SIT_JOURNAL_MAX`].
pub fn sit_journal_of(entries: &[(SegmentNo, SitEntry)]) -> [u8; JOURNAL_SIZE] {
    assert!(entries.len() <= SIT_JOURNAL_MAX, "{} entries of a SIT journal", entries.len());
    journal_of(entries.iter().map(|(segment, entry)| (segment.0, *entry)))
}

fn journal_of<T: IntoBytes + Immutable>(records: impl ExactSizeIterator<Item = (u32, T)>) -> [u8; JOURNAL_SIZE] {
    let mut journal = [0; JOURNAL_SIZE];
    journal[..2].copy_from_slice(&(records.len() as u16).to_le_bytes());
    let size = 4 + size_of::<T>();
    for (place, (number, entry)) in journal[2..].chunks_exact_mut(size).zip(records) {
        place[..4].copy_from_slice(&number.to_le_bytes());
        place[4..].copy_from_slice(entry.as_bytes());
    }
    journal
}

/// Version of entry `index` of a list of entries.
///
/// # Panics
/// If the list is too short.
pub fn version(entries: &[u8], index: usize) -> u8 {
    let (raw, _) = RawSummary::ref_from_prefix(&entries[index * ENTRY_SIZE..]).expect("an entry fits");
    raw.version
}

/// The kind that the footer of a block says; `None` for an unknown kind.
pub fn kind(block: &[u8]) -> Option<SummaryKind> {
    match block[FOOTER_OFFSET] {
        0 => Some(SummaryKind::Data),
        1 => Some(SummaryKind::Node),
        _ => None,
    }
}

/// The entries of a NAT journal.
///
/// # Errors
/// If it says that it has more than fit.
pub fn nat_journal(journal: &[u8]) -> Result<Vec<(Nid, NatEntry)>, FormatError> {
    let records = records(journal, 4 + nat::ENTRY_SIZE, NAT_JOURNAL_MAX, "n_nats")?;
    let decoded = records.map(|record| {
        let (nid, entry) = record.split_at(4);
        let raw = RawNatEntry::ref_from_bytes(entry).expect("the size of an entry");
        (Nid(number(nid)), raw.into())
    });
    Ok(decoded.collect())
}

/// The entries of a SIT journal.
///
/// # Errors
/// If it says that it has more than fit.
pub fn sit_journal(journal: &[u8]) -> Result<Vec<(SegmentNo, SitEntry)>, FormatError> {
    let records = records(journal, 4 + sit::ENTRY_SIZE, SIT_JOURNAL_MAX, "n_sits")?;
    Ok(records.map(|record| (SegmentNo(number(record)), sit::entry(&record[4..], 0))).collect())
}

fn records<'a>(
    journal: &'a [u8],
    size: usize,
    count_max: usize,
    field: &'static str,
) -> Result<impl Iterator<Item = &'a [u8]>, FormatError> {
    let count = usize::from(u16::from_le_bytes([journal[0], journal[1]]));
    match count <= count_max {
        true => Ok(journal[2..].chunks_exact(size).take(count)),
        false => Err(FormatError::field(Place::Current, field, count as u64, "more than a journal holds")),
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Blocks that compact summaries of `counts` entries take, journals included.
pub fn compact_blocks(counts: [usize; 3]) -> usize {
    compact_places(counts).last().map_or(1, |(block, _)| block + 1)
}

/// Block and byte of each entry of compact summaries, log after log.
pub fn compact_places(counts: [usize; 3]) -> impl Iterator<Item = (usize, usize)> {
    let first = (FOOTER_OFFSET - 2 * JOURNAL_SIZE) / ENTRY_SIZE;
    let later = FOOTER_OFFSET / ENTRY_SIZE;
    (0..counts.iter().sum()).map(move |index| match index < first {
        true => (0, 2 * JOURNAL_SIZE + index * ENTRY_SIZE),
        false => (1 + (index - first) / later, (index - first) % later * ENTRY_SIZE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_summaries_fill_blocks_up_to_the_footer() {
        assert_eq!(compact_blocks([0, 0, 0]), 1);
        assert_eq!(compact_blocks([439, 0, 0]), 1);
        assert_eq!(compact_blocks([400, 40, 0]), 2);
        assert_eq!(compact_places([512, 0, 0]).nth(439), Some((1, 0)));
    }

    #[test]
    fn a_journal_that_says_too_much_is_refused() {
        let mut journal = [0; JOURNAL_SIZE];
        journal[0] = 38;
        assert_eq!(nat_journal(&journal).unwrap().len(), 38);
        journal[0] = 39;
        assert!(nat_journal(&journal).is_err() && sit_journal(&journal).is_err());
    }
}
