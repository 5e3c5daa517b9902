//! Directory entries: blocks of 214 slots, or fewer slots in an inode. A name takes one slot for each 8 bytes.
//!
//! ```text
//!   bitmap of used slots (27) │ unused (3) │ 214 × entry (11) │ 214 × part of a name (8)
//! ```
//!
//! A directory has levels; level `n` has 2^(n + start) buckets, but at most 2^30, of 2 blocks, from level 31 on of 4. A
//! name lies in the bucket `hash % buckets` of one of the levels. Source: `filesystems/f2fs.rst` of the Linux
//! documentation, "Directory Structure".

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::Nid;
use super::error::{FormatError, Place, Problem};
use super::hash::name_hash;
use super::inode::DEPTH_MAX;
use crate::api::{DirectoryEntry, FileKind};

/// Bytes of a name that a slot holds.
pub const SLOT_NAME: usize = 8;
/// Most bytes of a name.
pub const NAME_MAX: usize = 255;
/// Slots of a block.
pub const BLOCK_SLOTS: usize = 214;

const ENTRY: usize = size_of::<RawEntry>();
/// Levels with buckets of 2 blocks.
const SMALL_LEVELS: u32 = DEPTH_MAX / 2;

/// An entry as it lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    /// Hash of the name.
    pub hash_code: U32,
    /// The inode.
    pub ino: U32,
    /// Bytes of the name.
    pub name_len: U16,
    /// What the inode is.
    pub file_type: u8,
}

const _: () = assert!(ENTRY == 11);

/// Where the parts of a block of entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of slots.
    pub slots: usize,
    /// Byte of the first entry.
    pub entries: usize,
    /// Byte of the first part of a name.
    pub names: usize,
}

impl Shape {
    /// A block of a directory.
    pub const BLOCK: Shape = Shape { slots: BLOCK_SLOTS, entries: 30, names: 30 + BLOCK_SLOTS * ENTRY };

    /// Entries in an inode with `size` bytes of room.
    pub const fn inline(size: usize) -> Shape {
        let slots = size * 8 / ((ENTRY + SLOT_NAME) * 8 + 1);
        let names = size - slots * SLOT_NAME;
        Shape { slots, entries: names - slots * ENTRY, names }
    }
}

const _: () = assert!(Shape::BLOCK.names + BLOCK_SLOTS * SLOT_NAME == 4096);

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its first slot.
    pub slot: usize,
    /// The slot behind its last one.
    pub slot_end: usize,
    /// Hash, as stored.
    pub hash: u32,
    /// The inode.
    pub ino: Nid,
    /// What that is; `None` for an unknown number.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Whether it names the directory itself or its parent.
    pub fn is_dot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }

    /// The hash that the name gives.
    pub fn expected_hash(&self) -> u32 {
        name_hash(self.name)
    }
}

impl<'a> Entry<'a> {
    /// The entry, if its name may lie in block `logical` of a directory that begins with level `start`. So a block that
    /// stands many times in a map is listed at most once on each level.
    ///
    /// # Errors
    /// If the name lies in another bucket than its hash says.
    pub fn in_its_bucket(self, place: Place, start: u8, logical: u64) -> Result<Entry<'a>, FormatError> {
        let bucket = bucket(level_of(logical, start), start, self.expected_hash());
        if self.is_dot() || bucket.contains(&logical) {
            return Ok(self);
        }
        Err(FormatError::field(place, "hash", self.hash, "the name lies in another bucket than its hash says"))
    }

    /// What a listing says of it; `start` is the cursor of the block's first slot.
    pub fn listed(&self, start: u64) -> DirectoryEntry {
        let (kind, next) = (self.kind.unwrap_or(FileKind::Regular), start + self.slot_end as u64);
        DirectoryEntry { name: self.name.to_vec(), ino: self.ino.into(), kind, next }
    }
}

/// The entries of `bytes` from slot `from` on, in order.
///
/// Each item may be an error, and the walk goes on behind it.
pub fn entries(
    bytes: &[u8],
    shape: Shape,
    place: Place,
    from: usize,
) -> impl Iterator<Item = Result<Entry<'_>, FormatError>> {
    let mut slot = from;
    std::iter::from_fn(move || {
        while slot < shape.slots && !is_used(bytes, slot) {
            slot += 1;
        }
        if slot >= shape.slots {
            return None;
        }
        let found = entry(bytes, shape, place, slot);
        slot = found.as_ref().map_or(slot + 1, |entry| entry.slot_end);
        Some(found)
    })
}

/// The entry of a name, if it is there: what [`entries`] finds, without looking closely at the others.
pub fn find<'a>(bytes: &'a [u8], shape: Shape, place: Place, name: &[u8]) -> Option<Entry<'a>> {
    if !may_hold(bytes, shape, name) {
        return None;
    }
    let mut slot = 0;
    while slot < shape.slots {
        slot += match is_used(bytes, slot).then(|| stored_name(bytes, shape, slot)).flatten() {
            Some(stored) if stored == name => return entry(bytes, shape, place, slot).ok(),
            Some(stored) => slots_of(stored),
            None => 1,
        };
    }
    None
}

/// Number of used slots.
pub fn used_slots(bytes: &[u8], shape: Shape) -> usize {
    (0..shape.slots).filter(|slot| is_used(bytes, *slot)).count()
}

/// Whether a name lies in the slots from `slot` on.
pub fn is_at(bytes: &[u8], shape: Shape, slot: usize, name: &[u8]) -> bool {
    slot < shape.slots && is_used(bytes, slot) && stored_name(bytes, shape, slot) == Some(name)
}

/// Whether the bytes of a name begin in a slot, be it used or not. Looks at the first eight bytes of each slot at once.
fn may_hold(bytes: &[u8], shape: Shape, name: &[u8]) -> bool {
    let begins = &name[..name.len().min(SLOT_NAME)];
    let mut word = [0; SLOT_NAME];
    word[..begins.len()].copy_from_slice(begins);
    let (word, unused_bits) = (u64::from_le_bytes(word), 8 * (SLOT_NAME - begins.len()) as u32);
    let mask = u64::MAX.checked_shr(unused_bits).unwrap_or(0);
    let names = &bytes[shape.names..][..shape.slots * SLOT_NAME];
    let begins_there = |slot: &[u8]| u64::from_le_bytes(slot.try_into().expect("a slot")) & mask == word;
    let is_there = |(slot, _)| names[slot * SLOT_NAME..].starts_with(name);
    names.chunks_exact(SLOT_NAME).enumerate().filter(|(_, slot)| begins_there(slot)).any(is_there)
}

/// The name in a slot, if it is one.
fn stored_name(bytes: &[u8], shape: Shape, slot: usize) -> Option<&[u8]> {
    let at = shape.entries + slot * ENTRY + std::mem::offset_of!(RawEntry, name_len);
    let length = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let start = shape.names + slot * SLOT_NAME;
    let fits = (1..=NAME_MAX).contains(&length) && slot + length.div_ceil(SLOT_NAME) <= shape.slots;
    let name = fits.then(|| &bytes[start..start + length])?;
    is_clean(name).then_some(name)
}

/// Whether a name holds no slash and no zero; eight bytes at once.
fn is_clean(name: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let words = name.chunks_exact(8);
    let is_slash_or_zero = |byte: &u8| matches!(byte, 0 | b'/');
    !words.remainder().iter().any(is_slash_or_zero)
        && !words
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .any(|word| has_zero(word) || has_zero(word ^ (ONES * u64::from(b'/'))))
}

/// An entry to be put into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// The inode.
    pub ino: Nid,
    /// What that is.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

/// Slots that a name takes.
pub const fn slots_of(name: &[u8]) -> usize {
    name.len().div_ceil(SLOT_NAME)
}

/// The first of `count` free slots beside each other; `None` if there are none.
pub fn room(bytes: &[u8], shape: Shape, count: usize) -> Option<usize> {
    let (mut slot, mut free) = (0, 0);
    while slot < shape.slots {
        if slot % 8 == 0 && bytes[slot / 8] == 0xff {
            (slot, free) = (slot + 8, 0);
            continue;
        }
        free = if is_used(bytes, slot) { 0 } else { free + 1 };
        slot += 1;
        if free == count {
            return Some(slot - count);
        }
    }
    None
}

/// Puts an entry into free slots from `slot` on.
///
/// # Panics
/// If they end behind the last slot.
pub fn insert(bytes: &mut [u8], shape: Shape, slot: usize, new: NewEntry<'_>) {
    assert!(slot + slots_of(new.name) <= shape.slots, "slot {slot} and those behind it");
    set_target(bytes, shape, slot, new);
    let start = shape.names + slot * SLOT_NAME;
    let room = slots_of(new.name) * SLOT_NAME;
    bytes[start..start + room].fill(0);
    bytes[start..start + new.name.len()].copy_from_slice(new.name);
    (slot..slot + slots_of(new.name)).for_each(|slot| bytes[slot / 8] |= 1 << (slot % 8));
}

/// Lets the entry in `slot` name another inode; its name stays.
pub fn set_target(bytes: &mut [u8], shape: Shape, slot: usize, new: NewEntry<'_>) {
    let raw = RawEntry {
        hash_code: U32::new(name_hash(new.name)),
        ino: U32::new(new.ino.0),
        name_len: U16::new(new.name.len() as u16),
        file_type: byte_of_kind(new.kind),
    };
    bytes[shape.entries + slot * ENTRY..][..ENTRY].copy_from_slice(raw.as_bytes());
}

/// Frees the slots of an entry.
pub fn remove(bytes: &mut [u8], slots: std::ops::Range<usize>) {
    slots.for_each(|slot| bytes[slot / 8] &= !(1 << (slot % 8)));
}

/// Whether no slot is in use.
pub fn is_empty(bytes: &[u8], shape: Shape) -> bool {
    (0..shape.slots).all(|slot| !is_used(bytes, slot))
}

/// Whether a slot is in use; the lowest bit of a byte comes first.
pub fn is_used(bytes: &[u8], slot: usize) -> bool {
    bytes[slot / 8] & 1 << (slot % 8) != 0
}

fn entry(bytes: &[u8], shape: Shape, place: Place, slot: usize) -> Result<Entry<'_>, FormatError> {
    let offset = shape.entries + slot * ENTRY;
    let wrong = |rule| Err(FormatError::new(place, Problem::Listed { offset, rule }));
    let (raw, _) = RawEntry::ref_from_prefix(&bytes[offset..]).expect("an entry fits");
    let length = usize::from(raw.name_len.get());
    if length == 0 || length > NAME_MAX {
        return wrong("a name has 1 to 255 bytes");
    }
    let slot_end = slot + length.div_ceil(SLOT_NAME);
    if slot_end > shape.slots {
        return wrong("the name ends behind the last slot");
    }
    let start = shape.names + slot * SLOT_NAME;
    let name = &bytes[start..start + length];
    if !is_clean(name) {
        return wrong("a name holds a slash or a zero");
    }
    let (hash, ino) = (raw.hash_code.get(), Nid(raw.ino.get()));
    Ok(Entry { slot, slot_end, hash, ino, kind: kind_of_byte(raw.file_type), name })
}

/// Kinds by the byte of an entry, from 1.
const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Symlink,
];

/// The kind that an entry's byte means.
pub fn kind_of_byte(byte: u8) -> Option<FileKind> {
    KINDS.get(usize::from(byte).checked_sub(1)?).copied()
}

/// The byte of an entry that means `kind`.
pub fn byte_of_kind(kind: FileKind) -> u8 {
    1 + KINDS.iter().position(|known| *known == kind).expect("all kinds have a byte") as u8
}

/// Buckets of level `level` of a directory that begins with level `start`.
fn buckets(level: u32, start: u8) -> u64 {
    let exponent = level.saturating_add(start.into());
    1 << exponent.min(SMALL_LEVELS - 1)
}

/// Blocks of a bucket of level `level`.
fn bucket_blocks(level: u32) -> u64 {
    if level < SMALL_LEVELS { 2 } else { 4 }
}

/// The blocks of a directory in which a name of this hash may lie on level `level`.
pub fn bucket(level: u32, start: u8, hash: u32) -> std::ops::Range<u64> {
    let before: u64 = (0..level).map(|level| buckets(level, start) * bucket_blocks(level)).sum();
    let first = before + u64::from(hash) % buckets(level, start) * bucket_blocks(level);
    first..first + bucket_blocks(level)
}

/// The level that block `logical` of a directory belongs to.
pub fn level_of(logical: u64, start: u8) -> u32 {
    let mut end = 0;
    (0..DEPTH_MAX)
        .find(|&level| {
            end += buckets(level, start) * bucket_blocks(level);
            logical < end
        })
        .unwrap_or(DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn levels_double_their_buckets() {
        assert_eq!((bucket(0, 0, 77), bucket(1, 0, 77), bucket(2, 0, 77)), (0..2, 4..6, 8..10));
        assert_eq!(bucket(0, 1, 1), 2..4);
        assert_eq!([0, 1, 2, 5, 6, 13, 14].map(|block| level_of(block, 0)), [0, 0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn names_in_an_inode_share_its_room() {
        let shape = Shape::inline((923 - 50 - 1) * 4);
        assert_eq!(shape, Shape { slots: 182, entries: 30, names: 2032 });
    }

    /// A block with names of all lengths, some removed, some bytes changed at random.
    fn block(choices: &mut Choices) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut bytes, mut names) = (vec![0; 4096], Vec::new());
        for number in 0..choices.below(90) {
            let mut name = format!("n{number}").into_bytes();
            name.resize(1 + choices.below(40) as usize, b'x');
            if let Some(slot) = room(&bytes, Shape::BLOCK, slots_of(&name)) {
                insert(&mut bytes, Shape::BLOCK, slot, NewEntry { ino: Nid(9), kind: FileKind::Regular, name: &name });
                if choices.below(4) == 0 {
                    remove(&mut bytes, slot..slot + slots_of(&name));
                }
                names.push(name);
            }
        }
        (0..choices.below(6)).for_each(|_| bytes[choices.below(4096) as usize] = choices.bits() as u8 & 0x2f);
        (bytes, names)
    }

    #[test]
    fn a_name_is_found_where_the_list_of_entries_has_it() {
        let place = Place::Inode(Nid(3));
        let (mut found, mut damaged) = (0, 0);
        for seed in 0..400 {
            let (bytes, names) = block(&mut Choices::new(seed));
            let listed = || entries(&bytes, Shape::BLOCK, place, 0);
            damaged += listed().filter(Result::is_err).count();
            let all = names.iter().map(Vec::as_slice).chain(listed().flatten().map(|entry| entry.name));
            for name in all.chain([&b"absent"[..]]) {
                let expected = listed().flatten().find(|entry| entry.name == name);
                assert_eq!(find(&bytes, Shape::BLOCK, place, name), expected, "seed {seed}");
                found += usize::from(expected.is_some());
            }
        }
        assert!(found > 10_000 && damaged > 50, "{found} found, {damaged} damaged");
    }

    #[test]
    fn room_is_the_first_of_so_many_free_slots() {
        for seed in 0..400 {
            let (bytes, _) = block(&mut Choices::new(seed));
            for count in 1..=32 {
                let is_room = |slot: &usize| (*slot..slot + count).all(|slot| !is_used(&bytes, slot));
                let expected = (0..=BLOCK_SLOTS - count).find(is_room);
                assert_eq!(room(&bytes, Shape::BLOCK, count), expected, "seed {seed}, {count} slots");
            }
        }
    }

    #[test]
    fn slashes_and_zeros_are_seen_anywhere() {
        for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
            let mut name = vec![0x80; length];
            assert!(is_clean(&name));
            for byte in [0, b'/'] {
                name[at] = byte;
                assert!(!is_clean(&name), "{length} bytes, {byte} at {at}");
            }
        }
    }
}
