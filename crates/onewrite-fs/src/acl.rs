//! Access control lists in two forms: the bytes that ext4 and F2FS store, and the value of `system.posix_acl_*` in
//! Linux.
//!
//! ```text
//!   disk:       version 1 (4) │ tag (2) │ permissions (2) │ id (4), of named users and groups only │ …
//!   attribute:  version 2 (4) │ tag (2) │ permissions (2) │ id (4), all ones where there is none   │ …
//! ```
//!
//! Source: `filesystems/ext4/attributes.rst` of the Linux documentation; acl(5).

/// Version on disk.
const DISK: u32 = 1;
/// Version in the attribute's value.
const ATTRIBUTE: u32 = 2;
/// The id of an entry that names nobody.
const NO_ID: u32 = u32::MAX;

/// Whether entries of this tag name a user or group; `None` for an unknown tag.
const fn is_named(tag: u16) -> Option<bool> {
    match tag {
        // The owner, the owning group, the mask, everybody else.
        0x01 | 0x04 | 0x10 | 0x20 => Some(false),
        // A user, a group.
        0x02 | 0x08 => Some(true),
        _ => None,
    }
}

/// Turns a list on disk into the attribute's value.
///
/// # Errors
/// What is wrong with the list.
pub(crate) fn from_disk(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut rest = behind_version(bytes, DISK)?;
    let mut value = ATTRIBUTE.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (entry, more) = rest.split_at_checked(4).ok_or("its last entry is truncated")?;
        let (id, more) = match named(entry)? {
            true => more.split_at_checked(4).ok_or("its last entry is truncated")?,
            false => (&NO_ID.to_le_bytes()[..], more),
        };
        value.extend([entry, id].concat());
        rest = more;
    }
    Ok(value)
}

/// Turns an attribute's value into the list on disk.
///
/// # Errors
/// What is wrong with the value.
pub(crate) fn to_disk(value: &[u8]) -> Result<Vec<u8>, String> {
    let (entries, rest) = behind_version(value, ATTRIBUTE)?.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("its last entry is truncated".into());
    }
    let mut bytes = DISK.to_le_bytes().to_vec();
    for entry in entries {
        let length = if named(&entry[..4])? { 8 } else { 4 };
        bytes.extend(&entry[..length]);
    }
    Ok(bytes)
}

fn behind_version(bytes: &[u8], version: u32) -> Result<&[u8], String> {
    match bytes.split_first_chunk() {
        Some((first, rest)) if u32::from_le_bytes(*first) == version => Ok(rest),
        _ => Err(format!("it is no access control list of version {version}")),
    }
}

fn named(entry: &[u8]) -> Result<bool, String> {
    let tag = u16::from_le_bytes([entry[0], entry[1]]);
    is_named(tag).ok_or_else(|| format!("an entry has the tag {tag:#x}, which means nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`
    const VALUE: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\x04\0\x04\0\xff\xff\xff\xff\
        \x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    const STORED: &[u8] = b"\x01\0\0\0\x01\0\x06\0\x02\0\x04\0\xe8\x03\0\0\x04\0\x04\0\x10\0\x04\0\x20\0\0\0";

    #[test]
    fn a_list_keeps_numbers_only_of_named_users_and_groups() {
        assert_eq!(to_disk(VALUE).unwrap(), STORED);
        assert_eq!(from_disk(STORED).unwrap(), VALUE);
    }

    #[test]
    fn damaged_lists_are_refused() {
        assert!(from_disk(&STORED[..STORED.len() - 1]).is_err() && from_disk(&STORED[..10]).is_err());
        assert!(from_disk(VALUE).is_err() && to_disk(STORED).is_err() && to_disk(&VALUE[..9]).is_err());
        assert!(from_disk(b"\x01\0\0\0\x40\0\0\0").unwrap_err().contains("0x40"));
        assert!(from_disk(b"").is_err());
    }
}
