//! Reserved inodes, field by field: if `e2fsck -fn` finds a fault, the checker does too.

use std::path::Path;

use onewrite_fs::ext4::format::InodeNo;

use crate::support::patient::Patient;
use crate::support::{Scratch, e2fsck, make_image, output, text};

/// The fields of `debugfs set_inode_field`: name, offset and bytes.
const FIELDS: &[(&str, usize, usize)] = &[
    ("mode", 0x00, 2),
    ("uid", 0x02, 2),
    ("size", 0x04, 4),
    ("atime", 0x08, 4),
    ("ctime", 0x0c, 4),
    ("mtime", 0x10, 4),
    ("dtime", 0x14, 4),
    ("gid", 0x18, 2),
    ("links_count", 0x1a, 2),
    ("blocks", 0x1c, 4),
    ("flags", 0x20, 4),
    ("version", 0x24, 4),
    ("block[0]", 0x28, 4),
    ("block[1]", 0x2c, 4),
    ("block[2]", 0x30, 4),
    ("block[3]", 0x34, 4),
    ("block[11]", 0x54, 4),
    ("block[IND]", 0x58, 4),
    ("block[DIND]", 0x5c, 4),
    ("block[TIND]", 0x60, 4),
    ("generation", 0x64, 4),
    ("file_acl", 0x68, 4),
    ("size_hi", 0x6c, 4),
    ("faddr", 0x70, 4),
    ("blocks_hi", 0x74, 2),
    ("frag", 0x74, 1),
    ("fsize", 0x75, 1),
    ("file_acl_hi", 0x76, 2),
    ("uid_hi", 0x78, 2),
    ("gid_hi", 0x7a, 2),
    ("author", 0x7e, 2),
    ("extra_isize", 0x80, 2),
    ("ctime_extra", 0x84, 4),
    ("mtime_extra", 0x88, 4),
    ("atime_extra", 0x8c, 4),
    ("crtime", 0x90, 4),
    ("crtime_extra", 0x94, 4),
    ("version_hi", 0x98, 4),
    ("projid", 0x9c, 4),
];
const VALUES: &[u32] =
    &[0, 1, 5, 32, 0o100_644, 0o040_755, 0x8_0000, 4096, 0x1000_0000, 0x8000_0000, 0x200, 77, 0xffff_ffff];

/// Sets each field of each inode to each value in turn. Returns the number of cases, and the cases that only e2fsck
/// finds.
fn sweep(image: &Path, values: &[u32]) -> (usize, Vec<String>) {
    let mut patient = Patient::new(image);
    let inode_size = usize::from(patient.layout.inode_size);
    let (mut cases, mut missed) = (0, Vec::new());
    for inode in (1..=10).map(InodeNo) {
        for &(field, offset, bytes) in FIELDS.iter().filter(|field| field.1 < inode_size) {
            for value in values {
                patient.slot_sealed(inode, |slot| {
                    slot[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
                });
                patient.write();
                cases += 1;
                if patient.report().is_clean()
                    && let (status @ 1.., said) = e2fsck(patient.path())
                {
                    missed.push(format!("<{inode}> {field} {value:#x}: {status}, {said}"));
                }
                patient.heal();
            }
        }
    }
    (cases, missed)
}

#[test]
fn no_field_of_a_reserved_inode_is_wrong_to_e2fsck_alone() {
    let values = if std::env::var_os("ONEWRITE_CASES").is_some() { VALUES } else { &VALUES[1..4] };
    for (name, features, values) in [
        ("reserved", "resize_inode", values),
        ("reserved-plain", "resize_inode,^metadata_csum,^64bit", &values[..1]),
        ("reserved-small", "^resize_inode,^has_journal", &values[..1]),
    ] {
        let scratch = Scratch::new(name);
        let image = scratch.path("image");
        make_image(&image, None, "9M", &["-g", "1024", "-N", "256", "-O", features]);
        let (cases, missed) = sweep(&image, values);
        assert!(cases >= 350, "{cases} cases");
        assert!(missed.is_empty(), "{} of {cases}:\n{}", missed.len(), missed.join("\n"));
    }
}

#[test]
fn what_was_called_clean_is_found() {
    let scratch = Scratch::new("reserved-named");
    let (image, hurt) = (scratch.path("image"), scratch.path("hurt"));
    make_image(&image, None, "9M", &["-g", "1024", "-O", "resize_inode"]);
    for field in ["<7> block[0] 32", "<7> block[IND] 32", "<7> blocks 1", "<7> flags 524288", "<1> dtime 5"] {
        std::fs::copy(&image, &hurt).expect("copy");
        output("debugfs", &["-w", "-R", &format!("set_inode_field {field}"), text(&hurt)]);
        assert_eq!(e2fsck(&hurt).0, 4, "{field}");
        assert!(!Patient::new(&hurt).report().is_clean(), "{field}");
    }
}
