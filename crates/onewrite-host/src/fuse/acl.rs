//! Access control lists: the work of a file system besides storing them.
//!
//! The kernel checks permissions. Its FUSE leaves three things to the file system: new files inherit the default list
//! of their directory, setting a list changes the permission bits, and setting permission bits changes the list. Lists
//! are in the form of `system.posix_acl_*` attributes.
//!
//! Source: acl(5), "Object creation and default ACLs", "Correspondence between ACL entries and file permission bits".

/// The attribute with the access list of an inode.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory with the list that new inodes in it inherit.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;

const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

impl Acl {
    /// Decodes an attribute's value; `None` if it is not a list with an owner, a group and others.
    pub(super) fn parse(value: &[u8]) -> Option<Acl> {
        let (version, rest) = value.split_first_chunk()?;
        let (entries, remainder) = rest.as_chunks::<8>();
        let entry = |bytes: &[u8; 8]| {
            let [a, b, c, d, id @ ..] = *bytes;
            let (tag, permissions) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            Entry { tag, permissions, id: u32::from_le_bytes(id) }
        };
        let acl = Acl(entries.iter().map(entry).collect());
        let is_whole = [OWNER, GROUP, OTHER].iter().all(|tag| acl.find(*tag).is_some());
        (u32::from_le_bytes(*version) == VERSION && remainder.is_empty() && is_whole).then_some(acl)
    }

    /// Encodes the list as an attribute's value.
    pub(super) fn value(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for Entry { tag, permissions, id } in &self.0 {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }

    /// Whether permission bits alone can express the list.
    pub(super) fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The lower nine permission bits of the list. The group's bits are those of the mask, if there is one.
    pub(super) fn permissions(&self) -> u16 {
        let of = |tag| self.find(tag).map_or(0, |entry| entry.permissions & 7);
        let group = self.find(MASK).map_or_else(|| of(GROUP), |mask| mask.permissions & 7);
        of(OWNER) << 6 | group << 3 | of(OTHER)
    }

    /// The list after `chmod`.
    pub(super) fn with_permissions(mut self, permissions: u16) -> Acl {
        self.0.iter_mut().for_each(|entry| match entry.tag {
            OWNER => entry.permissions = permissions >> 6 & 7,
            OTHER => entry.permissions = permissions & 7,
            _ => (),
        });
        let tag = if self.find(MASK).is_some() { MASK } else { GROUP };
        self.0.iter_mut().filter(|entry| entry.tag == tag).for_each(|entry| entry.permissions = permissions >> 3 & 7);
        self
    }

    /// The access list that a new inode made with `permissions` inherits from this default list. No class gets more
    /// than `permissions` allow.
    pub(super) fn inherited(mut self, permissions: u16) -> Acl {
        let tag = if self.find(MASK).is_some() { MASK } else { GROUP };
        self.0.iter_mut().for_each(|entry| match entry.tag {
            OWNER => entry.permissions &= permissions >> 6,
            OTHER => entry.permissions &= permissions,
            other if other == tag => entry.permissions &= permissions >> 3,
            _ => (),
        });
        self
    }

    fn find(&self, tag: u16) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.tag == tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Acl {
        Acl(entries.iter().map(|&(tag, permissions)| Entry { tag, permissions, id: u32::MAX }).collect())
    }

    #[test]
    fn a_list_and_its_value_are_the_same_thing() {
        let list = acl(&[(OWNER, 6), (GROUP, 4), (OTHER, 0)]);
        assert_eq!(Acl::parse(&list.value()), Some(list));
        assert_eq!(Acl::parse(&acl(&[(OWNER, 6), (GROUP, 4)]).value()), None, "nobody says what others may");
        assert_eq!(Acl::parse(b"\x02\0\0"), None);
    }

    #[test]
    fn with_a_mask_the_group_bits_are_its() {
        let list = acl(&[(OWNER, 7), (0x02, 7), (GROUP, 5), (MASK, 6), (OTHER, 1)]);
        assert_eq!(list.permissions(), 0o761);
        let changed = list.clone().with_permissions(0o640);
        assert_eq!(changed, acl(&[(OWNER, 6), (0x02, 7), (GROUP, 5), (MASK, 4), (OTHER, 0)]));
        assert_eq!(list.inherited(0o666), acl(&[(OWNER, 6), (0x02, 7), (GROUP, 5), (MASK, 6), (OTHER, 0)]));
    }

    #[test]
    fn without_a_mask_the_group_bits_are_the_groups() {
        let list = acl(&[(OWNER, 7), (GROUP, 5), (OTHER, 1)]);
        assert!(list.is_minimal());
        assert_eq!(list.permissions(), 0o751);
        assert_eq!(list.clone().with_permissions(0o700).permissions(), 0o700);
        assert_eq!(list.inherited(0o640).permissions(), 0o640);
    }
}
