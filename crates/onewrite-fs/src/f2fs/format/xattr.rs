//! Extended attributes: a head and a list of entries, in the inode and, behind that, in a node of its own.
//!
//! ```text
//!   head: magic (4) │ references (4) │ unused (16)
//!   entry: prefix (1) │ bytes of the name (1) │ bytes of the value (2) │ name │ value │ up to a multiple of 4
//! ```
//!
//! Both parts are one list; an entry may begin in one and end in the other. Four zero bytes end it.

use super::error::{FormatError, Place, Problem};

/// The number that marks a list.
pub const MAGIC: u32 = 0xf2f5_2011;
/// Bytes of the head.
pub const HEAD_SIZE: usize = 24;

const ENTRY: usize = 4;

/// Prefixes by number. The whole name is the prefix if it does not end with a dot.
const PREFIXES: [(u8, &str); 6] = [
    (1, "user."),
    (2, "system.posix_acl_access"),
    (3, "system.posix_acl_default"),
    (4, "trusted."),
    (6, "security."),
    (7, "system.advise"),
];

/// Prefix numbers of access control lists.
pub const ACCESS_CONTROL: [u8; 2] = [2, 3];

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Number of the prefix.
    pub prefix: u8,
    /// The name behind the prefix.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Attribute<'_> {
    /// The whole name; `None` if Linux does not show the attribute.
    pub fn full_name(&self) -> Option<Vec<u8>> {
        let (_, prefix) = PREFIXES.iter().find(|(number, _)| *number == self.prefix)?;
        let name = if prefix.ends_with('.') { self.name } else { b"" };
        Some([prefix.as_bytes(), name].concat())
    }
}

/// The attributes of the list `bytes`: the inode's part followed by that of the node. None if it has no magic number:
/// then nothing was ever set.
///
/// # Errors
/// If an entry ends behind the list.
pub fn attributes(bytes: &[u8], place: Place) -> Result<Vec<Attribute<'_>>, FormatError> {
    let mut found = Vec::new();
    if bytes.first_chunk() != Some(&MAGIC.to_le_bytes()) {
        return Ok(found);
    }
    let mut at = HEAD_SIZE;
    while at + ENTRY <= bytes.len() && bytes[at..at + ENTRY] != [0; ENTRY] {
        let name_end = at + ENTRY + usize::from(bytes[at + 1]);
        let value_end = name_end + usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
        if value_end > bytes.len() {
            let rule = "the attribute ends behind its list";
            return Err(FormatError::new(place, Problem::Listed { offset: at, rule }));
        }
        let (name, value) = (&bytes[at + ENTRY..name_end], &bytes[name_end..value_end]);
        found.push(Attribute { prefix: bytes[at], name, value });
        at = value_end.next_multiple_of(4);
    }
    Ok(found)
}

/// The number of the prefix of a full name, and the rest of it; `None` for a name that F2FS cannot keep.
pub fn split_name(name: &[u8]) -> Option<(u8, &[u8])> {
    PREFIXES.iter().find_map(|(number, prefix)| {
        let rest = name.strip_prefix(prefix.as_bytes())?;
        (prefix.ends_with('.') != rest.is_empty()).then_some((*number, rest))
    })
}

/// A list of these attributes, with its head and the zeros that end it.
pub fn list_of<'a>(attributes: impl Iterator<Item = Attribute<'a>>) -> Vec<u8> {
    let mut list = vec![0; HEAD_SIZE];
    list[..4].copy_from_slice(&MAGIC.to_le_bytes());
    list[4..8].copy_from_slice(&1_u32.to_le_bytes());
    for attribute in attributes {
        list.extend([attribute.prefix, attribute.name.len() as u8]);
        list.extend((attribute.value.len() as u16).to_le_bytes());
        list.extend(attribute.name);
        list.extend(attribute.value);
        list.resize(list.len().next_multiple_of(4), 0);
    }
    list.extend([0; ENTRY]);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_at_zeros_and_never_behind_its_bytes() {
        let place = Place::Block(crate::block::BlockNo(7));
        let mut bytes = [&MAGIC.to_le_bytes()[..], &[0; 20], b"\x01\x06\x04\0colourblue", &[0; 6]].concat();
        let found = attributes(&bytes, place).unwrap();
        assert_eq!((found.len(), found[0].value), (1, &b"blue"[..]));
        assert_eq!(found[0].full_name().unwrap(), b"user.colour");
        bytes[HEAD_SIZE + 2] = 40;
        assert!(attributes(&bytes, place).is_err());
        assert_eq!(attributes(&[0; 200], place).unwrap(), []);
    }
}
