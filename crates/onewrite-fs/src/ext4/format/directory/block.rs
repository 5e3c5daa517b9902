//! One block of directory entries.
//!
//! ```text
//!   inode u32 │ record length u16 │ name length u8 │ kind u8 │ name … │ slack      records follow each other to the
//!   0     u32 │ 12            u16 │ 0           u8 │ 0xde u8 │ checksum u32       block's end; the last is the tail
//! ```
//!
//! The length of a record is any multiple of 4. The record uses 8 bytes and the name; the rest is slack, from which new
//! entries are made. A record with inode 0 is free. With metadata_csum the block ends in a tail that looks like a free
//! record; no function here uses its room for an entry.
//!
//! Functions that change a block do not update the checksum. Call [`set_checksum`] once after the last change.

use onewrite_block::crc32c;

use crate::api::FileKind;
use crate::ext4::format::error::{FormatError, Place, Problem, expect_checksum};
use crate::ext4::format::features::Incompat;
use crate::ext4::format::inode_no::InodeNo;
use crate::ext4::format::layout::Layout;

/// Longest name, in bytes.
pub const NAME_LENGTH_MAX: usize = 255;
/// Bytes of a record before its name.
pub const RECORD_HEADER: usize = 8;

const TAIL: usize = 12;
const TAIL_KIND: u8 = 0xde;

const _: () = {
    // Inode u32, record length u16, name length u8, kind u8; the tail is such a record with a checksum for a name.
    assert!(RECORD_HEADER == size_of::<u32>() + size_of::<u16>() + 2);
    assert!(TAIL == RECORD_HEADER + size_of::<u32>());
    assert!(record_length(NAME_LENGTH_MAX) == 264);
};

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Bytes from the block's start.
    pub offset: usize,
    /// Its inode; [`InodeNo::NONE`] if the record is free.
    pub inode: InodeNo,
    /// Bytes to the next record.
    pub record_length: usize,
    /// The file's kind as stored: a [`FileKind`], or 0 if the image does not keep kinds.
    pub kind: u8,
    /// The name; any bytes in a free record.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Whether the record names a file.
    pub const fn is_used(&self) -> bool {
        self.inode.is_some()
    }

    /// Whether the record is the block's checksum tail.
    pub(crate) fn is_tail(&self) -> bool {
        self.inode.is_none() && self.record_length == TAIL && self.name.is_empty() && self.kind == TAIL_KIND
    }

    /// Bytes that the record uses, without slack.
    fn used_length(&self) -> usize {
        if self.is_used() { record_length(self.name.len()) } else { 0 }
    }
}

/// Bytes that an entry needs for a name of `name_length` bytes.
pub(crate) const fn record_length(name_length: usize) -> usize {
    (RECORD_HEADER + name_length).next_multiple_of(4)
}

/// Iterates over the records of a block in order, with free ones and the tail, and checks each first. An error ends the
/// iteration.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    block: &'a [u8],
    offset: usize,
    place: Place,
}

impl<'a> Entries<'a> {
    /// The records of `block`.
    pub fn new(block: &'a [u8], place: Place) -> Entries<'a> {
        Entries { block, offset: 0, place }
    }

    /// The records from byte `offset` on; a record must begin there.
    pub fn from_offset(block: &'a [u8], offset: usize, place: Place) -> Entries<'a> {
        Entries { block, offset, place }
    }

    fn parse(&self) -> Result<Entry<'a>, FormatError> {
        let offset = self.offset;
        let Some((header, rest)) = self.block[offset..].split_first_chunk::<RECORD_HEADER>() else {
            return Err(self.wrong("rec_len", 0, "leaves bytes too few for a record"));
        };
        let record_length = match usize::from(u16::from_le_bytes([header[4], header[5]])) {
            // 65,536 does not fit 16 bits.
            0 | 0xffff if self.block.len() == 1 << 16 => 1 << 16,
            length => length,
        };
        let name_length = usize::from(header[6]);
        if record_length < RECORD_HEADER + 4 || !record_length.is_multiple_of(4) {
            return Err(self.wrong("rec_len", record_length, "must be a multiple of 4 and at least 12"));
        }
        if record_length > self.block.len() - offset {
            return Err(self.wrong("rec_len", record_length, "reaches beyond the block"));
        }
        if RECORD_HEADER + name_length > record_length {
            return Err(self.wrong("name_len", name_length, "reaches beyond the record"));
        }
        let inode = InodeNo(u32::from_le_bytes([header[0], header[1], header[2], header[3]]));
        Ok(Entry { offset, inode, record_length, kind: header[7], name: &rest[..name_length] })
    }

    fn wrong(&self, field: &'static str, value: usize, rule: &'static str) -> FormatError {
        let problem = Problem::Entry { offset: self.offset as u32, field, value: value as u64, rule };
        FormatError::new("directory block", self.place, problem)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.block.len() {
            return None;
        }
        let entry = self.parse();
        self.offset = match &entry {
            Ok(entry) => entry.offset + entry.record_length,
            Err(_) => self.block.len(),
        };
        Some(entry)
    }
}

/// Finds the used record named `name`.
///
/// # Errors
/// A damaged record before it.
pub fn find<'a>(block: &'a [u8], name: &[u8], place: Place) -> Result<Option<Entry<'a>>, FormatError> {
    Ok(find_or_room(block, name, place)?.0)
}

/// Finds the used record named `name`; until then, the first record with room for an entry of this name.
///
/// # Errors
/// A damaged record before it.
pub(crate) fn find_or_room<'a>(
    block: &'a [u8],
    name: &[u8],
    place: Place,
) -> Result<(Option<Entry<'a>>, Option<Room>), FormatError> {
    let needed = record_length(name.len());
    let mut room = None;
    for entry in Entries::new(block, place) {
        let entry = entry?;
        if entry.is_used() && entry.name == name {
            return Ok((Some(entry), room));
        }
        if room.is_none() {
            room = Room::beside(&entry, needed);
        }
    }
    Ok((None, room))
}

/// Puts an entry into the first record with room for it and returns its offset. Returns `None` and changes nothing if
/// no record has room. Does not look for the name: the caller must know that it is new.
///
/// # Errors
/// A damaged record; nothing has changed.
///
/// # Panics
/// If the name is empty or longer than [`NAME_LENGTH_MAX`].
pub fn insert(
    block: &mut [u8],
    name: &[u8],
    inode: InodeNo,
    kind: Option<FileKind>,
    place: Place,
) -> Result<Option<usize>, FormatError> {
    let Some(room) = room_for(block, name, place)? else { return Ok(None) };
    Ok(Some(insert_into(block, room, (name, inode, kind))))
}

/// A record with bytes to spare. Holds until its block changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    offset: usize,
    used: usize,
    record_length: usize,
}

impl Room {
    /// What a record has beside its own bytes, if that is enough.
    fn beside(entry: &Entry<'_>, needed: usize) -> Option<Room> {
        let (offset, used, record_length) = (entry.offset, entry.used_length(), entry.record_length);
        (record_length >= used + needed && !entry.is_tail()).then_some(Room { offset, used, record_length })
    }
}

/// The first record with room for an entry of this name.
///
/// # Errors
/// A damaged record before it.
pub(crate) fn room_for(block: &[u8], name: &[u8], place: Place) -> Result<Option<Room>, FormatError> {
    let needed = record_length(name.len());
    for entry in Entries::new(block, place) {
        if let Some(room) = Room::beside(&entry?, needed) {
            return Ok(Some(room));
        }
    }
    Ok(None)
}

/// Puts an entry into a record that [`room_for`] found for its name; returns its offset.
///
/// # Panics
/// If the name is empty or longer than [`NAME_LENGTH_MAX`].
pub(crate) fn insert_into(
    block: &mut [u8],
    room: Room,
    (name, inode, kind): (&[u8], InodeNo, Option<FileKind>),
) -> usize {
    assert!((1..=NAME_LENGTH_MAX).contains(&name.len()), "a name of {} bytes", name.len());
    let Room { offset, used, record_length } = room;
    if used > 0 {
        set_record_length(block, offset, used);
    }
    write_record(block, Record { offset: offset + used, length: record_length - used, inode, kind }, name);
    offset + used
}

/// Frees the record at `offset`. The record before it takes its bytes; the first record in the block only loses its
/// inode.
///
/// # Errors
/// A damaged record before it, or no record begins there; nothing has changed.
pub fn remove(block: &mut [u8], offset: usize, place: Place) -> Result<(), FormatError> {
    let mut before: Option<(usize, usize)> = None;
    for entry in Entries::new(block, place) {
        let entry = entry?;
        if entry.offset == offset {
            let length = entry.record_length;
            match before {
                Some((start, own)) => set_record_length(block, start, own + length),
                None => block[offset..offset + 4].fill(0),
            }
            return Ok(());
        }
        before = Some((entry.offset, entry.record_length));
    }
    let problem =
        Problem::Entry { offset: offset as u32, field: "offset", value: offset as u64, rule: "no record begins there" };
    Err(FormatError::new("directory block", place, problem))
}

/// Gives the record at `offset` (from [`find`]) another inode and kind, as rename over an existing name does.
pub fn replace(block: &mut [u8], offset: usize, inode: InodeNo, kind: Option<FileKind>) {
    block[offset..offset + 4].copy_from_slice(&inode.0.to_le_bytes());
    block[offset + 7] = kind.map_or(0, FileKind::entry_byte);
}

/// Makes an empty block: one free record, and the tail if the file system has checksums.
pub fn init(block: &mut [u8], layout: &Layout) {
    block.fill(0);
    let end = block.len() - layout.directory_tail_length();
    set_record_length(block, 0, end);
    init_tail(block, layout);
}

/// The inodes that the entries `.` and `..` of a directory name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dots {
    /// The directory itself.
    pub own: InodeNo,
    /// The directory above it.
    pub parent: InodeNo,
}

/// Makes the first block of a directory, with `.` and `..`.
pub fn init_first(block: &mut [u8], dots: Dots, layout: &Layout) {
    block.fill(0);
    let end = block.len() - layout.directory_tail_length();
    let kind = entry_kind(FileKind::Directory, layout);
    write_record(block, Record { offset: 0, length: 12, inode: dots.own, kind }, b".");
    write_record(block, Record { offset: 12, length: end - 12, inode: dots.parent, kind }, b"..");
    init_tail(block, layout);
}

/// The kind to store for a file of kind `kind`; `None` if the image does not keep kinds.
pub(crate) fn entry_kind(kind: FileKind, layout: &Layout) -> Option<FileKind> {
    layout.features.incompat.contains(Incompat::FILETYPE).then_some(kind)
}

/// Stores the checksum in the tail, if the file system has checksums; `seed` is [`Layout::inode_seed`] of the
/// directory.
pub fn set_checksum(block: &mut [u8], seed: u32, layout: &Layout) {
    if layout.features.metadata_csum() {
        let checksum = crc32c(seed, &block[..block.len() - TAIL]);
        let at = block.len() - 4;
        block[at..].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Compares the checksum in the tail, if the file system has checksums.
///
/// # Errors
/// If it disagrees, or there is no tail.
pub fn verify_checksum(block: &[u8], seed: u32, layout: &Layout, place: Place) -> Result<(), FormatError> {
    if !layout.features.metadata_csum() {
        return Ok(());
    }
    let Some((content, &tail)) = block.split_last_chunk::<TAIL>() else {
        let problem = Problem::Short { length: block.len(), needed: TAIL };
        return Err(FormatError::new("directory block", place, problem));
    };
    let word = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
    let expected = u32::from_le_bytes([TAIL as u8, 0, 0, TAIL_KIND]);
    if word(0) != 0 || word(4) != expected {
        let problem = Problem::Magic { found: word(4), expected };
        return Err(FormatError::new("directory block's tail", place, problem));
    }
    expect_checksum("directory block", place, word(8), crc32c(seed, content))
}

struct Record {
    offset: usize,
    length: usize,
    inode: InodeNo,
    kind: Option<FileKind>,
}

fn write_record(block: &mut [u8], record: Record, name: &[u8]) {
    let Record { offset, length, inode, kind } = record;
    set_record_length(block, offset, length);
    block[offset + 6] = name.len() as u8;
    replace(block, offset, inode, kind);
    let start = offset + RECORD_HEADER;
    block[start..start + name.len()].copy_from_slice(name);
    block[start + name.len()..offset + record_length(name.len())].fill(0);
}

fn set_record_length(block: &mut [u8], offset: usize, length: usize) {
    block[offset + 4..offset + 6].copy_from_slice(&(length as u16).to_le_bytes());
}

fn init_tail(block: &mut [u8], layout: &Layout) {
    if layout.features.metadata_csum() {
        let tail = block.len() - TAIL;
        set_record_length(block, tail, TAIL);
        block[tail + 7] = TAIL_KIND;
    }
}
